"""The agent's message handlers, and what happens to one message (host protocol, App messages)."""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from curb_client.errors import AuthoringError, InvalidKeyError
from curb_client.protocol.contract import REMEMBERED_REQUESTS, SENDERS, RefusalCode, Sender
from curb_client.protocol.envelope import Refusal, check_key
from curb_client.room.callbacks import add_under, logger
from curb_client.room.typed import SchemaMismatchError, parse_as

__all__ = ["AgentMessageHandler", "AnsweredRequests", "HandlerTable", "RequestMeta"]

T = TypeVar("T")


@dataclass(frozen=True)
class RequestMeta:
    """What the transport says about a message to the agent, never its payload.

    Attributes:
        id: unique per sender and call; a repeat is not handled again.
        sender: ``client`` or ``host``.
        sender_identity: the client's participant; None for the host.
    """

    id: str
    sender: Sender
    sender_identity: str | None


AgentMessageHandler = Callable[[Any, RequestMeta], Awaitable[Any] | Any]


@dataclass(frozen=True)
class _Handler:
    sender: Sender
    schema: Any
    function: AgentMessageHandler


class HandlerRefusal(Refusal):
    """Raised by a handler of the test kit or of a gateway, to refuse with a code and issues of its choice.

    The protocol gives an agent's handlers no such means, so it is not exported; a plain Refusal that one of them lets
    through, such as that of an update from its host, is its failure.
    """


class HandlerTable:
    """Handlers by key, in the order in which they were added."""

    def __init__(self) -> None:
        self._handlers: dict[str, dict[object, _Handler]] = {}
        self._closed = False

    def close(self) -> None:
        """From now on the cancellation of a handler is not its failure but the end of the call."""
        self._closed = True

    def add(self, key: str, sender: Sender, schema: Any, function: AgentMessageHandler) -> Callable[[], None]:
        """Returns what removes the handler.

        Raises:
            AuthoringError: an invalid key or sender, or no function.
        """
        try:
            check_key(key)
        except InvalidKeyError as error:
            raise AuthoringError(f"on_message: {error}") from None
        if sender not in SENDERS:
            raise AuthoringError(f"on_message: sender is {sender!r}; it must be one of {', '.join(SENDERS)}")
        if not callable(function):
            raise AuthoringError(f"on_message: the handler of {key!r} is no function but {type(function).__name__}")
        return add_under(self._handlers, key, _Handler(sender, schema, function))

    async def handle(self, key: str, payload: object, meta: RequestMeta) -> object:
        """Run the handlers of this key and sender; the reply is the last-added one's.

        Raises:
            Refusal: ``no_handler``, ``invalid_payload`` (no handler ran) or ``handler_failed`` (all of them ran).
        """
        handlers = [handler for handler in self._handlers.get(key, {}).values() if handler.sender == meta.sender]
        if not handlers:
            raise Refusal(RefusalCode.NO_HANDLER)
        parsed = [_parse(handler.schema, payload) for handler in handlers]
        reply: object = None
        failed = False
        refusal: HandlerRefusal | None = None
        for handler, value in zip(handlers, parsed, strict=True):
            try:
                reply = handler.function(value, meta)
                if inspect.isawaitable(reply):
                    reply = await reply
            except HandlerRefusal as error:
                refusal = error
            except (Exception, asyncio.CancelledError) as error:
                if self._closed and isinstance(error, asyncio.CancelledError):
                    raise
                failed = True
                logger.exception("the handler of the message %r failed; its sender is told handler_failed", key)
        if failed:
            raise Refusal(RefusalCode.HANDLER_FAILED)
        if refusal is not None:
            raise refusal
        return reply


def _parse(schema: Any, payload: object) -> object:
    if schema is None:
        return payload
    try:
        parsed: object = parse_as(schema, payload)
    except SchemaMismatchError as error:
        raise Refusal(RefusalCode.INVALID_PAYLOAD, issues=error.issues) from None
    return parsed


class AnsweredRequests(Generic[T]):
    """Answers by request, so that a repeat is answered from memory and not handled twice.

    A repeat of a request that is still being handled awaits its answer. A refused request is forgotten: its id is not
    taken, and a corrected retry is handled. The last 1,024 answers are kept.
    """

    def __init__(self, most: int = REMEMBERED_REQUESTS) -> None:
        self._most = most
        self._answers: OrderedDict[tuple[str | None, str], asyncio.Future[T]] = OrderedDict()

    def find(self, request: tuple[str | None, str]) -> asyncio.Future[T] | None:
        """The answer, or the one to come, of a request (sender identity, id) that was seen before."""
        return self._answers.get(request)

    def run(self, request: tuple[str | None, str], work: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Handle a request that was not seen before; it goes on when whoever asked stops waiting."""
        answer = asyncio.ensure_future(work())
        self._answers[request] = answer
        answer.add_done_callback(lambda done: self._finished(request, done))
        return answer

    def running(self) -> list[asyncio.Future[T]]:
        """The answers to come."""
        return [answer for answer in self._answers.values() if not answer.done()]

    def cancel_all(self) -> None:
        """Stop whatever is still being handled."""
        for answer in list(self._answers.values()):
            answer.cancel()

    def _finished(self, request: tuple[str | None, str], answer: asyncio.Future[T]) -> None:
        if answer.cancelled() or answer.exception() is not None:
            self._answers.pop(request, None)
        while len(self._answers) > self._most and next(iter(self._answers.values())).done():
            self._answers.popitem(last=False)
