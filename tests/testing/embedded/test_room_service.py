"""The server API, as livekit-api and others speak it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from google.protobuf import json_format
from livekit import api, rtc
from livekit.protocol import models

from curb_client.testing._key_check import ask_for_rooms
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.tokens import list_rooms_token
from tests.testing.embedded.conftest import ROOM, Stage, events, until


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


async def test_what_it_does_not_have(livekit: api.LiveKitAPI) -> None:
    muting = livekit.room.mute_published_track(api.MuteRoomTrackRequest(room=ROOM, identity="a", track_sid="t"))
    assert await refusal(muting) == ("unimplemented", 501)
    assert await refusal(livekit.room.create_room(api.CreateRoomRequest())) == ("invalid_argument", 400)


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
    ],
)
async def test_who_may_not(server: EmbeddedServer, grants: dict[str, Any], method: str, body: dict[str, str]) -> None:
    token = api.AccessToken(server.api_key, server.api_secret).with_identity("a")
    token = token.with_grants(api.VideoGrants(**grants))
    status, answer = await post(server, method, json.dumps(body), token.to_jwt())
    assert (status, answer["code"]) == (401, "unauthenticated")
    status, answer = await post(server, method, json.dumps(body), "nonsense")
    assert (status, answer["code"]) == (401, "unauthenticated")


async def post(server: EmbeddedServer, method: str, body: str, token: str, **headers: str) -> tuple[int, Any]:
    url = server.url.replace("ws", "http", 1) + f"/twirp/livekit.RoomService/{method}"
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
