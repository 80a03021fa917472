"""An event loop on a thread of its own, and how other threads have things done there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent import futures
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from curb_client.errors import ClosedError, UsageError
from curb_client.room.callbacks import logger

__all__ = ["LOOK_AGAIN_SECONDS", "LoopThread"]

T = TypeVar("T")

LOOK_AGAIN_SECONDS: Final = 0.5
"""Windows delivers Ctrl-C only between two waits, so that none is longer."""
_LEAVE_SECONDS: Final = 2.0
_NOT_ENTERED_SECONDS: Final = 0.2
_BUSY_SECONDS: Final = 5.0

_OVER: Final = "this call is over; join again with blocking.join(...)"
_NOT_JOINED: Final = "the call is not joined; use it inside `with blocking.join(...) as call:`"
_OWN_THREAD: Final = (
    "this would wait for itself: it was called on the call's own thread, where token functions, trace and wake run; "
    "call it on a thread of yours"
)
_BUSY: Final = "the call's own thread is held up; token functions, trace and wake run there and must return soon"


class LoopThread:
    """Keeps an async context entered, on a daemon thread, from :meth:`start` to :meth:`end`.

    Every future that it gives out ends: with the outcome of the work, or with ClosedError when the loop ends first.
    """

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self._context = context
        self._entered: futures.Future[None] = futures.Future()
        self._unfinished: set[futures.Future[Any]] = {self._entered}
        self._thread = threading.Thread(target=self._run, name="curb_client.blocking", daemon=True)
        self._lock = threading.Lock()
        self._over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._living: asyncio.Task[Any] | None = None

    def start(self, seconds: float) -> None:
        """Enter the context; ``seconds`` is what that takes at most.

        Raises:
            UsageError, ClosedError: started before. Whatever entering raises.
        """
        if self._over:
            raise ClosedError(_OVER)
        if self._thread.is_alive():
            raise UsageError("this call is joined already")
        try:
            self._thread.start()
            self.wait(self._entered, seconds)
        except BaseException:
            self._end(_NOT_ENTERED_SECONDS)  # an attempt to connect may take its time to end
            raise

    def end(self) -> None:
        """Leave the context and end the thread. After two seconds that goes on without the caller."""
        self.refuse_own_thread()
        self._end(_LEAVE_SECONDS)
        if self._thread.is_alive():
            logger.warning("the call was not left within %g s; that goes on in the background", _LEAVE_SECONDS)

    def _end(self, seconds: float) -> None:
        with self._lock:
            told_before, self._over = self._over, True
        if self._living is not None and not told_before:
            self.post(self._living.cancel)
        if self._thread.is_alive():
            self._thread.join(seconds)

    # For other threads

    def check(self) -> None:
        """Raises:
        UsageError: not joined, or this is the loop's own thread. ClosedError: it is over.
        """
        self.refuse_own_thread()
        if self._over:
            raise ClosedError(_OVER)
        if self._loop is None:
            raise UsageError(_NOT_JOINED)
        if not self._thread.is_alive():  # in a fork
            raise ClosedError(_OVER)

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> futures.Future[T]:
        """Start ``work`` on the loop; cancelling the future cancels it. Raises what :meth:`check` does."""
        future: futures.Future[T] = futures.Future()

        def start() -> None:
            task = asyncio.ensure_future(work())
            task.add_done_callback(lambda done: _copy(done, future))
            future.add_done_callback(lambda done: self.post(task.cancel) if done.cancelled() else None)

        self.check()
        with self._lock:  # what is accepted here is on the loop before the end is
            if self._over:
                raise ClosedError(_OVER)
            self._unfinished.add(future)
            self.post(start)
        future.add_done_callback(self._unfinished.discard)
        return future

    def wait(self, future: futures.Future[T], seconds: float) -> T:
        """The future's result. What interrupts the waiting, Ctrl-C for one, cancels the work.

        Args:
            seconds: what the work takes at most by its own deadline.

        Raises:
            UsageError: the loop's thread is held up. Whatever the work raises.
        """
        given_up = time.monotonic() + seconds + _BUSY_SECONDS
        try:
            while not future.done():
                left = given_up - time.monotonic()
                if left <= 0:
                    raise UsageError(_BUSY)
                futures.wait([future], min(left, LOOK_AGAIN_SECONDS))
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """The result of ``work``; see :meth:`begin` and :meth:`wait`."""
        return self.wait(self.begin(work), seconds)

    def call(self, function: Callable[[], T]) -> T:
        """The result of ``function``, called on the loop; before the start, when nothing runs yet, at once."""
        if self._loop is None and not self._over:
            return function()

        async def work() -> T:
            return function()

        return self.run(work, 0.0)

    def read(self, function: Callable[[], T]) -> T:
        """Like :meth:`call`, and after the end at once too."""
        try:
            return self.call(function)
        except ClosedError:
            return function()

    def post(self, function: Callable[[], object]) -> None:
        """Have ``function`` called on the loop, from any thread, if it still runs; before the start at once."""
        if self._loop is None:
            function()
        else:
            with contextlib.suppress(RuntimeError):  # closed
                self._loop.call_soon_threadsafe(function)

    def refuse_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError(_OWN_THREAD)

    # On the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # a SystemExit of the user's, say, which ends the loop in the middle
            logger.error("the thread of a call ended: %r", error)
        finally:
            with self._lock:
                self._over = True
            for future in list(self._unfinished):
                _fail(future, ClosedError(_OVER))

    async def _live(self) -> None:
        with self._lock:
            if self._over:
                return
            self._living = asyncio.current_task()
            self._loop = asyncio.get_running_loop()
        try:
            async with self._context:
                if self._entered.set_running_or_notify_cancel():
                    self._entered.set_result(None)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass  # by end()
        except BaseException as error:
            _fail(self._entered, error)  # at once: what LiveKit still does keeps asyncio.run


def _copy(task: asyncio.Future[T], future: futures.Future[T]) -> None:
    error = ClosedError(_OVER) if task.cancelled() else task.exception()
    if error is not None:
        _fail(future, error)
    elif not future.done() and future.set_running_or_notify_cancel():
        future.set_result(task.result())


def _fail(future: futures.Future[Any], error: BaseException) -> None:
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)
