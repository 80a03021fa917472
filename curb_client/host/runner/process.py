"""A runner that is its process: until it is drained, by its host or by a signal (host protocol, curl walkthrough)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import Final

from curb_client.host.runner.server import Runner

__all__ = ["run_until_drained"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_logger = logging.getLogger("curb_client.host")


def run_until_drained(runner: Runner) -> int:
    """Start the runner and return the exit status of its process once it has ended.

    SIGTERM and SIGINT drain it; before it is ready, and the second time, they end the process at once with the status
    that a shell gives a program that the signal ended.

    Raises:
        RunnerStartError: it could not start.
    """
    return asyncio.run(_run(runner))


async def _run(runner: Runner) -> int:
    loop = asyncio.get_running_loop()
    signalled = False

    def asked(number: signal.Signals) -> None:
        nonlocal signalled
        if signalled or not runner.is_started:
            _exit_at_once(number)
        signalled = True
        _logger.info("%s: draining", number.name)
        runner.drain(number.name)

    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, asked, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda received, _: loop.call_soon_threadsafe(asked, signal.Signals(received)))
    await runner.start()
    await runner.until_ended()
    return 1 if runner.has_failed else 0


def _exit_at_once(number: signal.Signals) -> None:
    """Not by way of the interpreter's end, which waits for threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(128 + number)
