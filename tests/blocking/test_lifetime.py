"""Threads, ends and Ctrl-C: nothing hangs, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import curb_client
from curb_client import ClosedError, UsageError, blocking
from curb_client.testing import LiveKitServer
from tests.blocking.conftest import AgentSide, Pair
from tests.e2e.conftest import Stage

# What a process prints before it waits, and how the test knows that it does.

INTERRUPTED = """
import signal, sys
from curb_client import blocking

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs have none
url, token, what = sys.argv[1:]

def wait(call):
    print("waiting", flush=True)
    if what == "ask":
        call.agent.ask("never", timeout=120)
    elif what == "poll":
        call.poll(timeout=120)
    elif what == "messages":
        for message in call.agent.messages("news"):
            pass
    elif what == "get":
        call.agent.messages("news").get(timeout=120)
    elif what == "wait_for":
        call.agent.wait_for("news", timeout=120).result()

if what == "join":
    print("waiting", flush=True)
with blocking.join(url, token, timeout=60) as call:
    call.agent.on("news", lambda payload, meta: None)
    wait(call)
"""

INTERRUPTED_AND_GOING_ON = """
import signal, sys
from curb_client import blocking

signal.signal(signal.SIGINT, signal.default_int_handler)
with blocking.join(*sys.argv[1:]) as call:
    for _ in range(2):
        try:
            print("waiting", flush=True)
            call.agent.ask("never", timeout=120)
        except KeyboardInterrupt:
            print(call.agent.ask("echo", "still here"), flush=True)
"""

CYCLES = """
import gc, logging, os, sys, threading, time
from curb_client import blocking

logging.basicConfig(level=logging.WARNING)  # what asyncio says of tasks that nobody ended
url, token = sys.argv[1:]

def picture():
    return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task"))}

def settled():  # the SDK frees a room up to ten seconds after it was left
    pictures = [picture()]
    for _ in range(40):
        time.sleep(0.5)
        pictures.append(picture())
        if len(pictures) > 5 and len({tuple(each.values()) for each in pictures[-5:]}) == 1:
            break
    return pictures[-1]

def cycle():
    with blocking.join(url, token) as call:
        call.agent.on("news", print)
        stream = call.agent.messages("news")
        form = call.agent.wait_for("news", timeout=60)
        assert call.agent.ask("echo", 1) == 1
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
    assert list(stream) == [] and form.exception(0) is not None

for _ in range(3):
    cycle()
before = settled()
for _ in range(10):
    cycle()
after = settled()
gc.collect()
assert after["descriptors"] <= before["descriptors"] + 4, (before, after)
assert after["threads"] <= before["threads"] + 4, (before, after)
print("well ended")
"""


class Never:
    """A handler that does not answer."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    async def __call__(self, payload: Any, meta: Any) -> None:
        self.asked.set()
        await asyncio.sleep(60)


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(curb_client.__file__).parent.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


