"""Many requests and messages at once; the agent has a process, and a loop, of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import curb_client
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import Stage, until

AGENT = """
import asyncio, collections, contextlib, sys
import curb_client

url, token = sys.argv[1:]

async def main():
    async with curb_client.connect_room(url, token) as room, curb_client.AgentCall(room) as agent:
        gates = collections.defaultdict(asyncio.Event)

        @agent.on_message("double")
        async def double(payload, meta):
            return payload * 2

        @agent.on_message("slow")
        async def slow(payload, meta):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(gates[meta.sender_identity].wait(), 20)
            return payload

        @agent.on_message("let-go")
        def release(payload, meta):
            gates[meta.sender_identity].set()

        @agent.on_message("burst")
        def burst(payload, meta):
            for number in range(payload):
                agent.send.to_client("number", {"n": number}, to=meta.sender_identity)

        @agent.on_message("undelivered")
        def undelivered(payload, meta):
            return dict(agent.undelivered_to_client)

        await agent.ready()
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def busy(livekit: LiveKitServerHandle) -> Iterator[Stage]:
    """A room with that agent in it."""
    stage = Stage(livekit, f"busy-{os.getpid()}")
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, stage.url, stage.token("agent", kind="agent")],
        env={**os.environ, "PYTHONPATH": str(Path(curb_client.__file__).parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield stage
            process.stdin.close()
            assert process.wait(20) == 0
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize(
    ("shared", "count"), [(True, 1000), (False, 300)], ids=["one subscription", "public interface"]
)
async def test_hundreds_of_requests_at_once(
    busy: Stage, shared: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the SDK's public interface, each costs as much as there are others under way."""
    if not shared:
        monkeypatch.setattr("curb_client.room.rpc._can_share", False)
    async with busy.client() as call:
        asks = [call.agent.ask("double", number, timeout=60) for number in range(count)]
        assert await asyncio.gather(*asks) == [number * 2 for number in range(count)]


async def test_two_thousand_requests_a_hundred_in_flight_and_one_more(busy: Stage) -> None:
    numbers = iter(range(2000))
    answers: dict[int, Any] = {}

    async with busy.client() as call:

        async def one_after_the_other() -> None:
            for number in numbers:
                answers[number] = await call.agent.ask("double", number)

        await asyncio.gather(*(one_after_the_other() for _ in range(100)))
        assert answers == {number: number * 2 for number in range(2000)}
        assert await call.agent.ask("double", 21) == 42


@pytest.mark.parametrize("shared", [True, False], ids=["one subscription", "public interface"])
async def test_a_quick_request_behind_two_hundred_slow_ones(
    busy: Stage, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shared:
        monkeypatch.setattr("curb_client.room.rpc._can_share", False)
    async with busy.client(f"caller-{shared}") as call:
        assert await call.agent.ask("double", 1) == 2
        slow = [asyncio.ensure_future(call.agent.ask("slow", number, timeout=60)) for number in range(200)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(call.agent.ask("double", 2), 2) == 4
        assert not any(request.done() for request in slow)
        await call.agent.send("let-go")
        assert await asyncio.gather(*slow) == list(range(200))


async def test_a_thousand_messages_arrive_once_each_and_in_order(busy: Stage) -> None:
    got: list[int] = []
    async with busy.client("listener") as call:
        call.agent.on("number", lambda payload, meta: got.append(payload["n"]))
        await call.agent.send("burst", 1000)
        await until(lambda: len(got) >= 1000, within=60, what="a thousand messages")
        await asyncio.sleep(0.2)
        assert got == list(range(1000))
        assert await call.agent.ask("undelivered") == {}
        counts = call.agent.counts
        assert (counts.malformed, counts.incomplete, counts.late, counts.unhandled) == (0, 0, 0, {})
