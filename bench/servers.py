"""The embedded server against livekit-server: what a test costs on each, and an ask; interleaved.

A test is: a server up, the app and the agent join (at once, as with the ``curb_call`` fixture), an ask, all down. "up"
for livekit-server is the start of its program, since that is what a test of its own costs there; "kept" is the same
test on a server that was up before and stays up. The clients, and the embedded server, are in this process, as they
are in tests.

For each join the SDK runs ``lsb_release -a`` and ``getconf``, to name the system that it runs on: 20 to 40 ms where
they are installed, on either server. "bare" is the same where they are not, as in slim images.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from curb_client import AgentCall, Call, RequestMeta, connect_room, join
from curb_client.testing import LiveKitServerHandle, livekit_server

__all__ = ["TARGETS", "measure_servers", "print_servers"]

SERVERS = ("embedded", "server")
TEST_ROUNDS = 20
RPC_ROUNDS = 40
ASKS_A_ROUND = 10
TARGETS = {"test seconds": 0.25, "test": 0.5, "rpc": 1.5}
"""Medians of the embedded server, at most; the last two as ratios to livekit-server."""

Measure = Callable[[], Awaitable[float]]


@contextlib.asynccontextmanager
async def call_on(server: LiveKitServerHandle) -> AsyncIterator[Call]:
    """An app's call with an agent that echoes."""
    room = f"bench-{uuid.uuid4().hex[:8]}"
    app = join(server.url, server.token("app", room))
    other = connect_room(server.url, server.token("agent", room, kind="agent"))
    call, agents = await asyncio.gather(app.__aenter__(), other.__aenter__())
    try:
        async with AgentCall(agents) as agent:

            @agent.on_message("echo")
            def echo(payload: Any, meta: RequestMeta) -> Any:
                return payload

            await agent.ready()
            yield call
    finally:
        await asyncio.gather(other.__aexit__(None, None, None), app.__aexit__(None, None, None))


async def kept_test(server: LiveKitServerHandle) -> float:
    """Seconds of a test on a server that is up."""
    started = time.perf_counter()
    async with call_on(server) as call:
        assert await call.agent.ask("echo", 1) == 1
    return time.perf_counter() - started


async def whole_test(choice: str) -> float:
    """Seconds of a test with a server of its own."""
    started = time.perf_counter()
    with livekit_server(choice) as server:
        await kept_test(server)
    return time.perf_counter() - started


def cpu_seconds() -> float:
    """CPU used so far by this process, and by those that it started and that have ended."""
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usage)


async def interleaved(ways: Mapping[str, Measure], rounds: int, times: int = 1) -> dict[str, Any]:
    """So many rounds of each, in changing order: medians, their ratio, and the CPU that they took."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name in random.Random(number).sample(list(ways), len(ways)):
            before = cpu_seconds()
            took = [await ways[name]() for _ in range(times)]
            if number:  # the first round warms up
                seconds[name] += took
                cpu[name].append((cpu_seconds() - before) / times)
    medians = {name: statistics.median(values) * 1000 for name, values in seconds.items()}
    return {
        "ms": medians,
        "cpu_ms": {name: statistics.median(values) * 1000 for name, values in cpu.items()},
        "ratio": medians["embedded"] / medians["server"],
    }


@contextlib.contextmanager
def bare() -> Iterator[None]:
    """No programs on the PATH but Python's."""
    before = os.environ["PATH"]
    os.environ["PATH"] = str(Path(sys.executable).parent)
    try:
        yield
    finally:
        os.environ["PATH"] = before


async def measure_servers() -> dict[str, Any]:
    """Rows of the table, by name."""
    whole = {name: partial(whole_test, name) for name in SERVERS}
    result = {"embedded test": await interleaved(whole, TEST_ROUNDS)}
    with bare():
        result["embedded test, bare"] = await interleaved(whole, TEST_ROUNDS)
    async with contextlib.AsyncExitStack() as stack:
        servers = {name: stack.enter_context(livekit_server(name)) for name in SERVERS}
        kept = {name: partial(kept_test, server) for name, server in servers.items()}
        result["embedded test, kept"] = await interleaved(kept, TEST_ROUNDS)
        with bare():
            result["embedded test, kept, bare"] = await interleaved(kept, TEST_ROUNDS)
        calls = {name: await stack.enter_async_context(call_on(server)) for name, server in servers.items()}
        asks = {name: partial(ask, call) for name, call in calls.items()}
        result["embedded rpc, 100 B"] = await interleaved(asks, RPC_ROUNDS, ASKS_A_ROUND)
    return result


async def ask(call: Call) -> float:
    text = uuid.uuid4().hex * 3  # 96 characters
    started = time.perf_counter()
    assert await call.agent.ask("echo", text, timeout=60) == text
    return time.perf_counter() - started


def print_servers(result: dict[str, Any]) -> None:
    print("\nthe embedded server to livekit-server (CPU of livekit-server: only where the test starts it)")
    print(f"{'':28}{'embedded ms':>12}{'server ms':>11}{'ratio':>8}{'target':>8}{'CPU ms':>9}{'CPU ms':>9}")
    for name, row in result.items():
        target = TARGETS["rpc" if "rpc" in name else "test"]
        print(
            f"{name:28}{row['ms']['embedded']:12.2f}{row['ms']['server']:11.2f}{row['ratio']:8.3f}{target:8.2f}"
            f"{row['cpu_ms']['embedded']:9.1f}{row['cpu_ms']['server']:9.1f}"
        )
    seconds = result["embedded test"]["ms"]["embedded"] / 1000
    print(f"embedded test: {seconds:.3f} s   target {TARGETS['test seconds']}")
