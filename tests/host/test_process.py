"""Runners as child processes, in Python and in JavaScript."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from curb_client.errors import RunnerProcessError, UsageError
from curb_client.host import RunnerProcess
from tests.host.scripted_runner import DEADLINE
from tests.testing.processes import REPOSITORY, is_running, wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

READY = 'curb-hosted {"event":"ready","address":"127.0.0.1:1","maxSessions":2,"warmupMs":5}'


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def prints(*lines: str, then: str = "time.sleep(60)") -> list[str]:
    return python(f"import sys, time\nfor line in {lines!r}: print(line, flush=True)\n{then}")


async def test_the_ready_line_is_found_among_other_output() -> None:
    command = prints(
        "curb-hosted", "curb-hosted nothing", " " + READY, 'curb-hosted {"event":"warming"}', READY, "more"
    )
    process = RunnerProcess(command)
    async with process:
        assert process.address == "127.0.0.1:1"
        assert (process.ready.max_sessions, process.ready.warmup_ms) == (2, 5)
        assert process.is_running
        pid = process.pid
        assert pid is not None
    assert not is_running(pid)
    assert process.exit_status == 128 + signal.SIGTERM


async def test_a_ready_line_in_pieces_and_beside_unfinished_errors() -> None:
    code = f"""
    import sys, time
    sys.stderr.write("an error without an end")
    sys.stderr.flush()
    for piece in {[READY[:5], READY[5:40], READY[40:]]!r}:
        sys.stdout.write(piece); sys.stdout.flush(); time.sleep(0.05)
    print(flush=True)
    time.sleep(60)
    """
    async with RunnerProcess(python(code)) as process:
        assert process.address == "127.0.0.1:1"
        wait_for(lambda: "an error without an end" in process.output_tail())


async def test_one_that_ends_before_it_is_ready_is_told_with_its_last_lines() -> None:
    code = "import sys; print('loading'); print('no such model', file=sys.stderr); sys.exit(3)"
    with pytest.raises(RunnerProcessError, match="ended with exit status 3 before it was ready") as raised:
        async with RunnerProcess(python(code)):
            pass
    assert raised.value.exit_status == 3
    assert "loading\nno such model" in str(raised.value)


async def test_one_that_is_not_ready_in_time_is_ended() -> None:
    process = RunnerProcess(prints("warming up"), ready_within=1.0)
    with pytest.raises(RunnerProcessError, match=r"within 1 s \(ready_within\).*\nwarming up"):
        await process.start()
    assert process.pid is not None
    assert not is_running(process.pid)


async def test_a_ready_line_that_does_not_fit() -> None:
    with pytest.raises(RunnerProcessError, match=r"a ready line that does not fit: .*maxSessions"):
        async with RunnerProcess(prints('curb-hosted {"event":"ready","address":"a:1"}')):
            pass


@pytest.mark.parametrize("command", [[], "python", ["no-such-program"], ["./no/such/file"]])
async def test_what_cannot_be_run(command: list[str]) -> None:
    with pytest.raises(UsageError, match=r"command is|cannot be run"):
        await RunnerProcess(command).start()


async def test_a_command_that_cannot_be_found_keeps_nothing_open() -> None:
    await asyncio.to_thread(int)  # whatever threads need is open
    before = next_descriptor()
    for _ in range(5):
        with pytest.raises(UsageError):
            await RunnerProcess(["no-such-program"]).start()
    assert next_descriptor() == before


def next_descriptor() -> int:
    with open(os.devnull) as file:
        return file.fileno()


@pytest.mark.parametrize("steps", [1, 2, 100])
async def test_a_start_that_is_cancelled_leaves_no_child(steps: int) -> None:
    process = RunnerProcess(["sleep", "60"])
    starting = asyncio.ensure_future(process.start())
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert process.pid is not None, "as the thread that starts it goes on"
    assert not is_running(process.pid)


async def test_its_environment() -> None:
    code = """
    import os, time
    print("variables", os.environ["CURB_MANAGEMENT_ADDRESS"], os.environ["EXTRA"], os.environ.get("HOME"), flush=True)
    print(os.environ["LINE"], flush=True)
    time.sleep(60)
    """
    given = {"EXTRA": "x", "LINE": READY}
    async with RunnerProcess(python(code), environment=given) as process:
        wait_for(lambda: f"variables 127.0.0.1:0 x {os.environ.get('HOME')}" in process.output_tail())
        assert len(process.token) > 20
    own = {**given, "CURB_MANAGEMENT_TOKEN": "mine"}
    async with RunnerProcess(python(code), environment=own, inherit=False) as process:
        wait_for(lambda: "x None" in process.output_tail())
        assert process.token == "mine"


async def test_one_that_ignores_signals_is_killed_with_its_children() -> None:
    child_code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    code = f"""
    import signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", {child_code!r}])
    print("child", child.pid, flush=True)
    print({READY!r}, flush=True)
    time.sleep(60)
    """
    async with RunnerProcess(python(code)) as process:
        child = int(process.output_tail().split()[1])
        assert is_running(child)
    assert process.exit_status == 128 + signal.SIGKILL
    wait_for(lambda: not is_running(child))


def test_it_ends_with_a_host_that_is_killed() -> None:
    code = f"""
    import asyncio, sys
    from curb_client.host import RunnerProcess
    async def main():
        process = RunnerProcess({prints(READY)!r})
        await process.start()
        print(process.pid, flush=True)
        await asyncio.sleep(60)
    asyncio.run(main())
    """
    host = subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    assert is_running(pid)
    host.kill()
    host.communicate(timeout=DEADLINE)
    wait_for(lambda: not is_running(pid), DEADLINE)


async def test_waiting_for_its_end() -> None:
    async with RunnerProcess(prints(READY, then="sys.stdin.read(); sys.exit(5)")) as process:
        assert await process.wait(DEADLINE) == 5
    process = RunnerProcess(prints(READY))
    async with process:
        with pytest.raises(RunnerProcessError, match=r"runs still after 0\.1 s"):
            await process.wait(0.1)
        with pytest.raises(UsageError, match="was started before"):
            await process.start()


async def test_it_is_drained_before_it_is_signalled(tmp_path: Path) -> None:
    """A runner for Node.js, as small as can be, that notes what it is asked."""
    script = tmp_path / "runner.mjs"
    script.write_text(
        """
        import { createServer } from "node:http";
        const server = createServer((request, response) => {
          console.log(request.method, request.url, request.headers.authorization === `Bearer ${token}`);
          response.writeHead(202, { "content-type": "application/json" });
          response.end('{"draining":true}');
          setTimeout(() => process.exit(0), 50);
        });
        const token = process.env.CURB_MANAGEMENT_TOKEN;
        process.on("SIGTERM", () => process.exit(9));
        server.listen(0, "127.0.0.1", () => {
          const address = `127.0.0.1:${server.address().port}`;
          console.log("curb-hosted " + JSON.stringify({ event: "ready", address, maxSessions: 1, warmupMs: 1 }));
        });
        """
    )
    async with RunnerProcess(["node", str(script)]) as process:
        pass
    assert process.exit_status == 0
    assert "POST /v1/runner/drain true" in process.output_tail()
