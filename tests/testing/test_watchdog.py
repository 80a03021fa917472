"""The death of the process that started a server, in whatever way, ends the server too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServer
from tests.testing.processes import REPOSITORY, is_running, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals and scripts of POSIX"),
]


OWNER = """
import os, sys, time
from pathlib import Path
from curb_client.testing import LiveKitServer
server = LiveKitServer(Path(sys.argv[1]))
{start}
print(server.pid, flush=True)
{then}
"""


def start_owner(
    binary: Path, folder: Path, then: str, start: str = "server.start()"
) -> tuple[subprocess.Popen[str], int]:
    code = OWNER.format(start=start, then=textwrap.dedent(then))
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    owner = subprocess.Popen([sys.executable, "-c", code, str(binary)], env=env, text=True, stdout=pipe, stderr=pipe)
    assert owner.stdout is not None
    line = owner.stdout.readline()
    assert line, owner.communicate(timeout=10)
    return owner, int(line)


def end_of(owner: subprocess.Popen[str]) -> None:
    owner.communicate(timeout=10)


def test_a_killed_owner_leaves_no_server_and_no_files(binary: Path, tmp_path: Path) -> None:
    owner, pid = start_owner(binary, tmp_path, "time.sleep(60)")
    assert is_running(pid)
    owner.kill()
    wait_for(lambda: not is_running(pid), 5)
    wait_for(lambda: not list(tmp_path.iterdir()), 5)
    end_of(owner)


def test_a_forked_child_does_not_keep_a_dead_owners_server(binary: Path, tmp_path: Path) -> None:
    then = """
        child = os.fork()
        if child == 0:
            server.stop()  # not the child's to stop
            os.close(1)
            time.sleep(60)
        Path(os.environ["TMPDIR"], "child").write_text(str(child))
        time.sleep(60)
    """
    owner, pid = start_owner(binary, tmp_path, then)
    wait_for(lambda: (tmp_path / "child").exists() and bool((tmp_path / "child").read_text()))
    time.sleep(0.5)
    assert is_running(pid)
    owner.kill()
    try:
        wait_for(lambda: not is_running(pid), 5)
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
        end_of(owner)


def test_an_owner_that_forgets_to_stop_it_leaves_no_server(binary: Path, tmp_path: Path) -> None:
    owner, pid = start_owner(binary, tmp_path, "")
    end_of(owner)
    assert owner.returncode == 0
    assert not is_running(pid)
    assert list(tmp_path.iterdir()) == []


def test_a_terminated_owner_leaves_no_server(binary: Path, tmp_path: Path) -> None:
    owner, pid = start_owner(binary, tmp_path, "time.sleep(60)")
    owner.terminate()
    wait_for(lambda: not is_running(pid), 5)
    end_of(owner)


PLAIN_BLOCK = """
with server:
    print(server.pid, flush=True)
    while True:
        time.sleep(0.1)  # one that has not begun yet is not interrupted
"""
ASYNC_BLOCK = """
import asyncio
async def main():
    async with server:
        print(server.pid, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("start", [PLAIN_BLOCK, ASYNC_BLOCK], ids=["with", "async with"])
def test_ctrl_c_ends_owner_and_server(binary: Path, tmp_path: Path, start: str) -> None:
    owner, pid = start_owner(binary, tmp_path, "", start)
    owner.send_signal(signal.SIGINT)
    _, errors = owner.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors
    assert not is_running(pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_watchdog_takes_the_server_along(binary: Path) -> None:
    server = LiveKitServer(binary)
    with server:
        pid = server.pid
        assert pid is not None
        watchdog = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(watchdog, signal.SIGKILL)
        wait_for(lambda: not is_running(pid), 5)
