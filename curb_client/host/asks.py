"""Answering what agents ask their host (host protocol, App messages: ``askHost``)."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from curb_client.errors import RunnerError, RunnerNoHandlerError, RunnerSessionNotFoundError, UsageError
from curb_client.host.failures import report
from curb_client.protocol.contract import MAX_ID_LENGTH
from curb_client.protocol.envelope import check_key
from curb_client.protocol.records import HostBody, JournalRecord
from curb_client.room.arguments import check_timeout
from curb_client.room.callbacks import Warnings, add_removable

if TYPE_CHECKING:
    from curb_client.host.client import RunnerClient
    from curb_client.host.views import Release

__all__ = ["Ask", "AskDesk", "AskHandler", "reply_id"]

HANDLER_SECONDS: Final = 600.0
MOST_AT_ONCE: Final = 1024
CLOSE_SECONDS: Final = 5.0
_logger = logging.getLogger("curb_client")


@dataclass(frozen=True)
class Ask:
    """A question of an agent, which waits for the answer.

    Attributes:
        session_id: of its call. id: unique in the call.
        name: the key. payload: a JSON object.
        at: when it was asked, in milliseconds since the Unix epoch, by the runner's clock.
    """

    session_id: str
    id: str
    name: str
    payload: Mapping[str, Any]
    at: float


AskHandler: TypeAlias = Callable[[Ask], Awaitable[Any] | Any]
"""Returns the answer's payload: a mapping, a pydantic model or a dataclass; None is ``{}``. Plain or async."""


def reply_id(ask_id: str) -> str:
    """The id of the message that answers an ask: always the same, so that a host that restarts answers once."""
    wanted = f"reply-{ask_id}"
    if len(wanted.encode("utf-16-le")) // 2 <= MAX_ID_LENGTH:
        return wanted
    return f"reply-{hashlib.sha256(ask_id.encode('utf-8', 'surrogatepass')).hexdigest()}"


class AskDesk:
    """The handlers of asks, and the asks that they work on."""

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[AskHandler, float]] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}  # to the call's id
        self._over_listeners: dict[object, Callable[[str], None]] = {}
        self._warnings = Warnings()
        self._is_closed = False

    def add(self, name: str, handler: AskHandler, timeout: float | None) -> Callable[[], None]:
        """See :meth:`.Follower.on_ask`."""
        check_key(name)
        if name in self._handlers:
            raise UsageError(f"the ask {name!r} has a handler already, and one answer: remove that one first")
        entry = (handler, check_timeout(timeout, default=HANDLER_SECONDS))
        self._handlers[name] = entry

        def remove() -> None:
            if self._handlers.get(name) is entry:
                del self._handlers[name]

        return remove

    async def take(self, runner: RunnerClient, record: JournalRecord, release: Release) -> None:
        """Answer it in a task of its own; ``release`` is called once that is done."""
        body = record.body
        if not isinstance(body, HostBody) or not body.expects_reply:
            release()
            return
        entry = self._handlers.get(body.name)
        if entry is None:
            self._warnings.once(body.name, "an agent asked and nothing answers", "add on_ask() for this name")
            release()
            return
        while len(self._tasks) >= MOST_AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        ask = Ask(record.producer, body.id, body.name, body.payload, body.at)
        task = asyncio.ensure_future(self._answer(runner, ask, *entry))
        self._tasks[task] = ask.session_id

        def finished(done: asyncio.Task[None]) -> None:
            del self._tasks[done]
            if not self._is_closed:
                release()

        task.add_done_callback(finished)

    def on_call_over(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Tell of each call that is over, by its id; returns what removes this."""
        return add_removable(self._over_listeners, listener)

    def call_over(self, session_id: str) -> None:
        """Nobody waits for this call's answers any more."""
        for listener in list(self._over_listeners.values()):
            listener(session_id)
        for task, of_call in list(self._tasks.items()):
            if of_call == session_id:
                task.cancel()

    async def aclose(self) -> None:
        """Give up all of them: a host that goes on with the stored cursor is asked again."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    async def _answer(self, runner: RunnerClient, ask: Ask, handler: AskHandler, seconds: float) -> None:
        try:
            payload = await asyncio.wait_for(_result(handler, ask), seconds)
            await runner.send(ask.session_id, ask.name, payload, id=reply_id(ask.id), in_reply_to=ask.id)
        except RunnerSessionNotFoundError:
            _logger.info("call %s was over before %r was answered", ask.session_id, ask.name)
        except RunnerNoHandlerError:
            self._warnings.once(ask.name, "an answer came too late", "answer before the agent's time-out")
        except Exception as error:
            what = "could not be delivered" if isinstance(error, RunnerError) else "failed, and the agent gets none"
            report(f"the answer to {ask.name!r} of call {ask.session_id} {what}", error)


async def _result(handler: AskHandler, ask: Ask) -> Any:
    result = handler(ask)
    return await result if inspect.isawaitable(result) else result
