"""What a pool does with each answer of a runner; many at once are in test_simulation.py."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from curb_client.errors import NoRunnerError, RunnerInvalidRequestError, RunnerUnreachableError, UsageError
from curb_client.host import Backoff, CallCut, JournalRecord, RunnerClient, RunnerLost, RunnerPool
from curb_client.host.transport import Answer, Request
from tests.host.scripted_runner import ended, turn
from tests.host.simulated import Faults, SimulatedRunner, SimulatedTransport, World
from tests.host.test_simulation import run

Simulation = Callable[[], Coroutine[Any, Any, None]]


def simulated(simulation: Simulation) -> Callable[[], None]:
    """A test in simulated time."""

    def test() -> None:
        run(simulation())

    test.__name__ = simulation.__name__
    return test


def world() -> World:
    return World(random.Random(1), Faults())


def pool_of(*runners: SimulatedRunner, transport: Any = SimulatedTransport, **options: Any) -> RunnerPool:
    backoff = Backoff(0.2, 5.0, random.Random(1))
    clients = {
        runner.name: RunnerClient(runner.name, "token", transport=transport(runner), backoff=backoff)
        for runner in runners
    }
    return RunnerPool(clients, backoff=backoff, rng=random.Random(1), **options)


async def start(pool: RunnerPool, call: str, **more: Any) -> str:
    return (await pool.start_call(session_id=call, realtime_url="ws://l", realtime_token="t", **more)).runner


@simulated
async def test_calls_go_to_the_least_loaded() -> None:
    small, large = SimulatedRunner(w := world(), "small", 2), SimulatedRunner(w, "large", 8)
    async with pool_of(small, large) as pool:
        placed = [await start(pool, f"call-{number}") for number in range(10)]
    assert (placed.count("small"), placed.count("large")) == (2, 8)


@simulated
async def test_nobody_takes_it() -> None:
    full, draining, dead = (SimulatedRunner(w, name, 1) for w in [world()] for name in ("full", "draining", "dead"))
    draining.drain()
    dead.die()
    async with pool_of(full, draining, dead) as pool:
        assert await start(pool, "call-1") == "full"
        with pytest.raises(NoRunnerError, match="no runner of the pool takes the call 'call-2'") as raised:
            await start(pool, "call-2")
        assert raised.value.reasons.keys() == {"full", "draining", "dead"}
        assert "runner_at_capacity" in raised.value.reasons["full"]
        assert "no connection" in raised.value.reasons["dead"]
        assert pool.runners == {"full": "open", "draining": "draining", "dead": "unreachable"}
        assert await start(pool, "call-2", wait=600) == "full", "once the first call has ended"
    async with RunnerPool() as empty:
        with pytest.raises(NoRunnerError, match="it has none"):
            await start(empty, "call-1")


@simulated
async def test_a_call_that_runs_already_stays_where_it_is() -> None:
    runners = [SimulatedRunner(w, name, 4) for w in [world()] for name in ("a", "b", "c")]
    async with pool_of(*runners) as pool:
        first = await start(pool, "call-1")
    async with pool_of(*runners) as another_host:
        assert another_host.calls == {"call-1": first}
        placed = await another_host.start_call(session_id="call-1", realtime_url="ws://l", realtime_token="t")
        assert (placed.runner, placed.accepted) == (first, False)
        assert another_host.runner_of("call-1") is placed.client
        with pytest.raises(UsageError, match="no runner of this pool is known to hold the call 'call-2'"):
            another_host.runner_of("call-2")


@simulated
async def test_a_start_without_an_answer_is_placed_nowhere_else() -> None:
    class Mute(SimulatedTransport):
        async def request(self, request: Request) -> Answer:
            answer = await super().request(request)
            if self.runner.name == "mute" and request.method == "POST":
                raise RunnerUnreachableError("the answer was lost", maybe_taken=True)
            return answer

    mute, other = SimulatedRunner(w := world(), "mute", 9), SimulatedRunner(w, "other", 1)
    async with pool_of(mute, other, transport=Mute, dead_after=1.0) as pool:
        with pytest.raises(RunnerUnreachableError) as raised:
            await start(pool, "call-1")
        assert raised.value.maybe_taken
        while True:
            try:
                placed = await start(pool, "call-1")
            except RunnerUnreachableError:
                continue
            break
        assert placed == "mute", "as its stream has told the call's end"
    assert w.runs == {"call-1": 1}
    assert not other.states


@simulated
async def test_a_start_that_every_runner_would_refuse_is_raised() -> None:
    class Strict(SimulatedTransport):
        async def request(self, request: Request) -> Answer:
            if request.method == "POST":
                return Answer(400, b'{"error":"invalid_request"}')
            return await super().request(request)

    runners = [SimulatedRunner(w, name, 4) for w in [world()] for name in ("a", "b")]
    async with pool_of(*runners, transport=Strict) as pool:
        with pytest.raises(RunnerInvalidRequestError):
            await start(pool, "call-1")


@simulated
async def test_the_calls_of_a_dead_runner_are_told() -> None:
    runner = SimulatedRunner(world(), "a", 4)
    async with pool_of(runner, dead_after=5.0) as pool:
        everything, view = pool.items(), pool.call_events("call-1")
        await start(pool, "call-1")
        runner.die()
        items = [item async for item in view]
        assert items[-1] == CallCut("call-1", "runner_lost")
        assert pool.runners == {"a": "dead"}
        assert pool.calls == {}
        told = []
        async for _, item in everything:
            told.append(item)
            if isinstance(item, CallCut):
                break
        assert isinstance(told[-2], RunnerLost)
        assert told[-2].calls == ("call-1",)
        runner.begin()
        again = pool.call_events("call-2")
        assert await start(pool, "call-2", wait=600) == "a"
        assert isinstance([item async for item in again][-1], JournalRecord)


@simulated
async def test_a_process_that_ended_is_known_sooner() -> None:
    runner = SimulatedRunner(world(), "a", 4)
    async with pool_of() as pool:
        client = RunnerClient("a", "token", transport=SimulatedTransport(runner))
        pool.add("a", client, is_alive=lambda: not runner.is_dead)
        view = pool.call_events("call-1")
        await start(pool, "call-1")
        runner.die()
        died = asyncio.get_running_loop().time()
        assert [item async for item in view][-1] == CallCut("call-1", "runner_lost")
        assert asyncio.get_running_loop().time() - died < 3, "of simulated time"


@simulated
async def test_runners_come_and_go() -> None:
    one, two = SimulatedRunner(w := world(), "one", 4), SimulatedRunner(w, "two", 4)
    async with pool_of(one) as pool:
        assert await start(pool, "call-1") == "one"
        with pytest.raises(UsageError, match="has a runner 'one'"):
            pool.add("one", RunnerClient("one", "token"))
        await pool.remove("one")
        assert pool.calls == {}
        with pytest.raises(UsageError, match="has no runner 'one'; it has none"):
            await pool.remove("one")
        pool.add("two", RunnerClient("two", "token", transport=SimulatedTransport(two)))
        assert await start(pool, "call-2") == "two"
        starting = asyncio.ensure_future(start(pool, "call-3"))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="is being placed already"):
            await start(pool, "call-3")
        assert await starting == "two"


@simulated
async def test_a_call_whose_end_waits_behind_a_slow_view_is_not_cut() -> None:
    for forgets in (False, True):
        await follow_slowly(forgets)


async def follow_slowly(forgets: bool) -> None:
    """With a runner that does not know the call any more, or does."""
    runner = SimulatedRunner(world(), "a", 4)
    async with pool_of(runner) as pool:
        everything, view = pool.items(), pool.call_events("call-1")
        reading = asyncio.ensure_future(read(everything, each=1.0))
        await start(pool, "call-1")
        for number in range(1000):
            runner.write(turn(1, "call-1", text=str(number)))
        for task in runner.tasks:
            task.cancel()
        runner.states["call-1"] = "ended"
        runner.write(ended(1, "call-1"))
        if forgets:
            del runner.states["call-1"]
        items = [item async for item in view]
        assert isinstance(items[-1], JournalRecord)
        assert items[-1].ends_call
        reading.cancel()


async def read(view: AsyncIterator[Any], each: float) -> None:
    async for _ in view:
        await asyncio.sleep(each)


@simulated
async def test_calls_of_a_runner_that_restarted_and_passed_the_cursor_are_cut() -> None:
    runner = SimulatedRunner(world(), "a", 4)
    async with pool_of(runner) as pool:
        view = pool.call_events("call-1")
        await start(pool, "call-1")
        runner.die()
        runner.begin()
        for number in range(100):
            runner.write(turn(1, "call-2", text=str(number)))
        assert [item async for item in view][-1] == CallCut("call-1", "restarted")
        assert pool.runners == {"a": "open"}


@simulated
async def test_the_views_of_a_removed_runners_calls_end() -> None:
    one, two = SimulatedRunner(w := world(), "one", 4), SimulatedRunner(w, "two", 4)
    async with pool_of(one) as pool:
        removed, kept = pool.call_events("call-1"), pool.call_events("call-2")
        await start(pool, "call-1")
        await pool.remove("one")
        assert not any(isinstance(item, CallCut) for item in [item async for item in removed])
        pool.add("two", RunnerClient("two", "token", transport=SimulatedTransport(two)))
        await start(pool, "call-2")
        assert isinstance([item async for item in kept][-1], JournalRecord)


@simulated
async def test_a_runner_that_ends_in_order_loses_nothing() -> None:
    runner = SimulatedRunner(world(), "a", 4)
    async with pool_of(runner) as pool:
        everything, view = pool.items(), pool.call_events("call-1")
        await start(pool, "call-1")
        runner.drain()
        assert isinstance([item async for item in view][-1], JournalRecord)
        runner.end()
        await asyncio.sleep(1)
        assert pool.runners["a"] in ("draining", "ended")
        runner.die()
        await asyncio.sleep(60)
        assert pool.runners == {"a": "ended"}
        await pool.aclose()
        assert not [item async for _, item in everything if isinstance(item, (CallCut, RunnerLost))]
