"""``make bench``: what the client costs over the raw SDK, as ratios measured in one run, interleaved.

And what a test costs on the embedded server, over livekit-server: see :mod:`bench.servers`; what a runner's messages
and a host's decoding cost: :mod:`bench.messages`, :mod:`bench.events`; a CrabTalk client: :mod:`bench.crabtalk`.

The agent runs in a process of its own. "raw" is the SDK's ``perform_rpc`` with the same text to the same AgentCall:
what the client costs. "raw echo" goes to a raw RPC method of the same participant: what client and AgentCall cost.
CPU is that of both processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import random
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.crabtalk import TARGETS as CRABTALK_TARGETS
from bench.crabtalk import measure_crabtalk, print_crabtalk
from bench.events import TARGET as EVENTS_TARGET
from bench.events import bench_events
from bench.messages import TARGETS as MESSAGE_TARGETS
from bench.messages import measure_messages, print_messages
from bench.model import TARGETS as READING_TARGETS
from bench.model import measure_reading, print_reading
from bench.servers import TARGETS as SERVER_TARGETS
from bench.servers import measure_servers, print_servers
from curb_client import Call, join
from curb_client.testing import livekit_server

ROUNDS = 40
CALLS_A_ROUND = 10
BURST = 1_000
BURST_ROUNDS = 3
SEMAPHORES = (16, 32, 64)
SIZES = (("100 B", 100), ("15 KB random text", 15_000))
TARGETS = {"latency": 1.05, "cpu": 1.10, "burst": 1.3}

Exchange = Callable[[str], Awaitable[Any]]


def exchanges(call: Call, agent: str) -> dict[str, Exchange]:
    """The ways to have a text echoed."""

    async def perform_rpc(method: str, payload: str) -> str:
        return await call.room.local_participant.perform_rpc(
            destination_identity=agent, method=method, payload=payload, response_timeout=60
        )

    async def raw_echo(text: str) -> str:
        return await perform_rpc("raw.echo", text)

    async def raw(text: str) -> Any:
        request = json.dumps({"key": "echo", "id": str(uuid.uuid4()), "payload": text})
        return json.loads(await perform_rpc("curb.message", request))["reply"]

    async def ask(text: str) -> Any:
        return await call.agent.ask("echo", text, timeout=60)

    return {"raw echo": raw_echo, "raw": raw, "ask": ask}


async def cpu_seconds(call: Call) -> float:
    """CPU used so far by this process and the agent's."""
    return time.process_time() + float(await call.agent.ask("cpu"))


async def measure_calls(call: Call, ways: dict[str, Exchange], size: int) -> dict[str, Any]:
    """Rounds of ten calls of each kind in turn, in changing order; medians and their ratios."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name in random.Random(number).sample(list(ways), len(ways)):
            texts = [os.urandom(size).hex()[:size] for _ in range(CALLS_A_ROUND)]
            before = await cpu_seconds(call)
            took = []
            for text in texts:
                started = time.perf_counter()
                await ways[name](text)
                took.append(time.perf_counter() - started)
            used = await cpu_seconds(call) - before
            if number:  # the first round warms up
                seconds[name] += took
                cpu[name].append(used / CALLS_A_ROUND)
    latency = {name: statistics.median(values) * 1000 for name, values in seconds.items()}
    cost = {name: statistics.median(values) * 1000 for name, values in cpu.items()}
    return {
        "ms": latency,
        "cpu_ms": cost,
        "latency_ratio": latency["ask"] / latency["raw"],
        "cpu_ratio": cost["ask"] / cost["raw"],
        "both_sides_latency_ratio": latency["ask"] / latency["raw echo"],
        "both_sides_cpu_ratio": cost["ask"] / cost["raw echo"],
    }


async def burst(exchange: Exchange, limit: int | None = None) -> dict[str, Any]:
    """A thousand calls at once, at most ``limit`` of them in flight."""
    slots = asyncio.Semaphore(limit or BURST)

    async def one(number: int) -> None:
        async with slots:
            await exchange(str(number))

    started = time.perf_counter()
    results = await asyncio.gather(*(one(number) for number in range(BURST)), return_exceptions=True)
    failed = sum(isinstance(result, BaseException) for result in results)
    return {"seconds": time.perf_counter() - started, "failed": failed}


async def measure_bursts(raw: Exchange, ask: Exchange) -> dict[str, Any]:
    """Bursts of each kind in turn; the raw one without a limit once, at the end, since it floods the room."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(BURST_ROUNDS):
        runs.setdefault("ask", []).append(await burst(ask))
        for limit in SEMAPHORES:
            runs.setdefault(f"raw, {limit} in flight", []).append(await burst(raw, limit))
    runs["raw, no limit"] = [await burst(raw)]
    medians = {
        name: {
            "seconds": statistics.median(run["seconds"] for run in kind),
            "failed": sum(run["failed"] for run in kind),
        }
        for name, kind in runs.items()
    }
    best = min(medians[f"raw, {limit} in flight"]["seconds"] for limit in SEMAPHORES)
    return {"runs": medians, "ratio_to_best_limit": medians["ask"]["seconds"] / best}


