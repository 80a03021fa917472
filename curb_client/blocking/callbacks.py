"""The user's functions, which LiveKit's events reach on the loop's thread and which run on the user's."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from queue import Empty

from curb_client.blocking.loop_thread import LoopThread
from curb_client.blocking.mailbox import Mailbox
from curb_client.errors import ClosedError, UsageError
from curb_client.room.callbacks import call_safely

__all__ = ["CallbackQueue", "check_plain"]


def check_plain(function: Callable[..., object], what: str) -> None:
    """Raises:
    UsageError: no function, or an async one.
    """
    if not callable(function):
        raise UsageError(f"{what} is no function but {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise UsageError(_is_async(what))


def _is_async(what: str) -> str:
    return f"{what} is async, and your thread has no event loop to run it; pass a plain function"


class CallbackQueue:
    """Calls that wait for :meth:`run`.

    Args:
        wake: called on the loop's thread for each call that is queued.
    """

    def __init__(self, loop: LoopThread, wake: Callable[[], object] | None) -> None:
        if wake is not None:
            check_plain(wake, "wake")
        self._loop = loop
        self._wake = wake
        self._waiting: Mailbox[Callable[[], bool]] = Mailbox()

    def add(
        self,
        callback: Callable[..., object],
        what: str,
        subscribe: Callable[[Callable[..., None]], Callable[[], None]],
    ) -> Callable[[], None]:
        """Queue a call of ``callback`` for each event of a subscription; returns what ends that, for any thread.

        Args:
            subscribe: called on the loop with what takes the events; returns what unsubscribes it.

        Raises:
            UsageError: see :func:`check_plain`. What :meth:`LoopThread.call` raises.
        """
        check_plain(callback, what)
        listening = True

        def call(*event: object) -> bool:
            if not listening:  # removed while it waited
                return False
            result = callback(*event)
            if inspect.iscoroutine(result):
                result.close()
                raise UsageError(_is_async(what))
            return True

        def queue(*event: object) -> None:
            self._waiting.put(partial(call, *event))
            if self._wake is not None:
                call_safely(self._wake)

        unsubscribe = self._loop.call(lambda: subscribe(queue))

        def remove() -> None:
            nonlocal listening
            listening = False
            self._loop.post(unsubscribe)

        return remove

    def run(self, seconds: float) -> int:
        """Make the calls that wait now, or the first that comes within so many seconds; returns how many.

        Raises:
            ClosedError: the call ended. Whatever a callback raises; the calls after it wait on.
        """
        given_up = time.monotonic() + seconds
        waiting, ran = len(self._waiting), 0
        while ran == 0 or ran < waiting:
            try:
                call = self._waiting.get(0.0 if ran else max(given_up - time.monotonic(), 0.0))
            except Empty:
                break
            ran += call()
        return ran

    def end(self) -> None:
        """Whoever is in :meth:`run` gets ClosedError."""
        self._waiting.end(ClosedError("the call was left while this waited"))
