"""Connections that break in the middle of things: resumed, made anew, lost for good, and joined again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import api, rtc

import curb_client
from curb_client import (
    AgentCall,
    AgentClient,
    AgentPresence,
    AgentRefusedError,
    AgentState,
    AgentUnavailableError,
    ClosedError,
    RequestMeta,
)
from curb_client.testing import LiveKitServer, LiveKitServerHandle
from tests.e2e.conftest import LongJob, Pair, Stage, until

SIGNAL_RECONNECT = rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT
FULL_RECONNECT = rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT
SERVER_LEAVE = rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE
"""The quick way to lose a room for good, for a reason that allows to join it again."""


def expected(number: int) -> dict[str, int]:
    return {"twice": number * 2}


class Burst:
    """Requests and messages without a pause, until it is stopped; a request that fails is tried again."""

    def __init__(self, agent: AgentCall, client: AgentClient) -> None:
        self.handled: Counter[str] = Counter()
        self.received: list[int] = []
        self.sent: list[asyncio.Future[bool]] = []
        self.asks: list[asyncio.Task[None]] = []
        self.retries = 0
        self._agent = agent
        self._client = client
        self._going_on = True
        agent.on_message("double", self._double)
        client.on("number", lambda payload, meta: self.received.append(payload["n"]))
        self._senders = [asyncio.ensure_future(self._ask_on()), asyncio.ensure_future(self._tell_on())]

    async def _double(self, payload: Any, meta: RequestMeta) -> dict[str, int]:
        self.handled[meta.id] += 1
        await asyncio.sleep(0.05)
        return expected(payload["n"])

    async def _ask_on(self) -> None:
        while self._going_on:
            self.asks.append(asyncio.ensure_future(self._ask(len(self.asks))))
            await asyncio.sleep(0.02)

    async def _ask(self, number: int) -> None:
        for _ in range(20):
            try:
                answer = await self._client.ask("double", {"n": number}, message_id=f"m-{number}", timeout=3)
            except (rtc.RpcError, AgentUnavailableError):
                self.retries += 1
            else:
                assert answer == expected(number)
                return
        raise AssertionError(f"request {number} was never answered")

    async def _tell_on(self) -> None:
        while self._going_on:
            self.sent.append(self._agent.send.to_client("number", {"n": len(self.sent)}))
            await asyncio.sleep(0.02)

    async def abandon(self) -> None:
        """Ends what was begun, whatever became of it."""
        self._going_on = False
        running = [*self._senders, *self.asks]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def stop(self) -> None:
        """Returns when everything that was begun has ended."""
        self._going_on = False
        await asyncio.wait_for(asyncio.gather(*self._senders), 10)
        await asyncio.wait_for(asyncio.gather(*self.asks, *self.sent), 60)


async def carries(source: rtc.Room, destination: rtc.Room) -> bool:
    """Whether LiveKit itself still carries text: after a resume it now and then does not, and reports no failure."""
    arrived = asyncio.Event()
    destination.register_text_stream_handler("probe", lambda reader, identity: arrived.set())
    try:
        for _ in range(10):
            sending = asyncio.ensure_future(source.local_participant.send_text("probe", topic="probe"))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(arrived.wait(), 1)
                return True
            sending.cancel()
        return False
    finally:
        destination.unregister_text_stream_handler("probe")


@pytest.mark.parametrize("side", ["client", "agent"])
@pytest.mark.parametrize("scenario", [SIGNAL_RECONNECT, FULL_RECONNECT], ids=["resumed", "made anew"])
async def test_a_reconnect_in_the_middle_of_a_burst(
    stage: Stage, scenario: rtc.SimulateScenarioKind.ValueType, side: str
) -> None:
    for _ in range(4):
        async with stage.client() as call, stage.agent() as agent:
            if await came_through(Pair(stage, call, agent), scenario, side):
                return
    pytest.fail("LiveKit reported that it had reconnected and carried nothing after it, four times in a row")


async def all_came_through(pair: Pair, burst: Burst, most_lost: int | None) -> None:
    """Nothing is doubled; of the messages, no more than so many are lost without anybody hearing of it."""
    received = len(burst.received)
    await until(lambda: len(burst.received) > received, within=20, what="a message after the reconnect")
    await until(lambda: len(burst.asks) > 20)
    await burst.stop()

    assert set(burst.handled) == {f"m-{number}" for number in range(len(burst.asks))}
    assert set(burst.handled.values()) == {1}, "a retry is answered from memory"

    assert await pair.agent.send.to_client("number", {"n": len(burst.sent)})
    await until(lambda: burst.received[-1:] == [len(burst.sent)])
    assert burst.received == sorted(set(burst.received)), "each at most once, and in order"
    dropped = {number for number, delivered in enumerate(burst.sent) if not delivered.result()}
    assert pair.agent.undelivered_to_client.get("number", 0) == len(dropped)
    lost = set(range(len(burst.sent))) - dropped - set(burst.received)
    assert most_lost is None or len(lost) <= most_lost, "no more than was on its way when the connection broke"


async def came_through(pair: Pair, scenario: rtc.SimulateScenarioKind.ValueType, side: str) -> bool:
    """False where LiveKit itself carries nothing any more after its reconnect: that shows nothing of ours."""
    await until(lambda: "caller" in pair.agent.room.remote_participants)
    rooms = {"client": pair.call.room, "agent": pair.agent.room}
    reconnected = asyncio.Event()
    rooms[side].on("reconnected", reconnected.set)
    burst = Burst(pair.agent, pair.client)
    await until(lambda: len(burst.received) > 10)
    await rooms[side].simulate_scenario(scenario)
    await asyncio.wait_for(reconnected.wait(), 15)
    if not await carries(pair.agent.room, pair.call.room) or not await carries(pair.call.room, pair.agent.room):
        await burst.abandon()
        return False
    # To a client whose session begins anew, the agent is not in the room for a while.
    await all_came_through(pair, burst, most_lost=None if (scenario, side) == (FULL_RECONNECT, "client") else 3)
    await until(lambda: pair.client.presence.state is AgentState.READY)
    assert await pair.client.ask("double", {"n": 21}) == expected(21)
    return True


async def test_an_agent_says_again_that_it_is_ready_when_its_connection_was_made_anew(pair: Pair) -> None:
    pair.agent.on_message("quote", lambda payload, meta: payload)
    changes: list[AgentPresence] = []
    await until(lambda: pair.client.presence.state is AgentState.READY)
    pair.client.on_presence(changes.append)
    participant = pair.call.room.remote_participants["agent"]
    await pair.agent.room.simulate_scenario(FULL_RECONNECT)
    await until(lambda: bool(changes) and pair.client.presence.state is AgentState.READY)
    assert pair.call.room.remote_participants["agent"].sid != participant.sid
    assert changes[0] == AgentPresence(AgentState.ABSENT, None)
    assert await pair.client.ask("quote", 1) == 1


# Lost for good


class Watched:
    """A client whose state is waited for, with something of every kind that waits for its agent."""

    def __init__(self, client: AgentClient) -> None:
        self.client = client
        self.states: list[AgentState] = []
        client.on_presence(lambda presence: self.states.append(presence.state))
        self.message = client.wait_for("news", timeout=60)
        self.stream = client.messages("news")


async def test_a_room_that_is_lost_fails_whoever_waits(pair: Pair) -> None:
    watched = Watched(pair.client)
    job = LongJob()
    pair.agent.on_message("job", job.run)
    asking = asyncio.ensure_future(pair.client.ask("job", timeout=60))
    await job.begun()
    await pair.call.room.simulate_scenario(SERVER_LEAVE)
    with pytest.raises(rtc.RpcError):
        await asyncio.wait_for(asking, 10)
    reason = r"the room was disconnected for good \(SERVER_SHUTDOWN\); join it again"
    with pytest.raises(AgentUnavailableError, match=reason) as failed:
        await asyncio.wait_for(watched.message, 10)
    assert failed.value.state == "lost"
    with pytest.raises(AgentUnavailableError, match=reason):
        await asyncio.wait_for(anext(watched.stream), 10)
    with pytest.raises(AgentUnavailableError, match=reason):
        await asyncio.wait_for(pair.client.ask("job", timeout=60), 10)
    assert watched.states[-1] is AgentState.LOST


@asynccontextmanager
async def live_kit_api(server: LiveKitServerHandle) -> Any:
    async with api.LiveKitAPI(server.url.replace("ws", "http", 1), server.api_key, server.api_secret) as livekit:
        yield livekit


class Tokens:
    """Makes tokens, and counts them."""

    def __init__(self, stage: Stage, identity: str = "caller") -> None:
        self.made = 0
        self.fail = False
        self._make: Callable[[], str] = lambda: stage.token(identity)

    def __call__(self) -> str:
        self.made += 1
        if self.fail:
            raise LookupError("no token any more")
        return self._make()


@pytest.mark.parametrize("ending", ["removed", "room deleted", "identity taken"])
async def test_who_was_sent_away_does_not_come_back(
    stage: Stage, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    tokens = Tokens(stage)
    async with curb_client.join(stage.url, tokens, rejoin=True) as call:
        watched = Watched(call.agent)
        async with live_kit_api(stage.server) as livekit:
            if ending == "removed":
                await livekit.room.remove_participant(
                    api.RoomParticipantIdentity(room=stage.room_name, identity="caller")
                )
            elif ending == "room deleted":
                await livekit.room.delete_room(api.DeleteRoomRequest(room=stage.room_name))
            else:
                async with stage.room("caller"):
                    await until(lambda: call.agent.presence.state is AgentState.LOST)
        await until(lambda: call.agent.presence.state is AgentState.LOST)
        with pytest.raises(AgentUnavailableError, match="disconnected for good"):
            await watched.message
        await asyncio.sleep(1)
        assert (tokens.made, call.agent.presence.state) == (1, AgentState.LOST)
    assert problems == []
    assert [record.getMessage() for record in caplog.records if record.name == "curb_client"] == []


# Joined again


async def test_a_lost_room_is_joined_again_with_a_new_token(stage: Stage) -> None:
    tokens = Tokens(stage)
    handled: Counter[str] = Counter()
    running = asyncio.Event()
    let_go = asyncio.Event()
    async with (
        curb_client.join(stage.url, tokens, rejoin=True) as call,
        stage.agent() as agent,
    ):

        @agent.on_message("job")
        async def job(payload: Any, meta: RequestMeta) -> str:
            handled[meta.id] += 1
            running.set()
            await let_go.wait()
            return "done"

        got: list[Any] = []
        call.agent.on("news", lambda payload, meta: got.append(payload["n"]))
        rooms: list[rtc.Room] = []
        call.agent.on_presence(lambda presence: rooms.append(call.room) if presence.is_there else None)
        watched = Watched(call.agent)
        asking = asyncio.ensure_future(call.agent.ask("job", message_id="m-1", timeout=60))
        await asyncio.wait_for(running.wait(), 10)
        lost = call.room
        await lost.simulate_scenario(SERVER_LEAVE)
        with pytest.raises(rtc.RpcError):
            await asyncio.wait_for(asking, 10)
        await until(lambda: tokens.made == 2)
        retry = asyncio.ensure_future(call.agent.ask("job", message_id="m-1"))
        await until(lambda: call.agent.presence.is_there)
        assert (tokens.made, call.room is lost) == (2, False)
        await asyncio.sleep(0.2)
        let_go.set()
        assert await retry == "done"
        assert handled == {"m-1": 1}, "the agent was there all the time, and remembers"
        assert rooms[-1] is call.room, "a callback that hears of the agent sees the room that it is in"

        await until(lambda: "caller" in agent.room.remote_participants)
        assert await agent.send.to_client("news", {"n": 1})
        assert await asyncio.wait_for(watched.message, 10) == {"n": 1}
        assert (await asyncio.wait_for(anext(watched.stream), 10))[0] == {"n": 1}
        assert got == [1]
        assert AgentState.LOST not in watched.states
        with pytest.raises(AgentRefusedError):
            await call.agent.ask("other")


async def test_a_request_that_waits_for_the_agent_survives_joining_again(stage: Stage) -> None:
    tokens = Tokens(stage)
    async with curb_client.join(stage.url, tokens, rejoin=True) as call:
        asking = asyncio.ensure_future(call.agent.ask("quote", 7, timeout=30))
        for made in (2, 3):
            await call.room.simulate_scenario(SERVER_LEAVE)
            await until(lambda made=made: tokens.made == made)
            await until(lambda: call.agent.presence.state is AgentState.ABSENT)
        async with stage.agent() as agent:
            agent.on_message("quote", lambda payload, meta: payload)
            assert await asking == 7


async def test_joining_again_is_given_up_in_time_and_says_why(stage: Stage) -> None:
    tokens = Tokens(stage)
    async with curb_client.join(stage.url, tokens, rejoin=True, rejoin_timeout=1.2) as call:
        watched = Watched(call.agent)
        asking = asyncio.ensure_future(call.agent.ask("quote", timeout=60))
        tokens.fail = True
        await call.room.simulate_scenario(SERVER_LEAVE)
        for waiting in (asking, watched.message, asyncio.ensure_future(anext(watched.stream))):
            with pytest.raises(AgentUnavailableError, match=r"joining it again failed for 1.2 s: no token any more"):
                await asyncio.wait_for(waiting, 10)
        assert tokens.made > 2
        assert watched.states[-1] is AgentState.LOST


async def test_a_call_may_be_left_while_it_is_joined_again(stage: Stage) -> None:
    tokens = Tokens(stage)
    async with curb_client.join(stage.url, tokens, rejoin=True) as call:
        watched = Watched(call.agent)
        tokens.fail = True
        await call.room.simulate_scenario(SERVER_LEAVE)
        await until(lambda: tokens.made > 1)
        assert call.agent.presence.state is AgentState.UNCONNECTED
    with pytest.raises(ClosedError):
        await watched.message
    made = tokens.made
    await asyncio.sleep(1)
    assert tokens.made == made


@pytest.mark.livekit_only("server", reason="a fault: the process of livekit-server is killed")
async def test_a_server_that_died_and_came_back() -> None:
    """The SDK gives a room up after 26 seconds: one test for what happens until then, and after."""
    async with LiveKitServer() as server:
        stage = Stage(server, "phoenix")
        tokens = Tokens(stage, "stays")
        async with (
            stage.client("leaves") as leaves,
            curb_client.join(stage.url, tokens, rejoin=True) as stays,
        ):
            job = LongJob()
            async with stage.agent() as agent:
                agent.on_message("job", job.run)
                gone, kept = Watched(leaves.agent), Watched(stays.agent)
                asking = asyncio.ensure_future(leaves.agent.ask("job", timeout=60))
                await job.begun()

                assert server.pid is not None
                os.kill(server.pid, signal.SIGKILL)
                late = asyncio.ensure_future(leaves.agent.ask("job", timeout=4))
                with pytest.raises((rtc.RpcError, AgentUnavailableError)):
                    await asyncio.wait_for(late, 8)
                await until(lambda: AgentState.LOST in gone.states, within=60, what="the loss of the room")
                with pytest.raises(rtc.RpcError):
                    await asyncio.wait_for(asking, 10)
                with pytest.raises(AgentUnavailableError, match="disconnected for good"):
                    await asyncio.wait_for(gone.message, 10)
                await until(lambda: tokens.made > 1, within=60, what="asking for another token")
                assert stays.agent.presence.state is AgentState.UNCONNECTED

            address = server.address
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            assert server.address == address
            async with stage.agent("new-agent") as agent:
                agent.on_message("quote", lambda payload, meta: payload)
                assert await stays.agent.ask("quote", 7, timeout=30) == 7
                await until(lambda: "stays" in agent.room.remote_participants)
                assert await agent.send.to_client("news", {"n": 1})
                assert await asyncio.wait_for(kept.message, 10) == {"n": 1}
            assert AgentState.LOST not in kept.states
            assert leaves.agent.presence.state is AgentState.LOST
