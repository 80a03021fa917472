"""Child processes that end with this one, what they printed, and how to end others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

__all__ = ["LOG_BYTES_KEPT", "CannotRunError", "OutputTail", "WatchedProgram", "kill_group", "last_lines"]

LOG_BYTES_KEPT = 64 * 1024
if sys.platform == "win32":
    _NEW_GROUP = subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _NEW_GROUP = 0


class CannotRunError(Exception):
    """The operating system did not start the program; the text is its reason, or empty."""


class WatchedProgram:
    """A program under a watchdog process: it ends when told to, and with this process, however that dies.

    Args:
        kind: how it is ended; see ``_watchdog.py``.
        directory: the one it runs in; of a ``server``, removed with it when this process dies.
        command: the program's path and its arguments.
        environment: all of its environment.
        output: the file descriptor that takes what it prints.
        stdout: the one that takes its standard output, where that is to be apart.
    """

    def __init__(
        self,
        kind: Literal["server", "agent"],
        directory: Path,
        command: Sequence[str | Path],
        environment: Mapping[str, str],
        output: int,
        stdout: int | None = None,
    ) -> None:
        self.owner = os.getpid()
        self._kind = kind
        self._pid = 0
        to = "2" if stdout is None else str(stdout)
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", Path(__file__).with_name("_watchdog.py"), kind, directory, to, *command],
            pass_fds=() if stdout is None else (stdout,),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal is for the clients, which leave first
            creationflags=_NEW_GROUP,
        )

    def read_pid(self) -> int:
        """The program's process id, once it runs; to be called once.

        Raises:
            CannotRunError: it does not.
        """
        assert self._watchdog.stdout is not None
        line = self._watchdog.stdout.readline().decode(errors="replace").strip()
        if not line.isdecimal():
            raise CannotRunError(line.removeprefix("error "))
        self._pid = int(line)
        return self._pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; 128 and the signal's number if a signal ended it."""
        status = self._watchdog.poll()
        return status if status is None or status >= 0 else 128 - status

    def signal(self, number: int) -> None:
        """Sends the program a signal; nothing where it has ended."""
        if self._pid and self.exit_status is None:
            with contextlib.suppress(OSError):
                os.kill(self._pid, number)

    def end(self, within: float) -> None:
        """Ends the program; kills it, without its watchdog's ways, when that takes longer than ``within`` seconds."""
        stdin, stdout = self._watchdog.stdin, self._watchdog.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            with contextlib.suppress(OSError):  # the watchdog may be gone with its program
                stdin.write(b".")
                stdin.flush()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._watchdog.wait(within)
        finally:
            if self._watchdog.poll() is None:
                kill_group(self._watchdog)
            if self._kind == "agent" and self._pid and self._watchdog.returncode < 0:
                _kill_group_of(self._pid)  # it ends with a killed watchdog, but not what it started
            with contextlib.suppress(OSError):
                stdin.close()
            stdout.close()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that leads a session of its own, and all that it started there."""
    if sys.platform == "win32":
        process.kill()
    else:
        _kill_group_of(process.pid)
    process.wait()


def _kill_group_of(leader: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended by itself
            os.killpg(leader, signal.SIGKILL)


class OutputTail:
    """The last 64 KiB of what comes out of a pipe, which is never full: a thread reads it to its end.

    Args:
        on_bytes: gets all of it, in that thread.
    """

    def __init__(self, on_bytes: Callable[[bytes], None] | None = None) -> None:
        self._on_bytes = on_bytes
        self._source, self.pipe = os.pipe()
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="curb-output", daemon=True)

    def start(self) -> None:
        """To be called once the writer has its own copy of :attr:`pipe`."""
        os.close(self.pipe)
        self._thread.start()

    def _read(self) -> None:
        with open(self._source, "rb", buffering=0) as source:
            while chunk := source.read(LOG_BYTES_KEPT):
                self._kept += chunk
                del self._kept[:-LOG_BYTES_KEPT]
                if self._on_bytes is not None:
                    self._on_bytes(chunk)

    def finish(self, within: float = 1.0) -> None:
        """Waits for the pipe's end, so that nothing is missing; a process that escaped may keep it open."""
        self._thread.join(within)

    def text(self) -> str:
        """What was kept until now."""
        return bytes(self._kept).decode(errors="replace")


def last_lines(text: str, count: int = 20) -> str:
    """The end of an output, for an error's text."""
    return "\n".join(text.splitlines()[-count:]) if count > 0 else ""
