"""Ending child processes, and what to show of what they printed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

__all__ = ["kill_group", "last_lines"]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that leads a session of its own, and all that it started there."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended by itself
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_lines(text: str, count: int = 20) -> str:
    """The end of an output, for an error's text."""
    return "\n".join(text.splitlines()[-count:]) if count > 0 else ""
