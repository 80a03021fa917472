"""A pool of 50 runners and 5,000 calls, on a network and with runners that fail at random, in simulated time."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from curb_client.errors import RunnerUnreachableError
from curb_client.host import (
    Ask,
    Backoff,
    CallCut,
    Gap,
    JournalRecord,
    LostRecords,
    RunnerClient,
    RunnerLost,
    RunnerPool,
)
from tests.host.simulated import Faults, JumpingLoop, SimulatedRunner, SimulatedTransport, World

RUNNERS = 50
CALLS_A_RUNNER = 100
AT_ONCE = 40
FAULTS = Faults(request_lost=0.05, answer_lost=0.2, silent=0.01, refused=0.01, stream_broken=0.02)


def run(simulation: Coroutine[Any, Any, None]) -> None:
    loop = JumpingLoop()
    try:
        loop.run_until_complete(simulation)
    finally:
        loop.close()


class Host:
    """One host, with an account of what its pool told it."""

    def __init__(self, world: World, runners: list[SimulatedRunner]) -> None:
        self.world = world
        backoff = Backoff(0.2, 5.0, world.rng)
        clients = {
            runner.name: RunnerClient(
                f"{runner.name}.test", "token", transport=SimulatedTransport(runner), backoff=backoff
            )
            for runner in runners
        }
        self.pool = RunnerPool(clients, dead_after=30.0, backoff=backoff, rng=world.rng)
        self.records: Counter[tuple[str, str, int]] = Counter()
        self.ended: Counter[str] = Counter()
        self.cut: Counter[str] = Counter()
        self.lost: list[RunnerLost] = []
        self.missing: list[Any] = []

    async def watch(self) -> None:
        async for name, item in self.pool.items():
            if isinstance(item, JournalRecord):
                if item.producer != "runner":
                    self.records[name, item.producer, item.seq] += 1
                    self.ended[item.producer] += item.ends_call
            elif isinstance(item, CallCut):
                self.cut[item.session_id] += 1
            elif isinstance(item, RunnerLost):
                self.lost.append(item)
            elif isinstance(item, (Gap, LostRecords)):
                self.missing.append((name, item))

    async def place(self, call: str) -> None:
        await asyncio.sleep(self.world.rng.uniform(0, 100))
        while True:
            try:
                await self.pool.start_call(
                    session_id=call, realtime_url="ws://livekit", realtime_token="token", wait=3_600
                )
            except RunnerUnreachableError:
                continue  # it goes to the same runner
            return


async def answer(ask: Ask) -> dict[str, Any]:
    return {"of": ask.payload["of"]}


def world_of(seed: int, faults: Faults) -> tuple[World, list[SimulatedRunner]]:
    world = World(random.Random(seed), faults)
    return world, [SimulatedRunner(world, f"runner-{number}", AT_ONCE) for number in range(RUNNERS)]


@pytest.mark.parametrize("seed", range(1, 11) if os.environ.get("CURB_LONG") else [1])
def test_no_call_is_lost_or_doubled(seed: int) -> None:
    async def simulation() -> None:
        world, runners = world_of(seed, FAULTS)
        host = Host(world, runners)
        calls = [f"call-{number}" for number in range(RUNNERS * CALLS_A_RUNNER)]
        async with host.pool as pool:
            pool.on_ask("human.requested", answer)
            watching = asyncio.ensure_future(host.watch())
            troubles = asyncio.ensure_future(trouble(world, runners))
            await asyncio.gather(*(host.place(call) for call in calls))
            await asyncio.wait_for(troubles, 3_600)
            await quiet(host)
            assert not pool.calls
            watching.cancel()
        check(world, host, calls)

    run(simulation())


async def trouble(world: World, runners: list[SimulatedRunner]) -> None:
    """One runner in ten dies, and half of these come back at once or later; another one in ten drains."""
    for runner in runners[::10]:
        await asyncio.sleep(world.rng.uniform(5, 20))
        runner.die()
        if world.rng.random() < 0.5:
            await asyncio.sleep(world.rng.choice([0.0, 10.0, 60.0]))
            runner.begin()
    for runner in runners[5::10]:
        await asyncio.sleep(world.rng.uniform(1, 10))
        runner.drain()


async def quiet(host: Host) -> None:
    """Until no call is known to run, and a while after that: what is told late must not be missed."""
    deadline = asyncio.get_running_loop().time() + 36_000
    while host.pool.calls or host.world.running:
        assert asyncio.get_running_loop().time() < deadline, (host.pool.calls, host.world.running)
        await asyncio.sleep(1)
    await asyncio.sleep(200)


def check(world: World, host: Host, calls: list[str]) -> None:
    assert not world.doubled, "no call ran twice at once"
    assert set(world.runs) == set(calls), "each call ran"
    assert len(world.died_running) > 10, "there was something to survive"
    assert len(world.asked) > 1_000
    again = {call for call, times in world.runs.items() if times > 1}
    assert again <= world.died_running, "a call ran again only where its first runner died before it had answered"
    assert max(host.records.values()) == 1, "no record was told twice"
    assert max(host.ended.values()) == 1
    died = {call for call in world.died_running if host.ended[call] == 0}
    assert {call for call in calls if host.ended[call] == 0} == died, "each call that did not die told its end"
    assert {call for call in calls if host.cut[call]} >= died, "each call that died was said to be lost"
    assert {call for call in calls if host.cut[call]} <= world.died_running, "and no other"
    unanswered = [call for call in world.asked - world.died_running if f"{call} a-1" not in world.replies]
    assert len(unanswered) < len(world.asked) / 20, "asks were answered, but for a few whose call was soon over"
    assert not host.missing, "nothing was left out of any stream"


def test_several_hosts_place_different_calls_on_the_same_runners() -> None:
    async def simulation() -> None:
        world, runners = world_of(3, FAULTS)
        hosts = [Host(world, runners[:10]) for _ in range(3)]
        calls = [[f"call-{number}-{of}" for number in range(200)] for of in range(3)]
        for host in hosts:
            await host.pool.__aenter__()
            host.pool.on_ask("human.requested", answer)
        await asyncio.gather(*(host.place(call) for host, own in zip(hosts, calls, strict=True) for call in own))
        for host in hosts:
            await quiet(host)
            await host.pool.aclose()
        assert not world.doubled
        assert set(world.runs.values()) == {1}
        assert len(world.runs) == 600

    run(simulation())
