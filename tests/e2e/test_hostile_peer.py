"""Somebody who breaks the rules: nobody else notices, and what it costs is limited."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import rtc
from livekit.protocol import models

from curb_client import AgentClient, Call, InvalidReplyError, MessageMeta
from curb_client.protocol.contract import MAX_MESSAGE_BYTES, MAX_OPEN_MESSAGES
from curb_client.testing.hostile import MALFORMED_TEXTS, HostilePeer
from tests.e2e.conftest import Stage, echo, until

TINY_CHUNKS = 1_000_000 if os.environ.get("CURB_LONG") else 2_000


@pytest.fixture(autouse=True)
async def problems(caplog: pytest.LogCaptureFixture) -> AsyncIterator[list[dict[str, Any]]]:
    """What nobody caught; the SDK logs what it drops."""
    caplog.set_level(logging.CRITICAL, logger="livekit")
    caplog.handler.setLevel(logging.NOTSET)
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    yield told
    gc.collect()
    assert told == []


class Delivered:
    """What an app is handed out."""

    KEYS = ("k", "forged", "flood", "good")

    def __init__(self, client: AgentClient) -> None:
        self.messages: list[tuple[str, Any]] = []
        for key in self.KEYS:
            client.on(key, self._noting(key))

    def _noting(self, key: str) -> Callable[[Any, MessageMeta], None]:
        return lambda payload, meta: self.messages.append((key, payload))

    async def becomes(self, *messages: tuple[str, Any], within: float = 30.0) -> None:
        await until(lambda: len(self.messages) >= len(messages), within=within, what=f"{messages!r:.300} to be all")
        assert self.messages == [*messages]


@asynccontextmanager
async def hostile(
    stage: Stage, *others: str, identity: str = "mallory", kind: str = "agent"
) -> AsyncIterator[HostilePeer]:
    async with HostilePeer.join(stage.url, stage.token(identity, kind=kind)) as peer:
        await peer.sees_active(*others)
        yield peer


# Among a caller and an agent who mean well


@pytest.mark.parametrize("attack", HostilePeer.ATTACKS)
async def test_an_attack_by_somebody_else_disturbs_nobody(stage: Stage, attack: str) -> None:
    handled: list[str] = []

    def note(payload: Any, meta: Any) -> Any:
        handled.append(meta.sender_identity)
        return payload

    async with stage.agent() as agent, stage.client(agent_identity="agent") as call:
        agent.on_message("echo", note)
        delivered = Delivered(call.agent)
        assert await call.agent.ask("echo", {"n": 1}) == {"n": 1}
        async with (
            hostile(stage, "caller", "agent", identity="mallory", kind="standard") as mallory,
            hostile(stage, "caller", "agent", identity="mortimer", kind="agent") as mortimer,
        ):
            await asyncio.gather(mallory.attack(attack), mortimer.attack(attack))
            for n in range(5):
                assert await call.agent.ask("echo", {"n": n}) == {"n": n}
            if attack == "malformed_text":
                await until(lambda: call.agent.counts.foreign == 2 * len(MALFORMED_TEXTS), within=30)
        assert await call.agent.ask("echo", {"n": 9}) == {"n": 9}
        assert set(handled) == {"caller"}
        assert delivered.messages == []
        assert (call.agent.counts.malformed, call.agent.counts.over_limit) == (0, 0), "nothing of it was even read"
        assert call.room.isconnected()
        assert agent.room.isconnected()


async def test_who_has_an_agents_token_can_speak_for_it_and_nobody_else_can(stage: Stage) -> None:
    text = b'{"key":"forged","payload":{"by":"%s"}}'
    async with stage.agent(), stage.client(agent_identity="agent") as call:
        delivered = Delivered(call.agent)
        async with (
            hostile(stage, "caller", identity="mallory", kind="standard") as mallory,
            hostile(stage, "caller", identity="mortimer", kind="agent") as mortimer,
        ):
            await mallory.forged_sender("caller", sender="agent", text=text % b"mallory")
            await until(lambda: call.agent.counts.foreign >= 2, within=30)
            assert delivered.messages == []
            await mortimer.write(text % b"mortimer", "caller", sender="agent")
            await delivered.becomes(("forged", {"by": "mortimer"}))


# The agent itself


@asynccontextmanager
async def attacked(stage: Stage) -> AsyncIterator[tuple[HostilePeer, Call, Delivered]]:
    """An app whose agent is the hostile one, and goes on working with it afterwards."""
    async with hostile(stage) as mallory, stage.client(agent_identity="mallory") as call:
        await mallory.sees_active("caller")
        await until(lambda: "mallory" in call.room.remote_participants)
        delivered = Delivered(call.agent)
        yield mallory, call, delivered
        before = list(delivered.messages)
        await mallory.write(b'{"key":"good","payload":{"n":1}}', "caller")
        await delivered.becomes(*before, ("good", {"n": 1}))
        assert await asked(mallory, call, payload='{"reply":"good"}') == "good"
        assert call.room.isconnected()


async def asked(mallory: HostilePeer, call: Call, **answer: Any) -> object:
    """What comes of a question that the agent answers like that."""
    asking = asyncio.ensure_future(call.agent.ask("question", timeout=30))
    asker, request = await mallory.next_request()
    mallory.acknowledge(request.id, asker)
    mallory.answer(request.id, asker, **answer)
    return await asking


@pytest.mark.parametrize("attack", HostilePeer.ATTACKS)
async def test_an_attack_by_the_agent_itself(stage: Stage, attack: str) -> None:
    async with attacked(stage) as (mallory, call, delivered):
        await mallory.attack(attack, "caller")
        counts = call.agent.counts
        if attack == "malformed_text":
            await until(lambda: counts.malformed + counts.incomplete == len(MALFORMED_TEXTS), within=30)
        if attack == "bombs":
            await until(lambda: counts.over_limit + counts.incomplete == 3, within=60)
        if attack == "forged_sender":
            await until(lambda: counts.foreign == 1, within=30, what="'somebody-else' to be foreign")
            await delivered.becomes(("forged", {}))  # whose header alone says whom it is from
        else:
            assert delivered.messages == []


async def test_answers_that_are_none(stage: Stage) -> None:
    async with attacked(stage) as (mallory, call, _):
        for payload in ("", "no JSON", "[]", "null", "[" * 20_000):
            with pytest.raises(InvalidReplyError):
                await asked(mallory, call, payload=payload)
        big = "x" * 50_000
        assert await asked(mallory, call, payload=f'{{"reply":"{big}"}}') == big, "a client takes what LiveKit delivers"
        for error in (
            models.RpcError(code=2**32 - 1, message="", data="{"),
            models.RpcError(code=7, message="no code " * 2_000, data="d" * 20_000),
        ):
            with pytest.raises(rtc.RpcError) as caught:
                await asked(mallory, call, error=error)
            assert caught.value.code == error.code


async def test_answers_to_others_and_answers_said_twice(stage: Stage) -> None:
    async with attacked(stage) as (mallory, call, _):
        asking = asyncio.ensure_future(call.agent.ask("question", timeout=30))
        asker, request = await mallory.next_request()
        for request_id in ("another", request.id, request.id):
            mallory.acknowledge(request_id, asker)
        for number, request_id in enumerate(("another", request.id, request.id)):
            mallory.answer(request_id, asker, payload=f'{{"reply":{number}}}')
        assert await asking == 1


async def test_an_answer_that_never_comes_ends_with_the_deadline(stage: Stage) -> None:
    async with attacked(stage) as (mallory, call, _):
        asking = asyncio.ensure_future(call.agent.ask("question", timeout=1))
        asker, request = await mallory.next_request()
        mallory.acknowledge(request.id, asker)
        with pytest.raises(rtc.RpcError):
            await asking


# Limits


async def test_a_message_in_tiny_chunks_arrives_whole(stage: Stage) -> None:
    async with attacked(stage) as (mallory, _, delivered):
        await mallory.tiny_chunks(TINY_CHUNKS, "caller")
        await delivered.becomes(("flood", {"text": "x" * TINY_CHUNKS}), within=60 + TINY_CHUNKS / 1_000)


async def test_a_message_over_the_limit_is_dropped_and_counted(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    async with attacked(stage) as (mallory, call, delivered):
        await mallory.oversize(MAX_MESSAGE_BYTES, "caller")  # with what is around it
        await until(lambda: call.agent.counts.over_limit == 1, within=60, what="the message to be dropped")
        assert "4194304 bytes" in caplog.text
        assert delivered.messages == []


async def test_messages_that_do_not_end_are_limited_in_number(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    async with attacked(stage) as (mallory, call, delivered):
        streams = await mallory.no_trailer("caller", count=MAX_OPEN_MESSAGES + 20)
        await until(lambda: call.agent.counts.over_limit == 20, within=60, what="those over the limit to be dropped")
        assert "1024 others are not whole yet" in caplog.text
        for stream in streams:
            mallory.end(stream, "caller")
        await mallory.drained()
        await until(lambda: call.agent.counts.malformed == MAX_OPEN_MESSAGES, within=60, what="the others to be read")
        assert delivered.messages == []


async def test_a_flood_of_requests_to_an_agent(stage: Stage) -> None:
    async with stage.agent() as agent, stage.client(agent_identity="agent") as call:
        agent.on_message("echo", echo)
        async with hostile(stage, "agent", kind="standard") as mallory:
            for n in range(500):
                mallory.request(f'{{"key":"echo","id":"{n}","payload":{{"n":{n}}}}}', "agent")
                await mallory.drained()
            assert await call.agent.ask("echo", {"n": 1}, timeout=30) == {"n": 1}
        assert await call.agent.ask("echo", {"n": 2}, timeout=30) == {"n": 2}


def test_an_attack_that_there_is_not() -> None:
    peer = HostilePeer(None, Any, Any)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'kindness' is no attack; there are no_packets, "):
        asyncio.run(peer.attack("kindness"))
