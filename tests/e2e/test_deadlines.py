"""Every request ends on time, and waits for an agent that is late."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import pytest_asyncio
from livekit import rtc

from curb_client import AgentUnavailableError, RequestMeta, connect_agent
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import SETTINGS, Pair, Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLACK_SECONDS = 2.0
"""For a busy machine; LiveKit's own times would be missed by seven seconds."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(livekit: LiveKitServerHandle) -> AsyncIterator[Pair]:
    """One pair for the tests in which the agent is there from the start."""
    stage = Stage(livekit, f"deadlines-{os.getpid()}")
    async with stage.client() as call, stage.agent(settings=SETTINGS) as agent:
        agent.on_message("wait", wait)
        agent.on_message("quick", lambda payload, meta: "done")
        await call.agent.ask("quick")
        yield Pair(stage, call, agent)


async def wait(seconds: Any, meta: RequestMeta) -> str:
    await asyncio.sleep(seconds)
    return f"waited {seconds:g}"


async def error_after(seconds: float, request: Awaitable[Any]) -> Exception:
    """What the request fails with: about when its time is up, and not much later."""
    started = time.monotonic()
    with pytest.raises((rtc.RpcError, AgentUnavailableError)) as failed:
        await request
    took = time.monotonic() - started
    assert seconds - 0.3 <= took < seconds + SLACK_SECONDS, f"{seconds:g} s took {took:.2f} s"
    return failed.value


async def code_after(seconds: float, request: Awaitable[Any]) -> int:
    error = await error_after(seconds, request)
    assert isinstance(error, rtc.RpcError), error
    return error.code


async def unavailable_after(seconds: float, request: Awaitable[Any]) -> AgentUnavailableError:
    error = await error_after(seconds, request)
    assert isinstance(error, AgentUnavailableError), error
    assert abs(error.waited - seconds) < SLACK_SECONDS
    return error


async def test_a_slow_handler_gets_the_whole_time_and_no_more(pair: Pair) -> None:
    client = pair.client
    codes = asyncio.gather(*(code_after(seconds, client.ask("wait", 20, timeout=seconds)) for seconds in (0.2, 1, 3)))
    send = asyncio.ensure_future(code_after(1, client.send("wait", 20, timeout=1)))
    long = asyncio.ensure_future(client.ask("wait", 2, timeout=3.5))
    assert await client.ask("wait", 0.6, timeout=1.5) == "waited 0.6"
    assert await long == "waited 2"
    assert await codes == [1502, 1502, 1502]
    assert await send == 1502
    assert await client.ask("quick", timeout=2) == "done"


async def test_no_time_at_all(pair: Pair) -> None:
    assert await code_after(0, pair.client.ask("wait", 20, timeout=0)) == 1502
    assert await pair.client.ask("quick") == "done"


@pytest.mark.parametrize("way", ["shared", "public"])
async def test_a_request_that_livekit_never_answers_ends_all_the_same(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def never(**_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr("curb_client.room.rpc._can_share", way == "shared")
    monkeypatch.setattr("curb_client.room.rpc._is_rpc_answer", lambda event: False)
    monkeypatch.setattr(pair.call.room.local_participant, "perform_rpc", never)
    requests = [code_after(1, pair.client.ask("quick", timeout=1)) for _ in range(100)]
    assert set(await asyncio.gather(*requests, code_after(1, pair.client.update({}, timeout=1)))) == {1502}
    monkeypatch.undo()
    assert await pair.client.ask("quick", timeout=2) == "done"


async def test_an_absent_agent(stage: Stage) -> None:
    async with stage.client(agent_identity="nobody") as named, stage.client("other") as unnamed:
        default = asyncio.ensure_future(unavailable_after(10, unnamed.agent.ask("quick")))
        requests: tuple[tuple[float, Awaitable[Any]], ...] = (
            (1, named.agent.ask("quick", timeout=1)),
            (0.2, named.agent.send("quick", timeout=0.2)),
            (0, named.agent.update({}, timeout=0)),
        )
        for seconds, request in requests:
            error = await unavailable_after(seconds, request)
            assert error.state == "absent"
            assert "the agent 'nobody' is not in it" in str(error)
        assert (await default).state == "absent"
        assert "an agent (a participant of kind AGENT) is not in it" in str(await default)


async def test_a_room_that_is_not_connected_and_then_is(pair: Pair) -> None:
    room = rtc.Room()
    async with connect_agent(room) as client:
        error = await unavailable_after(0.3, client.ask("quick", timeout=0.3))
        assert error.state == "unconnected"
        assert "await room.connect(url, token)" in str(error)

        early = asyncio.ensure_future(client.ask("quick"))
        await asyncio.sleep(0.3)
        assert not early.done()
        await room.connect(pair.stage.url, pair.stage.token("early"))
        assert await early == "done"
    await room.disconnect()


async def test_an_agent_that_registers_its_methods_late(stage: Stage) -> None:
    async def answer(request: rtc.RpcInvocationData) -> str:
        return '{"reply":"at last"}'

    async with stage.room("late", kind="agent") as room, stage.client() as call:
        error = await unavailable_after(1, call.agent.ask("quick", timeout=1))
        assert error.state == "active"
        assert "the agent 'late' is in the room and has not registered the RPC method curb.message" in str(error)
        error = await unavailable_after(0.3, call.agent.update({}, timeout=0.3))
        assert "has not registered the RPC method curb.update" in str(error)

        early = [asyncio.ensure_future(call.agent.ask("quick", timeout=timeout)) for timeout in (None, 8)]
        await asyncio.sleep(3)
        assert not any(request.done() for request in early)
        room.local_participant.register_rpc_method("curb.message", answer)
        assert await asyncio.gather(*early) == ["at last", "at last"]
        assert call.agent.presence.state == "ready"


async def test_an_agent_that_joins_late(stage: Stage) -> None:
    async with stage.client() as call:
        early = [asyncio.ensure_future(call.agent.ask("quick", timeout=timeout)) for timeout in (None, 10)]
        one_budget = asyncio.ensure_future(code_after(5, call.agent.ask("wait", 20, timeout=5)))
        await asyncio.sleep(3)
        async with stage.agent() as agent:
            agent.on_message("quick", lambda payload, meta: "done")
            agent.on_message("wait", wait)
            assert await asyncio.gather(*early) == ["done", "done"]
            assert await one_budget == 1502
