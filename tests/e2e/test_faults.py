"""How a client and an agent come through when LiveKit loses, doubles or spoils what they send, or breaks off."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest
from livekit import rtc

import curb_client
from curb_client import (
    AgentRefusedError,
    AgentState,
    AgentUnavailableError,
    ConnectFailedError,
    InvalidReplyError,
    MessageMeta,
    RequestMeta,
)
from curb_client.testing.embedded.faults import Faults
from tests.e2e.conftest import Pair, Stage, filling_bytes, until

pytestmark = pytest.mark.livekit_only("embedded", reason="faults are made by the embedded server alone")

MESSAGE = "curb.message"
UPDATE = "curb.update"
TIMED_OUT = rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
LOST = (rtc.RpcError.ErrorCode.CONNECTION_TIMEOUT, rtc.RpcError.ErrorCode.RECIPIENT_DISCONNECTED)


@pytest.fixture
def faults(stage: Stage) -> Faults:
    """Those of the test's own room."""
    return stage.server.faults.in_room(stage.room_name)


class Quotes:
    """The agent's handler of ``quote``, which counts what it handled, by id."""

    def __init__(self, pair: Pair) -> None:
        self.handled: Counter[str] = Counter()
        pair.agent.on_message("quote", self._quote)

    def _quote(self, payload: Any, meta: RequestMeta) -> dict[str, Any]:
        self.handled[meta.id] += 1
        return {"asked": payload}


@pytest.fixture
def quotes(pair: Pair) -> Quotes:
    return Quotes(pair)


@pytest.fixture
async def told(pair: Pair) -> list[int]:
    """The numbers that the agent's messages brought to the client, which sees the agent by now, and the agent it."""
    numbers: list[int] = []
    pair.client.on("number", lambda payload, meta: numbers.append(payload["n"]))
    await until(lambda: "caller" in pair.agent.room.remote_participants)
    await until(lambda: pair.client.presence.state is AgentState.READY)
    return numbers


async def tell(pair: Pair, *numbers: int) -> None:
    for number in numbers:
        assert await pair.agent.send.to_client("number", {"n": number})


# Requests


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_what_is_lost_fails_by_its_deadline_and_a_retry_is_handled_once(
    pair: Pair, quotes: Quotes, faults: Faults, lost: str
) -> None:
    direction: Any = "to" if lost == "request" else "from"
    with faults.drop(1, direction=direction, participant="agent", method=MESSAGE) as fault:
        with pytest.raises(rtc.RpcError) as failed:
            await pair.client.ask("quote", 1, timeout=1, message_id="m-1")
        assert failed.value.code == TIMED_OUT
        assert await pair.client.ask("quote", 1, message_id="m-1") == {"asked": 1}
    assert fault.count == 1
    assert quotes.handled == {"m-1": 1}


async def test_requests_that_are_lost_are_sent_again(pair: Pair, quotes: Quotes, faults: Faults) -> None:
    """LiveKit says after seven seconds that nobody has acknowledged them."""
    pair.agent.on_message("hint", lambda payload, meta: None)
    with (
        faults.drop(2, direction="to", participant="agent", method=MESSAGE) as messages,
        faults.drop(1, direction="to", participant="agent", method=UPDATE) as updates,
    ):
        reply, _, settings = await asyncio.gather(
            pair.client.ask("quote", 1, message_id="m-1"),
            pair.client.send("hint", timeout=20),
            pair.client.update({}),
        )
    assert (messages.count, updates.count) == (2, 1)
    assert (reply, settings.tts.voice) == ({"asked": 1}, 1072)
    assert quotes.handled == {"m-1": 1}


async def test_a_request_whose_acknowledgement_and_answer_are_lost_is_handled_once(
    pair: Pair, quotes: Quotes, faults: Faults
) -> None:
    with faults.drop(2, direction="from", participant="agent") as fault:
        assert await pair.client.ask("quote", 1, message_id="m-1") == {"asked": 1}
    assert fault.count == 2
    assert quotes.handled == {"m-1": 1}


async def test_what_is_lost_on_its_way_to_an_agent_is_not_sent_to_the_next(
    pair: Pair, quotes: Quotes, faults: Faults
) -> None:
    with faults.drop(1, direction="to", participant="agent", method=MESSAGE) as fault:
        asking = asyncio.ensure_future(pair.client.ask("quote", 1, timeout=20))
        await until(lambda: fault.count == 1)
        await pair.agent.aclose()
        async with pair.stage.agent() as next_agent:
            next_quotes = Quotes(Pair(pair.stage, pair.call, next_agent))
            with pytest.raises(rtc.RpcError) as failed:
                await asking
    assert failed.value.code in LOST
    assert (quotes.handled, next_quotes.handled) == ({}, {})


