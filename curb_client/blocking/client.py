"""The client of the agent, without asyncio."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from queue import Empty
from types import TracebackType
from typing import Any, Final, TypeVar, overload

from typing_extensions import Self

import curb_client.room.client as room_client
import curb_client.room.subscriptions as room_subscriptions
from curb_client.blocking.callbacks import CallbackQueue
from curb_client.blocking.loop_thread import LoopThread
from curb_client.blocking.mailbox import Mailbox
from curb_client.errors import ClosedError, MessageTimeoutError
from curb_client.protocol.contract import AGENT_WAIT_SECONDS, EXCHANGE_SECONDS
from curb_client.protocol.envelope import check_key
from curb_client.protocol.types import EffectiveSettings, SessionUpdate
from curb_client.room.arguments import NO_PAYLOAD, check_timeout
from curb_client.room.inbox import MessageCounts
from curb_client.room.presence import AgentPresence
from curb_client.room.subscriptions import MessageMeta

__all__ = ["AgentClient", "MessageStream"]

T = TypeVar("T")

MessageHandler = Callable[[Any, MessageMeta], None]
HandlerT = TypeVar("HandlerT", bound=MessageHandler)

_REQUEST_SECONDS: Final = AGENT_WAIT_SECONDS + EXCHANGE_SECONDS


class AgentClient:
    """Sends messages to the agent and gets its messages; ``call.agent`` of :func:`curb_client.blocking.join`.

    Each method takes, returns and raises what that of :class:`curb_client.AgentClient` does, and waits for the result.
    All of them, properties too, raise UsageError on the call's own thread and ClosedError once the call is over; Ctrl-C
    cancels a request that waits. All times are seconds.
    """

    def __init__(self, client: room_client.AgentClient, loop: LoopThread, callbacks: CallbackQueue) -> None:
        self._client = client
        self._loop = loop
        self._callbacks = callbacks

    # The agent's presence

    @property
    def presence(self) -> AgentPresence:
        """Whether the agent is there, and who it is; its state is ``closed`` after the block."""
        return self._loop.read(lambda: self._client.presence)

    def on_presence(self, callback: Callable[[AgentPresence], object]) -> Callable[[], None]:
        """:meth:`Call.poll` calls ``callback`` with each change of :attr:`presence`; returns what ends that.

        Raises:
            UsageError: ``callback`` is no function, or async.
        """
        return self._callbacks.add(callback, "the callback of on_presence", self._client.on_presence)

    @property
    def counts(self) -> MessageCounts:
        """What came from the room and was dropped, or handed out late, as of now; also after the block."""
        counts = self._client.counts
        return self._loop.read(lambda: replace(counts, unhandled=counts.unhandled.copy()))

    # Requests

    def send(
        self, key: str, payload: object = NO_PAYLOAD, *, timeout: float | None = None, message_id: str | None = None
    ) -> None:
        """Send a message; returns once the agent took it. Takes and raises what :meth:`ask` does."""
        self._request(partial(self._client.send, key, payload, timeout=timeout, message_id=message_id), timeout)

    @overload
    def ask(
        self, key: str, payload: object = ..., *, timeout: float | None = ..., message_id: str | None = ...
    ) -> Any: ...

    @overload
    def ask(
        self,
        key: str,
        payload: object = ...,
        *,
        reply_type: type[T],
        timeout: float | None = ...,
        message_id: str | None = ...,
    ) -> T: ...

    def ask(
        self,
        key: str,
        payload: object = NO_PAYLOAD,
        *,
        timeout: float | None = None,
        reply_type: type[T] | None = None,
        message_id: str | None = None,
    ) -> T | Any:
        """Send a message and return the agent's reply, None if there is none; see :meth:`curb_client.AgentClient.ask`.

        Args:
            timeout: seconds for everything; by default 10 for the agent to be there and 15 for its answer.

        Raises:
            UsageError: its subclasses for a wrong argument, before anything is sent; itself on the call's own thread,
                or when something holds that up. ClosedError: the call is, or was meanwhile, over.
            AgentRefusedError, AgentUnavailableError, InvalidReplyError, livekit.rtc.RpcError: as there.
        """
        options: dict[str, Any] = {"timeout": timeout, "reply_type": reply_type, "message_id": message_id}
        return self._request(lambda: self._client.ask(key, payload, **options), timeout)

    def update(
        self, settings: SessionUpdate | Mapping[str, object], *, timeout: float | None = None
    ) -> EffectiveSettings:
        """Change settings of the call, all or nothing; returns those in force.

        Takes and raises what :meth:`curb_client.AgentClient.update` does; ``timeout`` is in seconds.
        """
        return self._request(partial(self._client.update, settings, timeout=timeout), timeout)

    def _request(self, request: Callable[[], Coroutine[Any, Any, T]], timeout: float | None) -> T:
        return self._loop.run(request, check_timeout(timeout, default=_REQUEST_SECONDS))

    # The agent's messages

    @overload
    def on(self, key: str) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def on(self, key: str, handler: MessageHandler) -> Callable[[], None]: ...

    def on(self, key: str, handler: MessageHandler | None = None) -> Callable[..., Any]:
        """:meth:`Call.poll` calls ``handler(payload, meta)`` with the agent's messages with this key, in order.

        As a decorator it gives the function back; called with a handler it returns what removes it, and then it is not
        called any more. Before the block too, and then no message is missed.

        Raises:
            InvalidKeyError: a key that cannot be sent. UsageError: the handler is no function, or async.
        """
        check_key(key)
        if handler is not None:
            return self._callbacks.add(handler, f"the handler of {key!r}", lambda queue: self._client.on(key, queue))

        def decorate(function: HandlerT) -> HandlerT:
            self.on(key, function)
            return function

        return decorate

    def messages(self, key: str) -> MessageStream:
        """The agent's messages with this key from now on: ``for payload, meta in agent.messages("status")``.

        Raises:
            InvalidKeyError: a key that cannot be sent.
        """
        self._loop.check()
        return MessageStream(self._loop.call(lambda: self._client.messages(key)), self._loop, key)

    @overload
    def wait_for(self, key: str, *, timeout: float | None = ...) -> Future[Any]: ...

    @overload
    def wait_for(self, key: str, *, payload_type: type[T], timeout: float | None = ...) -> Future[T]: ...

    def wait_for(self, key: str, *, timeout: float | None = None, payload_type: type[T] | None = None) -> Future[Any]:
        """The payload of the agent's next message with this key; listens from the call on, not from ``result()``.

        So an answer that overtakes its request's reply is not missed::

            form = agent.wait_for("show-form", timeout=5)
            agent.send("open-form")
            show(form.result())

        Args:
            timeout: seconds from now, 10 by default; ``result()`` needs none of its own.
            payload_type: the payload is parsed as this pydantic model, dataclass or type.

        Raises:
            InvalidKeyError, InvalidTimeoutError: at once. The future:
            MessageTimeoutError: no such message in time.
            InvalidReplyError: the payload does not fit ``payload_type``.
            AgentUnavailableError: the room was lost for good. ClosedError: the call was left.
        """
        options: dict[str, Any] = {"timeout": timeout, "payload_type": payload_type}
        self._loop.check()
        arrival = self._loop.call(lambda: self._client.wait_for(key, **options))

        async def payload() -> Any:
            return await arrival

        return self._loop.begin(payload)


class MessageStream:
    """An iterator over ``(payload, meta)``, listening from its creation on; close it when done early.

    It ends when the call is left, and raises AgentUnavailableError when the room is lost for good. Messages wait in
    memory until they are taken; any thread may take them.
    """

    def __init__(self, stream: room_subscriptions.MessageStream, loop: LoopThread, key: str) -> None:
        self._stream = stream
        self._loop = loop
        self._key = key
        self._arrived: Mailbox[tuple[Any, MessageMeta]] = Mailbox()
        loop.begin(self._take)

    async def _take(self) -> None:
        end: Exception = ClosedError(f"no more messages {self._key!r}: the stream was closed or the call is over")
        try:
            async for item in self._stream:
                self._arrived.put(item)
        except Exception as error:
            end = error
        finally:
            self._arrived.end(end)

    def __iter__(self) -> MessageStream:
        return self

    def __next__(self) -> tuple[Any, MessageMeta]:
        try:
            return self.get()
        except ClosedError:
            raise StopIteration from None

    def get(self, timeout: float | None = None) -> tuple[Any, MessageMeta]:
        """The next message.

        Args:
            timeout: seconds to wait for it; by default until it comes or the stream ends.

        Raises:
            MessageTimeoutError: none came in time. ClosedError: the stream has ended.
            AgentUnavailableError: the room was lost for good. UsageError: on the call's own thread.
        """
        seconds = None if timeout is None else check_timeout(timeout, default=0.0)
        self._loop.refuse_own_thread()
        try:
            return self._arrived.get(seconds)
        except Empty:
            raise MessageTimeoutError(f"the agent sent no message {self._key!r} within {seconds:g} s") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening; iterating goes on to the end of what came before. UsageError on the call's own thread."""
        with contextlib.suppress(ClosedError):
            self._loop.run(self._stream.aclose, 0.0)
