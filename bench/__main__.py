"""``make bench``: what the client costs over the raw SDK, as ratios measured in one run, interleaved.

The agent runs in a process of its own. A raw call goes to a raw RPC method of the same participant, so the ratios
include both sides. CPU is that of both processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from curb_client import Call, join
from curb_client.testing import livekit_server

ROUNDS = 30
CALLS_A_ROUND = 10
BURST = 1_000
BURST_ROUNDS = 3
SEMAPHORES = (16, 32, 64)
SIZES = (("100 B", 100), ("15 KB random text", 15_000))
TARGETS = {"latency": 1.05, "cpu": 1.10, "burst": 1.3}

Exchange = Callable[[str], Awaitable[Any]]


def exchanges(call: Call, agent: str) -> tuple[Exchange, Exchange]:
    """One raw call and one ``ask``, with the same text to carry."""

    async def raw(text: str) -> str:
        return await call.room.local_participant.perform_rpc(
            destination_identity=agent, method="raw.echo", payload=text, response_timeout=60
        )

    async def ask(text: str) -> Any:
        return await call.agent.ask("echo", text, timeout=60)

    return raw, ask


async def cpu_seconds(call: Call) -> float:
    """CPU used so far by this process and the agent's."""
    return time.process_time() + float(await call.agent.ask("cpu"))


async def measure_calls(call: Call, raw: Exchange, ask: Exchange, size: int) -> dict[str, Any]:
    """Rounds of ten raw calls and ten asks in turn; medians and their ratios."""
    seconds: dict[str, list[float]] = {"raw": [], "ask": []}
    cpu: dict[str, list[float]] = {"raw": [], "ask": []}
    for number in range(ROUNDS + 1):
        order = [("raw", raw), ("ask", ask)]
        for name, exchange in order if number % 2 else reversed(order):
            texts = [os.urandom(size).hex()[:size] for _ in range(CALLS_A_ROUND)]
            before = await cpu_seconds(call)
            took = []
            for text in texts:
                started = time.perf_counter()
                await exchange(text)
                took.append(time.perf_counter() - started)
            used = await cpu_seconds(call) - before
            if number:  # the first round warms up
                seconds[name] += took
                cpu[name].append(used / CALLS_A_ROUND)
    latency = {name: statistics.median(values) * 1000 for name, values in seconds.items()}
    cost = {name: statistics.median(values) * 1000 for name, values in cpu.items()}
    return {
        "raw_ms": latency["raw"],
        "ask_ms": latency["ask"],
        "latency_ratio": latency["ask"] / latency["raw"],
        "raw_cpu_ms": cost["raw"],
        "ask_cpu_ms": cost["ask"],
        "cpu_ratio": cost["ask"] / cost["raw"],
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
                raw, ask = exchanges(call, "echo")
                await ask("warm")
                calls = {name: await measure_calls(call, raw, ask, size) for name, size in SIZES}
                bursts = await measure_bursts(raw, ask)
        finally:
            assert agent.stdin is not None
            agent.stdin.close()
            await asyncio.wait_for(agent.wait(), 30)
    packages = {name: metadata.version(name) for name in ("curb-client", "livekit")}
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    return {"calls": calls, "bursts": bursts, "targets": TARGETS, "versions": packages, "machine": machine}


def print_table(result: dict[str, Any]) -> None:
    print(f"{'one call':24}{'raw ms':>10}{'ask ms':>10}{'ratio':>8}{'CPU ratio':>11}   targets 1.05 and 1.10")
    for name, row in result["calls"].items():
        print(f"{name:24}{row['raw_ms']:10.2f}{row['ask_ms']:10.2f}{row['latency_ratio']:8.3f}{row['cpu_ratio']:11.3f}")
    print(f"\n{'1,000 calls at once':24}{'seconds':>10}{'failed':>10}")
    for name, row in result["bursts"]["runs"].items():
        print(f"{name:24}{row['seconds']:10.2f}{row['failed']:10d}")
    print(f"ask to the best limit: {result['bursts']['ratio_to_best_limit']:.2f}   target 1.3")


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
