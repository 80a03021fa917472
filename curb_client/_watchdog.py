"""Runs one program and ends it when told to, or when the process that asked for it is gone, however that died.

A script of its own, run as ``python -I -S _watchdog.py KIND DIRECTORY STDOUT PROGRAM [ARGUMENT]...`` with the standard
library alone. STDOUT is the file descriptor that takes the program's standard output; 2 is the watchdog's own standard
error, where the program's goes as well. Its first line of output is the program's process id, or ``error`` and a
reason. A byte on standard input means "end it"; the end of standard input means that the asker has died.

A ``server`` has DIRECTORY for itself: it is removed when the asker has died. An ``agent`` works in a DIRECTORY of the
user's, which is left alone; it has a session of its own and ends with all that it started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

DRAIN_WITHIN = 0.3
"""Seconds after the first SIGTERM: livekit-server serves on after it while participants are in a room."""
END_WITHIN = 0.7
"""Seconds after the second SIGTERM, which livekit-server does not obey while it is still starting."""
LEAVE_WITHIN = 1.0
"""Seconds for an agent to leave its room after SIGTERM; LiveKit takes 20 to notice one that was killed in it."""
LOOK_EVERY = 0.1
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main(kind: str, directory: str, stdout: int, command: list[str]) -> int:
    """Returns the program's exit status, 128 and the signal's number if a signal ended it, 127 if it never ran."""
    is_agent = kind == "agent"
    if is_agent:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)  # children of the agent's that outlive it become ours, to be found
    try:
        program = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=sys.stderr,
            start_new_session=is_agent,
            # safe here: no thread runs yet
            preexec_fn=_die_with_watchdog if sys.platform == "linux" else None,
        )
    except OSError as error:
        _say(f"error {error}")
        return 127
    if stdout != 2:
        os.close(stdout)  # so that its end is the program's
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
    status = _end_agent(program) if is_agent and sys.platform != "win32" else _end_server(program)
    if orphaned.is_set() and not is_agent:
        shutil.rmtree(directory, ignore_errors=True)
    return status if status >= 0 else 128 - status


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


def _die_with_watchdog() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _listen(told: threading.Event, orphaned: threading.Event) -> None:
    if not os.read(0, 1):
        orphaned.set()
    told.set()


def _end_server(program: subprocess.Popen[bytes]) -> int:
    for seconds in (DRAIN_WITHIN, END_WITHIN):
        if program.poll() is None:
            program.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.wait(seconds)
    program.kill()
    return program.wait()


def _end_agent(program: subprocess.Popen[bytes]) -> int:
    """SIGTERM and a second to leave the room, then SIGKILL for all that is left of the agent and its children."""
    until = time.monotonic() + LEAVE_WITHIN
    if program.poll() is None:
        program.terminate()  # it alone: npm and its like pass it on, and an agent may not expect it twice
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(LEAVE_WITHIN)
        _signal_group(program.pid, signal.SIGTERM)  # of a shell that has ended, the agent itself may be left
        while _has_children() and time.monotonic() < until:
            time.sleep(LOOK_EVERY / 5)
    _signal_group(program.pid, signal.SIGKILL)
    status = program.wait()
    while _has_children() and time.monotonic() < until + END_WITHIN:
        for pid in _children():  # those that made themselves a session
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY / 10)
    return status


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody is left of it
        os.killpg(leader, number)


def _has_children() -> bool:
    """Whether any lives; the dead are collected. Where there are no subreapers, the program was the only one."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _children() -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
            if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


if __name__ == "__main__":
    exit_status = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    os._exit(exit_status)  # the listening thread may still be reading
