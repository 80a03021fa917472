"""What is not the agent's, or no message, is counted and told once, and reaches no handler."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
import pytest_asyncio
from livekit import rtc

from curb_client import AgentCall, AgentClient, MessageMeta
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import Stage, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOPIC = "curb.message"


@dataclasses.dataclass(frozen=True)
class Cast:
    """Everybody in the room."""

    stage: Stage
    avatar: rtc.Room
    agent: AgentCall
    second: rtc.Room
    bot: rtc.Room
    caller: rtc.Room
    client: AgentClient
    bots_client: AgentClient

    @property
    def everybody(self) -> tuple[rtc.Room, ...]:
        return (self.avatar, self.agent.room, self.second, self.bot, self.caller)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cast(livekit: LiveKitServerHandle) -> AsyncIterator[Cast]:
    stage = Stage(livekit, f"foreign-{os.getpid()}")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        # In this order: the avatar's worker is the first of kind AGENT to join.
        avatar = await enter(stage.room("avatar", kind="agent", attributes={"lk.publish_on_behalf": "agent"}))
        agent = await enter(stage.agent())
        second = await enter(stage.room("second", kind="agent"))
        bot = await enter(stage.room("bot"))
        call = await enter(stage.client())
        bots_call = await enter(stage.client("bots-caller", agent_identity="bot"))
        cast = Cast(stage, avatar, agent, second, bot, call.room, call.agent, bots_call.agent)
        await until(lambda: all(len(room.remote_participants) == 5 for room in cast.everybody))
        yield cast


@contextmanager
def listening(client: AgentClient, key: str) -> Iterator[list[Any]]:
    """The senders and payloads of the messages that a handler of ``key`` gets."""
    got: list[Any] = []
    remove = client.on(key, lambda payload, meta: got.append((meta.sender_identity, payload.get("n"))))
    yield got
    remove()


async def say(room: rtc.Room, text: str, **options: Any) -> None:
    await room.local_participant.send_text(text, topic=TOPIC, **options)


def warnings(caplog: pytest.LogCaptureFixture, *parts: str) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [text for text in told if all(part in text for part in parts)]


MALFORMED = {
    "no JSON": "hello",
    "half of it": '{"key":"seen","payload":{"n":1}',
    "empty": "",
    "NaN": '{"key":"seen","payload":{"n":NaN}}',
    "array": '[{"key":"seen","payload":{}}]',
    "text": '"seen"',
    "null": "null",
    "no key": '{"payload":{"n":1}}',
    "number as key": '{"key":3,"payload":{}}',
    "empty key": '{"key":"","payload":{}}',
    "long key": json.dumps({"key": "k" * 257}),
    "number as id": '{"key":"seen","id":7,"payload":{}}',
    "long id": json.dumps({"key": "seen", "id": "i" * 129}),
    "nested without end": '{"key":"seen","payload":' + "[" * 20_000,
}


async def test_texts_that_are_no_message(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    before = cast.client.counts.malformed
    with listening(cast.client, "seen") as got:
        for _ in range(2):
            for text in MALFORMED.values():
                await say(cast.agent.room, text)
        await say(cast.agent.room, '{"key":"seen","payload":{"n":1},"more":true}')
        await until(lambda: got)
    assert got == [("agent", 1)]
    assert cast.client.counts.malformed - before == 2 * len(MALFORMED)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    told = [text for text in told if text.startswith("a message from 'agent': malformed")]
    assert len(told) == len(set(told)), "each once"
    assert any("key: Field required" in text for text in told)
    assert any("not JSON" in text for text in told)


async def test_a_key_and_payload_at_their_limits_are_taken(cast: Cast) -> None:
    got: list[tuple[Any, str]] = []
    remove = cast.client.on("k" * 256, lambda payload, meta: got.append((payload, meta.id)))
    await say(cast.agent.room, json.dumps({"key": "k" * 256, "id": "i" * 128}))
    await say(cast.agent.room, json.dumps({"key": "k" * 256, "id": None, "payload": [1]}))
    await until(lambda: len(got) >= 2)
    assert got[0] == ({}, "i" * 128)
    payload, stream_id = got[1]
    assert payload == [1]
    assert stream_id, "the stream's own"
    remove()


@pytest.mark.parametrize("who", ["bot", "second", "avatar"])
async def test_others_are_not_the_agent(cast: Cast, who: str, caplog: pytest.LogCaptureFixture) -> None:
    assert cast.client.presence.identity == "agent"
    room: rtc.Room = getattr(cast, who)
    before = cast.client.counts.foreign
    with listening(cast.client, "seen") as got:
        for text in ('{"key":"seen","payload":{"n":2}}', "hello"):
            await say(room, text, destination_identities=["caller"])
        await until(lambda: cast.client.counts.foreign == before + 2)
        await say(cast.agent.room, '{"key":"seen","payload":{"n":3}}')
        await until(lambda: got)
    assert got == [("agent", 3)]
    assert warnings(caplog, f"'{who}'", "not the agent") == [
        f"a message from '{who}': its sender is not the agent; dropped"
    ]


async def test_a_stranger_who_speaks_before_being_announced_is_not_the_agent(cast: Cast) -> None:
    before = cast.client.counts.foreign
    with listening(cast.client, "seen") as got:
        async with cast.stage.room("stranger") as room:
            await say(room, '{"key":"seen","payload":{"n":9}}', destination_identities=["caller"])
            await until(lambda: cast.client.counts.foreign > before)
    assert got == []
    assert cast.client.counts.foreign == before + 1


async def test_the_named_participant_is_the_agent_whatever_its_kind(cast: Cast) -> None:
    async def answer(request: rtc.RpcInvocationData) -> str:
        return '{"reply":"from the bot"}'

    cast.bot.local_participant.register_rpc_method(TOPIC, answer)
    assert await cast.bots_client.ask("any") == "from the bot"
    assert cast.bots_client.presence.identity == "bot"
    before = cast.bots_client.counts.foreign
    with listening(cast.bots_client, "seen") as got:
        await cast.agent.send.to_client("seen", {"n": 4}, to="bots-caller")
        await say(cast.bot, '{"key":"seen","payload":{"n":5}}', destination_identities=["bots-caller"])
        await until(lambda: got)
        await until(lambda: cast.bots_client.counts.foreign == before + 1)
    assert got == [("bot", 5)]


async def test_what_the_client_itself_sends_is_no_message_to_it(cast: Cast) -> None:
    before = dataclasses.replace(cast.client.counts)
    with listening(cast.client, "seen") as got:
        text = '{"key":"seen","payload":{"n":6}}'
        await say(cast.caller, text)
        await say(cast.caller, text, destination_identities=["caller", "agent"])
        await say(cast.agent.room, '{"key":"seen","payload":{"n":7}}')
        await until(lambda: got)
        await asyncio.sleep(0.2)
    assert got == [("agent", 7)]
    assert cast.client.counts == before


async def test_keys_without_a_handler(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    for key in ("left", "left", "right", "left"):
        await cast.agent.send.to_client(key, to="caller")
    await until(lambda: sum(cast.client.counts.unhandled.values()) >= 4)
    assert cast.client.counts.unhandled == {"left": 3, "right": 1}
    for key in ("left", "right"):
        assert warnings(caplog, f"the agent's message '{key}'", "no handler") == [
            f"the agent's message '{key}': no handler; dropped; add agent.on('{key}', ...)"
        ]

    with listening(cast.client, "left") as got:
        await cast.agent.send.to_client("left", {"n": 8}, to="caller")
        await until(lambda: got)
    assert cast.client.counts.unhandled["left"] == 3


async def test_a_handler_that_raises_disturbs_nobody(cast: Cast) -> None:
    failures: list[dict[str, Any]] = []
    got: list[str] = []
    loop = asyncio.get_running_loop()

    def plain(payload: Any, meta: MessageMeta) -> None:
        raise LookupError("plain")

    async def later(payload: Any, meta: MessageMeta) -> None:
        await asyncio.sleep(0.01)
        raise LookupError("later")

    handlers: list[Callable[[Any, MessageMeta], Any]] = [
        plain,
        later,
        lambda payload, meta: got.append(meta.id),
    ]
    removals = [cast.client.on("raise", handler) for handler in handlers]
    loop.set_exception_handler(lambda _, context: failures.append(context))
    try:
        for _ in range(2):
            await cast.agent.send.to_client("raise", to="caller")
        await until(lambda: len(got) >= 2 and len(failures) >= 4)
    finally:
        loop.set_exception_handler(None)
        for remove in removals:
            remove()
    assert sorted(str(context["exception"]) for context in failures) == ["later", "later", "plain", "plain"]
    assert all("raised LookupError" in context["message"] for context in failures)
    assert len(set(got)) == 2
