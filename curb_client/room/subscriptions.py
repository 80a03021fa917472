"""Waiting for the agent's messages: one of them, or one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from typing_extensions import Self

from curb_client.errors import AgentUnavailableError, ClosedError, InvalidReplyError, MessageTimeoutError
from curb_client.protocol.states import AgentState
from curb_client.room.presence import AgentPresence, AgentWatch
from curb_client.room.typed import as_reply

__all__ = ["MessageHandler", "MessageMeta", "MessageStream", "wait_for_message"]

T = TypeVar("T")


@dataclass(frozen=True)
class MessageMeta:
    """What the transport says about a message.

    Attributes:
        id: the message's own, or that of its stream.
        sender_identity: the agent's.
    """

    id: str
    sender_identity: str


MessageHandler = Callable[[Any, MessageMeta], Awaitable[None] | None]
Subscribe = Callable[[MessageHandler], Callable[[], None]]


class _Ended(Exception):  # noqa: N818 - a mark in a queue
    """No more messages will come: ``error`` says why, None after an orderly close."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


def _end_of(watch: AgentWatch, started: float) -> _Ended | None:
    """Whether no message can come any more."""
    if watch.presence.state is AgentState.CLOSED:
        return _Ended(None)
    if watch.presence.state is AgentState.LOST:
        return _Ended(watch.unavailable(time.monotonic() - started, "curb.message"))
    return None


class MessageStream:
    """An async iterator over ``(payload, meta)``, listening from its creation on; close it when done early.

    It ends when the client is closed, and raises AgentUnavailableError when the room is lost for good. Messages wait in
    memory until they are taken.
    """

    def __init__(self, subscribe: Subscribe, watch: AgentWatch) -> None:
        self._queue: asyncio.Queue[tuple[Any, MessageMeta] | _Ended] = asyncio.Queue()
        self._unsubscribe = subscribe(lambda payload, meta: self._queue.put_nowait((payload, meta)))
        started = time.monotonic()
        self._unwatch = watch.add_listener(lambda _: self._end_if(_end_of(watch, started)))
        self._end_if(_end_of(watch, started))

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> tuple[Any, MessageMeta]:
        item = await self._queue.get()
        if isinstance(item, _Ended):
            self._queue.put_nowait(item)
            raise item.error or StopAsyncIteration
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening; iterating goes on to the end of what came before."""
        self._end_if(_Ended(None))

    def _end_if(self, end: _Ended | None) -> None:
        if end is not None:
            self._unsubscribe()
            self._unwatch()
            self._queue.put_nowait(end)


def wait_for_message(
    subscribe: Subscribe, watch: AgentWatch, key: str, seconds: float, payload_type: type[T] | None
) -> asyncio.Future[Any]:
    """A future of the next message's payload; see :meth:`curb_client.AgentClient.wait_for`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    started = time.monotonic()

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    def arrived(payload: object, _: MessageMeta) -> None:
        stop()  # before the loop comes to the callback of the future: the next message may be here already
        if future.done():
            return
        try:
            future.set_result(as_reply(payload_type, payload, f"the message {key!r}"))
        except InvalidReplyError as error:
            fail(error)

    def changed(presence: AgentPresence) -> None:
        if presence.state is AgentState.CLOSED:
            fail(ClosedError(f"the client was closed while it waited for the message {key!r}"))
        elif presence.state is AgentState.LOST:
            unavailable = watch.unavailable(time.monotonic() - started, "curb.message")
            assert isinstance(unavailable, AgentUnavailableError)
            fail(unavailable)

    removals = [subscribe(arrived), watch.add_listener(changed)]
    timer = loop.call_later(seconds, lambda: fail(_too_late(key, seconds, watch)))

    def stop() -> None:
        timer.cancel()
        for remove in removals:
            remove()

    def finished(done: asyncio.Future[Any]) -> None:
        stop()
        if not done.cancelled():
            done.exception()  # seen, even if who asked for the message failed before awaiting it

    future.add_done_callback(finished)
    changed(watch.presence)
    return future


def _too_late(key: str, seconds: float, watch: AgentWatch) -> MessageTimeoutError:
    state = watch.presence.state.value
    return MessageTimeoutError(f"the agent sent no message {key!r} within {seconds:g} s; its state is {state!r}")
