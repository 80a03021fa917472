"""Waiting for messages: what begins and ends it, without a room."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pydantic
import pytest

from curb_client.errors import AgentUnavailableError, ClosedError, InvalidReplyError, MessageTimeoutError
from curb_client.room.presence import AgentWatch
from curb_client.room.subscriptions import MessageHandler, MessageMeta, MessageStream, wait_for_message

META = MessageMeta("m-1", "agent")


class Source:
    """Messages that the test sends, and how many listen."""

    def __init__(self) -> None:
        self.watch = AgentWatch(None)
        self.handlers: list[MessageHandler] = []

    def subscribe(self, handler: MessageHandler) -> Any:
        self.handlers.append(handler)
        return lambda: self.handlers.remove(handler) if handler in self.handlers else None

    def send(self, payload: object) -> None:
        for handler in list(self.handlers):
            handler(payload, META)

    def wait(self, seconds: float = 30, payload_type: Any = None) -> asyncio.Future[Any]:
        return wait_for_message(self.subscribe, self.watch, "news", seconds, payload_type)

    def stream(self) -> MessageStream:
        return MessageStream(self.subscribe, self.watch)


@pytest.fixture
async def source() -> Source:
    return Source()


# One message


async def test_the_first_message_is_it_and_the_listening_ends(source: Source) -> None:
    waiting = source.wait()
    source.send({"n": 1})
    source.send({"n": 2})
    assert await waiting == {"n": 1}
    await asyncio.sleep(0)
    assert source.handlers == []


async def test_two_may_wait_for_the_same_message(source: Source) -> None:
    waiting = [source.wait(), source.wait()]
    source.send({"n": 1})
    assert await asyncio.gather(*waiting) == [{"n": 1}] * 2


async def test_it_takes_one_message_of_several_that_come_at_once(source: Source) -> None:
    waiting = source.wait()
    source.send({"n": 1})
    assert source.handlers == [], "the next one finds nobody, and is counted and told of"
    assert await waiting == {"n": 1}


@pytest.mark.parametrize("how", ["no message in time", "the client is closed"])
async def test_nothing_is_said_of_a_wait_that_nobody_awaits(source: Source, how: str) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    source.wait(0.01)
    if how == "the client is closed":
        source.watch.close()
    await asyncio.sleep(0.05)
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


async def test_no_message_in_time(source: Source) -> None:
    with pytest.raises(MessageTimeoutError, match=r"no message 'news' within 0.05 s; its state is 'unconnected'"):
        await source.wait(0.05)
    assert source.handlers == []


async def test_a_message_of_another_type(source: Source) -> None:
    waiting = source.wait(payload_type=dict[str, int])
    source.send({"n": "many"})
    with pytest.raises(InvalidReplyError, match="the message 'news' does not fit"):
        await waiting
    await asyncio.sleep(0)
    assert source.handlers == []


async def test_a_cancelled_wait_listens_no_more(source: Source) -> None:
    waiting = source.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    assert source.handlers == []
    source.send({"n": 1})


async def test_waiting_ends_with_the_client_or_the_room(source: Source) -> None:
    waiting = source.wait()
    source.watch.lost(" (ROOM_DELETED)")
    with pytest.raises(AgentUnavailableError, match=r"for good \(ROOM_DELETED\)") as lost:
        await waiting
    assert lost.value.waited < 30, "so long it could have waited"
    with pytest.raises(AgentUnavailableError):
        await source.wait()
    other = Source()
    waiting = other.wait()
    other.watch.close()
    with pytest.raises(ClosedError):
        await waiting
    await asyncio.sleep(0)
    assert source.handlers == other.handlers == []


# One after the other


async def test_a_stream_keeps_what_comes_before_it_is_read(source: Source) -> None:
    stream = source.stream()
    for number in range(3):
        source.send({"n": number})
    await stream.aclose()
    source.send({"n": 3})
    assert [payload["n"] async for payload, _ in stream] == [0, 1, 2]
    assert [item async for item in stream] == [], "it stays ended"
    assert source.handlers == []


async def test_a_stream_closes_with_its_block(source: Source) -> None:
    async with source.stream() as stream:
        source.send({"n": 1})
        assert await anext(stream) == ({"n": 1}, META)
    assert source.handlers == []


async def test_a_stream_ends_with_the_client(source: Source) -> None:
    stream = source.stream()
    reading = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    source.watch.close()
    assert await asyncio.wait_for(reading, 1) is None
    assert [item async for item in source.stream()] == [], "nor does one begin after it"


async def test_a_stream_fails_when_the_room_is_lost_after_what_came_before(source: Source) -> None:
    stream = source.stream()
    source.send({"n": 1})
    source.watch.lost("")
    assert (await anext(stream))[0] == {"n": 1}
    for _ in range(2):
        with pytest.raises(AgentUnavailableError, match="the room was disconnected for good"):
            await anext(stream)


async def test_a_cancelled_read_takes_no_message(source: Source) -> None:
    stream = source.stream()
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.sleep(0)
    source.send({"n": 1})
    assert (await asyncio.wait_for(anext(stream), 1))[0] == {"n": 1}


async def test_a_message_as_the_type_asked_for(source: Source) -> None:
    class News(pydantic.BaseModel):
        n: int

    waiting = source.wait(payload_type=News)
    source.send({"n": 1, "more": True})
    assert await waiting == News(n=1)
