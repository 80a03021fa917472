"""Typed text in a room: answered, in order, and unanswered where it should be."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from curb_client.model import AgentCore, Llm, ModelEndpoint, TurnError, Turns, TypedText
from curb_client.protocol.contract import CHAT_TOPIC, TRANSCRIPTION_TOPIC
from curb_client.testing import CurbCall
from tests.e2e.conftest import until

SECONDS = 30


class Caller:
    """Types, and reads what the agent says."""

    def __init__(self, room: Any) -> None:
        self.room = room
        self._replies: asyncio.Queue[asyncio.Task[tuple[str, dict[str, str]]]] = asyncio.Queue()
        room.register_text_stream_handler(TRANSCRIPTION_TOPIC, self._began)

    def _began(self, reader: Any, identity: str) -> None:
        self._replies.put_nowait(asyncio.get_running_loop().create_task(self._read(reader)))

    async def _read(self, reader: Any) -> tuple[str, dict[str, str]]:
        text = await reader.read_all()
        return text, dict(reader.info.attributes or {})

    async def type(self, text: str) -> None:
        await self.room.local_participant.send_text(text, topic=CHAT_TOPIC)

    async def whole_reply(self) -> tuple[str, dict[str, str]]:
        """The next one to begin: several that are read at once do not end in their order."""
        return await asyncio.wait_for(await asyncio.wait_for(self._replies.get(), SECONDS), SECONDS)

    async def reply(self) -> str:
        return (await self.whole_reply())[0]


class Outcomes:
    """What the turns came to."""

    def __init__(self) -> None:
        self.all: asyncio.Queue[tuple[str, str | None, TurnError | None]] = asyncio.Queue()

    def add(self, text: str, reply: str | None, error: TurnError | None) -> None:
        self.all.put_nowait((text, reply, error))

    async def next(self) -> tuple[str, str | None, TurnError | None]:
        return await asyncio.wait_for(self.all.get(), SECONDS)


async def marker(call: CurbCall, caller: Caller) -> None:
    """Returns when what the caller sent so far has reached the agent."""
    came = asyncio.Event()
    call.agent.room.register_text_stream_handler("marker", lambda *_: came.set())
    await caller.room.local_participant.send_text("here", topic="marker")
    await asyncio.wait_for(came.wait(), SECONDS)
    call.agent.room.unregister_text_stream_handler("marker")


@asynccontextmanager
async def desk(call: CurbCall, curb_model: ModelEndpoint) -> AsyncIterator[tuple[Caller, Outcomes]]:
    outcomes = Outcomes()
    agent = call.agent
    async with call.join("typist") as room:
        await call.joined()
        core = AgentCore("You run a parcel desk.", None)
        async with Turns(core, Llm("m", curb_model.url)) as turns, TypedText(agent, turns, on_turn=outcomes.add):
            yield Caller(room), outcomes


async def test_what_is_typed_is_answered(curb_call: CurbCall, curb_model: ModelEndpoint) -> None:
    curb_model.script.on("hello", text="Good morning.")
    curb_model.script.on("hours", text="All day. " * 400)
    async with desk(curb_call, curb_model) as (caller, _):
        await caller.type("hello")
        text, attributes = await caller.whole_reply()
        assert text == "Good morning."
        assert attributes["lk.transcription_final"] == "true"
        assert attributes["lk.segment_id"]
        await caller.type("your hours?")
        assert await caller.reply() == "All day. " * 400


async def test_texts_are_answered_in_their_order(curb_call: CurbCall, curb_model: ModelEndpoint) -> None:
    curb_model.script.on("0", text="0", delay=0.2)
    for number in range(1, 6):
        curb_model.script.on(str(number), text=str(number))
    async with desk(curb_call, curb_model) as (caller, _):
        for number in range(6):
            await caller.type(str(number))
        assert [await caller.reply() for _ in range(6)] == list("012345")


async def test_nobody_is_answered_on_hold(curb_call: CurbCall, curb_model: ModelEndpoint) -> None:
    curb_model.script.on("hello", text="Good morning.")
    async with desk(curb_call, curb_model) as (caller, outcomes):
        curb_call.agent.set_on_hold(True)
        await caller.type("anybody there?")
        await marker(curb_call, caller)
        curb_call.agent.set_on_hold(False)
        await caller.type("hello")
        assert await outcomes.next() == ("hello", "Good morning.", None)
    assert len(curb_model.requests) == 1


async def test_agents_are_not_answered(curb_call: CurbCall, curb_model: ModelEndpoint) -> None:
    curb_model.script.on("hello", text="Good morning.")
    async with desk(curb_call, curb_model) as (caller, outcomes), curb_call.join("other-agent", kind="agent") as other:
        await until(lambda: "other-agent" in curb_call.agent.room.remote_participants)  # unannounced, it is a client
        intruder = Caller(other)
        await marker(curb_call, intruder)
        await intruder.type("hello from an agent")
        await marker(curb_call, intruder)
        await caller.type("hello")
        assert await outcomes.next() == ("hello", "Good morning.", None)


async def test_a_turn_that_fails_is_logged_and_the_next_one_answered(
    curb_call: CurbCall, curb_model: ModelEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    curb_model.script.on("broken", status=400, error="out of order")
    curb_model.script.on("hello", text="Good morning.")
    async with desk(curb_call, curb_model) as (caller, outcomes):
        with caplog.at_level(logging.ERROR, "curb_client.model"):
            await caller.type("broken")
            text, reply, error = await outcomes.next()
        assert (text, reply) == ("broken", None)
        assert isinstance(error, TurnError)
        assert "no answer to 'broken': the model 'm' gave no answer" in caplog.text
        await caller.type("hello")
        assert (await outcomes.next())[1] == "Good morning."
