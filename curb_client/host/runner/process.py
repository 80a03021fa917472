"""A runner that is its process: until it is drained, by its host or by a signal (host protocol, curl walkthrough)."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Final

from curb_client.host.runner.server import Runner

__all__ = ["run_until_drained"]

LAST_SECONDS: Final = 5.0
FLUSH_SECONDS: Final = 1.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_logger = logging.getLogger("curb_client.host")


def run_until_drained(runner: Runner) -> int:
    """Start the runner and return the exit status of its process once it has ended.

    SIGTERM and SIGINT drain it; before it is ready, and the second time, they end the process at once with the status
    that a shell gives a program that the signal ended, also where the agent does not let the event loop run.

    Five seconds after the runner's end the process is ended, with the status that would have been returned: a thread
    or a task of the agent that does not end would otherwise keep it.

    Raises:
        RunnerStartError: it could not start.
    """
    return asyncio.run(_run(runner))


async def _run(runner: Runner) -> int:
    loop = asyncio.get_running_loop()
    signalled = False

    def drain(number: signal.Signals) -> None:
        _logger.info("%s: draining", number.name)
        runner.drain(number.name)

    def asked(received: int, _: FrameType | None) -> None:
        nonlocal signalled
        if signalled or not runner.is_started:
            _exit_now(128 + received)
        signalled = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            loop.call_soon_threadsafe(drain, signal.Signals(received))

    for number in _SIGNALS:
        signal.signal(number, asked)  # not the loop's, which is called between two steps of it
    await runner.start()
    await runner.until_ended()
    status = 1 if runner.has_failed else 0
    too_long = threading.Timer(LAST_SECONDS, _exit_now, [status])
    too_long.daemon = True
    too_long.start()
    return status


def _exit_now(status: int) -> None:
    """Not by way of the interpreter's end, which waits for threads."""
    flushed = _thread.allocate_lock()
    flushed.acquire()
    # Whoever holds a stream's lock may be what hangs; and a signal's handler must take no lock of threading's.
    _thread.start_new_thread(_flush, (flushed,))
    flushed.acquire(timeout=FLUSH_SECONDS)
    os._exit(status)


def _flush(done: _thread.LockType) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    done.release()
