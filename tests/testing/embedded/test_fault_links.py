"""Networks, joins and participants that fail on demand, as the SDK alone sees it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import rtc

from curb_client import ConnectFailedError, connect_room
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.fault_links import LimitBandwidth, LoseDatagrams
from curb_client.testing.embedded.fault_table import FaultTable, Scope, Who
from tests.testing.embedded.conftest import ROOM, Stage, Texts, ask, events, is_active, serve_echo, stage_on, until

CALLER = Who("caller", ROOM)


async def pair(stage: Stage) -> tuple[rtc.Room, rtc.Room]:
    agent = await stage.join("agent", kind="agent")
    caller = await stage.join("caller")
    serve_echo(agent)
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
    return caller, agent


async def comes_back(room: rtc.Room) -> None:
    """Returns when the room has been reconnected, or is."""
    back = asyncio.Event()
    room.on("reconnected", back.set)
    await asyncio.wait_for(back.wait(), 30)


# The network


async def test_lost_datagrams_are_made_good(stage: Stage) -> None:
    caller, agent = await pair(stage)
    texts = Texts(agent)
    long = secrets.token_hex(40_000)
    with stage.server.faults.lose_datagrams(0.1, seed=7, participant="caller") as fault:
        await caller.local_participant.send_text(long, topic="t")
        await until(lambda: texts.arrived == [("caller", long)], within=30)
    assert fault.count > 0
    assert str(fault) == f"lose 10% of the datagrams of 'caller' (seed 7): {fault.count}"


async def test_nothing_comes_through_where_all_is_lost(stage: Stage) -> None:
    caller, agent = await pair(stage)
    texts = Texts(agent)
    with stage.server.faults.lose_datagrams(1, direction="to", participant="agent") as fault:
        await caller.local_participant.send_text("late", topic="t")
        await until(lambda: fault.count > 2)
        assert texts.arrived == []
    await until(lambda: texts.arrived == [("caller", "late")])


def lost(fault: LoseDatagrams, who: Who = CALLER) -> list[int]:
    """Which of a hundred datagrams are lost."""
    table = FaultTable()
    table.add(fault)
    passed: list[int] = []
    for number in range(100):
        table.datagram(1000, who, "from", lambda number=number: passed.append(number))  # type: ignore[misc]
        table.datagram(1000, who, "to", lambda: None)
    return [number for number in range(100) if number not in passed]


def test_the_same_seed_loses_the_same_datagrams() -> None:
    first = lost(LoseDatagrams("", Scope(), 0.2, seed=1))
    assert 5 < len(first) < 40
    assert lost(LoseDatagrams("", Scope(), 0.2, seed=1)) == first
    assert lost(LoseDatagrams("", Scope(ROOM, "caller", "from"), 0.2, seed=1)) == first
    assert lost(LoseDatagrams("", Scope(), 0.2, seed=1), Who("caller", "another room")) == first
    assert lost(LoseDatagrams("", Scope(), 0.2, seed=2)) != first
    assert lost(LoseDatagrams("", Scope(), 0.2, seed=1), Who("agent", ROOM)) != first


async def test_a_narrow_network_lets_all_through_in_its_own_time(stage: Stage) -> None:
    caller, agent = await pair(stage)
    texts = Texts(agent)
    long = secrets.token_hex(25_000)
    began = time.monotonic()
    with stage.server.faults.limit_bandwidth(100_000, participant="caller") as fault:
        await caller.local_participant.send_text(long, topic="t")
        await until(lambda: texts.arrived == [("caller", long)], within=30)
    assert time.monotonic() - began > 0.3, "of the half second that 50,000 bytes take at least"
    assert fault.count > 10


async def test_what_would_wait_too_long_is_lost() -> None:
    fault = LimitBandwidth("", Scope(), 100_000)
    table = FaultTable()
    table.add(fault)
    passed: list[int] = []
    for number in range(5):
        table.datagram(60_000, CALLER, "from", lambda number=number: passed.append(number))  # type: ignore[misc]
        table.datagram(1, CALLER, "to", lambda: None)
    await until(lambda: len(passed) == 2)
    await asyncio.sleep(0.5)
    assert passed == [0, 1], "the third would have begun after 1.2 s"
    assert fault.count >= 4


# Joins


@asynccontextmanager
async def joining(server: EmbeddedServer, identity: str = "caller") -> AsyncIterator[rtc.Room]:
    async with connect_room(server.url, server.token(identity, ROOM)) as room:
        yield room


async def test_joins_that_are_refused(stage: Stage) -> None:
    with stage.server.faults.refuse_joins(403, participant="caller") as fault:
        with pytest.raises(ConnectFailedError, match="403"):
            async with joining(stage.server):
                pass
        await stage.join("agent", kind="agent")
    assert fault.count >= 1
    async with joining(stage.server) as room:
        assert "agent" in room.remote_participants


async def test_a_client_tries_again_where_a_server_is_overloaded(stage: Stage) -> None:
    with stage.server.faults.refuse_joins(503, times=1) as fault:
        async with joining(stage.server):
            pass
    assert str(fault) == "refuse at most 1 join with 503: 1"


async def test_joins_that_are_slow(stage: Stage) -> None:
    with stage.server.faults.slow_joins(60, participant="caller") as fault:
        waiting = asyncio.ensure_future(stage.join("caller"))
        await until(lambda: fault.count == 1)
        agent = await stage.join("agent", kind="agent")
        assert not waiting.done()
    room = await waiting
    await until(lambda: is_active(agent, "caller") and is_active(room, "agent"))


async def test_the_wait_for_a_join_ends_by_itself(stage: Stage) -> None:
    with stage.server.faults.slow_joins(0.3) as fault:
        await stage.join("caller")
    assert fault.count == 1


# Participants


async def test_who_is_frozen_goes_on_later_and_has_missed_nothing(stage: Stage) -> None:
    caller, agent = await pair(stage)
    texts = Texts(agent)
    told = events(caller, "participant_disconnected")
    with stage.server.faults.freeze("agent") as fault:
        await caller.local_participant.send_text("late", topic="t")
        late = asyncio.ensure_future(ask(caller, "agent"))
        await caller.local_participant.set_attributes({"news": "1"})
        await until(lambda: fault.count > 2)
        assert texts.arrived == []
        assert "news" not in agent.remote_participants["caller"].attributes
        assert not late.done()
    await until(lambda: texts.arrived == [("caller", "late")])
    await until(lambda: agent.remote_participants["caller"].attributes == {"news": "1"})
    assert await late == "caller:hello"
    assert told == []


async def test_who_joins_frozen_waits(stage: Stage) -> None:
    with stage.server.faults.freeze("agent") as fault:
        waiting = asyncio.ensure_future(stage.join("agent", kind="agent"))
        await until(lambda: fault.count == 1)
        await stage.join("caller")
        assert not waiting.done()
    await waiting


async def test_a_cut_signalling_connection_is_resumed(stage: Stage) -> None:
    caller, agent = await pair(stage)
    told = events(agent, "participant_disconnected")
    back = asyncio.ensure_future(comes_back(caller))
    await asyncio.sleep(0)
    stage.server.faults.cut_signalling("caller")
    await back
    assert await ask(caller, "agent") == "caller:hello"
    assert told == []
    assert stage.server.faults.report() == ["cut the signalling of 'caller': 1"]


async def test_a_cut_transport_is_found_out_and_made_good(problems: list[Any]) -> None:
    async with EmbeddedServer(transport_timeout=6) as server, stage_on(server) as stage:
        caller, _ = await pair(stage)
        back = asyncio.ensure_future(comes_back(caller))
        await asyncio.sleep(0)
        server.faults.cut_transport("caller")
        await back
        await until(lambda: is_active(caller, "agent"))
        assert await ask(caller, "agent") == "caller:hello"


async def test_who_is_killed_stays_away_and_is_missed_later(problems: list[Any]) -> None:
    async with EmbeddedServer(resume_within=0.3) as server, stage_on(server) as stage:
        caller, agent = await pair(stage)
        told = events(agent, "participant_disconnected")
        gone = events(caller, "disconnected", "reconnected")
        server.faults.kill("caller")
        await until(lambda: told == [("participant_disconnected", "caller")])
        await until(lambda: gone == [("disconnected", rtc.DisconnectReason.CLIENT_INITIATED)])
        assert "left: CONNECTION_TIMEOUT" in server.log_tail(50), "it has not said goodbye"


async def test_a_resume_that_is_forced(stage: Stage) -> None:
    caller, agent = await pair(stage)
    sid = caller.local_participant.sid
    told = events(agent, "participant_disconnected")
    back = asyncio.ensure_future(comes_back(caller))
    await asyncio.sleep(0)
    stage.server.faults.force_resume("caller")
    await back
    assert await ask(caller, "agent") == "caller:hello"
    assert (caller.local_participant.sid, told) == (sid, [])


async def test_a_full_reconnect_that_is_forced(stage: Stage) -> None:
    caller, agent = await pair(stage)
    sid = caller.local_participant.sid
    told = events(agent, "participant_disconnected", "participant_connected")
    back = asyncio.ensure_future(comes_back(caller))
    await asyncio.sleep(0)
    stage.server.faults.force_full_reconnect("caller")
    await back
    await until(lambda: is_active(agent, "caller") and is_active(caller, "agent"))
    assert agent.remote_participants["caller"].sid != sid
    assert told == [("participant_disconnected", "caller"), ("participant_connected", "caller")]
    assert await ask(caller, "agent") == "caller:hello"


@pytest.mark.parametrize("in_thread", [False, True], ids=["in the loop", "in a thread"])
async def test_a_restart_ends_all_sessions_and_clients_come_back(problems: list[Any], in_thread: bool) -> None:
    server = EmbeddedServer()
    if in_thread:
        await asyncio.to_thread(server.start)
    else:
        await server.__aenter__()
    try:
        async with stage_on(server) as stage:
            caller, agent = await pair(stage)
            sid = caller.local_participant.sid
            back = [asyncio.ensure_future(comes_back(room)) for room in (caller, agent)]
            url = server.url
            with server.faults.drop(participant="nobody") as outlasts:
                await server.faults.restart(0.2)
                assert server.url == url
                await asyncio.gather(*back)
                assert not outlasts.is_over
            await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
            assert agent.remote_participants["caller"].sid != sid
            assert await ask(caller, "agent") == "caller:hello"
            assert "restart the server: 1" in server.faults.report()
    finally:
        if in_thread:
            await asyncio.to_thread(server.stop)
        else:
            await server.__aexit__(None, None, None)
