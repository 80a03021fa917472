"""Runs one program and ends it when told to, or when the process that asked for it is gone, however that died.

A script of its own, run as ``python -I -S _watchdog.py DIRECTORY PROGRAM [ARGUMENT]...`` with the standard library
alone. Its first line of output is the program's process id, or ``error`` and a reason. A byte on standard input
means "end it"; the end of standard input means that the asker has died, and then ``DIRECTORY`` is removed too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading

DRAIN_WITHIN = 0.3
"""Seconds after the first SIGTERM: livekit-server serves on after it while participants are in a room."""
END_WITHIN = 0.7
"""Seconds after the second SIGTERM, which livekit-server does not obey while it is still starting."""
LOOK_EVERY = 0.1
PR_SET_PDEATHSIG = 1


def main(directory: str, command: list[str]) -> int:
    """Returns the program's exit status, 128 and the signal's number if a signal ended it, 127 if it never ran."""
    try:
        program = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            stderr=sys.stderr,
            # safe here: no thread runs yet
            preexec_fn=_die_with_watchdog if sys.platform == "linux" else None,
        )
    except OSError as error:
        _say(f"error {error}")
        return 127
    _say(str(program.pid))
    told = threading.Event()
    orphaned = threading.Event()
    asker = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    threading.Thread(target=_listen, args=(told, orphaned), daemon=True).start()
    while program.poll() is None and not told.wait(LOOK_EVERY):
        # a child forked by the asker may hold the other end of standard input open after the asker's death
        if os.getppid() != asker:
            orphaned.set()
            told.set()
    status = _end(program)
    if orphaned.is_set():
        shutil.rmtree(directory, ignore_errors=True)
    return status if status >= 0 else 128 - status


def _die_with_watchdog() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _listen(told: threading.Event, orphaned: threading.Event) -> None:
    if not os.read(0, 1):
        orphaned.set()
    told.set()


def _end(program: subprocess.Popen[bytes]) -> int:
    for seconds in (DRAIN_WITHIN, END_WITHIN):
        if program.poll() is None:
            program.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.wait(seconds)
    program.kill()
    return program.wait()


if __name__ == "__main__":
    exit_status = main(sys.argv[1], sys.argv[2:])
    os._exit(exit_status)  # the listening thread may still be reading