@contextmanager
def running(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = start(script, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    late = threading.Timer(60, process.kill)
    late.start()
    try:
        return process.stdout.readline().strip()
    finally:
        late.cancel()


def check_interrupted(process: subprocess.Popen[str]) -> None:
    """It ends soon, by the interrupt alone."""
    output, errors = process.communicate(timeout=30)
    told = f"exit status {process.returncode}\n{output}\n{errors[-3000:]}"
    assert process.returncode == -signal.SIGINT, told
    assert errors.rstrip().endswith("KeyboardInterrupt"), told
    assert "panicked" not in errors, told


# Threads


def test_several_threads_at_once(pair: Pair) -> None:
    def work(number: int) -> list[Any]:
        return [pair.client.ask("echo", [number, each], timeout=30) for each in range(10)]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(work, range(8)))
    assert answers == [[[number, each] for each in range(10)] for number in range(8)]


def test_several_calls_in_one_process(stage: Stage) -> None:
    def work(number: int) -> Any:
        with blocking.join(stage.url, stage.token(f"caller-{number}")) as call:
            return call.agent.ask("echo", number, timeout=30)

    with AgentSide(stage) as agent, ThreadPoolExecutor(3) as threads:
        agent.on("echo", lambda payload, meta: payload)
        assert list(threads.map(work, range(6))) == list(range(6))


def test_handlers_run_on_whichever_thread_polls(pair: Pair) -> None:
    threads: list[threading.Thread] = []
    pair.client.on("news", lambda payload, meta: threads.append(threading.current_thread()))
    polling = threading.Thread(target=pair.call.poll, args=(20,))
    polling.start()
    pair.agent.tell("news")
    polling.join(20)
    assert threads == [polling]


def test_the_calls_own_thread_is_refused(stage: Stage) -> None:
    refused: Future[list[str]] = Future()

    def uses() -> tuple[Callable[[], Any], ...]:
        agent = call.agent
        return (
            lambda: agent.ask("echo"),
            lambda: agent.send("echo"),
            lambda: agent.update({}),
            lambda: agent.on("news", lambda payload, meta: None),
            lambda: agent.on_presence(lambda presence: None),
            lambda: agent.wait_for("news"),
            lambda: agent.messages("news"),
            stream.get,
            stream.close,
            lambda: next(stream),
            lambda: agent.presence,
            lambda: agent.counts,
            call.poll,
            lambda: call.__exit__(None, None, None),
        )

    def wake() -> None:
        told = []
        for use in uses():
            try:
                use()
            except UsageError as error:
                told.append(str(error))
        refused.set_result(told)

    with blocking.join(stage.url, stage.token("caller"), wake=wake) as call, AgentSide(stage) as agent:
        stream = call.agent.messages("other")
        call.agent.on("news", lambda payload, meta: None)
        agent.tell("news")
        told = refused.result(20)
        assert len(told) == len(uses())
        assert all("this would wait for itself" in text for text in told), told
        assert call.poll(timeout=5) == 1


def test_a_token_function_runs_on_the_calls_own_thread(stage: Stage) -> None:
    def token() -> str:
        with pytest.raises(UsageError, match="this would wait for itself"):
            call.agent.ask("echo")
        return stage.token("caller")

    call = blocking.join(stage.url, token)
    with call:
        assert call.agent.presence.identity is None


# Ends


def test_use_before_and_after_the_block(stage: Stage) -> None:
    call = blocking.join(stage.url, stage.token("caller"))
    agent = call.agent
    uses: tuple[Callable[[], Any], ...] = (
        lambda: agent.ask("echo"),
        lambda: agent.send("echo"),
        lambda: agent.update({}),
        lambda: agent.wait_for("news"),
        lambda: agent.messages("news"),
        call.poll,
    )
    for use in uses:
        with pytest.raises(UsageError, match="the call is not joined; use it inside `with"):
            use()
    with call:
        remove = agent.on("news", lambda payload, meta: None)
        with pytest.raises(UsageError, match="joined already"), call:
            pass
        assert call.poll() == 0
    listen = (lambda: agent.on("news", print), lambda: agent.on("news")(print), lambda: agent.on_presence(print))
    for use in (*uses, *listen, call.__enter__):
        with pytest.raises(ClosedError, match="this call is over; join again"):
            use()
    remove()


def test_leaving_ends_what_waits_on_other_threads(pair: Pair) -> None:
    never = Never()
    pair.agent.on("never", never)
    stream = pair.client.messages("news")
    form = pair.client.wait_for("news", timeout=60)
    with ThreadPoolExecutor(2) as threads:
        asking = threads.submit(pair.client.ask, "never", timeout=60)
        iterating = threads.submit(list, stream)
        assert never.asked.wait(10)
        pair.call.__exit__(None, None, None)
        with pytest.raises(ClosedError, match="the client was closed while"):
            asking.result(10)
        assert iterating.result(10) == []
    with pytest.raises(ClosedError, match="the client was closed while"):
        form.result(10)


def test_a_loop_that_dies_is_told(stage: Stage) -> None:
    with blocking.join(stage.url, stage.token("caller")) as call:
        stream = call.agent.messages("news")
        form = call.agent.wait_for("news", timeout=60)
        dying = threading.Timer(0.3, call._loop.post, (sys.exit,))
        dying.start()
        with pytest.raises(ClosedError):
            call.agent.ask("echo", timeout=60)
        dying.join()
        with pytest.raises(ClosedError):
            form.result(10)
        assert list(stream) == []
        with pytest.raises(ClosedError):
            call.poll(timeout=60)


# Ctrl-C


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("what", ["ask", "poll", "messages", "get", "wait_for"])
def test_ctrl_c_ends_what_waits(stage: Stage, what: str) -> None:
    never = Never()
    with AgentSide(stage) as agent, running(INTERRUPTED, stage.url, stage.token("caller"), what) as process:
        agent.on("never", never)
        assert line_of(process) == "waiting"
        if what == "ask":
            assert never.asked.wait(20)
        else:
            threading.Event().wait(0.3)
        process.send_signal(signal.SIGINT)
        check_interrupted(process)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_while_joining_a_server_that_does_not_answer(stage: Stage) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        with running(INTERRUPTED, url, stage.token("caller"), "join") as process:
            assert line_of(process) == "waiting"
            threading.Event().wait(0.5)
            process.send_signal(signal.SIGINT)
            check_interrupted(process)


@pytest.mark.livekit_only("server", reason="a fault: the process of livekit-server is halted")
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_while_livekit_does_not_answer() -> None:
    with LiveKitServer() as server:
        pid = server.pid
        assert pid is not None
        with running(INTERRUPTED, server.url, server.token("caller", "frozen"), "ask") as process:
            assert line_of(process) == "waiting"
            os.kill(pid, signal.SIGSTOP)
            try:
                process.send_signal(signal.SIGINT)
                check_interrupted(process)
            finally:
                os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_a_program_may_go_on_after_ctrl_c(stage: Stage) -> None:
    with AgentSide(stage) as agent:
        agent.on("never", Never())
        agent.on("echo", lambda payload, meta: payload)
        with running(INTERRUPTED_AND_GOING_ON, stage.url, stage.token("caller")) as process:
            for _ in range(2):
                assert line_of(process) == "waiting"
                threading.Event().wait(0.2)
                process.send_signal(signal.SIGINT)
                assert line_of(process) == "still here"
            _, errors = process.communicate(timeout=30)
            assert process.returncode == 0, errors
            assert "Traceback" not in errors


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_calls_leave_no_threads_tasks_or_descriptors(stage: Stage) -> None:
    with AgentSide(stage) as agent:
        agent.on("echo", lambda payload, meta: payload)
        with running(CYCLES, stage.url, stage.token("caller")) as process:
            output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert output == "well ended\n"
    for trouble in ("Traceback", "pending", "never retrieved", "panicked"):
        assert trouble not in errors, errors
