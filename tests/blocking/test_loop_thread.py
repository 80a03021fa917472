"""The thread below the client: every wait ends, whatever happens to the loop. Without a room."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from queue import Empty
from typing import Any

import pytest

from curb_client import ClosedError, UsageError
from curb_client.blocking import loop_thread
from curb_client.blocking.loop_thread import LoopThread
from curb_client.blocking.mailbox import Mailbox


@asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def slow_to_leave() -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.sleep(1)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread(nothing())
    made.start(5)
    yield made
    made.end()


async def forever() -> None:
    await asyncio.Event().wait()


class InterruptError(BaseException):
    """As KeyboardInterrupt, which would end the test run where it is not caught."""


@contextmanager
def interrupted(after: float = 0.2) -> Iterator[None]:
    def interrupt(number: int, frame: object) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        with pytest.raises(InterruptError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def dies(loop: LoopThread) -> None:
    loop.post(sys.exit)


# What ends a wait


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_a_signal_ends_a_wait_and_cancels_its_work(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with interrupted():
        loop.run(work, 60)
    assert cancelled.wait(5)
    future = loop.begin(work)
    with interrupted():
        future.result()
    box: Mailbox[int] = Mailbox()
    for seconds in (None, 60):
        with interrupted():
            box.get(seconds)
    assert loop.call(lambda: 1) == 1, "the loop is as before"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_a_signal_ends_the_start_and_the_thread_with_it() -> None:
    left = threading.Event()

    @asynccontextmanager
    async def never_entered() -> AsyncIterator[None]:
        try:
            await forever()
        finally:
            left.set()
        yield

    loop = LoopThread(never_entered())
    with interrupted():
        loop.start(60)
    assert left.wait(5)
    with pytest.raises(ClosedError, match="this call is over"):
        loop.start(5)


def test_the_end_fails_what_still_waits(loop: LoopThread) -> None:
    waiting = [loop.begin(forever) for _ in range(3)]
    loop.end()
    loop.end()
    for future in waiting:
        with pytest.raises(ClosedError, match="this call is over"):
            future.result(5)
    for call in (lambda: loop.begin(forever), lambda: loop.call(lambda: 1), loop.check, lambda: loop.start(1)):
        with pytest.raises(ClosedError, match="this call is over; join again"):
            call()
    loop.post(sys.exit)
    assert loop.read(lambda: 1) == 1


def test_a_loop_that_dies_fails_what_still_waits(loop: LoopThread, caplog: pytest.LogCaptureFixture) -> None:
    waiting = loop.begin(forever)
    dies(loop)
    with pytest.raises(ClosedError, match="this call is over"):
        loop.wait(waiting, 60)
    loop.end()
    assert "the thread of a call ended: SystemExit()" in caplog.text


def test_a_loop_that_dies_while_it_starts() -> None:
    @asynccontextmanager
    async def exits() -> AsyncIterator[None]:
        asyncio.get_running_loop().call_soon(sys.exit)
        await forever()
        yield

    with pytest.raises(ClosedError):
        LoopThread(exits()).start(60)


def test_what_entering_raises() -> None:
    @asynccontextmanager
    async def fails() -> AsyncIterator[None]:
        raise LookupError("no room")
        yield

    loop = LoopThread(fails())
    with pytest.raises(LookupError, match="no room"):
        loop.start(60)
    with pytest.raises(ClosedError):
        loop.check()


def test_a_thread_that_is_held_up_is_told_of(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "_BUSY_SECONDS", 0.2)
    free = threading.Event()
    loop.post(lambda: free.wait(10))
    try:
        with pytest.raises(UsageError, match="the call's own thread is held up"):
            loop.call(lambda: 1)
    finally:
        free.set()
    assert loop.call(lambda: 1) == 1


def test_an_end_that_takes_long_goes_on_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_thread, "_LEAVE_SECONDS", 0.2)
    loop = LoopThread(slow_to_leave())
    loop.start(5)
    threads = set(threading.enumerate())
    loop.end()
    assert "the call was not left within 0.2 s; that goes on" in caplog.text
    for thread in threads - {threading.current_thread()}:
        if thread.name == "curb_client.blocking":
            thread.join(10)
            assert not thread.is_alive()


# Who may call


def test_the_own_thread_is_refused_not_left_to_wait_for_itself(loop: LoopThread) -> None:
    refusals: Future[list[str]] = Future()

    def on_loop() -> None:
        told = []
        calls: tuple[Callable[[], Any], ...] = (
            lambda: loop.call(lambda: 1),
            lambda: loop.run(forever, 1),
            lambda: loop.read(lambda: 1),
            loop.end,
            loop.check,
        )
        for call in calls:
            try:
                call()
            except UsageError as error:
                told.append(str(error))
        refusals.set_result(told)

    loop.post(on_loop)
    told = refusals.result(10)
    assert len(told) == 5
    assert all(text.startswith("this would wait for itself") for text in told)
    assert loop.call(lambda: 1) == 1


def test_not_started_and_started_twice(loop: LoopThread) -> None:
    with pytest.raises(UsageError, match="this call is joined already"):
        loop.start(5)
    new = LoopThread(nothing())
    assert new.call(lambda: 1) == 1
    with pytest.raises(UsageError, match="the call is not joined"):
        new.begin(forever)
    new.end()
    with pytest.raises(ClosedError):
        new.start(5)


def test_a_cancelled_future_cancels_its_work_once(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def stubborn() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.set()
            raise LookupError("nobody's business") from None

    future = loop.begin(stubborn)
    loop.call(lambda: 1)
    assert future.cancel()
    assert cancelled.wait(5)
    done = loop.begin(lambda: asyncio.sleep(0, 5))
    assert done.result(5) == 5
    assert not done.cancel()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_no_such_thread(loop: LoopThread) -> None:
    child = os.fork()
    if child == 0:
        try:
            loop.call(lambda: 1)
        except ClosedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# The mailbox


def test_a_mailbox_keeps_the_order_and_ends() -> None:
    box: Mailbox[int] = Mailbox()
    box.put(1)
    box.put(2)
    box.end(LookupError("the end"))
    assert len(box) == 3
    assert [box.get(0), box.get(None)] == [1, 2]
    for seconds in (None, 0, 5):
        with pytest.raises(LookupError, match="the end"):
            box.get(seconds)


def test_a_mailbox_waits_as_long_as_it_is_told() -> None:
    box: Mailbox[int] = Mailbox()
    for seconds in (0, 0.1, loop_thread.LOOK_AGAIN_SECONDS + 0.1):
        started = time.monotonic()
        with pytest.raises(Empty):
            box.get(seconds)
        assert time.monotonic() - started >= seconds
    later = threading.Timer(loop_thread.LOOK_AGAIN_SECONDS + 0.2, box.put, (1,))
    later.start()
    assert box.get(None) == 1
    later.join()
