"""How a client and an agent come through when one of them freezes or dies, or connections and the server break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from livekit import rtc

import curb_client
from curb_client import AgentState, AgentUnavailableError, RequestMeta
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.faults import Faults
from tests.e2e.conftest import LongJob, Pair, Stage, until
from tests.e2e.test_reconnect import Burst, all_came_through, carries

pytestmark = pytest.mark.livekit_only("embedded", reason="faults are made by the embedded server alone")


@pytest.fixture
def faults(stage: Stage) -> Faults:
    """Those of the test's own room."""
    return stage.server.faults.in_room(stage.room_name)


async def resume(faults: Faults, who: str) -> None:
    faults.force_resume(who)


async def cut(faults: Faults, who: str) -> None:
    faults.cut_signalling(who)


async def begin_anew(faults: Faults, who: str) -> None:
    faults.force_full_reconnect(who)


@pytest.mark.parametrize("who", ["caller", "agent"])
@pytest.mark.parametrize("breaks", [resume, cut, begin_anew])
async def test_a_break_in_the_middle_of_a_burst(
    stage: Stage, faults: Faults, breaks: Callable[[Faults, str], Awaitable[None]], who: str
) -> None:
    for _ in range(4):
        async with stage.client() as call, stage.agent() as agent:
            pair = Pair(stage, call, agent)
            await until(lambda pair=pair: "caller" in pair.agent.room.remote_participants)
            burst = Burst(agent, call.agent)
            await until(lambda burst=burst: len(burst.received) > 5)
            back = asyncio.Event()
            (call if who == "caller" else agent).room.on("reconnected", back.set)
            await breaks(faults, who)
            await asyncio.wait_for(back.wait(), 20)
            if await carries(agent.room, call.room) and await carries(call.room, agent.room):
                await all_came_through(pair, burst, most_lost=None if (breaks, who) == (begin_anew, "caller") else 3)
                return
            await burst.abandon()
    pytest.fail("LiveKit reported that it had reconnected and carried nothing after it, four times in a row")


async def test_an_agent_that_freezes_answers_when_it_goes_on(pair: Pair, faults: Faults) -> None:
    handled: list[Any] = []
    told: list[int] = []

    @pair.agent.on_message("quote")
    def quote(payload: Any, meta: RequestMeta) -> Any:
        handled.append(payload)
        return payload

    pair.client.on("number", lambda payload, meta: told.append(payload["n"]))
    assert await pair.client.ask("quote", 0) == 0
    await until(lambda: "caller" in pair.agent.room.remote_participants)
    with faults.freeze("agent") as fault:
        late = asyncio.ensure_future(pair.client.ask("quote", 1, timeout=30))
        sent = [pair.agent.send.to_client("number", {"n": n}) for n in range(5)]
        with pytest.raises(rtc.RpcError) as failed:
            await pair.client.ask("quote", 2, timeout=0.5, message_id="m-2")
        assert failed.value.code == rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
        assert (handled, told) == ([0], [])
        assert fault.count > 0
    assert await late == 1
    assert await pair.client.ask("quote", 2, message_id="m-2") == 2
    assert sorted(handled) == [0, 1, 2], "each once"
    assert all(await asyncio.gather(*sent))
    await until(lambda: told == [0, 1, 2, 3, 4])


async def test_a_client_that_freezes_misses_nothing(pair: Pair, faults: Faults) -> None:
    told: list[int] = []
    pair.client.on("number", lambda payload, meta: told.append(payload["n"]))
    await until(lambda: "caller" in pair.agent.room.remote_participants)
    with faults.freeze("caller"):
        assert await pair.agent.send.to_client("number", {"n": 1}), "LiveKit took it"
        assert told == []
    await until(lambda: told == [1])


