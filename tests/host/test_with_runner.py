"""The host's side and the runner's, with each other, in real rooms."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from curb_client import join
from curb_client.errors import (
    RunnerAtCapacityError,
    RunnerHandlerFailedError,
    RunnerNoHandlerError,
    RunnerNotAdjustableError,
    RunnerSessionNotFoundError,
    RunnerUnauthorizedError,
)
from curb_client.host import (
    FileCursorStore,
    JournalRecord,
    Runner,
    RunnerClient,
    RunnerLost,
    RunnerOptions,
    RunnerPool,
    RunnerProcess,
)
from curb_client.protocol.records import CallEnded, EventBody
from curb_client.testing import LiveKitServerHandle
from tests.host.agent import agent
from tests.host.scripted_runner import DEADLINE, TOKEN, until
from tests.host.test_events import take_all

pytestmark = pytest.mark.livekit


@asynccontextmanager
async def a_runner(**options: Any) -> AsyncIterator[RunnerClient]:
    given = RunnerOptions(token=TOKEN, address="127.0.0.1:0", **{"max_sessions": 2, **options})
    async with (
        Runner(agent, given, print_line=lambda line: None) as runner,
        RunnerClient(runner.address, TOKEN) as client,
    ):
        yield client


def room(server: LiveKitServerHandle, call: str) -> dict[str, Any]:
    token = server.token("agent", call, kind="agent")
    return {"session_id": call, "realtime_url": server.url, "realtime_token": token}


async def connected(runner: RunnerClient, call: str) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE
    while (await runner.call(call)).state != "connected":
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)


def ended_because(items: list[Any]) -> str:
    body = items[-1].body
    assert isinstance(body, EventBody)
    details = body.details()
    assert isinstance(details, CallEnded)
    return details.reason


async def test_a_call_from_its_start_to_its_end(curb_livekit: LiveKitServerHandle, tmp_path: Path) -> None:
    store = FileCursorStore(tmp_path / "cursor.json")
    async with a_runner() as runner, runner.follow(store) as host:
        host.on_ask("human.requested", lambda ask: {"topic": ask.payload["topic"], "disposition": "allowed"})
        record = host.call_events("host-1")
        assert (await runner.health()).versions == [1]
        assert (await runner.start_call(**room(curb_livekit, "host-1"), client_context={"tone": "casual"})).accepted
        assert not (await runner.start_call(**room(curb_livekit, "host-1"))).accepted
        await connected(runner, "host-1")
        async with join(curb_livekit.url, curb_livekit.token("caller", "host-1")) as call:
            question = {"name": "human.requested", "payload": {"topic": "refund"}, "timeout": 10}
            reply = await call.agent.ask("ask-host", question, timeout=20)
            assert reply == {"answer": {"topic": "refund", "disposition": "allowed"}}
            assert (await runner.send("host-1", "echo", {"n": 1}, id="m-1")).delivered
            assert not (await runner.send("host-1", "echo", {"n": 1}, id="m-1")).delivered
            with pytest.raises(RunnerNoHandlerError):
                await runner.send("host-1", "unheard", id="m-2")
            with pytest.raises(RunnerHandlerFailedError):
                await runner.send("host-1", "fail", id="m-2")
            assert (await runner.send("host-1", "echo", {"n": 2}, id="m-2")).delivered, "a refusal takes no id"
            assert (await runner.update("host-1", {"tts": {"voice": 17}})).tts.voice == 17
            with pytest.raises(RunnerNotAdjustableError) as refused:
                await runner.update("host-1", {"llm": {"provider": "openai", "model": "x"}})
            assert refused.value.path == "llm"
            status = await runner.status()
            assert (status.active_sessions, status.max_sessions) == (1, 2)
        assert (await runner.stop_call("host-1", reason="done")).stopped in (True, False)  # the caller has left too
        items = await take_all(record)
        assert ended_because(items) in ("done", "caller_left")
        assert [item.seq for item in items if isinstance(item, JournalRecord)] == list(range(1, len(items) + 1))
        assert not (await runner.stop_call("no-such-call")).stopped
        with pytest.raises(RunnerSessionNotFoundError):
            await runner.send("no-such-call", "echo")
    async with RunnerClient(runner.address, TOKEN) as gone:
        state = await store.load()
        assert state is not None
        assert state["cursor"] > len(items)
        assert gone.address == runner.address


async def test_a_wrong_token_and_a_full_runner(curb_livekit: LiveKitServerHandle) -> None:
    async with a_runner(max_sessions=1) as runner:
        async with RunnerClient(runner.address, "another") as stranger:
            assert (await stranger.health()).ok
            with pytest.raises(RunnerUnauthorizedError):
                await stranger.status()
            with pytest.raises(RunnerUnauthorizedError):
                await take_all(stranger.events())
        await runner.start_call(**room(curb_livekit, "host-full-1"))
        with pytest.raises(RunnerAtCapacityError):
            await runner.start_call(**room(curb_livekit, "host-full-2"))


async def test_draining_ends_the_stream(curb_livekit: LiveKitServerHandle) -> None:
    async with a_runner() as runner, runner.follow() as host:
        everything = host.items()
        await runner.start_call(**room(curb_livekit, "host-drain"))
        await connected(runner, "host-drain")
        assert (await runner.drain()).active_sessions == 1
        await runner.stop_call("host-drain", reason="closing time")
        items = await take_all(everything)
    assert [item.record_class for item in items][-1] == "lifecycle"
    assert ended_because([item for item in items if item.producer == "host-drain"]) == "closing time"


async def test_a_pool_of_processes_survives_the_death_of_one(curb_livekit: LiveKitServerHandle) -> None:
    command = [sys.executable, "-m", "curb_client.cli", "runner", "tests.host.agent:agent"]
    environment = {"CURB_MAX_SESSIONS": "4"}
    async with (
        RunnerProcess(command, environment=environment, stop_within=1.0) as one,
        RunnerProcess(command, environment=environment, stop_within=1.0) as two,
        RunnerPool(look_every=0.5) as pool,
    ):
        pool.add("one", one.client(), is_alive=lambda: one.is_running)
        pool.add("two", two.client(), is_alive=lambda: two.is_running)
        everything = pool.items()
        views = {f"pool-{number}": pool.call_events(f"pool-{number}") for number in range(4)}
        placed = {call: await pool.start_call(**room(curb_livekit, call), wait=DEADLINE) for call in views}
        assert {each.runner for each in placed.values()} == {"one", "two"}  # how many each has is as it was heard of
        await asyncio.gather(*(connected(each.client, call) for call, each in placed.items()))
        dead = [call for call, each in placed.items() if each.runner == "one"]
        await one.stop(drain=False)
        for call, view in views.items():
            if call in dead:
                assert ended_because_or_cut(await take_all(view)) in ("runner_shutdown", "runner_lost", "runner_ended")
        again = await pool.start_call(**room(curb_livekit, "pool-again"), wait=DEADLINE)
        assert again.runner == "two"
        living = next(call for call in views if call not in dead)
        assert (await placed[living].client.send(living, "echo", {})).delivered
        await pool.runner_of(living).stop_call(living, reason="done")
        assert ended_because(await take_all(views[living])) == "done"
        await until(lambda: pool.runners["one"] in ("dead", "ended"))
    names = [item for _, item in await take_all(everything) if isinstance(item, RunnerLost)]
    assert all(lost.runner == "one" for lost in names)


def ended_because_or_cut(items: list[Any]) -> str:
    return ended_because(items) if isinstance(items[-1], JournalRecord) else items[-1].cause
