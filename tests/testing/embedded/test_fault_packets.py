"""Data packets that are lost, late, doubled, out of order or spoilt on demand, as the SDK alone sees it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AbstractContextManager
from typing import Any

import pytest
from livekit import rtc

from curb_client.testing.embedded.faults import Fault, Faults
from tests.testing.embedded.conftest import Stage, Texts, ask, code_of, is_active, serve_echo, until

CHUNKED = secrets.token_hex(60_000)
"""Random, so that it is not compressed into one packet."""


class Pair:
    """A caller, an agent with an echo, and what comes to the agent."""

    def __init__(self, stage: Stage, caller: rtc.Room, agent: rtc.Room) -> None:
        self.faults: Faults = stage.server.faults
        self.caller = caller
        self.agent = agent
        self.heard: list[bytes] = []
        self.asked: list[str] = []
        self.reading: list[asyncio.Task[str]] = []
        agent.on("data_received", lambda packet: self.heard.append(packet.data))
        agent.register_text_stream_handler("t", self._read)
        agent.local_participant.register_rpc_method("count", self._count)

    async def _count(self, data: rtc.RpcInvocationData) -> str:
        self.asked.append(data.payload)
        return data.payload

    def _read(self, reader: rtc.TextStreamReader, identity: str) -> None:
        self.reading.append(asyncio.ensure_future(reader.read_all()))

    async def publish(self, *packets: bytes, topic: str = "t") -> None:
        for packet in packets:
            await self.caller.local_participant.publish_data(packet, topic=topic)

    async def say(self, *texts: str) -> None:
        for text in texts:
            await self.caller.local_participant.send_text(text, topic="t")

    @property
    def said(self) -> list[str]:
        """The texts that came to the agent whole, in the order in which they began."""
        return [text.result() for text in self.reading if text.done()]


@pytest.fixture
async def pair(stage: Stage) -> Pair:
    agent = await stage.join("agent", kind="agent")
    caller = await stage.join("caller")
    serve_echo(agent)
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
    return Pair(stage, caller, agent)


def begin(faults: Faults, kind: str, **only: Any) -> AbstractContextManager[Fault]:
    """A fault of the next packet; a delay is one that ends with its block."""
    made: AbstractContextManager[Fault] = (
        faults.delay(1, 60, **only) if kind == "delay" else getattr(faults, kind)(1, **only)
    )
    return made


EFFECTS = [
    ("drop", ["2", "3"], []),
    ("delay", ["2", "3"], ["1"]),
    ("duplicate", ["1", "1", "2", "3"], []),
    ("reorder", ["2", "1", "3"], []),
    ("corrupt", ["?", "2", "3"], []),
]
"""Of the packets 1, 2 and 3: what comes while the fault lasts, and when it is over."""


@pytest.mark.parametrize(("kind", "meanwhile", "after"), EFFECTS)
@pytest.mark.parametrize("only", [{"direction": "from", "participant": "caller"}, {"direction": "to"}, {}])
async def test_user_packets(pair: Pair, kind: str, meanwhile: list[str], after: list[str], only: Any) -> None:
    with begin(pair.faults, kind, topic="t", **only) as fault:
        await pair.publish(b"1", b"2", b"3")
        await until(lambda: len(pair.heard) == len(meanwhile))
        assert str(fault).endswith(": 1 so far")
    await until(lambda: len(pair.heard) == len(meanwhile) + len(after))
    assert [data.decode() for data in pair.heard] == meanwhile + after
    assert (fault.count, fault.is_over) == (1, True)
    assert pair.faults.report() == [str(fault)]


@pytest.mark.parametrize(("kind", "meanwhile", "after"), EFFECTS)
async def test_texts(pair: Pair, kind: str, meanwhile: list[str], after: list[str]) -> None:
    with begin(pair.faults, kind, topic="t", direction="to", participant="agent") as fault:
        await pair.say("1", "2", "3")
        await until(lambda: len(pair.said) == len(meanwhile))
    await until(lambda: len(pair.said) == len(meanwhile) + len(after))
    assert pair.said == meanwhile + after
    assert fault.count == 1


async def test_a_long_text_is_many_packets(pair: Pair) -> None:
    with pair.faults.duplicate(topic="other") as others, pair.faults.delay(None, 0.05, topic="t") as fault:
        await pair.say(CHUNKED)
        await until(lambda: pair.said == [CHUNKED])
    assert fault.count > 5
    assert others.count == 0


async def test_the_delay_ends_by_itself(pair: Pair) -> None:
    with pair.faults.delay(2, 0.2, topic="t") as fault:
        await pair.publish(b"1", b"2")
        await until(lambda: pair.heard == [b"1", b"2"])
    assert fault.count == 2


async def test_what_is_put_back_alone_goes_on_at_the_end(pair: Pair) -> None:
    with pair.faults.reorder(1, topic="t") as fault:
        await pair.publish(b"1")
        await until(lambda: fault.count == 1)
        assert pair.heard == []
    await until(lambda: pair.heard == [b"1"])


# RPC, which is a text stream in this version of the SDK


async def test_an_rpc_request_that_is_lost(pair: Pair) -> None:
    with pair.faults.drop(1, direction="to", participant="agent", method="count") as fault:
        lost = asyncio.ensure_future(ask(pair.caller, "agent", "1", method="count"))
        await until(lambda: fault.count == 1)
        assert await ask(pair.caller, "agent") == "caller:hello", "another method"
        assert await ask(pair.caller, "agent", "2", method="count") == "2"
    assert not lost.done()
    assert pair.asked == ["2"]
    lost.cancel()  # the SDK gives it up after 7 s


async def test_an_rpc_answer_that_is_lost(pair: Pair) -> None:
    with pair.faults.drop(1, direction="to", participant="caller", method="count") as fault:
        asking = ask(pair.caller, "agent", "1", method="count", response_timeout=1)
        assert await code_of(asking) == rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
    assert pair.asked == ["1"], "its acknowledgement is another packet"
    assert fault.count == 1


async def test_an_rpc_request_that_comes_twice(pair: Pair) -> None:
    with pair.faults.duplicate(1, direction="to", participant="agent", method="count") as fault:
        assert await ask(pair.caller, "agent", "1", method="count") == "1"
        await until(lambda: pair.asked == ["1", "1"])
    assert fault.count == 1


async def test_an_rpc_answer_that_comes_twice(pair: Pair) -> None:
    with pair.faults.duplicate(1, direction="from", participant="agent", method="count") as fault:
        assert await ask(pair.caller, "agent", "1", method="count") == "1"
    assert (pair.asked, fault.count) == (["1"], 1)


async def test_an_rpc_request_that_is_late(pair: Pair) -> None:
    with pair.faults.delay(1, 60, direction="to", participant="agent", method="count") as fault:
        first = asyncio.ensure_future(ask(pair.caller, "agent", "1", method="count"))
        await until(lambda: fault.count == 1)
        assert await ask(pair.caller, "agent", "2", method="count") == "2"
    assert await first == "1"
    assert pair.asked == ["2", "1"]


async def test_an_rpc_request_that_is_put_behind_the_next(pair: Pair) -> None:
    with pair.faults.reorder(1, direction="to", participant="agent", method="count") as fault:
        first = asyncio.ensure_future(ask(pair.caller, "agent", "1", method="count"))
        await until(lambda: fault.count == 1)
        assert pair.asked == []
        assert await ask(pair.caller, "agent", "2", method="count") == "2"
        assert await first == "1"


async def test_rpcs_that_are_spoilt(pair: Pair) -> None:
    with pair.faults.corrupt(2, participant="agent", method="count") as fault:
        assert await ask(pair.caller, "agent", "1st", method="count") == "!st"
    assert pair.asked == ["?st"]
    assert fault.count == 2, "the request, and the answer"


# Which packets


async def test_filters_are_for_the_one_that_is_meant(pair: Pair, stage: Stage) -> None:
    listener = await stage.join("listener")
    texts = Texts(listener)
    await until(lambda: is_active(pair.caller, "listener"))
    wrong: list[dict[str, Any]] = [
        {"topic": "other"},
        {"method": "t"},
        {"participant": "nobody"},
        {"direction": "from", "participant": "agent"},
        {"direction": "to", "participant": "caller"},
        {"topic": "t", "method": "count"},
    ]
    for only in wrong:
        with pair.faults.drop(**only) as fault:
            await pair.say("heard")
            await until(lambda: pair.said == ["heard"])
        assert fault.count == 0, only
        pair.reading.clear()
    with pair.faults.drop(direction="to", participant="agent") as fault:
        await pair.say("lost")
        await until(lambda: ("caller", "lost") in texts.arrived)
        await until(lambda: fault.count == 1)
    await pair.say("heard")
    await until(lambda: pair.said == ["heard"])
    await until(lambda: len(texts.arrived) == len(wrong) + 2, what="all that the listener was told")


async def test_each_recipient_of_a_packet_counts_where_the_direction_is_to(pair: Pair, stage: Stage) -> None:
    await stage.join("listener")
    await until(lambda: is_active(pair.caller, "listener"))
    with pair.faults.drop(topic="t", direction="to") as to, pair.faults.drop(topic="u") as once:
        await pair.publish(b"1", topic="t")
        await pair.publish(b"1", topic="u")
        await until(lambda: (to.count, once.count) == (2, 1))


async def test_two_faults_at_once_happen_one_after_the_other(pair: Pair) -> None:
    with pair.faults.duplicate(1, topic="t") as first, pair.faults.corrupt(1, topic="t") as second:
        await pair.publish(b"1", b"2")
        await until(lambda: len(pair.heard) == 3)
    assert pair.heard == [b"?", b"1", b"2"], "doubled, and then the first of both spoilt"
    assert (first.count, second.count) == (1, 1)


async def test_a_fault_that_ends_within_another_lets_go_what_it_holds_through_that(pair: Pair) -> None:
    with pair.faults.delay(1, 60, topic="t"), pair.faults.corrupt(1, topic="t") as spoils:
        await pair.publish(b"1", b"2")
        await until(lambda: pair.heard == [b"?"])
    await until(lambda: pair.heard == [b"?", b"1"])
    assert spoils.count == 1
