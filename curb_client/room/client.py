"""The caller's side: a client of the agent in a LiveKit room (host protocol, Client side and curb/client)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar, overload

from livekit import rtc
from typing_extensions import Self

from curb_client.errors import ClosedError, UsageError
from curb_client.protocol.contract import AGENT_WAIT_SECONDS, EXCHANGE_SECONDS, MAX_COUNTED_KEYS, MESSAGE, UPDATE
from curb_client.protocol.envelope import (
    check_key,
    decode_refusal,
    decode_reply,
    decode_settings,
    encode_request,
    encode_update,
)
from curb_client.protocol.states import AgentState
from curb_client.protocol.types import AgentMessage, EffectiveSettings, SessionUpdate
from curb_client.room.arguments import NO_PAYLOAD, check_timeout
from curb_client.room.callbacks import Warnings, add_under, call_safely
from curb_client.room.inbox import Inbox, MessageCounts
from curb_client.room.presence import AgentPresence, AgentWatch
from curb_client.room.rpc import start_rpc
from curb_client.room.sdk import claim
from curb_client.room.subscriptions import MessageHandler, MessageMeta, MessageStream, wait_for_message
from curb_client.room.trace import Trace, Tracer
from curb_client.room.typed import as_reply

__all__ = ["AgentClient", "connect_agent"]

T = TypeVar("T")

_PAUSE_SECONDS: Final = 0.1
_LAST_TRY_SECONDS: Final = 0.25
_CLOSED: Final = "this client is closed; make a new one with connect_agent(room)"


HandlerT = TypeVar("HandlerT", bound=MessageHandler)


def connect_agent(room: rtc.Room, *, agent_identity: str | None = None, trace: Trace | None = None) -> AgentClient:
    """A client of the agent in a room that you connect and disconnect; one per room.

    Call it in the running loop, before or after ``room.connect``: before is better, since nothing that an agent sends
    at once is missed then.

    Args:
        agent_identity: the agent's participant; by default the first remote participant of kind AGENT.
        trace: told of every step; see :mod:`curb_client.room.trace`.

    Raises:
        RoomInUseError: the room has a client already, or another handler of the text stream topic ``curb.message``.
    """
    client = AgentClient(agent_identity=agent_identity, trace=trace)
    client.attach(room)
    return client


class AgentClient:
    """Sends messages to the agent and gets its messages. Made by :func:`connect_agent` or :func:`curb_client.join`.

    Requests wait for the agent: without a ``timeout``, 10 seconds for it to be there and then 15 for its answer; with
    one, that many seconds for both. What LiveKit has lost, as it says after 7 seconds, is sent again under the same id
    while it may wait for the agent. All times are seconds.
    """

    def __init__(
        self,
        *,
        agent_identity: str | None = None,
        will_rejoin: Callable[[rtc.DisconnectReason.ValueType], bool] = lambda _: False,
        trace: Trace | None = None,
    ) -> None:
        self.counts = MessageCounts()
        """What came from the room and was dropped, or handed out late."""
        self._warnings = Warnings()
        self._watch = AgentWatch(agent_identity, will_rejoin)
        self._inbox = Inbox(self._watch.is_agent, self._deliver, self.counts, self._warnings)
        self._handlers: dict[str, dict[object, MessageHandler]] = {}
        self._pending: set[asyncio.Future[str]] = set()
        self._handling: set[asyncio.Future[Any]] = set()
        self._release: Callable[[], None] = lambda: None
        self._closed = False
        self._tracer = Tracer(trace, "client", self._watch.local_identity)
        if trace is not None:
            self._watch.add_listener(self._trace_presence)

    # The room

    def attach(self, room: rtc.Room) -> None:
        """Move to this room; handlers, streams and waiting requests come along.

        Raises:
            RoomInUseError: somebody else has it.
        """
        release = claim(room, "an agent client", self)
        try:
            self._inbox.attach(room)
        except BaseException:
            release()
            raise
        self._release()
        self._release = release
        self._watch.attach(room)

    def give_up(self, reason: str) -> None:
        """The room will not come back: whoever waits fails, with this reason in the text."""
        self._watch.lost(reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give the room back, for the next client; the room stays connected.

        Requests that still wait fail with :class:`ClosedError`, streams of messages end, async handlers are cancelled.
        """
        if self._closed:
            return
        self._closed = True
        self._inbox.detach()
        self._watch.close()
        self._release()
        for answer in self._pending:
            if not answer.done():
                answer.set_exception(ClosedError("the client was closed while this request waited for the agent"))
        for task in self._handling - {asyncio.current_task()}:
            task.cancel()
        self._handlers.clear()
        await asyncio.sleep(0)

    # The agent's presence

    @property
    def presence(self) -> AgentPresence:
        """Whether the agent is there, and who it is."""
        return self._watch.presence

    def on_presence(self, callback: Callable[[AgentPresence], object]) -> Callable[[], None]:
        """``callback`` gets each change of :attr:`presence`; returns what ends that."""
        return self._watch.add_listener(callback)

    # Requests

    async def send(
        self,
        key: str,
        payload: object = NO_PAYLOAD,
        *,
        timeout: float | None = None,
        message_id: str | None = None,
    ) -> None:
        """Send a message; returns once the agent took it. Takes and raises what :meth:`ask` does."""
        await self._message(key, payload, timeout, message_id)

    @overload
    async def ask(
        self, key: str, payload: object = ..., *, timeout: float | None = ..., message_id: str | None = ...
    ) -> Any: ...

    @overload
    async def ask(
        self,
        key: str,
        payload: object = ...,
        *,
        reply_type: type[T],
        timeout: float | None = ...,
        message_id: str | None = ...,
    ) -> T: ...

    async def ask(
        self,
        key: str,
        payload: object = NO_PAYLOAD,
        *,
        timeout: float | None = None,
        reply_type: type[T] | None = None,
        message_id: str | None = None,
    ) -> T | Any:
        """Send a message and return the agent's reply, None if there is none.

        Args:
            key: 1 to 256 characters, used as it is.
            payload: any JSON value, pydantic model or dataclass; ``{}`` when not given.
            timeout: seconds for everything; see the class.
            reply_type: the reply is parsed as this pydantic model, dataclass or type.
            message_id: 1 to 128 characters, made up when not given. A retry with the same id is answered from the
                agent's memory and not handled twice.

        Raises:
            InvalidKeyError, InvalidPayloadError, InvalidTimeoutError: before anything is sent.
            AgentRefusedError: the agent said no, or ``payload_too_large`` (over 15,360 bytes), before anything is sent.
            AgentUnavailableError: no agent took it in time; the text names the missing step.
            InvalidReplyError: the reply does not fit ``reply_type``.
            ClosedError: the client is, or was meanwhile, closed.
            livekit.rtc.RpcError: LiveKit could not carry it (1501: lost, 1502: no answer in time, 1503: disconnected).
        """
        answer = await self._message(key, payload, timeout, message_id)
        return as_reply(reply_type, decode_reply(answer), f"the reply to {key!r}")

    async def update(
        self, settings: SessionUpdate | Mapping[str, object], *, timeout: float | None = None
    ) -> EffectiveSettings:
        """Change settings of the call, all or nothing; returns those in force (host protocol, Live session settings).

        Args:
            settings: ``{"tts": {"voice", "model"}, "stt": {"language"}, "llm": {"provider", "model", "baseURL"}}``,
                every part optional.

        Raises:
            AgentRefusedError: ``not_adjustable`` with ``path``, or ``invalid_settings`` with ``issues``.
            InvalidReplyError: the answer is no settings. And what :meth:`ask` raises.
        """
        body = settings.to_wire() if isinstance(settings, SessionUpdate) else settings
        with self._tracer.exchange("ask", "answer", key=UPDATE, payload=body) as traced:
            answer = traced.text = await self._request(UPDATE, encode_update(body), timeout)
        return decode_settings(answer)

    async def _message(self, key: str, payload: object, timeout: float | None, message_id: str | None) -> str:
        request_id = str(uuid.uuid4()) if message_id is None else message_id
        with self._tracer.exchange("ask", "answer", key=key, id=request_id, payload=payload) as traced:
            traced.text = await self._request(MESSAGE, encode_request(key, request_id, payload), timeout)
        return traced.text

    async def _request(self, method: str, text: str, timeout: float | None) -> str:
        started = time.monotonic()
        wait_until = started + check_timeout(timeout, default=AGENT_WAIT_SECONDS)
        if self._closed:
            raise ClosedError(_CLOSED)
        while True:
            room, agent = await self._watch.active_agent(wait_until, method)
            seconds = EXCHANGE_SECONDS if timeout is None else wait_until - time.monotonic()
            try:
                answer = await self._awaited(start_rpc(room, agent.identity, method, text, seconds))
            except rtc.RpcError as error:
                refused = decode_refusal(error.code, error.message, error.data)
                if refused is not None:
                    self._watch.answered(agent)
                    raise refused from error
                now = time.monotonic()
                left = wait_until - now - _LAST_TRY_SECONDS  # in less a try may end in 1502, which hides the cause
                if error.code == rtc.RpcError.ErrorCode.UNSUPPORTED_METHOD:  # nothing ran
                    self._watch.unregistered()
                    if left <= 0:
                        raise self._watch.unavailable(now - started, method, AgentState.ACTIVE) from error
                elif not self._is_lost(error, agent) or left <= 0:
                    raise
                await asyncio.sleep(min(_PAUSE_SECONDS, left))
            else:
                self._watch.answered(agent)
                return answer

    def _is_lost(self, error: rtc.RpcError, agent: rtc.RemoteParticipant) -> bool:
        """Whether nobody has said that the request came, which befalls one that has just joined.

        Should it have come, asking this agent again is safe: it knows the id, and the same settings change nothing.
        """
        return error.code == rtc.RpcError.ErrorCode.CONNECTION_TIMEOUT and self._watch.is_present(agent)

    async def _awaited(self, answer: asyncio.Future[str]) -> str:
        self._pending.add(answer)
        try:
            return await answer
        finally:
            self._pending.discard(answer)

    # The agent's messages

    @overload
    def on(self, key: str) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def on(self, key: str, handler: MessageHandler) -> Callable[[], None]: ...

    def on(self, key: str, handler: MessageHandler | None = None) -> Callable[..., Any]:
        """Handle the agent's messages with this key, ``handler(payload, meta)``, plain or async.

        As a decorator it gives the function back; called with a handler it returns what removes it. Handlers are
        called in the order in which the messages were sent; an async one runs beside those of later messages. What a
        handler raises goes to the loop's exception handler.

        Raises:
            InvalidKeyError: a key that cannot be sent. UsageError: the handler is no function.
        """
        check_key(key)
        if handler is not None:
            if not callable(handler):
                raise UsageError(f"the handler of {key!r} is no function but {type(handler).__name__}")
            return self._add(key, handler)

        def decorate(function: HandlerT) -> HandlerT:
            self._add(key, function)
            return function

        return decorate

    def messages(self, key: str) -> MessageStream:
        """The agent's messages with this key from now on: ``async for payload, meta in agent.messages("status")``.

        Raises:
            InvalidKeyError: a key that cannot be sent.
        """
        check_key(key)
        return MessageStream(lambda handler: self._add(key, handler), self._watch)

    @overload
    def wait_for(self, key: str, *, timeout: float | None = ...) -> asyncio.Future[Any]: ...

    @overload
    def wait_for(self, key: str, *, payload_type: type[T], timeout: float | None = ...) -> asyncio.Future[T]: ...

    def wait_for(
        self, key: str, *, timeout: float | None = None, payload_type: type[T] | None = None
    ) -> asyncio.Future[Any]:
        """The payload of the agent's next message with this key; listens from the call on, not from the await.

        So an answer that overtakes its request's reply is not missed::

            form = agent.wait_for("show-form", timeout=5)
            await agent.send("open-form")
            show(await form)

        Args:
            timeout: seconds from now, 10 by default.
            payload_type: the payload is parsed as this pydantic model, dataclass or type.

        Raises:
            InvalidKeyError, InvalidTimeoutError: at once. When awaited:
            MessageTimeoutError: no such message in time.
            InvalidReplyError: the payload does not fit ``payload_type``.
            AgentUnavailableError: the room was lost for good. ClosedError: the client was closed.
        """
        check_key(key)
        seconds = check_timeout(timeout, default=AGENT_WAIT_SECONDS)
        return wait_for_message(lambda handler: self._add(key, handler), self._watch, key, seconds, payload_type)

    def _add(self, key: str, handler: MessageHandler) -> Callable[[], None]:
        if self._closed:
            raise ClosedError(_CLOSED)
        return add_under(self._handlers, key, handler)

    def _deliver(self, message: AgentMessage, sender_identity: str) -> None:
        handlers = self._handlers.get(message.key)
        self._tracer.step(
            "message",
            key=message.key,
            id=message.id or "",
            payload=message.payload,
            peer=sender_identity,
            error=None if handlers else "no handler",
        )
        if not handlers:
            self._unhandled(message)
            return
        meta = MessageMeta(id=message.id or "", sender_identity=sender_identity)
        for handler in list(handlers.values()):
            running = call_safely(handler, message.payload, meta)
            if running is not None:
                self._handling.add(running)
                running.add_done_callback(self._handling.discard)

    def _unhandled(self, message: AgentMessage) -> None:
        counted = self.counts.unhandled
        known = message.key in counted or len(counted) < MAX_COUNTED_KEYS
        counted[message.key if known else ""] += 1
        self._warnings.once(
            f"the agent's message {message.key!r}", "no handler", f"dropped; add agent.on({message.key!r}, ...)"
        )

    def _trace_presence(self, presence: AgentPresence) -> None:
        self._tracer.step("presence", peer=presence.identity or "", detail=presence.state.value)
