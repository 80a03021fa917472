"""The agent's side of a call: handlers, messages to client and host, live settings (host protocol, App messages)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

from livekit import rtc
from typing_extensions import Self

from curb_client.errors import ClosedError, InvalidPayloadError, UsageError
from curb_client.protocol.contract import (
    EARLY_REQUEST_SECONDS,
    MESSAGE,
    READY_ATTRIBUTE,
    READY_VALUE,
    REFUSAL_NUMBER,
    UPDATE,
    RefusalCode,
    Sender,
)
from curb_client.protocol.envelope import MalformedTextError, Refusal, decode_request, encode_refusal, encode_reply
from curb_client.protocol.json_text import decode_json, encode_json
from curb_client.protocol.settings import Adjustable, ProviderRules
from curb_client.protocol.types import EffectiveSettings, Issue, MessageRequest
from curb_client.room.answers_under_way import AnswersUnderWay
from curb_client.room.callbacks import Warnings, add_removable, call_safely, logger
from curb_client.room.clients import ClientRoster
from curb_client.room.handlers import AgentMessageHandler, AnsweredRequests, HandlerTable, RequestMeta
from curb_client.room.host_link import HostLink
from curb_client.room.live_settings import LiveSettings
from curb_client.room.outbox import Outbox
from curb_client.room.sdk import claim, finish_within, on_disconnected
from curb_client.room.sends import AgentSends, HostAsks
from curb_client.room.trace import Trace, Tracer

__all__ = ["AgentCall"]

HandlerT = TypeVar("HandlerT", bound=AgentMessageHandler)

_SAY_AGAIN_SECONDS: Final = 0.2
_ATTRIBUTE_SECONDS: Final = 0.5  # it acts at once; now and then the SDK waits five seconds to hear of it


class AgentCall:
    """One call, seen by its agent, in a room that is connected already; ``async with`` it.

    Requests are taken as soon as it is entered, and held until :meth:`ready`; add the handlers in between.

    Args:
        room: connected, joined with a token of kind agent. A token that may update its own metadata lets the agent
            say that it is ready, and makes it visible at once; otherwise others see it up to three seconds later.
        settings: the agent's own; those in force are :attr:`settings`.
        adjustable: the paths that ``client`` and ``host`` may change; none by default.
        client_identity: the only participant taken as the client; by default every participant of kind STANDARD is.
        host: the way to the host; without one ``ask_host`` raises HostUnavailableError.
        rules: values that providers do not take.
        trace: told of every step; see :mod:`curb_client.room.trace`.

    Raises:
        UsageError: the room is not connected, or ``adjustable`` names what does not exist.
        RoomInUseError: the room has an agent's side already.
    """

    def __init__(
        self,
        room: rtc.Room,
        *,
        settings: EffectiveSettings | Mapping[str, Any] | None = None,
        adjustable: Adjustable | None = None,
        client_identity: str | None = None,
        host: HostLink | None = None,
        rules: ProviderRules | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._room = room
        self._tracer = Tracer(trace, "agent", self._identity)
        self._warnings = Warnings()
        self._handlers = HandlerTable()
        self._answers: AnsweredRequests[str] = AnsweredRequests()
        self._under_way = AnswersUnderWay(room)
        self._live = LiveSettings(settings, adjustable or {}, rules or ProviderRules())
        self._clients = ClientRoster(room, client_identity)
        self._outbox = Outbox(room, self._clients.recipients, self._warnings, self._tracer)
        self._asks = HostAsks(host, self._warnings, self._tracer)
        self._ready = asyncio.Event()
        self._release: Callable[[], None] = lambda: None
        self._stop_waiting_for_its_end: Callable[[], None] = lambda: None
        self._entered = False
        self._on_hold = False
        self._hold_listeners: dict[object, Callable[[bool], Any]] = {}
        self._saying_again: asyncio.Future[Any] | None = None
        self.send = AgentSends(self._outbox, self._asks)
        """``to_client``, ``to_host`` and ``ask_host``."""

    async def __aenter__(self) -> Self:
        if not self._room.isconnected():
            raise UsageError("the room is not connected; await room.connect(url, token) before AgentCall(room)")
        self._release = claim(self._room, "an agent's side (AgentCall)", self)
        self._entered = True
        self._room.local_participant.register_rpc_method(MESSAGE, self._on_message)
        self._room.local_participant.register_rpc_method(UPDATE, self._on_update)
        self._stop_waiting_for_its_end = on_disconnected(self._room, self._room_lost)
        self._room.on("reconnected", self._reconnected)
        try:
            await self._say_ready(READY_VALUE)
        except BaseException:  # cancelled: nobody will leave what was not entered
            await self.aclose()
            raise
        self._saying_again = call_safely(self._say_ready_again)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def room(self) -> rtc.Room:
        """The room that the call is in."""
        return self._room

    async def ready(self) -> None:
        """Let in the requests that were held, and those to come.

        Raises:
            ClosedError: the call was not entered, or is closed.
        """
        if not self._entered:
            raise ClosedError("ready() outside of `async with AgentCall(room) as call:`")
        self._ready.set()

    async def aclose(self) -> None:
        """Send what is queued, end what is asked and handled, and give the room back; it stays connected.

        Returns when the last answers are sent, after 1 s at most: who disconnects the room sooner takes them along.
        """
        if not self._entered:
            return
        self._entered = False
        if self._saying_again is not None:
            self._saying_again.cancel()
        try:
            await self._outbox.aclose()
        finally:  # also when cancelled
            self._end_what_waits()
            try:
                if self._room.isconnected():
                    self._room.local_participant.unregister_rpc_method(MESSAGE)
                    self._room.local_participant.unregister_rpc_method(UPDATE)
                    await self._say_ready("")
                    await self._under_way.sent()
            finally:
                self._release()

    def _end_what_waits(self) -> None:
        self._asks.close()
        self._handlers.close()
        self._answers.cancel_all()
        self._ready.set()  # what is still held hears that the call is over
        self._stop_waiting_for_its_end()
        self._room.off("reconnected", self._reconnected)

    # Handlers

    def on_message(
        self,
        key: str,
        handler: AgentMessageHandler | None = None,
        *,
        sender: Sender = "client",
        schema: Any = None,
    ) -> Callable[..., Any]:
        """Handle messages with this key, ``handler(payload, meta)``, plain or async; what it returns is the reply.

        As a decorator it gives the function back; called with a handler it returns what removes it. Several handlers
        of a key run in the order they were added; the reply is the last one's. One that raises makes the answer
        ``handler_failed``; the others still run.

        Args:
            sender: ``client`` or ``host``; a handler never sees the other's messages.
            schema: a pydantic model, dataclass or type: the handler gets the parsed payload, and a payload that does
                not fit is refused ``invalid_payload`` before any handler runs.

        Raises:
            AuthoringError: an invalid key or sender.
        """
        if handler is not None:
            return self._handlers.add(key, sender, schema, handler)

        def decorate(function: HandlerT) -> HandlerT:
            self._handlers.add(key, sender, schema, function)
            return function

        return decorate

    # Settings

    @property
    def settings(self) -> EffectiveSettings:
        """The settings in force: the agent's own with the accepted changes over them."""
        return self._live.effective

    def set_own_settings(self, settings: EffectiveSettings | Mapping[str, Any]) -> None:
        """Change the agent's own settings; changes accepted from outside stay over them."""
        self._live.set_own(settings)

    def on_settings(self, callback: Callable[[EffectiveSettings, Sender], Any]) -> Callable[[], None]:
        """``callback(settings, sender)`` after each accepted update that changed something; returns what removes it."""
        return self._live.add_listener(callback)

    @property
    def undelivered_to_client(self) -> Mapping[str, int]:
        """How many messages reached no client, by key (host protocol, ``curb.messages``)."""
        return self._outbox.undelivered

    # Transfer

    @property
    def on_hold(self) -> bool:
        """Whether somebody to whom the caller was transferred is in the room: the agent is then silent and deaf.

        Messages and settings are not touched by it; what the caller says or types is not for the agent.
        """
        return self._on_hold

    def set_on_hold(self, on_hold: bool) -> None:
        """Put the agent on hold, or take the call back; called by whatever runs the call."""
        if on_hold != self._on_hold:
            self._on_hold = on_hold
            for listener in list(self._hold_listeners.values()):
                call_safely(listener, on_hold)

    def on_hold_change(self, callback: Callable[[bool], Any]) -> Callable[[], None]:
        """``callback(on_hold)`` after each change: for an agent that speaks; returns what removes it."""
        return add_removable(self._hold_listeners, callback)

    # From the host; called by whatever runs the call

    async def receive_from_host(
        self, message_id: str, name: str, payload: Mapping[str, Any], in_reply_to: str | None = None
    ) -> bool:
        """Take a message of the host: as the reply to an ask that waits for it, else by the handlers.

        Returns:
            False when this id was delivered before; a repeat meanwhile awaits the outcome of the first.

        Raises:
            Refusal: ``no_handler``, ``invalid_payload`` or ``handler_failed``; the id is then not taken.
            ClosedError: the call is not entered or over, or ended while the message was held or handled.
        """
        if not self._entered:
            raise ClosedError("the call is not entered, or over; its host's messages have nowhere to go")

        async def work() -> str:
            with self._tracer.exchange(
                "request",
                "reply",
                key=name,
                id=message_id,
                payload=payload,
                peer="host",
                sender="host",
                detail=in_reply_to or "",
            ):
                if in_reply_to is None or not self._asks.answer(in_reply_to, dict(payload)):
                    await self._held(RefusalCode.NO_HANDLER)
                    await self._handlers.handle(name, dict(payload), RequestMeta(message_id, "host", None))
            return ""

        known = self._answers.find((None, message_id))
        answer = known or self._answers.run((None, message_id), work)
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not answer.cancelled():
                raise
            raise ClosedError(f"the call ended while the host's message {name!r} was handled") from None
        return known is None

    def update_from_host(self, body: Mapping[str, Any]) -> EffectiveSettings:
        """Take the host's change of settings.

        Raises:
            Refusal: ``not_adjustable`` or ``invalid_settings``.
        """
        return self._live.update(dict(body), "host")

    # From the client, by RPC

    async def _on_message(self, request: rtc.RpcInvocationData) -> str:
        return await self._answer(request, self._take_message(request.caller_identity, request.payload))

    async def _on_update(self, request: rtc.RpcInvocationData) -> str:
        return await self._answer(request, self._take_update(request.caller_identity, request.payload))

    async def _answer(self, request: rtc.RpcInvocationData, work: Coroutine[Any, Any, str]) -> str:
        """LiveKit carries nothing but RpcError back with a reason."""
        try:
            with self._under_way.answering(request.caller_identity):
                return await work
        except Refusal as refusal:
            code, data = encode_refusal(refusal)
            raise rtc.RpcError(REFUSAL_NUMBER, code, data) from None
        except asyncio.CancelledError:
            if self._entered:
                raise
            raise _recipient_left() from None

    async def _take_message(self, sender: str, text: str) -> str:
        try:
            request = self._decode(sender, text)
        except Refusal as refusal:
            self._tracer.failed("reply", refusal, peer=sender)
            raise
        with self._tracer.exchange(
            "request",
            "reply",
            key=request.key,
            id=request.id,
            payload=request.payload,
            peer=sender,
            sender="client",
        ) as traced:
            traced.text = await self._answer_to(request, sender)
        return traced.text

    def _decode(self, sender: str, text: str) -> MessageRequest:
        if not self._clients.is_client(sender):
            raise Refusal(RefusalCode.NO_HANDLER)
        try:
            return decode_request(text)
        except MalformedTextError as error:
            raise Refusal(RefusalCode.INVALID_PAYLOAD, issues=error.issues) from None

    async def _answer_to(self, request: MessageRequest, sender: str) -> str:
        async def work() -> str:
            await self._held(RefusalCode.NO_HANDLER)
            reply = await self._handlers.handle(request.key, request.payload, RequestMeta(request.id, "client", sender))
            try:
                return encode_reply(reply)
            except InvalidPayloadError as error:
                logger.error("the reply to %r cannot be sent: %s", request.key, error)
                raise Refusal(RefusalCode.HANDLER_FAILED) from None

        known = self._answers.find((sender, request.id))
        # The SDK cancels a request when its sender stops waiting; the handler goes on, for the retry to find.
        return await asyncio.shield(known or self._answers.run((sender, request.id), work))

    async def _take_update(self, sender: str, text: str) -> str:
        with self._tracer.exchange("request", "reply", key=UPDATE, payload=text, peer=sender) as traced:
            traced.text = await self._updated(sender, text)
        return traced.text

    async def _updated(self, sender: str, text: str) -> str:
        if not self._clients.is_client(sender):
            raise Refusal(RefusalCode.NOT_ADJUSTABLE)
        await self._held(RefusalCode.NOT_ADJUSTABLE)
        try:
            body = decode_json(text)
        except ValueError as error:
            issue = Issue(path=[], message=f"not JSON: {error}")
            raise Refusal(RefusalCode.INVALID_SETTINGS, issues=[issue]) from None
        return encode_json(self._live.for_client(self._live.update(body, "client")).to_wire())

    async def _held(self, refusal: RefusalCode) -> None:
        """A request that came before the agent was ready waits for it."""
        if self._ready.is_set():
            return
        try:
            await finish_within(self._ready.wait(), EARLY_REQUEST_SECONDS)
        except TimeoutError:
            raise Refusal(refusal) from None
        if not self._entered:
            raise _recipient_left()

    # The room

    def _identity(self) -> str:
        return self._room.local_participant.identity if self._room.isconnected() else ""

    async def _say_ready(self, value: str) -> None:
        participant = self._room.local_participant
        if not participant.permissions.can_update_metadata:
            return
        with contextlib.suppress(TimeoutError):
            await finish_within(participant.set_attributes({READY_ATTRIBUTE: value}), _ATTRIBUTE_SECONDS)

    async def _say_ready_again(self) -> None:
        """Where the server heard it before this participant was active, others are told of that on its next tick."""
        await asyncio.sleep(_SAY_AGAIN_SECONDS)
        await self._say_ready(READY_VALUE)

    def _reconnected(self) -> None:
        """After a full reconnect the server knows nothing of the attribute."""
        self._outbox.reconnected()
        call_safely(self._say_ready, READY_VALUE)

    def _room_lost(self, _: rtc.DisconnectReason.ValueType) -> None:
        self._asks.close()


def _recipient_left() -> rtc.RpcError:
    """LiveKit's own error for an agent that is gone."""
    code = rtc.RpcError.ErrorCode.RECIPIENT_DISCONNECTED
    return rtc.RpcError(code, rtc.RpcError.ErrorMessage[code])
