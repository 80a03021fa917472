"""Commands that serve until they are told to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

__all__ = ["take_signals"]


def take_signals() -> Callable[[], None]:
    """From now on SIGINT and SIGTERM end nothing; the function that is returned waits for one."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())

    def wait() -> None:
        while not ended.wait(0.5):  # in pieces: Windows delivers Ctrl-C between two waits
            pass

    return wait
