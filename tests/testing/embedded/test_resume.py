"""Connections that break: resumed, made anew, or lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import rtc
from livekit.protocol import models

from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.requests import CutResume
from tests.testing.embedded.conftest import Stage, ask, events, is_active, serve_echo, stage_on, until

SIGNAL_RECONNECT = rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT
FULL_RECONNECT = rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT
NODE_FAILURE = rtc.SimulateScenarioKind.SIMULATE_NODE_FAILURE
MIGRATION = rtc.SimulateScenarioKind.SIMULATE_MIGRATION
SERVER_LEAVE = rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE
CUT_RESUME = rtc.SimulateScenarioKind.SIMULATE_DISCONNECT_SIGNAL_ON_RESUME


async def pair(stage: Stage) -> tuple[rtc.Room, rtc.Room]:
    agent = await stage.join("agent", kind="agent")
    caller = await stage.join("caller", attributes={"from": "token"})
    serve_echo(agent)
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
    return caller, agent


@asynccontextmanager
async def reconnects(room: rtc.Room) -> AsyncIterator[None]:
    reconnected = asyncio.Event()
    room.on("reconnected", reconnected.set)
    yield
    await asyncio.wait_for(reconnected.wait(), 15)


async def test_a_resume_keeps_the_session_and_loses_nothing(stage: Stage) -> None:
    caller, agent = await pair(stage)
    await caller.local_participant.set_attributes({"set": "later"})
    sid = caller.local_participant.sid
    told = events(agent, "participant_connected", "participant_disconnected")
    arrived: dict[str, list[int]] = {"caller": [], "agent": []}
    for room in (caller, agent):
        numbers = arrived[room.local_participant.identity]
        room.on("data_received", lambda packet, numbers=numbers: numbers.append(int(packet.data)))
    going_on = True

    async def send(room: rtc.Room) -> int:
        number = 0
        while going_on:
            await room.local_participant.publish_data(str(number).encode())
            number += 1
            await asyncio.sleep(0.005)
        return number

    senders = [asyncio.ensure_future(send(room)) for room in (caller, agent)]
    async with reconnects(caller):
        await caller.simulate_scenario(SIGNAL_RECONNECT)
    going_on = False
    from_caller, from_agent = await asyncio.gather(*senders)
    await until(lambda: len(arrived["agent"]) >= from_caller and len(arrived["caller"]) >= from_agent)
    assert arrived["agent"] == list(range(from_caller)), "each once, and in order"
    assert arrived["caller"] == list(range(from_agent))
    assert told == []
    assert caller.local_participant.sid == sid
    assert agent.remote_participants["caller"].attributes == {"from": "token", "set": "later"}
    assert await ask(caller, "agent") == "caller:hello"


async def test_who_left_meanwhile_is_gone_after_a_resume(stage: Stage) -> None:
    caller, agent = await pair(stage)
    told = events(caller, "participant_disconnected")
    stage.participant("caller").signal_out = lambda response: None  # type: ignore[method-assign]
    await agent.disconnect()
    await until(lambda: "agent" not in stage.participant("caller").room.participants)
    del stage.participant("caller").signal_out
    assert told == []
    async with reconnects(caller):
        await caller.simulate_scenario(SIGNAL_RECONNECT)
    await until(lambda: told == [("participant_disconnected", "agent")])


@pytest.mark.parametrize(
    "scenario", [FULL_RECONNECT, NODE_FAILURE, MIGRATION], ids=["asked for", "node failure", "migration"]
)
async def test_a_connection_made_anew_is_another_session(
    stage: Stage, scenario: rtc.SimulateScenarioKind.ValueType
) -> None:
    caller, agent = await pair(stage)
    await caller.local_participant.set_attributes({"set": "later"})
    sid = caller.local_participant.sid
    told = events(agent, "participant_connected", "participant_disconnected")
    async with reconnects(caller):
        await caller.simulate_scenario(scenario)
    await until(lambda: is_active(agent, "caller") and is_active(caller, "agent"))
    assert agent.remote_participants["caller"].sid != sid
    assert told == [("participant_disconnected", "caller"), ("participant_connected", "caller")]
    attributes = agent.remote_participants["caller"].attributes
    assert attributes == {"from": "token", "set": "later"}, "its token was refreshed"
    assert await ask(caller, "agent") == "caller:hello"
    assert len(stage.server.node.rooms.all()[0].participants) == 2


async def test_a_resume_that_is_cut_is_followed_by_another_session(stage: Stage) -> None:
    caller, agent = await pair(stage)
    sid = agent.remote_participants["caller"].sid
    async with reconnects(caller):
        await caller.simulate_scenario(CUT_RESUME)
    await until(lambda: is_active(agent, "caller") and is_active(caller, "agent"))
    assert agent.remote_participants["caller"].sid != sid
    assert await ask(caller, "agent") == "caller:hello"


async def test_who_is_told_to_leave_stays_away(stage: Stage) -> None:
    caller, agent = await pair(stage)
    told = events(agent, "participant_disconnected")
    gone = events(caller, "disconnected", "reconnecting")
    await caller.simulate_scenario(SERVER_LEAVE)
    await until(lambda: gone == [("disconnected", rtc.DisconnectReason.SERVER_SHUTDOWN)])
    await until(lambda: told == [("participant_disconnected", "caller")])


async def test_what_is_sent_to_a_session_is_not_heard_by_the_next(stage: Stage) -> None:
    """The server numbers packets by session, so that a client which begins anew is not taken to repeat itself."""
    caller, agent = await pair(stage)
    heard: list[bytes] = []
    agent.on("data_received", lambda packet: heard.append(packet.data))
    for data in (b"1", b"2", b"3"):
        await caller.local_participant.publish_data(data)
    await until(lambda: len(heard) == 3)
    async with reconnects(caller):
        await caller.simulate_scenario(FULL_RECONNECT)
    await caller.local_participant.publish_data(b"4")
    await until(lambda: heard == [b"1", b"2", b"3", b"4"])


# Lost for good


async def test_who_does_not_resume_in_time_has_left(problems: list[Any]) -> None:
    async with EmbeddedServer(resume_within=0.3) as server, stage_on(server) as stage:
        caller, agent = await pair(stage)
        told = events(caller, "participant_disconnected")
        participant = stage.participant("agent")
        server.node.signalling.is_open = False
        participant.abort_socket()
        await until(lambda: told == [("participant_disconnected", "agent")], within=2)
        assert "left: CONNECTION_TIMEOUT" in server.log_tail(50)
        gone = events(agent, "reconnected")
        server.node.signalling.is_open = True
        await until(lambda: gone == [("reconnected",)])
        await until(lambda: "agent" in caller.remote_participants)


async def test_who_falls_silent_is_asked_to_resume(problems: list[Any]) -> None:
    async with EmbeddedServer(transport_timeout=4) as server, stage_on(server) as stage:
        caller, agent = await pair(stage)
        lost = stage.participant("agent").transport.ice
        udp = server.node.context.udp
        receive = udp.datagram_in

        def lose(data: bytes, address: tuple[str, int]) -> None:
            if udp._by_address.get(address) is not lost or "resumed" in server.log_tail(50):
                receive(data, address)

        udp.datagram_in = lose  # type: ignore[method-assign]
        async with reconnects(agent):  # as the same session or, where its own transport gave up too, another one
            await until(lambda: "was silent for" in server.log_tail(50), within=8)
        await until(lambda: is_active(caller, "agent"))
        assert await ask(caller, "agent") == "caller:hello"


async def test_who_falls_silent_and_does_not_resume_has_left(problems: list[Any]) -> None:
    async with EmbeddedServer(resume_within=0.2) as server, stage_on(server) as stage:
        caller, _ = await pair(stage)
        told = events(caller, "participant_disconnected")
        agent = stage.participant("agent")
        server.node.signalling.is_open = False
        agent.transport.ice.last_heard -= 100
        agent.watch_transport()
        await until(lambda: told == [("participant_disconnected", "agent")], within=8)
        assert agent.info.disconnect_reason == models.CONNECTION_TIMEOUT


async def test_who_closes_its_transport_and_does_not_leave_is_asked_to_begin_anew(stage: Stage) -> None:
    caller, agent = await pair(stage)
    told = events(caller, "participant_disconnected", "participant_connected")
    async with reconnects(agent):
        stage.participant("agent").transport._end()
    await until(lambda: len(told) == 2)


async def test_a_resume_that_is_refused_is_tried_again_or_made_anew(stage: Stage) -> None:
    caller, agent = await pair(stage)
    stage.participant("caller").cut_next_resume = CutResume("before", time.monotonic() + 5)
    async with reconnects(caller):
        await caller.simulate_scenario(SIGNAL_RECONNECT)
    assert "a scenario wants this resume to fail" in stage.server.log_tail()
    await until(lambda: is_active(agent, "caller") and is_active(caller, "agent"))
    assert await ask(caller, "agent") == "caller:hello"
