"""The server API, as livekit-api and others speak it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from google.protobuf import json_format
from livekit import api, rtc
from livekit.protocol import models
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomEgress

from curb_client.testing._key_check import ask_for_rooms
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.tokens import list_rooms_token
from tests.testing.embedded.conftest import ROOM, Stage, events, stage_on, until


@pytest.fixture
async def livekit(server: EmbeddedServer) -> AsyncIterator[api.LiveKitAPI]:
    url = server.url.replace("ws", "http", 1)
    async with api.LiveKitAPI(url, server.api_key, server.api_secret) as livekit:
        yield livekit


def who(identity: str, room: str = ROOM) -> api.RoomParticipantIdentity:
    return api.RoomParticipantIdentity(room=room, identity=identity)


async def refusal(calling: Any) -> tuple[str, int]:
    with pytest.raises(api.TwirpError) as caught:
        await calling
    return caught.value.code, caught.value.status


async def test_rooms_are_made_listed_and_deleted(livekit: api.LiveKitAPI, stage: Stage) -> None:
    assert list((await livekit.room.list_rooms(api.ListRoomsRequest())).rooms) == []
    request = api.CreateRoomRequest(name=ROOM, empty_timeout=7, max_participants=2, metadata="m")
    made = await livekit.room.create_room(request)
    assert (made.name, made.empty_timeout, made.max_participants, made.metadata) == (ROOM, 7, 2, "m")
    caller = await stage.join("caller")
    assert caller.metadata == "m"
    await stage.join("elsewhere", room="other")
    listed = (await livekit.room.list_rooms(api.ListRoomsRequest())).rooms
    assert {room.name: room.num_participants for room in listed} == {ROOM: 1, "other": 1}
    named = (await livekit.room.list_rooms(api.ListRoomsRequest(names=[ROOM, "none"]))).rooms
    assert [room.sid for room in named] == [made.sid]
    assert (await livekit.room.create_room(api.CreateRoomRequest(name=ROOM))).sid == made.sid

    gone = events(caller, "disconnected")
    await livekit.room.delete_room(api.DeleteRoomRequest(room=ROOM))
    await until(lambda: gone == [("disconnected", rtc.DisconnectReason.ROOM_DELETED)])
    assert await refusal(livekit.room.delete_room(api.DeleteRoomRequest(room=ROOM))) == ("not_found", 404)


async def test_a_full_room_lets_only_agents_in(livekit: api.LiveKitAPI, stage: Stage) -> None:
    await livekit.room.create_room(api.CreateRoomRequest(name=ROOM, max_participants=1))
    await stage.join("caller")
    url = stage.server.url.replace("ws", "http", 1) + "/rtc"
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url, params={"access_token": stage.server.token("other", ROOM)})
        assert refused.value.status == 503
    agent = await stage.join("agent", kind="agent")
    assert set(agent.remote_participants) == {"caller"}


async def test_participants_are_listed_changed_and_removed(livekit: api.LiveKitAPI, stage: Stage) -> None:
    caller, agent = await stage.join("caller", attributes={"k": "v"}), await stage.join("agent", kind="agent")
    await stage.join("ghost", hidden=True)
    listed = (await livekit.room.list_participants(api.ListParticipantsRequest(room=ROOM))).participants
    assert {each.identity for each in listed} == {"caller", "agent", "ghost"}
    nowhere = await livekit.room.list_participants(api.ListParticipantsRequest(room="nowhere"))
    assert list(nowhere.participants) == []
    found = await livekit.room.get_participant(who("agent"))
    assert found.kind == models.ParticipantInfo.AGENT
    assert await refusal(livekit.room.get_participant(who("nobody"))) == ("not_found", 404)

    changed = await livekit.room.update_participant(
        api.UpdateParticipantRequest(
            room=ROOM, identity="caller", name="Carla", metadata="m", attributes={"k": "", "n": "1"}
        )
    )
    assert (changed.name, changed.metadata, dict(changed.attributes)) == ("Carla", "m", {"n": "1"})
    seen = agent.remote_participants["caller"]
    await until(lambda: (seen.name, seen.metadata, seen.attributes) == ("Carla", "m", {"n": "1"}))
    await until(lambda: caller.local_participant.attributes == {"n": "1"})

    gone, left = events(caller, "disconnected"), events(agent, "participant_disconnected")
    await livekit.room.remove_participant(who("caller"))
    await until(lambda: gone == [("disconnected", rtc.DisconnectReason.PARTICIPANT_REMOVED)])
    await until(lambda: left == [("participant_disconnected", "caller")])
    assert await refusal(livekit.room.remove_participant(who("caller"))) == ("not_found", 404)


async def test_a_permission_is_taken_away(livekit: api.LiveKitAPI, stage: Stage) -> None:
    caller, agent = await stage.join("caller"), await stage.join("agent")
    heard: list[bytes] = []
    agent.on("data_received", lambda packet: heard.append(packet.data))
    permission = models.ParticipantPermission(can_subscribe=True, can_publish=True)
    await livekit.room.update_participant(
        api.UpdateParticipantRequest(room=ROOM, identity="caller", permission=permission)
    )
    await caller.local_participant.publish_data(b"no")
    await asyncio.sleep(0.1)
    permission.can_publish_data = True
    await livekit.room.update_participant(
        api.UpdateParticipantRequest(room=ROOM, identity="caller", permission=permission)
    )
    await caller.local_participant.publish_data(b"yes")
    await until(lambda: heard == [b"yes"])


async def test_a_tracks_permission_is_taken_away(livekit: api.LiveKitAPI, stage: Stage) -> None:
    caller, agent = await stage.join("caller"), await stage.join("agent")
    track = rtc.LocalAudioTrack.create_audio_track("mic", rtc.AudioSource(48000, 1))
    await caller.local_participant.publish_track(track)
    await until(lambda: agent.remote_participants["caller"].track_publications)
    permission = models.ParticipantPermission(can_subscribe=True, can_publish_data=True)
    await livekit.room.update_participant(
        api.UpdateParticipantRequest(room=ROOM, identity="caller", permission=permission)
    )
    await until(lambda: not agent.remote_participants["caller"].track_publications)
    assert await refusal(
        livekit.room.update_participant(
            api.UpdateParticipantRequest(room=ROOM, identity="caller", attributes={"k": "v" * 70_000})
        )
    ) == ("invalid_argument", 400)


async def test_data_from_outside(livekit: api.LiveKitAPI, stage: Stage) -> None:
    caller, agent = await stage.join("caller"), await stage.join("agent")
    await until(lambda: all(stage.participant(name).is_active for name in ("caller", "agent")))
    heard: list[tuple[str, bytes, str | None]] = []
    for name, room in (("caller", caller), ("agent", agent)):
        room.on("data_received", lambda packet, name=name: heard.append((name, packet.data, packet.topic)))
    one = api.SendDataRequest(room=ROOM, data=b"one", destination_identities=["agent"], topic="t")
    await livekit.room.send_data(one)
    await livekit.room.send_data(api.SendDataRequest(room=ROOM, data=b"all", kind=models.DataPacket.LOSSY))
    await until(lambda: len(heard) == 3)
    assert sorted(heard) == [("agent", b"all", ""), ("agent", b"one", "t"), ("caller", b"all", "")]
    assert await refusal(livekit.room.send_data(api.SendDataRequest(room="nowhere"))) == ("not_found", 404)


async def test_the_same_data_from_outside_are_sent_once(stage: Stage) -> None:
    agent = await stage.join("agent")
    await until(lambda: stage.participant("agent").is_active)
    heard: list[bytes] = []
    agent.on("data_received", lambda packet: heard.append(packet.data))
    token = api.AccessToken(stage.server.api_key, stage.server.api_secret)
    token = token.with_grants(api.VideoGrants(room_admin=True, room=ROOM))
    for data, nonce in ((b"1", bytes(16)), (b"2", bytes(16)), (b"3", b"1" * 16), (b"4", b"short")):
        request = api.SendDataRequest(room=ROOM, data=data, nonce=nonce)
        status, answer = await post(stage.server, "SendData", json_format.MessageToJson(request), token.to_jwt())
        assert (status, answer.get("code")) == ((200, None) if data != b"4" else (400, "invalid_argument"))
    await until(lambda: heard == [b"1", b"3"])


async def test_the_rooms_metadata_are_changed(livekit: api.LiveKitAPI, problems: list[Any]) -> None:
    async with EmbeddedServer(state_batch=60) as server, stage_on(server) as stage:  # at once, whatever the clock does
        url = server.url.replace("ws", "http", 1)
        async with api.LiveKitAPI(url, server.api_key, server.api_secret) as slow:
            await slow.room.create_room(api.CreateRoomRequest(name=ROOM, metadata="old"))
            caller = await stage.join("caller")
            told = events(caller, "room_metadata_changed")
            changed = await slow.room.update_room_metadata(api.UpdateRoomMetadataRequest(room=ROOM, metadata="new"))
            assert changed.metadata == "new"
            await until(lambda: told == [("room_metadata_changed", "old", "new")])
            assert (await stage.join("newcomer")).metadata == "new"
            emptied = await slow.room.update_room_metadata(api.UpdateRoomMetadataRequest(room=ROOM))
            assert emptied.metadata == ""
            await until(lambda: caller.metadata == "")
            again = await slow.room.create_room(api.CreateRoomRequest(name=ROOM, metadata="of one that is there"))
            assert again.metadata == ""
    nowhere = livekit.room.update_room_metadata(api.UpdateRoomMetadataRequest(room="nowhere", metadata="m"))
    assert await refusal(nowhere) == ("not_found", 404)
    large = api.UpdateRoomMetadataRequest(room=ROOM, metadata="m" * 600_000)
    assert await refusal(livekit.room.update_room_metadata(large)) == ("invalid_argument", 400)


async def test_a_track_is_muted(livekit: api.LiveKitAPI, stage: Stage) -> None:
    caller, agent = await stage.join("caller"), await stage.join("agent")
    track = rtc.LocalAudioTrack.create_audio_track("mic", rtc.AudioSource(48000, 1))
    sid = (await caller.local_participant.publish_track(track)).sid
    await until(lambda: sid in agent.remote_participants["caller"].track_publications)
    seen, told = agent.remote_participants["caller"].track_publications[sid], events(agent, "track_muted")
    mute = api.MuteRoomTrackRequest(room=ROOM, identity="caller", track_sid=sid, muted=True)
    assert (await livekit.room.mute_published_track(mute)).track.sid == sid
    await until(lambda: told and seen.muted)
    mute.track_sid = "TR_unknown"
    assert not (await livekit.room.mute_published_track(mute)).HasField("track")
    mute.muted = False
    assert await refusal(livekit.room.mute_published_track(mute)) == ("failed_precondition", 412)
    mute.identity = "nobody"
    assert await refusal(livekit.room.mute_published_track(mute)) == ("not_found", 404)


@pytest.mark.parametrize(
    "request_",
    [
        api.CreateRoomRequest(name="n" * 257),
        api.CreateRoomRequest(name="r", metadata="m" * 600_000),
        api.CreateRoomRequest(name="r", room_preset="large"),
        api.CreateRoomRequest(name="r", agents=[RoomAgentDispatch(metadata="m" * 600_000)]),
        api.CreateRoomRequest(name="r", agents=[RoomAgentDispatch(attributes={"k": "v" * 70_000})]),
    ],
    ids=["long name", "metadata", "preset", "an agent's metadata", "an agent's attributes"],
)
async def test_a_room_that_cannot_be(livekit: api.LiveKitAPI, request_: api.CreateRoomRequest) -> None:
    assert await refusal(livekit.room.create_room(request_)) == ("invalid_argument", 400)
    assert list((await livekit.room.list_rooms(api.ListRoomsRequest())).rooms) == []


MISSING = {
    "move_participant": api.MoveParticipantRequest(room=ROOM, identity="a", destination_room="b"),
    "forward_participant": api.ForwardParticipantRequest(room=ROOM, identity="a", destination_room="b"),
    "update_subscriptions": api.UpdateSubscriptionsRequest(room=ROOM, identity="a", track_sids=["t"], subscribe=True),
}


async def test_what_it_does_not_have_is_named(livekit: api.LiveKitAPI) -> None:
    for name, request in MISSING.items():
        with pytest.raises(api.TwirpError) as caught:
            await getattr(livekit.room, name)(request)
        method = name.title().replace("_", "")
        assert (caught.value.code, caught.value.status) == ("unimplemented", 501)
        assert f"no livekit.RoomService/{method}, only CreateRoom, " in caught.value.message
    recorded = api.CreateRoomRequest(name="r", egress=RoomEgress())
    assert await refusal(livekit.room.create_room(recorded)) == ("unimplemented", 501)


SAME_ON_THE_WIRE = {"get_dispatch": "ListDispatch"}


async def test_every_method_of_the_client_works_or_is_named(server: EmbeddedServer, livekit: api.LiveKitAPI) -> None:
    """A method that comes with a later version of livekit-api shows here."""
    nobody = api.AccessToken(server.api_key, server.api_secret).with_grants(api.VideoGrants()).to_jwt()
    served: set[str] = set()
    missing: set[str] = set()
    for service, client in (("RoomService", livekit.room), ("AgentDispatchService", livekit.agent_dispatch)):
        for name in (name for name, method in vars(type(client)).items() if inspect.iscoroutinefunction(method)):
            method = SAME_ON_THE_WIRE.get(name, name.title().replace("_", ""))
            status, answer = await post(server, method, "{}", nobody, service)
            assert (status, answer["code"]) in ((401, "unauthenticated"), (501, "unimplemented")), name
            (missing if status == 501 else served).add(name)
    assert missing == set(MISSING)
    assert {"create_room", "update_room_metadata", "create_dispatch", "delete_dispatch", "get_dispatch"} <= served


# Over plain HTTP


@pytest.mark.parametrize(
    ("grants", "method", "body"),
    [
        ({"room_list": True}, "CreateRoom", {"name": "r"}),
        ({"room_list": True}, "DeleteRoom", {"room": "r"}),
        ({"room_create": True}, "ListRooms", {}),
        ({"room_admin": True, "room": "other"}, "ListParticipants", {"room": "r"}),
        ({"room_join": True, "room": "r"}, "GetParticipant", {"room": "r", "identity": "a"}),
        ({}, "RemoveParticipant", {"room": "r", "identity": "a"}),
        ({}, "UpdateParticipant", {"room": "r", "identity": "a"}),
        ({}, "SendData", {"room": "r"}),
        ({"room_create": True}, "UpdateRoomMetadata", {"room": "r"}),
        ({"room_admin": True, "room": "other"}, "MutePublishedTrack", {"room": "r", "identity": "a"}),
    ],
)
async def test_who_may_not(server: EmbeddedServer, grants: dict[str, Any], method: str, body: dict[str, str]) -> None:
    token = api.AccessToken(server.api_key, server.api_secret).with_identity("a")
    token = token.with_grants(api.VideoGrants(**grants))
    status, answer = await post(server, method, json.dumps(body), token.to_jwt())
    assert (status, answer["code"]) == (401, "unauthenticated")
    status, answer = await post(server, method, json.dumps(body), "nonsense")
    assert (status, answer["code"]) == (401, "unauthenticated")


async def post(
    server: EmbeddedServer, method: str, body: str, token: str, service: str = "RoomService", **headers: str
) -> tuple[int, Any]:
    url = server.url.replace("ws", "http", 1) + f"/twirp/livekit.{service}/{method}"
    all_headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body.encode(), headers=all_headers) as response,
    ):
        return response.status, await response.json()


async def test_json(server: EmbeddedServer) -> None:
    token = list_rooms_token(server.api_key, server.api_secret)
    assert await post(server, "ListRooms", "{}", token) == (200, {"rooms": []})
    server.node.rooms.get_or_create("r")
    status, answer = await post(server, "ListRooms", '{"names": ["r"], "unknown": 1}', token)
    assert (status, answer["rooms"][0]["name"], answer["rooms"][0]["num_participants"]) == (200, "r", 0)
    for body in ("{", "", '{"names": 7}'):
        status, answer = await post(server, "ListRooms", body, token)
        assert (status, answer["code"]) == (400, "malformed")
    status, answer = await post(server, "ListRooms", "{}", token, **{"Content-Type": "text/plain"})
    assert (status, answer["code"]) == (404, "bad_route")


async def test_it_is_taken_for_livekit(server: EmbeddedServer) -> None:
    token = list_rooms_token(server.api_key, server.api_secret)
    answer = await asyncio.to_thread(ask_for_rooms, server.url, token)
    assert answer.kind == "ready"
    wrong = list_rooms_token(server.api_key, "s" * 40)
    assert (await asyncio.to_thread(ask_for_rooms, server.url, wrong)).kind == "refused"
