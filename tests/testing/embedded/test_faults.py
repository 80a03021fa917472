"""Faults on demand, whatever they are: what they may be given, where they begin, and whom they are for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from livekit import rtc

from curb_client import LiveKitServerError, UsageError
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.faults import Faults
from tests.testing.embedded.conftest import Stage, is_active, until

WRONG: list[tuple[str, Callable[[Any], object]]] = [
    ("n is 0", lambda faults: faults.drop(0)),
    ("n is True", lambda faults: faults.duplicate(True)),
    ("n is 1.5", lambda faults: faults.reorder(1.5)),
    ("seconds is -1", lambda faults: faults.delay(1, -1)),
    ("seconds is inf", lambda faults: faults.slow_joins(float("inf"))),
    ("direction is 'up'", lambda faults: faults.drop(1, direction="up")),
    ("direction is 'up'", lambda faults: faults.lose_datagrams(0.1, direction="up")),
    ("topic is 3", lambda faults: faults.corrupt(1, topic=3)),
    ("method is ''", lambda faults: faults.corrupt(1, method="")),
    ("key is no filter of packets; there are direction, participant", lambda faults: faults.drop(1, key="quote")),
    ("rate is 2", lambda faults: faults.lose_datagrams(2)),
    ("rate is nan", lambda faults: faults.lose_datagrams(float("nan"))),
    ("seed is '1'", lambda faults: faults.lose_datagrams(0.1, seed="1")),
    ("bytes_per_second is 0", lambda faults: faults.limit_bandwidth(0)),
    ("status is 200", lambda faults: faults.refuse_joins(200)),
    ("times is 0", lambda faults: faults.refuse_joins(times=0)),
    ("participant is ''", lambda faults: faults.freeze("")),
    ("participant is None", lambda faults: faults.kill(None)),
]


@pytest.mark.parametrize(("message", "wrong"), WRONG, ids=[message for message, _ in WRONG])
def test_arguments_that_make_no_sense(message: str, wrong: Callable[[Any], object]) -> None:
    faults = EmbeddedServer().faults
    with pytest.raises(UsageError, match=message):
        wrong(faults)
    assert faults.report() == []


async def test_a_restart_in_no_time(server: EmbeddedServer) -> None:
    with pytest.raises(UsageError, match="seconds is -1"):
        await server.faults.restart(-1)
    assert server.is_running


ONCE: list[Callable[[Faults, str], object]] = [
    Faults.cut_signalling,
    Faults.cut_transport,
    Faults.kill,
    Faults.force_resume,
    Faults.force_full_reconnect,
]


@pytest.mark.parametrize("once", ONCE)
async def test_somebody_who_is_not_there(stage: Stage, once: Callable[[Faults, str], object]) -> None:
    await stage.join("caller")
    with pytest.raises(UsageError, match=r"participant is 'agent', who is not on this server; caller is"):
        once(stage.server.faults, "agent")
    with pytest.raises(UsageError, match=r"who is not in room 'empty'; nobody is"):
        once(stage.server.faults.in_room("empty"), "caller")
    assert stage.server.faults.report() == []


async def test_a_server_that_does_not_run() -> None:
    faults = EmbeddedServer().faults
    with pytest.raises(LiveKitServerError, match="does not run"):
        faults.kill("caller")
    with pytest.raises(LiveKitServerError, match="does not run"):
        await faults.restart()


async def test_a_fault_may_begin_before_the_server_and_end_after_it() -> None:
    server = EmbeddedServer()
    with contextlib.ExitStack() as active:
        fault = active.enter_context(server.faults.drop(topic="t"))
        async with server, contextlib.AsyncExitStack() as stack:
            stage = Stage(server, stack)
            caller, agent = await stage.join("caller"), await stage.join("agent")
            await until(lambda: is_active(caller, "agent"))
            heard = heard_by(agent)
            await caller.local_participant.publish_data(b"lost", topic="t")
            await caller.local_participant.publish_data(b"heard", topic="other")
            await until(lambda: heard == [b"heard"])
        assert not fault.is_over
    assert (fault.count, fault.is_over) == (1, True)


async def test_what_is_held_is_forgotten_where_the_server_ends_first(problems: list[Any]) -> None:
    server = EmbeddedServer()
    with (
        server.faults.delay(1, 60, topic="t") as late,
        server.faults.reorder(1, topic="u") as behind,
        server.faults.slow_joins(60, participant="slow") as slow,
        server.faults.freeze("frozen") as frozen,
    ):
        async with server, contextlib.AsyncExitStack() as stack:
            caller = await Stage(server, stack).join("caller")
            await caller.local_participant.publish_data(b"1", topic="t")
            await caller.local_participant.publish_data(b"1", topic="u")
            waiting = [asyncio.ensure_future(Stage(server, stack).join(who)) for who in ("slow", "frozen")]
            faults = (late, behind, slow, frozen)
            await until(lambda: all(fault.count for fault in faults))
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


def test_from_another_thread() -> None:
    """The server runs in its own thread, the clients in a second one, and the fault begins in a third."""
    with EmbeddedServer() as server:
        heard: list[bytes] = []
        is_over = threading.Event()

        async def call() -> None:
            async with contextlib.AsyncExitStack() as stack:
                stage = Stage(server, stack)
                caller, agent = await stage.join("caller"), await stage.join("agent")
                await until(lambda: is_active(caller, "agent"))
                agent.on("data_received", lambda packet: heard.append(packet.data))
                while not is_over.is_set():
                    await caller.local_participant.publish_data(b"now and then")
                    await asyncio.sleep(0.01)
                await caller.local_participant.publish_data(b"last")
                await until(lambda: heard[-1:] == [b"last"])

        calling = threading.Thread(target=lambda: asyncio.run(call()))
        calling.start()
        try:
            wait_for(lambda: heard)
            with server.faults.drop(participant="agent", direction="to") as fault:
                wait_for(lambda: fault.count > 3)
        finally:
            is_over.set()
            calling.join(30)
        assert heard[-1:] == [b"last"]


def wait_for(condition: Callable[[], object]) -> None:
    asyncio.run(until(condition, within=20))


# Rooms


async def rooms(stage: Stage) -> dict[str, tuple[rtc.Room, list[bytes]]]:
    """Two rooms with the same identities in them; the callers, and what the agents hear."""
    callers: dict[str, tuple[rtc.Room, list[bytes]]] = {}
    for name in ("here", "there"):
        agent, caller = await stage.join("agent", name, kind="agent"), await stage.join("caller", name)
        await seen(caller, agent)
        callers[name] = caller, heard_by(agent)
    return callers


async def seen(caller: rtc.Room, agent: rtc.Room) -> None:
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))


def heard_by(room: rtc.Room) -> list[bytes]:
    heard: list[bytes] = []
    room.on("data_received", lambda packet: heard.append(packet.data))
    return heard


async def test_a_fault_in_one_room_leaves_others_alone(stage: Stage) -> None:
    callers = await rooms(stage)
    here, there = (stage.server.faults.in_room(name) for name in ("here", "there"))
    with (
        here.drop(1) as dropped,
        here.lose_datagrams(1, direction="to", participant="agent") as lost,
        here.freeze("caller") as frozen,
        here.refuse_joins() as refused,
        there.limit_bandwidth(10**9) as limited,
    ):
        await callers["there"][0].local_participant.publish_data(b"1")
        await until(lambda: callers["there"][1] == [b"1"])
        await stage.join("third", "there")
        assert (dropped.count, refused.count) == (0, 0)
    assert there.report() == [str(limited)]
    assert here.report() == [str(each) for each in (dropped, lost, frozen, refused)]
    assert stage.server.faults.report() == [
        *(f"in room 'here', {each}" for each in (dropped, lost, frozen, refused)),
        f"in room 'there', {limited}",
    ]


async def test_what_happens_once_happens_in_one_room(stage: Stage) -> None:
    callers = await rooms(stage)
    told: list[str] = []
    stage.server.faults.in_room("here", told.append).kill("caller")
    await until(lambda: not callers["here"][0].isconnected())
    assert callers["there"][0].isconnected()
    assert told == ["fault: kill of 'caller'"]
    assert "in room 'here', fault: kill of 'caller'" in stage.server.log_tail()
    stage.server.faults.kill("caller")
    await until(lambda: not callers["there"][0].isconnected())
    assert stage.server.faults.report() == ["in room 'here', kill of 'caller': 1", "kill of 'caller': 2"]
