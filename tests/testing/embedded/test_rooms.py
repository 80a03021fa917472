"""Who is in a room, what the others know of them, and how they leave."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import pytest
from livekit import rtc
from livekit.api import AccessToken, VideoGrants
from livekit.protocol import models
from livekit.protocol.room import RoomConfiguration

import curb_client
from curb_client import ConnectFailedError
from curb_client.testing import LiveKitAddress
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.joins import Claims
from tests.testing.embedded.conftest import Stage, Texts, ask, events, is_active, serve_echo, stage_on, until

AGENT = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
STANDARD = rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD


async def test_participants_see_each_other_as_their_tokens_have_them(stage: Stage) -> None:
    caller = await stage.join("caller", name="Carla", metadata="m", attributes={"k": "v"})
    agent = await stage.join("agent", kind="agent")
    await until(lambda: is_active(caller, "agent"))
    seen = agent.remote_participants["caller"]
    assert (seen.kind, seen.name, seen.metadata, seen.attributes) == (STANDARD, "Carla", "m", {"k": "v"})
    assert caller.remote_participants["agent"].kind == AGENT
    assert seen.sid == caller.local_participant.sid
    assert caller.name == "a-room"
    await asyncio.sleep(0.05)
    assert caller.num_participants == 1, "an agent is not counted"


async def test_a_large_token(stage: Stage) -> None:
    await stage.join("caller", metadata="m" * 100_000)
    agent = await stage.join("agent")
    assert agent.remote_participants["caller"].metadata == "m" * 100_000


async def test_rooms_are_apart(stage: Stage) -> None:
    here, there = await stage.join("a", "here"), await stage.join("a", "there")
    await stage.join("b", "here")
    await until(lambda: "b" in here.remote_participants)
    assert there.remote_participants == {}


async def test_what_changes_is_told_and_nothing_else(stage: Stage) -> None:
    caller, agent = await stage.join("caller", attributes={"old": "1"}), await stage.join("agent", kind="agent")
    await until(lambda: "caller" in agent.remote_participants)
    told = events(agent, "participant_attributes_changed", "participant_metadata_changed", "participant_name_changed")
    await caller.local_participant.set_attributes({"new": "2"})
    await until(lambda: len(told) == 1)
    await caller.local_participant.set_attributes({"old": ""})
    await until(lambda: len(told) == 2)
    await caller.local_participant.set_metadata("m")
    await until(lambda: len(told) == 3 and caller.local_participant.metadata == "m")
    await caller.local_participant.set_name("Carla")
    await until(lambda: len(told) == 4)
    assert [event[0] for event in told] == [
        "participant_attributes_changed",
        "participant_attributes_changed",
        "participant_metadata_changed",
        "participant_name_changed",
    ]
    seen = agent.remote_participants["caller"]
    assert (seen.attributes, seen.metadata, seen.name) == ({"new": "2"}, "m", "Carla")
    assert caller.local_participant.attributes == {"new": "2"}


async def test_who_may_not_change_its_metadata_changes_nothing(stage: Stage) -> None:
    caller = await stage.join("caller", can_update_own_metadata=False)
    agent = await stage.join("agent")
    with contextlib.suppress(Exception):  # newer SDKs tell, older ones do not
        await caller.local_participant.set_attributes({"k": "v"})
    await asyncio.sleep(0.1)
    assert agent.remote_participants["caller"].attributes == {}


async def test_too_much_metadata_is_refused(stage: Stage) -> None:
    caller = await stage.join("caller")
    with contextlib.suppress(Exception):
        await caller.local_participant.set_attributes({"k": "v" * 70_000})
    await caller.local_participant.set_attributes({"small": "1"})
    await until(lambda: stage.participant("caller").info.attributes)
    assert dict(stage.participant("caller").info.attributes) == {"small": "1"}


# Leaving


async def test_a_leave_is_told_at_once(stage: Stage) -> None:
    caller = await stage.join("caller")
    left = events(caller, "participant_disconnected")
    other = await stage.join("other")
    await until(lambda: "other" in caller.remote_participants)
    await other.disconnect()
    await until(lambda: left == [("participant_disconnected", "other")], within=2)
    await until(lambda: caller.remote_participants == {})


async def test_who_leaves_as_soon_as_it_is_in_has_left(stage: Stage) -> None:
    """Its leave and the end of its transport take different ways, and come in any order."""
    caller = await stage.join("caller")
    told = events(caller, "participant_connected", "participant_disconnected")
    for _ in range(10):
        await (await stage.join("other")).disconnect()
    await until(lambda: len(told) >= 20)
    await asyncio.sleep(0.1)
    assert told == [("participant_connected", "other"), ("participant_disconnected", "other")] * 10
    assert "CONNECTION_TIMEOUT" not in stage.server.log_tail(100)


async def test_an_identity_is_taken_over(stage: Stage) -> None:
    old = await stage.join("caller")
    other = await stage.join("other")
    serve_echo(other)
    await until(lambda: is_active(other, "caller"))
    gone = events(old, "disconnected")
    told = events(other, "participant_connected", "participant_disconnected")
    new = await stage.join("caller")
    await until(lambda: gone == [("disconnected", rtc.DisconnectReason.DUPLICATE_IDENTITY)])
    await until(lambda: is_active(other, "caller"))
    assert told == [("participant_disconnected", "caller"), ("participant_connected", "caller")]
    assert other.remote_participants["caller"].sid == new.local_participant.sid
    assert await ask(new, "other") == "caller:hello"


async def test_a_hidden_participant_is_not_seen_and_can_speak(stage: Stage) -> None:
    caller = await stage.join("caller")
    texts = Texts(caller)
    told = events(caller, "participant_connected", "participant_disconnected")
    ghost = await stage.join("ghost", hidden=True)
    assert set(ghost.remote_participants) == {"caller"}
    await ghost.local_participant.send_text("boo", topic="t")
    await until(lambda: texts.arrived == [("", "boo")])
    await ghost.disconnect()
    late = await stage.join("late")
    await until(lambda: "late" in caller.remote_participants)
    assert set(late.remote_participants) == {"caller"}
    assert told == [("participant_connected", "late")]
    await until(lambda: caller.num_participants == 2)


# Tokens


async def refusal(url: str, token: str) -> str:
    with pytest.raises(ConnectFailedError) as caught:
        async with curb_client.connect_room(url, token):
            pass
    return str(caught.value)


async def test_a_token_that_does_not_hold_lets_nobody_in(server: EmbeddedServer) -> None:
    assert "401" in await refusal(server.url, server.token("a", "r", ttl=-120))
    assert "expired" in await refusal(server.url, server.token("a", "r", ttl=-120))
    other_secret = LiveKitAddress(server.url, server.api_key, "s" * 40)
    assert "Signature verification failed" in await refusal(server.url, other_secret.token("a", "r"))
    other_key = LiveKitAddress(server.url, "another", server.api_secret)
    assert "invalid API key: another" in await refusal(server.url, other_key.token("a", "r"))
    assert "refused with 401: invalid token: Signature has expired" in server.log_tail(100)
    assert server.node.rooms.all() == []


@pytest.mark.parametrize("path", ["/rtc", "/rtc/v1"])
async def test_a_browser_is_told_why(server: EmbeddedServer, path: str) -> None:
    base = server.url.replace("ws", "http", 1)
    async with aiohttp.ClientSession() as session:
        for query, status in (
            ({}, 401),
            ({"access_token": "nonsense"}, 401),
            ({"access_token": server.token("a", "r"), "join_request": "////"}, 400),
        ):
            async with session.get(f"{base}{path}/validate", params=query) as response:
                assert response.status == status, await response.text()
                assert response.headers["Access-Control-Allow-Origin"] == "*"
        good = {"Authorization": f"Bearer {server.token('a', 'r')}"}
        async with session.get(f"{base}{path}/validate", headers=good, params={"join_request": ""}) as response:
            assert (response.status, await response.text()) == (200, "success")
        async with session.get(f"{base}{path}/validate", headers={"Authorization": "Basic x"}) as response:
            assert response.status == 401
        async with session.get(f"{base}{path}", headers=good, params={"join_request": ""}) as response:
            assert response.status == 404
        async with session.get(base) as response:
            assert (response.status, await response.text()) == (200, "OK")


# Times


NEVER = 1e6
"""Seconds between two ticks, where the test does the ticking."""


async def test_like_livekit_server_it_can_tell_of_joins_later(problems: list[Any]) -> None:
    async with EmbeddedServer(state_batch=NEVER) as server, stage_on(server) as stage:
        caller = await stage.join("caller")
        told = events(caller, "participant_connected", "participant_disconnected")
        brief = await stage.join("brief")
        await brief.disconnect()
        await until(lambda: "brief" not in server.node.rooms.all()[0].participants)
        quick = await stage.join("quick")
        await quick.local_participant.set_attributes({"k": "v"})
        await until(lambda: "quick" in caller.remote_participants)
        slow = await stage.join("slow")
        assert set(slow.remote_participants) == {"caller", "quick"}, "who joins sees at once who is there"
        await asyncio.sleep(0.1)
        assert told == [("participant_connected", "quick")]
        server.node.rooms.all()[0].updates.tick()
        await until(lambda: "slow" in caller.remote_participants)
        assert told == [("participant_connected", "quick"), ("participant_connected", "slow")]
        await until(lambda: caller.num_participants == 3)


async def test_the_clock_ticks_by_itself(problems: list[Any]) -> None:
    async with EmbeddedServer(state_batch=0.2) as server, stage_on(server) as stage:
        caller = await stage.join("caller")
        other = await stage.join("other")
        await until(lambda: is_active(caller, "other"))
        await other.disconnect()
        await until(lambda: caller.remote_participants == {})


async def test_a_takeover_is_two_sessions_also_where_it_is_told_later(problems: list[Any]) -> None:
    async with EmbeddedServer(state_batch=NEVER) as server, stage_on(server) as stage:
        caller = await stage.join("caller")
        await stage.join("other")
        new = await stage.join("other")
        await until(lambda: "other" in caller.remote_participants)
        assert caller.remote_participants["other"].sid == new.local_participant.sid


async def test_an_empty_room_ends(problems: list[Any]) -> None:
    async with EmbeddedServer(empty_timeout=0.2, departure_timeout=0.4) as server, stage_on(server) as stage:
        room = server.node.rooms.get_or_create("nobody-comes")
        await until(lambda: room.is_closed, within=2)
        caller = await stage.join("caller")
        agent = await stage.join("agent", kind="agent")
        gone = events(agent, "disconnected")
        await asyncio.sleep(0.5)
        assert agent.isconnected()
        await caller.disconnect()
        left = time.monotonic()
        await until(lambda: gone == [("disconnected", rtc.DisconnectReason.ROOM_CLOSED)], within=2)
        assert time.monotonic() - left >= 0.3, "an agent alone does not keep a room, but for a while"
        assert server.node.rooms.all() == []


async def test_a_token_says_what_the_room_is_like_that_it_makes(server: EmbeddedServer) -> None:
    config = RoomConfiguration(empty_timeout=7, departure_timeout=8, max_participants=9, metadata="m")
    token = AccessToken(server.api_key, server.api_secret).with_identity("a").with_room_config(config)
    token = token.with_grants(VideoGrants(room_join=True, room="made"))
    async with curb_client.connect_room(server.url, token.to_jwt()) as room:
        assert room.metadata == "m"
        info = server.node.rooms.all()[0].info
        assert (info.empty_timeout, info.departure_timeout, info.max_participants) == (7, 8, 9)
        token.with_room_config(RoomConfiguration(metadata="too late")).with_identity("b")
        async with curb_client.connect_room(server.url, token.to_jwt()) as late:
            assert late.metadata == "m"
    claims = Claims(
        "c", "", models.ParticipantInfo.STANDARD, "", {}, {"room": "odd"}, room_config={"emptyTimeout": "x"}
    )
    assert server.node.rooms.for_joining(claims).info.empty_timeout == 300
    assert "roomConfig: " in server.log_tail(100)


async def test_a_room_goes_on_when_somebody_comes_back_in_time(problems: list[Any]) -> None:
    async with EmbeddedServer(departure_timeout=3) as server, stage_on(server) as stage:
        await (await stage.join("caller")).disconnect()
        sid = server.node.rooms.all()[0].info.sid
        await stage.join("caller")
        await asyncio.sleep(3.2)
        assert [room.info.sid for room in server.node.rooms.all()] == [sid]


async def test_who_never_opens_its_data_channels_has_to_leave(problems: list[Any]) -> None:
    async with (
        EmbeddedServer(join_timeout=0.2) as server,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{server.url}/rtc", params={"access_token": server.token("a", "r")}),
    ):
        await until(lambda: "left: JOIN_FAILURE" in server.log_tail(100), within=2)
