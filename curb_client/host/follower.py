"""A runner's stream in the background, for many consumers: views of it, and handlers of what agents ask."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from typing_extensions import Self

from curb_client.errors import RunnerError, RunnerSessionNotFoundError
from curb_client.host.asks import AskDesk, AskHandler
from curb_client.host.events import EventStream
from curb_client.host.failures import report
from curb_client.host.stream_items import CallCut, CallItem, StreamItem, concerns, ends
from curb_client.host.transfers import Dial, HangUp, add_transfer_handlers
from curb_client.host.views import ItemView, Release, Unprocessed
from curb_client.protocol.contract import CallState
from curb_client.protocol.cursor import Gap, Restarted
from curb_client.protocol.records import JournalRecord

if TYPE_CHECKING:
    from curb_client.host.client import RunnerClient

__all__ = ["Follower", "HostSide", "StreamPump", "state_of"]

GAP_SECONDS: Final = 30.0
"""After a gap a call may be over with its end in the gap; what still comes of it comes sooner than this."""
_CAUGHT_UP_SECONDS: Final = 0.5
_CLOSE_SECONDS: Final = 5.0


class HostSide:
    """What a host does with the streams of its runners; see :class:`Follower` and :class:`RunnerPool`."""

    def __init__(self) -> None:
        self._desk = AskDesk()
        self._all: weakref.WeakSet[ItemView[Any]] = weakref.WeakSet()
        self._of_calls: dict[str, weakref.WeakSet[ItemView[CallItem]]] = {}

    @overload
    def on_ask(
        self, name: str, handler: None = ..., *, timeout: float | None = ...
    ) -> Callable[[AskHandler], AskHandler]: ...

    @overload
    def on_ask(self, name: str, handler: AskHandler, *, timeout: float | None = ...) -> Callable[[], None]: ...

    def on_ask(self, name: str, handler: AskHandler | None = None, *, timeout: float | None = None) -> Any:
        """Answer what agents ask under this name (``askHost``) with what ``handler`` returns, or decorate it.

        ::

            @host.on_ask("human.requested")
            async def decide(ask):
                return {"disposition": "allowed"}

        The handler gets an :class:`Ask` and returns a JSON object (a mapping, a pydantic model, a dataclass; None is
        ``{}``). The answer's id is made of the ask's, so that one that is asked again after a restart is answered once.
        A handler that raises, or takes longer than ``timeout`` seconds (600), answers nothing: the agent gets its
        HostTimeoutError, and the loop's exception handler the reason. It is cancelled when its call ends.

        Returns:
            with a ``handler``, what removes it.

        Raises:
            UsageError: the name has a handler. InvalidKeyError: it is no key.
        """
        if handler is not None:
            return self._desk.add(name, handler, timeout)

        def decorate(function: AskHandler) -> AskHandler:
            self._desk.add(name, function, timeout)
            return function

        return decorate

    def on_transfer(
        self,
        dial: Dial,
        *,
        hang_up: HangUp | None = None,
        timeout: float | None = None,
        start: str | None = None,
        cancel: str | None = None,
    ) -> Callable[[], None]:
        """Dial for agents that transfer a call (host protocol, Transfer); returns what removes this.

        Args:
            dial: gets a :class:`Transfer` and returns the identity of the target's participant once it is in the
                call's room. It raises TransferFailedError to say why it is not; it is cancelled when the agent calls
                the transfer off, or the time is over.
            hang_up: called when the agent calls the transfer off after the target was connected.
            timeout: seconds, 60 by default.
            start: the name under which agents ask, by default ``curb.transfer.start``.
            cancel: likewise ``curb.transfer.cancel``.
        """
        return add_transfer_handlers(self._desk, dial, hang_up, timeout, start, cancel)

    def call_events(self, session_id: str) -> ItemView[CallItem]:
        """One call's records from now on, to its ``curb.ended`` or a :class:`CallCut`, and every gap.

        Make it before the call is started, and nothing is missed.
        """
        views = self._of_calls.setdefault(session_id, weakref.WeakSet())
        view: ItemView[CallItem] = ItemView(views.discard)
        views.add(view)
        return view

    async def _deliver(
        self, item: StreamItem, to_all: object, runner: RunnerClient, hold: Callable[[], Release]
    ) -> None:
        """Hand an item to whoever wants it. ``to_all``: what the views of everything get."""
        for view in list(self._all):
            await view.put(to_all, hold())
        for session_id in self._concerned(item):
            for call_view in list(self._of_calls.get(session_id, ())):
                await call_view.put(item, hold())
                if ends(item):
                    call_view.finish()
        if isinstance(item, JournalRecord):
            await self._desk.take(runner, item, hold())
        if ends(item):
            self._call_over(item.producer if isinstance(item, JournalRecord) else getattr(item, "session_id", ""))

    def _call_over(self, session_id: str) -> None:
        self._of_calls.pop(session_id, None)
        self._desk.call_over(session_id)

    def _leave_calls(self, session_ids: Iterable[str]) -> None:
        """Nothing more will be heard of these calls, though they go on."""
        for session_id in session_ids:
            for view in list(self._of_calls.get(session_id, ())):
                view.finish()
            self._call_over(session_id)

    def _concerned(self, item: StreamItem) -> list[str]:
        if isinstance(item, JournalRecord):
            return [item.producer]
        return [session_id for session_id in self._of_calls if concerns(item, session_id)]

    def _finish_views(self, error: Exception | None) -> int:
        """End all views; returns how many there were."""
        views = [*self._all, *(view for of_call in self._of_calls.values() for view in of_call)]
        for view in views:
            view.finish(error)
        self._of_calls.clear()
        return len(views)


class StreamPump:
    """Reads one stream to its end and hands it to a :class:`HostSide`; :meth:`run` returns then, or raises.

    Args:
        label: what the views of everything get for an item; it is called once for each, before it is handed out.
        more_calls: those that the runner should hold besides the stream's open calls.
        cut: calls that were told to be cut before; kept up to date here.
    """

    def __init__(
        self,
        side: HostSide,
        runner: RunnerClient,
        stream: EventStream,
        label: Callable[[StreamItem], object],
        more_calls: Callable[[], Iterable[str]] = tuple,
        cut: set[str] | None = None,
    ) -> None:
        self._side = side
        self._runner = runner
        self._stream = stream
        self._label = label
        self._more_calls = more_calls
        self._unprocessed = Unprocessed(stream.save_again)
        self._cut: set[str] = set() if cut is None else cut
        self._checks: set[asyncio.Task[None]] = set()
        stream.state_to_save = self._unprocessed.state

    @property
    def stream(self) -> EventStream:
        """The stream."""
        return self._stream

    def open_calls(self) -> set[str]:
        """Calls whose end has not come."""
        return {*self._stream.open_calls, *self._more_calls()} - self._cut

    async def run(self) -> None:
        """To the end of the stream; raises what it raises."""
        try:
            async for item in self._stream:
                if isinstance(item, Restarted):
                    self._unprocessed.forget()
                await self.deliver(item)
                if isinstance(item, Gap):
                    self._check_later("gap")
                elif isinstance(item, Restarted):
                    self._check_later("restarted")
        finally:
            self._stop_checks()

    async def deliver(self, item: StreamItem) -> None:
        """Hand an item on; a second :class:`CallCut` for the same call is left out."""
        if isinstance(item, CallCut):
            if item.session_id in self._cut:
                self._cut.discard(item.session_id)
                return
            if item.session_id in self._stream.open_calls:  # the stream itself will say so too
                self._cut.add(item.session_id)
        before = self._stream.cursor
        await self._side._deliver(item, self._label(item), self._runner, lambda: self._unprocessed.hold(before))

    async def aclose(self) -> None:
        """Close the stream; what was not processed is behind the stored cursor."""
        self._stop_checks()
        await self._stream.aclose()

    def _stop_checks(self) -> None:
        for check in list(self._checks):
            check.cancel()

    def _check_later(self, cause: Literal["gap", "restarted"]) -> None:
        task = asyncio.ensure_future(self._check(cause, sorted(self.open_calls())))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(self, cause: Literal["gap", "restarted"], calls: Iterable[str]) -> None:
        """Calls that are over now, and whose end does not come soon, are cut."""
        over = [call for call in calls if await state_of(self._runner, call) in ("ended", "unknown")]
        await asyncio.sleep(GAP_SECONDS)
        # Where a view is slow, their ends may have come and not been read.
        while not self._stream.is_waiting:  # noqa: ASYNC110 - rare, and not at a fixed time
            await asyncio.sleep(_CAUGHT_UP_SECONDS)
        still_open = self.open_calls()
        for call in over:
            if call in still_open:
                await self.deliver(CallCut(call, cause))


async def state_of(runner: RunnerClient, call: str) -> CallState | Literal["unknown"] | None:
    """What the runner says of a call; None where it says nothing definite."""
    try:
        return (await runner.call(call)).state
    except RunnerSessionNotFoundError:
        return "unknown"
    except RunnerError:
        return None


class Follower(HostSide):
    """A runner's stream, read in the background for as many consumers as there are. Made by ``runner.follow()``.

    ::

        async with runner.follow(FileCursorStore("cursor.json")) as host:
            host.on_ask("human.requested", decide)
            record = host.call_events("call-42")
            await runner.start_call(session_id="call-42", ...)
            async for item in record:
                ...

    The stored cursor stays before everything that a view has not been asked beyond, and before every ask that is not
    answered: a host that restarts is handed these again, and perhaps some that it has seen.
    """

    def __init__(self, runner: RunnerClient, stream: EventStream) -> None:
        super().__init__()
        self._pump = StreamPump(self, runner, stream, lambda item: item)
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def stream(self) -> EventStream:
        """The stream, for its counts and its cursor; it is not to be iterated over."""
        return self._pump.stream

    def items(self) -> ItemView[StreamItem]:
        """Everything from now on. Made as the block is entered, before any ``await``, it misses nothing."""
        view: ItemView[StreamItem] = ItemView(self._all.discard)
        self._all.add(view)
        if self._ended.is_set():
            view.finish(self._failure)
        return view

    def call_events(self, session_id: str) -> ItemView[CallItem]:
        view = super().call_events(session_id)
        if self._ended.is_set():
            view.finish(self._failure)
        return view

    async def wait_ended(self) -> None:
        """Returns when the runner has ended its stream, or this was closed.

        Raises:
            RunnerError: what the stream ended with; see :class:`EventStream`.
        """
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        """Stop, and store the cursor. Handlers of asks that still run are cancelled."""
        await self._desk.aclose()
        await self._pump.aclose()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
        self._ended.set()
        self._finish_views(None)

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self) -> None:
        try:
            await self._pump.run()
        except Exception as error:
            self._failure = error
        self._ended.set()
        if not self._finish_views(self._failure) and self._failure is not None:
            report("the event stream cannot go on, and no view is there to be told", self._failure)