async def test_a_request_that_comes_twice_is_handled_once(pair: Pair, quotes: Quotes, faults: Faults) -> None:
    with faults.duplicate(direction="to", participant="agent", method=MESSAGE) as fault:
        answers = await asyncio.gather(*(pair.client.ask("quote", n, message_id=f"m-{n}") for n in range(20)))
    assert answers == [{"asked": n} for n in range(20)]
    assert fault.count == 20
    await pair.client.send("quote", message_id="last")
    assert quotes.handled == {**{f"m-{n}": 1 for n in range(20)}, "last": 1}


async def test_an_answer_that_comes_twice_is_taken_once(pair: Pair, quotes: Quotes, faults: Faults) -> None:
    with faults.duplicate(1, direction="to", participant="caller", method=MESSAGE) as fault:
        assert [await pair.client.ask("quote", n) for n in range(3)] == [{"asked": n} for n in range(3)]
    assert (fault.count, quotes.handled.total()) == (1, 3)


async def test_a_request_that_is_late_is_answered(pair: Pair, quotes: Quotes, faults: Faults) -> None:
    with faults.delay(1, 0.5, direction="to", participant="agent", method=MESSAGE) as fault:
        assert await pair.client.ask("quote", 1) == {"asked": 1}
    assert fault.count == 1


async def test_a_request_that_comes_after_its_deadline_is_not_handled_again(
    pair: Pair, quotes: Quotes, faults: Faults
) -> None:
    with faults.delay(1, 60, direction="to", participant="agent", method=MESSAGE):
        with pytest.raises(rtc.RpcError):
            await pair.client.ask("quote", 1, timeout=0.5, message_id="m-1")
        assert quotes.handled == {}
    await until(lambda: quotes.handled == {"m-1": 1})
    assert await pair.client.ask("quote", 1, message_id="m-1") == {"asked": 1}
    assert quotes.handled == {"m-1": 1}


async def test_requests_out_of_order_each_get_their_own_answer(pair: Pair, quotes: Quotes, faults: Faults) -> None:
    with faults.reorder(direction="to", method=MESSAGE) as fault:
        answers = await asyncio.gather(*(pair.client.ask("quote", n) for n in range(20)))
    assert answers == [{"asked": n} for n in range(20)]
    assert fault.count >= 10


async def test_a_request_that_is_spoilt_is_refused_and_its_id_is_not_taken(
    pair: Pair, quotes: Quotes, faults: Faults
) -> None:
    with faults.corrupt(1, direction="from", participant="caller", method=MESSAGE):
        with pytest.raises(AgentRefusedError) as refused:
            await pair.client.ask("quote", 1, message_id="m-1")
        assert refused.value.code == "invalid_payload"
        assert refused.value.issues
        assert await pair.client.ask("quote", 1, message_id="m-1") == {"asked": 1}
    assert quotes.handled == {"m-1": 1}


async def test_an_answer_that_is_spoilt_is_an_error_and_a_retry_brings_it(
    pair: Pair, quotes: Quotes, faults: Faults
) -> None:
    with faults.corrupt(1, direction="to", participant="caller", method=MESSAGE):
        with pytest.raises(InvalidReplyError):
            await pair.client.ask("quote", 1, message_id="m-1")
        assert await pair.client.ask("quote", 1, message_id="m-1") == {"asked": 1}
    assert quotes.handled == {"m-1": 1}


async def test_an_update_that_is_lost(pair: Pair, faults: Faults) -> None:
    with faults.drop(1, method="curb.update") as fault, pytest.raises(rtc.RpcError):
        await pair.client.update({"tts": {"voice": 17}}, timeout=0.5)
    assert fault.count == 1
    with pytest.raises(AgentRefusedError, match="not_adjustable"):
        await pair.client.update({"tts": {"voice": 17}})


# Messages


async def test_a_message_that_is_spoilt_is_counted_and_warned_of(
    pair: Pair, told: list[int], faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="curb_client")
    with faults.corrupt(2, topic=MESSAGE) as fault:
        await tell(pair, 1, 2, 3)
        await until(lambda: told == [3])
    assert fault.count == 2
    assert pair.client.counts.malformed == 2
    assert sum("malformed" in record.getMessage() for record in caplog.records) == 1, "warned once"


async def test_a_long_message_that_is_spoilt_or_cut_short_does_not_hold_up_the_next(
    pair: Pair, told: list[int], faults: Faults
) -> None:
    long = filling_bytes(200_000)
    pair.client.on("long", lambda payload, meta: told.append(len(payload["text"])))
    for spoils in (faults.corrupt(1, topic=MESSAGE), faults.drop(1, topic=MESSAGE)):
        with spoils as fault:
            assert await pair.agent.send.to_client("long", {"text": long})
            await tell(pair, 1)
            await until(lambda: told[-1:] == [1])
        assert fault.count == 1
        assert told == [1], "what is not whole is not handed out"
        told.clear()
    assert await pair.agent.send.to_client("long", {"text": long})
    await until(lambda: told == [len(long)])


