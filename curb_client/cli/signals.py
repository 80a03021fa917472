"""What Ctrl-C and SIGTERM do while a command runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

__all__ = ["end_at_once", "handled", "signalled", "take_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def take_signals() -> Callable[[], None]:
    """From now on they end nothing; the function that is returned waits for one."""
    ended = threading.Event()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: ended.set())

    def wait() -> None:
        while not ended.wait(0.5):  # in pieces: Windows delivers Ctrl-C between two waits
            pass

    return wait


@contextlib.contextmanager
def end_at_once() -> Iterator[None]:
    """They end the program, whatever it is waiting for: connecting to LiveKit cannot be cancelled."""

    def end(number: int, _: FrameType | None) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + number)

    with handled(dict.fromkeys(_SIGNALS, end)):
        yield


@contextlib.contextmanager
def signalled() -> Iterator[asyncio.Future[None]]:
    """They end nothing, but the future."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not came.done():
            came.set_result(None)

    with handled(dict.fromkeys(_SIGNALS, lambda *_: loop.call_soon_threadsafe(tell))):
        yield came


@contextlib.contextmanager
def handled(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """What a signal does until the end of the block; nothing else than before, outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