async def test_requests_to_an_agent_that_was_killed_fail_by_their_deadline(pair: Pair, faults: Faults) -> None:
    job = LongJob()
    pair.agent.on_message("job", job.run)
    asking = asyncio.ensure_future(pair.client.ask("job", timeout=2))
    await job.begun()
    faults.kill("agent")
    later = asyncio.ensure_future(pair.client.ask("job", timeout=1))
    for failing in (asking, later):
        with pytest.raises(rtc.RpcError) as failed:
            await asyncio.wait_for(failing, 10)
        assert failed.value.code == rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
    assert not await pair.agent.send.to_client("number", {"n": 1}), "the agent knows that it is out"
    assert pair.agent.undelivered_to_client == {"number": 1}


async def test_an_agent_that_is_missed_gives_way_to_its_successor() -> None:
    async with EmbeddedServer(resume_within=0.5) as server:
        stage = Stage(server, "a-room")
        async with stage.client() as call, stage.agent() as agent:
            job = LongJob()
            agent.on_message("job", job.run)
            asking = asyncio.ensure_future(call.agent.ask("job", timeout=30))
            await job.begun()
            server.faults.kill("agent")
            with pytest.raises(rtc.RpcError) as failed:
                await asyncio.wait_for(asking, 20)
            assert failed.value.code == rtc.RpcError.ErrorCode.RECIPIENT_DISCONNECTED
            await until(lambda: call.agent.presence.state is AgentState.ABSENT)
            async with stage.agent("successor") as successor:
                successor.on_message("job", lambda payload, meta: "done")
                assert await call.agent.ask("job") == "done"


async def test_a_caller_that_was_killed_is_lost_and_does_not_come_back(stage: Stage, faults: Faults) -> None:
    made: list[str] = []

    def token() -> str:
        made.append(stage.token("caller"))
        return made[-1]

    async with stage.agent(), curb_client.join(stage.url, token, rejoin=True) as call:
        await until(lambda: call.agent.presence.is_there)
        form = call.agent.wait_for("show-form", timeout=60)
        faults.kill("caller")
        with pytest.raises(AgentUnavailableError, match="disconnected for good"):
            await asyncio.wait_for(form, 10)
        with pytest.raises(AgentUnavailableError):
            await call.agent.ask("quote", timeout=30)
        assert call.agent.presence.state is AgentState.LOST
    assert len(made) == 1


async def test_a_transport_that_is_cut_is_made_good() -> None:
    async with EmbeddedServer(transport_timeout=6) as server:
        stage = Stage(server, "a-room")
        async with stage.client() as call, stage.agent() as agent:
            handled: list[str] = []

            @agent.on_message("quote")
            def quote(payload: Any, meta: RequestMeta) -> Any:
                handled.append(meta.id)
                return payload

            assert await call.agent.ask("quote", 1, message_id="m-1") == 1
            server.faults.cut_transport("caller")
            for _ in range(30):
                try:
                    assert await call.agent.ask("quote", 2, message_id="m-2", timeout=2) == 2
                except (rtc.RpcError, AgentUnavailableError):
                    continue
                break
            assert handled == ["m-1", "m-2"]


async def test_a_server_that_restarts_has_everybody_back() -> None:
    async with EmbeddedServer() as server:
        stage = Stage(server, "a-room")
        async with stage.client() as call, stage.agent() as agent:
            told: list[int] = []
            job = LongJob()
            agent.on_message("job", job.run)
            agent.on_message("quote", lambda payload, meta: payload)
            call.agent.on("number", lambda payload, meta: told.append(payload["n"]))
            asking = asyncio.ensure_future(call.agent.ask("job", timeout=60))
            await job.begun()
            await server.faults.restart(0.5)
            with pytest.raises(rtc.RpcError):
                await asyncio.wait_for(asking, 20)
            assert await call.agent.ask("quote", 7, timeout=30) == 7
            await until(lambda: call.agent.presence.state is AgentState.READY)
            await until(lambda: "caller" in agent.room.remote_participants)
            assert await agent.send.to_client("number", {"n": 1})
            await until(lambda: told == [1])