async def bench() -> dict[str, Any]:
    room = f"bench-{uuid.uuid4().hex[:8]}"
    with livekit_server(progress=print) as server:
        agent = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bench.agent",
            env={**os.environ, "LIVEKIT_URL": server.url, "LIVEKIT_TOKEN": server.token("echo", room, kind="agent")},
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            async with join(server.url, server.token("bench", room)) as call:
                ways = exchanges(call, "echo")
                await ways["ask"]("warm")
                calls = {name: await measure_calls(call, ways, size) for name, size in SIZES}
                bursts = await measure_bursts(ways["raw"], ways["ask"])
        finally:
            assert agent.stdin is not None
            agent.stdin.close()
            await asyncio.wait_for(agent.wait(), 30)
    servers = await measure_servers()
    reading = measure_reading()
    messages = await measure_messages()
    events = bench_events()
    crabtalk = await measure_crabtalk()
    packages = {name: metadata.version(name) for name in ("curb-client", "livekit")}
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()}
    return {
        "calls": calls,
        "bursts": bursts,
        "servers": servers,
        "reading": reading,
        "messages": messages,
        "events": events,
        "crabtalk": crabtalk,
        "targets": {
            **TARGETS,
            **SERVER_TARGETS,
            **READING_TARGETS,
            **MESSAGE_TARGETS,
            "events": EVENTS_TARGET,
            "crabtalk": CRABTALK_TARGETS,
        },
        "versions": packages,
        "machine": machine,
    }


def print_table(result: dict[str, Any]) -> None:
    print("one call: ask to raw, targets 1.05 for latency and 1.10 for CPU; and to a raw echo, both sides")
    print(f"{'':24}{'raw ms':>8}{'ask ms':>8}{'latency':>9}{'CPU':>7}{'both: latency':>15}{'CPU':>7}")
    for name, row in result["calls"].items():
        print(
            f"{name:24}{row['ms']['raw']:8.2f}{row['ms']['ask']:8.2f}{row['latency_ratio']:9.3f}{row['cpu_ratio']:7.3f}"
            f"{row['both_sides_latency_ratio']:15.3f}{row['both_sides_cpu_ratio']:7.3f}"
        )
    print(f"\n{'1,000 calls at once':24}{'seconds':>10}{'failed':>10}")
    for name, row in result["bursts"]["runs"].items():
        print(f"{name:24}{row['seconds']:10.2f}{row['failed']:10d}")
    print(f"ask to the best limit: {result['bursts']['ratio_to_best_limit']:.2f}   target 1.3")
    print_servers(result["servers"])
    print_reading(result["reading"])
    print_messages(result["messages"])
    print_crabtalk(result["crabtalk"])
    print(f"a stream decoded and checked, to bare json.loads: {result['events']['ratio']:.2f}   target {EVENTS_TARGET}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the result")
    arguments = parser.parse_args()
    logging.getLogger("livekit").setLevel(logging.CRITICAL)  # the flooded room of the last burst
    result = asyncio.run(bench())
    print_table(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
