"""What the agent's messages may cost a client.

A stand-in gives the streams: on the wire, a million chunks take minutes.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, cast

from livekit import rtc

from curb_client.protocol.contract import MAX_MESSAGE_BYTES, MAX_OPEN_BYTES, MAX_OPEN_MESSAGES
from curb_client.protocol.types import AgentMessage
from curb_client.room.callbacks import Warnings
from curb_client.room.inbox import Inbox, MessageCounts

MEGABYTE = 1024 * 1024


class Stream:
    """What the SDK calls a reader."""

    def __init__(self, chunks: Iterable[str], *, ends: bool = True) -> None:
        self.info = SimpleNamespace(stream_id="s-1")
        self.is_closed = False
        self._chunks: Iterator[str] = iter(chunks)
        self._ends = ends

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        chunk = next(self._chunks, None)
        if chunk is not None:
            return chunk
        if not self._ends:
            await asyncio.Event().wait()
        raise StopAsyncIteration

    def close(self) -> None:
        self.is_closed = True


class Topic:
    """An inbox, and the topic that it reads."""

    def __init__(self) -> None:
        self.counts = MessageCounts()
        self.delivered: list[AgentMessage] = []
        self._opened: Any = None
        inbox = Inbox(lambda _: True, lambda message, _: self.delivered.append(message), self.counts, Warnings())
        inbox.attach(cast(rtc.Room, self))
        self.detach = inbox.detach

    def register_text_stream_handler(self, topic: str, handler: Any) -> None:
        self._opened = handler

    def unregister_text_stream_handler(self, topic: str) -> None:
        self._opened = None

    def open(self, *streams: Stream) -> None:
        for stream in streams:
            self._opened(stream, "agent")


async def until(condition: Any) -> None:
    given_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < given_up
        await asyncio.sleep(0.005)


def message(chunks: Iterable[str]) -> Iterator[str]:
    return chain(['{"key":"k","payload":{"text":"'], chunks, ['"}}'])


async def test_a_million_tiny_chunks_take_a_few_megabytes() -> None:
    topic = Topic()
    count, piece = 1_000_000, "\U0001d11e"
    tracemalloc.start()
    try:
        topic.open(Stream(message(repeat(piece, count))))
        await until(lambda: topic.delivered or topic.counts.over_limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(each.payload["text"]) for each in topic.delivered] == [count]
    assert peak < 5 * MAX_MESSAGE_BYTES, f"{peak / MEGABYTE:.0f} MiB"


async def test_a_stream_without_end_is_closed_at_the_limit() -> None:
    topic = Topic()
    stream = Stream(repeat("x" * 15_000))
    tracemalloc.start()
    try:
        topic.open(stream)
        await until(lambda: stream.is_closed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert topic.counts.over_limit == 1
    assert peak < 5 * MAX_MESSAGE_BYTES, f"{peak / MEGABYTE:.0f} MiB"
    topic.open(Stream(message("x")))
    await until(lambda: topic.delivered)


async def test_the_largest_message_is_taken() -> None:
    topic = Topic()
    around = len("".join(message("")))
    for more in (0, 1):
        topic.open(Stream(message(["x" * (MAX_MESSAGE_BYTES - around + more)])))
    await until(lambda: topic.delivered and topic.counts.over_limit == 1)
    assert len(topic.delivered) == 1


async def test_messages_that_are_not_whole_are_limited_together_and_free_what_they_had() -> None:
    topic = Topic()
    size = MAX_MESSAGE_BYTES // 2
    most = MAX_OPEN_BYTES // size
    streams = [Stream(["x" * size], ends=False) for _ in range(most + 3)]
    topic.open(*streams)
    await until(lambda: sum(stream.is_closed for stream in streams) == 3)
    assert topic.counts.over_limit == 3
    topic.open(Stream(message("x")))
    await until(lambda: topic.counts.over_limit == 4)
    topic.detach()
    await asyncio.sleep(0)
    again = Topic()
    again.open(*(Stream(message(["x" * size])) for _ in range(most - 1)))
    await until(lambda: len(again.delivered) == most - 1)
    assert again.counts.over_limit == 0


async def test_no_more_than_so_many_are_open_at_once() -> None:
    topic = Topic()
    streams = [Stream([], ends=False) for _ in range(MAX_OPEN_MESSAGES + 5)]
    topic.open(*streams)
    assert topic.counts.over_limit == 5
    assert [stream.is_closed for stream in streams[-6:]] == [False, True, True, True, True, True]
    topic.detach()
    await until(lambda: all(stream.is_closed for stream in streams))