async def test_messages_that_come_twice_have_the_same_id(pair: Pair, told: list[int], faults: Faults) -> None:
    ids: list[str] = []

    def note(payload: Any, meta: MessageMeta) -> None:
        ids.append(meta.id)

    pair.client.on("number", note)
    with faults.duplicate(1, topic=MESSAGE):
        await tell(pair, 1, 2)
        await until(lambda: told == [1, 1, 2])
    assert ids[0] == ids[1] != ids[2]


async def test_messages_that_are_late_or_out_of_order_all_come(pair: Pair, told: list[int], faults: Faults) -> None:
    with faults.delay(1, 60, topic=MESSAGE):
        await tell(pair, 1, 2, 3)
        await until(lambda: told == [2, 3])
    await until(lambda: told == [2, 3, 1])
    with faults.reorder(1, topic=MESSAGE):
        await tell(pair, 4, 5, 6)
        await until(lambda: told[3:] == [5, 4, 6])
    assert pair.client.counts.malformed == pair.client.counts.incomplete == 0


async def test_a_message_that_is_lost_leaves_the_others_alone(pair: Pair, told: list[int], faults: Faults) -> None:
    with faults.drop(1, direction="to", participant="caller", topic=MESSAGE) as fault:
        await tell(pair, 1, 2, 3)
        await until(lambda: told == [2, 3])
    assert fault.count == 1


# The network


async def test_a_lossy_network_loses_and_doubles_nothing(
    pair: Pair, quotes: Quotes, told: list[int], faults: Faults
) -> None:
    with faults.lose_datagrams(0.1, seed=3) as fault:
        asking = [asyncio.ensure_future(pair.client.ask("quote", n, timeout=30)) for n in range(30)]
        await tell(pair, *range(30))
        assert await asyncio.gather(*asking) == [{"asked": n} for n in range(30)]
        await until(lambda: len(told) == 30, within=30)
    assert told == list(range(30)), "in order"
    assert set(quotes.handled.values()) == {1}
    assert fault.count > 0


async def test_a_narrow_network_makes_waits_longer(pair: Pair, quotes: Quotes, told: list[int], faults: Faults) -> None:
    text = filling_bytes(15_000)
    with faults.limit_bandwidth(50_000, participant="agent") as fault:
        assert await pair.client.ask("quote", text, timeout=30) == {"asked": text}
        await tell(pair, 1, 2)
        await until(lambda: told == [1, 2], within=30)
    assert fault.count > 0


# Joins


async def test_joins_that_are_refused_say_why(stage: Stage, faults: Faults) -> None:
    with faults.refuse_joins(403, participant="caller") as fault:
        with pytest.raises(ConnectFailedError, match="403"):
            async with stage.client():
                pass
        async with stage.agent():
            pass
    assert fault.count > 0
    async with stage.client():
        pass


async def test_joins_that_are_slow_end_by_their_deadline(stage: Stage, faults: Faults) -> None:
    too_slow = r"no connection to \S+ after 0.5 s"
    with faults.slow_joins(60, participant="late") as fault, pytest.raises(ConnectFailedError, match=too_slow):
        async with stage.client("late", timeout=0.5):
            pass
    assert fault.count == 1


async def test_a_request_waits_for_an_agent_that_joins_slowly(stage: Stage, faults: Faults) -> None:
    answered = asyncio.Event()

    async def answer() -> None:
        async with stage.agent() as agent:
            agent.on_message("quote", lambda payload, meta: None)
            await asyncio.wait_for(answered.wait(), 60)

    async with stage.client() as call:
        with faults.slow_joins(60, participant="agent") as fault:
            answering = asyncio.ensure_future(answer())
            await until(lambda: fault.count == 1)
            with pytest.raises(AgentUnavailableError) as failed:
                await call.agent.ask("quote", timeout=0.2)
            assert failed.value.state == "absent"
            sending = asyncio.ensure_future(call.agent.send("quote", timeout=30))
        await sending
        answered.set()
        await answering


async def test_joining_again_goes_on_while_joins_are_refused(stage: Stage, faults: Faults) -> None:
    async with (
        stage.agent() as agent,
        curb_client.join(stage.url, lambda: stage.token("caller"), rejoin=True) as call,
    ):
        agent.on_message("quote", lambda payload, meta: "answered")
        assert await call.agent.ask("quote") == "answered"
        with faults.refuse_joins(403, participant="caller") as fault:
            await call.room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE)
            await until(lambda: fault.count > 1)
            asking = asyncio.ensure_future(call.agent.ask("quote", timeout=30))
        assert await asking == "answered"
