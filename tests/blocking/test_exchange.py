"""send, ask, update, wait_for and messages, on a thread without a loop."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from concurrent.futures import CancelledError, Future
from typing import Any

import pydantic
import pytest

import curb_client
from curb_client import (
    AgentPresence,
    AgentRefusedError,
    AgentState,
    AgentUnavailableError,
    ConnectFailedError,
    InvalidKeyError,
    InvalidPayloadError,
    InvalidReplyError,
    InvalidTimeoutError,
    MessageTimeoutError,
    UsageError,
    blocking,
)
from tests.blocking.conftest import AgentSide, Pair, until
from tests.e2e.conftest import SETTINGS, Stage


class Quote(pydantic.BaseModel):
    price: int


def test_ask_and_send(pair: Pair) -> None:
    told: list[Any] = []
    pair.agent.on("note", lambda payload, meta: told.append(payload))
    pair.agent.on("quote", lambda payload, meta: {"price": 12})
    assert pair.client.ask("echo") == {}
    assert pair.client.ask("echo", [1, {"a": None}], timeout=5) == [1, {"a": None}]
    assert pair.client.ask("quote", reply_type=Quote) == Quote(price=12)
    pair.client.send("note", "hello")
    assert told == ["hello"]
    with pytest.raises(InvalidReplyError, match="the reply to 'quote' does not fit int"):
        pair.client.ask("quote", reply_type=int)


def test_one_message_id_is_handled_once(pair: Pair) -> None:
    numbers = itertools.count(1)
    pair.agent.on("count", lambda payload, meta: next(numbers))
    assert [pair.client.ask("count", message_id="one") for _ in range(3)] == [1, 1, 1]
    pair.client.send("count", message_id="two")
    assert next(numbers) == 3


def test_refusals_and_wrong_arguments_are_those_of_the_async_client(pair: Pair) -> None:
    for request in (lambda: pair.client.ask("nobody"), lambda: pair.client.send("nobody")):
        with pytest.raises(AgentRefusedError) as refused:
            request()
        assert refused.value.code == "no_handler"
    with pytest.raises(InvalidKeyError):
        pair.client.ask("")
    with pytest.raises(InvalidPayloadError):
        pair.client.send("echo", object())
    for timeout in (-1, float("nan"), "5"):
        with pytest.raises(InvalidTimeoutError):
            pair.client.ask("echo", timeout=timeout)  # type: ignore[arg-type]


def test_an_update_answers_with_the_settings_in_force(stage: Stage) -> None:
    with (
        blocking.join(stage.url, stage.token("caller")) as call,
        AgentSide(stage, settings=SETTINGS, adjustable={"client": ["tts.voice"]}),
    ):
        assert call.agent.update({"tts": {"voice": 17}}).tts.voice == 17
        with pytest.raises(AgentRefusedError, match="not_adjustable"):
            call.agent.update({"stt": {"language": "de"}}, timeout=5)


def test_no_agent_in_time(stage: Stage) -> None:
    with blocking.join(stage.url, stage.token("caller")) as call:
        with pytest.raises(AgentUnavailableError) as unavailable:
            call.agent.ask("quote", timeout=0.2)
        assert unavailable.value.state == "absent"


def test_wait_for_listens_from_the_call_on(pair: Pair) -> None:
    pair.agent.on("open-form", lambda payload, meta: None)
    form = pair.client.wait_for("show-form", timeout=5)
    pair.client.send("open-form")
    pair.agent.tell("show-form", {"n": 1})
    assert form.result() == {"n": 1}

    typed: Future[Quote] = pair.client.wait_for("quote", payload_type=Quote)
    wrong = pair.client.wait_for("quote", payload_type=int)
    pair.agent.tell("quote", {"price": 3})
    assert typed.result() == Quote(price=3)
    with pytest.raises(InvalidReplyError, match="the message 'quote' does not fit int"):
        wrong.result()

    with pytest.raises(MessageTimeoutError, match=r"no message 'quote' within 0.2 s; its state is 'ready'"):
        pair.client.wait_for("quote", timeout=0.2).result()
    with pytest.raises(InvalidKeyError):
        pair.client.wait_for("")
    with pytest.raises(InvalidTimeoutError):
        pair.client.wait_for("quote", timeout=-1)


def test_a_cancelled_wait_listens_no_more(pair: Pair) -> None:
    form = pair.client.wait_for("show-form", timeout=60)
    assert form.cancel()
    with pytest.raises(CancelledError):
        form.result()
    pair.client.ask("echo")
    pair.agent.tell("show-form")
    until(lambda: pair.client.counts.unhandled["show-form"] == 1, what="the message without a listener")


def test_messages_one_after_the_other(pair: Pair) -> None:
    with pair.client.messages("status") as stream:
        for number in range(4):
            pair.agent.tell("status", {"n": number})
        payload, meta = next(stream)
        assert (payload, meta.sender_identity) == ({"n": 0}, "agent")
        assert stream.get(timeout=5)[0] == {"n": 1}
        assert stream.get()[0] == {"n": 2}
        assert stream.get(timeout=5)[0] == {"n": 3}
        for seconds in (0, 0.1, 0.6):
            with pytest.raises(MessageTimeoutError, match=f"no message 'status' within {seconds} s"):
                stream.get(timeout=seconds)
        with pytest.raises(InvalidTimeoutError):
            stream.get(timeout=-1)
        pair.agent.tell("status", {"n": "last"})
        pair.agent.tell("end")
        until(lambda: pair.client.counts.unhandled["end"])
    assert [payload for payload, _ in stream] == [{"n": "last"}], "what came before the end is not lost"
    with pytest.raises(curb_client.ClosedError, match="no more messages 'status'"):
        stream.get(timeout=5)
    stream.close()


def test_messages_end_with_the_call(stage: Stage) -> None:
    with blocking.join(stage.url, stage.token("caller")) as call:
        stream = call.agent.messages("status")
    assert list(stream) == []
    stream.close()


def test_presence_and_counts(stage: Stage) -> None:
    with blocking.join(stage.url, stage.token("caller")) as call:
        assert call.agent.presence == AgentPresence(AgentState.ABSENT, None)
        with AgentSide(stage) as agent:
            until(lambda: call.agent.presence.state is AgentState.READY)
            assert call.agent.presence.identity == "agent"
            agent.tell("nobody-listens")
            until(lambda: call.agent.counts.unhandled == {"nobody-listens": 1})
        seen = call.agent.counts
        seen.unhandled.clear()
        assert call.agent.counts.unhandled == {"nobody-listens": 1}, "each is a picture of its own"
    assert call.agent.presence == AgentPresence(AgentState.CLOSED, None)
    assert call.agent.counts.unhandled == {"nobody-listens": 1}


def test_a_room_that_is_lost_for_good(stage: Stage) -> None:
    with blocking.join(stage.url, stage.token("caller")) as call:
        stream = call.agent.messages("status")
        form = call.agent.wait_for("show-form", timeout=60)
        with blocking.join(stage.url, stage.token("caller")):  # takes its identity
            for waiting in (form.result, stream.get, lambda: next(stream), lambda: call.agent.ask("quote", timeout=60)):
                with pytest.raises(AgentUnavailableError, match="DUPLICATE_IDENTITY"):
                    waiting()


def test_joining_fails_as_it_does_with_asyncio(stage: Stage) -> None:
    with (
        pytest.raises(ConnectFailedError, match="LiveKit refused the connection"),
        blocking.join(stage.url, "no token"),
    ):
        pass
    with pytest.raises(UsageError, match="rejoin=True needs a function"):
        blocking.join(stage.url, "token", rejoin=True)
    with pytest.raises(InvalidTimeoutError):
        blocking.join(stage.url, "token", timeout=-1)

    async def made() -> str:
        await asyncio.sleep(0)
        return stage.token("caller")

    for token in (made, lambda: stage.token("caller")):
        with blocking.join(stage.url, token, timeout=10) as call:
            assert call.agent.presence.state is AgentState.ABSENT


def test_the_arguments_are_those_of_the_async_client() -> None:
    def parameters(function: Any) -> list[tuple[str, Any, Any]]:
        return [(name, each.kind, each.default) for name, each in inspect.signature(function).parameters.items()]

    assert parameters(blocking.join)[:-1] == parameters(curb_client.join)
    for name in ("send", "ask", "update", "on", "on_presence", "wait_for", "messages"):
        assert parameters(getattr(blocking.AgentClient, name)) == parameters(getattr(curb_client.AgentClient, name))
