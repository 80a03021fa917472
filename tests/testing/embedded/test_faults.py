"""What goes wrong on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from livekit import rtc

from curb_client import UsageError
from curb_client.testing import CurbCall
from curb_client.testing.embedded import EmbeddedServer
from tests.testing.embedded.conftest import Stage, ask, events, is_active, serve_echo, until


async def pair(stage: Stage) -> tuple[rtc.Room, rtc.Room, list[bytes]]:
    """A caller, an agent with an echo, and the packets that come to the agent."""
    agent = await stage.join("agent", kind="agent")
    caller = await stage.join("caller")
    serve_echo(agent)
    heard: list[bytes] = []
    agent.on("data_received", lambda packet: heard.append(packet.data))
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
    return caller, agent, heard


async def publish(room: rtc.Room, *packets: bytes) -> None:
    for packet in packets:
        await room.local_participant.publish_data(packet, topic="t")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("drop", [b"2", b"3"]),
        ("duplicate", [b"1", b"1", b"2", b"3"]),
        ("reorder", [b"2", b"1", b"3"]),
        ("corrupt", [b"?", b"2", b"3"]),
    ],
)
@pytest.mark.parametrize("only", [{"direction": "from", "participant": "caller"}, {"direction": "to"}, {}])
async def test_packets(stage: Stage, kind: str, expected: list[bytes], only: Any) -> None:
    caller, _, heard = await pair(stage)
    with getattr(stage.server.faults, kind)(1, topic="t", **only) as fault:
        await publish(caller, b"1", b"2", b"3")
        await until(lambda: len(heard) == len(expected))
    assert heard == expected
    assert fault.count == 1
    assert stage.server.faults.report() == [str(fault)]


async def test_a_resume_that_is_forced(stage: Stage) -> None:
    caller, _, _ = await pair(stage)
    told = events(caller, "reconnected")
    stage.server.faults.force_resume("caller")
    await until(lambda: told)
    assert await ask(caller, "agent") == "caller:hello"


async def test_a_curb_call_that_no_fault_is_for(server: EmbeddedServer) -> None:
    async with CurbCall(server) as call:
        call.agent.on_message("quote", lambda payload, meta: {"price": 1})
        with server.faults.corrupt(1, method="curb.message", direction="to", participant="nobody") as fault:
            assert await call.client.ask("quote") == {"price": 1}
    assert fault.count == 0


async def test_arguments_that_make_no_sense(server: EmbeddedServer) -> None:
    faults: Any = server.faults
    calls: list[tuple[str, Callable[[], object]]] = [
        ("n", lambda: faults.drop(0)),
        ("seconds", lambda: faults.delay(1, -1)),
        ("direction", lambda: faults.drop(1, direction="up")),
        ("rate", lambda: faults.lose_datagrams(2)),
        ("status", lambda: faults.refuse_joins(200)),
        ("participant", lambda: faults.kill("nobody")),
    ]
    for name, wrong in calls:
        with pytest.raises(UsageError, match=name):
            wrong()
