"""What the agent sends arrives: all of it, in order, from the first moment on."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from curb_client import MessageMeta, RequestMeta
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import Pair, Stage, filling_bytes, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOPIC = "curb.message"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(livekit: LiveKitServerHandle) -> AsyncIterator[Pair]:
    stage = Stage(livekit, f"order-{os.getpid()}")
    async with stage.client() as call, stage.agent() as agent:
        await until(lambda: "caller" in agent.room.remote_participants)
        yield Pair(stage, call, agent)


async def test_many_messages_come_in_order_awaited_or_not(pair: Pair) -> None:
    got: list[int] = []
    remove = pair.client.on("count", lambda payload, meta: got.append(payload["n"]))
    queued = [pair.agent.send.to_client("count", {"n": n}) for n in range(300)]
    assert all(await asyncio.gather(*queued))
    for n in range(300, 600):
        assert await pair.agent.send.to_client("count", {"n": n})
    await until(lambda: len(got) >= 600)
    assert got == list(range(600))
    assert pair.client.counts.late == 0
    remove()


async def test_short_messages_do_not_overtake_long_ones(pair: Pair) -> None:
    texts = [filling_bytes(60_000), "a", '𝄞\u2028\x00"\\é' * 5_000, "", "z" * 200_000, "ü"]
    got: list[tuple[str, Any]] = []
    remove = pair.client.on("text", lambda payload, meta: got.append((meta.id, payload)))
    for text in texts:
        pair.agent.send.to_client("text", {"größe": text})
    await until(lambda: len(got) >= len(texts))
    assert [payload for _, payload in got] == [{"größe": text} for text in texts]
    assert len({message_id for message_id, _ in got}) == len(texts)
    remove()


async def test_a_key_is_used_as_it_is(pair: Pair) -> None:
    got: list[str] = []
    keys = [" show form ", "Größe", "𝄞" * 128, "a.b/c", "__proto__", "\n", "null"]
    for key in keys:
        pair.client.on(key, lambda payload, meta, key=key: got.append(key))  # type: ignore[misc]
        await pair.agent.send.to_client(key)
    await until(lambda: len(got) >= len(keys))
    assert got == keys


async def test_an_agent_that_sends_as_soon_as_it_has_joined_loses_nothing(stage: Stage) -> None:
    async def one_call(number: int) -> None:
        own = Stage(stage.server, f"{stage.room_name}-{number}")
        got: list[int] = []
        async with own.client() as call:
            call.agent.on("hello", lambda payload, meta: got.append(payload["n"]))
            async with own.agent(ready=False) as agent:
                for n in range(20):
                    agent.send.to_client("hello", {"n": n})
                await until(lambda: len(got) >= 20, what=f"all of call {number}, of which came {got},")
        assert got == list(range(20))

    for batch in range(2):
        await asyncio.gather(*(one_call(batch * 5 + number) for number in range(5)))


async def test_an_agent_that_nobody_was_told_of_yet_is_heard_as_well(stage: Stage) -> None:
    got: list[int] = []
    async with stage.client() as call:
        call.agent.on("hello", lambda payload, meta: got.append(payload["n"]))
        async with stage.agent(token={"can_update_own_metadata": False}) as agent:
            for n in range(20):
                agent.send.to_client("hello", {"n": n})
            await until(lambda: len(got) >= 20)
    assert got == list(range(20))


async def test_the_agents_answer_inside_the_clients_first_message(stage: Stage) -> None:
    async with stage.agent() as agent:

        @agent.on_message("open-form")
        async def open_form(payload: Any, meta: RequestMeta) -> bool:
            return await agent.send.to_client("show-form", {"n": payload}, to=meta.sender_identity)

        async def first_message(number: int) -> None:
            async with stage.client(f"caller-{number}") as call:
                form = call.agent.wait_for("show-form", timeout=5)
                assert await call.agent.ask("open-form", number) is True
                assert await form == {"n": number}

        for batch in range(5):
            await asyncio.gather(*(first_message(batch * 4 + number) for number in range(4)))
        assert agent.undelivered_to_client == {}


async def test_a_stream_that_does_not_end_is_overtaken_and_delivered_late(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    got: list[tuple[str, float]] = []

    def note(payload: Any, meta: MessageMeta) -> None:
        got.append((payload["which"], loop.time()))

    async with stage.room("foreign", kind="agent") as room, stage.client() as call:
        await until(lambda: "caller" in room.remote_participants)
        call.agent.on("note", note)
        sender = room.local_participant
        stuck = await sender.stream_text(topic=TOPIC)
        await stuck.write('{"key":"note",')
        broken = await sender.stream_text(topic=TOPIC)
        await broken.write('{"key":')
        for which in ("second", "third"):
            await sender.send_text(f'{{"key":"note","payload":{{"which":"{which}"}}}}', topic=TOPIC)
        sent = loop.time()
        await asyncio.sleep(1)
        assert got == [], "they wait for those before them"
        await until(lambda: len(got) >= 2)
        assert [which for which, _ in got] == ["second", "third"]
        assert 1.5 < got[0][1] - sent < 4

        await sender.send_text('{"key":"note","payload":{"which":"fourth"}}', topic=TOPIC)
        await until(lambda: len(got) >= 3)
        assert loop.time() - got[1][1] < 1.5, "who was overtaken holds up nobody any more"

        assert call.agent.counts.late == 0
        await stuck.write('"payload":{"which":"first"}}')
        await stuck.aclose()
        await broken.aclose()
        await until(lambda: call.agent.counts.late > 0 and call.agent.counts.malformed > 0)
        assert [which for which, _ in got] == ["second", "third", "fourth", "first"]
        assert (call.agent.counts.late, call.agent.counts.malformed) == (1, 1)
        late = [record for record in caplog.records if "completed late" in record.getMessage()]
        assert [record.levelno for record in late] == [logging.WARNING]
        assert "'note'" in late[0].getMessage()
