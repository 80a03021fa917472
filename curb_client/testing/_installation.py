"""What the ways to install livekit-server share: the version wanted, and the rules of one installation."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping

from curb_client.errors import LiveKitServerError

__all__ = [
    "ADVICE",
    "LIVEKIT_SERVER_VERSION",
    "PROGRAM",
    "PROGRESS_EVERY",
    "Env",
    "Installation",
    "Progress",
    "UnreachableError",
    "version_numbers",
]

LIVEKIT_SERVER_VERSION = "1.13.5"
PROGRESS_EVERY = 15.0
"""Seconds between two reports of what still goes on."""
PROGRAM = "livekit-server.exe" if sys.platform == "win32" else "livekit-server"
ADVICE = (
    "Install livekit-server yourself (on PATH, or name the binary in CURB_LIVEKIT_SERVER), "
    "or set CURB_LIVEKIT_URL, CURB_LIVEKIT_API_KEY and CURB_LIVEKIT_API_SECRET for one that runs already."
)

Progress = Callable[[str], None]
Env = Mapping[str, str]


class UnreachableError(Exception):
    """The release cannot be had from here; another way to get the server may do."""


class Installation:
    """What every step of one installation shares: where to report, when to give up, whom to obey."""

    def __init__(self, progress: Progress, env: Env, abort: threading.Event, within: float) -> None:
        self.progress = progress
        self.env = env
        self.abort = abort
        self.deadline = time.monotonic() + within
        self.within = within

    def check(self, doing: str) -> None:
        """Raises LiveKitServerError once the deadline has passed or the caller has given up."""
        if self.abort.is_set():
            raise LiveKitServerError(f"Stopped while {doing}: whoever asked for a LiveKit server gave up.")
        if time.monotonic() > self.deadline:
            raise LiveKitServerError(f"Gave up {doing} after the limit of {self.within:g} s. {ADVICE}")


def version_numbers(version: str) -> tuple[int, ...]:
    """``1.13.5`` as numbers, to compare."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
