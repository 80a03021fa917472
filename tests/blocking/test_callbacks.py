"""on, on_presence and poll: callbacks run on the caller's thread, and only then."""

from __future__ import annotations

import functools
import queue
import threading
import time
from typing import Any

import pytest

from curb_client import AgentPresence, AgentState, ClosedError, InvalidTimeoutError, MessageMeta, UsageError, blocking
from tests.blocking.conftest import AgentSide, Pair, until
from tests.e2e.conftest import Stage


def poll_until(call: blocking.Call, condition: Any) -> None:
    given_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < given_up
        call.poll(timeout=0.2)


def queued(pair: Pair, key: str, count: int) -> None:
    """Send so many numbers, and wait until they are there."""
    with pair.client.messages(key) as arrived:
        for number in range(count):
            pair.agent.tell(key, {"n": number})
        for _ in range(count):
            arrived.get(timeout=10)


def test_handlers_run_in_poll_on_its_thread_and_in_order(pair: Pair) -> None:
    got: list[tuple[str, Any, int]] = []

    @pair.client.on("show-form")
    def first(payload: Any, meta: MessageMeta) -> None:
        assert meta.sender_identity == "agent"
        got.append(("first", payload["n"], threading.get_ident()))

    def second(payload: Any, meta: MessageMeta) -> None:
        got.append(("second", payload["n"], threading.get_ident()))

    remove = pair.client.on("show-form", second)
    assert pair.call.poll() == 0
    queued(pair, "show-form", 2)
    assert got == []
    assert pair.call.poll() == 4
    me = threading.get_ident()
    assert got == [("first", 0, me), ("second", 0, me), ("first", 1, me), ("second", 1, me)]

    queued(pair, "show-form", 1)
    remove()
    remove()
    assert pair.call.poll() == 1, "a handler that was removed is not called with what waits"
    assert got[4:] == [("first", 0, me)]


def test_poll_waits_for_the_first(pair: Pair) -> None:
    got: list[Any] = []
    pair.client.on("news", lambda payload, meta: got.append(payload))
    assert pair.call.poll(timeout=0.1) == 0
    telling = threading.Timer(0.3, pair.agent.tell, ("news", {"n": 1}))
    telling.start()
    assert pair.call.poll(timeout=20) == 1
    telling.join()
    assert got == [{"n": 1}]
    with pytest.raises(InvalidTimeoutError):
        pair.call.poll(timeout=-1)


@pytest.mark.parametrize("failure", [LookupError, queue.Empty, KeyboardInterrupt])
def test_what_a_handler_raises_comes_out_of_poll_and_the_rest_waits(pair: Pair, failure: type[BaseException]) -> None:
    got: list[Any] = []

    @pair.client.on("news")
    def handler(payload: Any, meta: MessageMeta) -> None:
        got.append(payload["n"])
        if payload["n"] == 1:
            raise failure("no such window")

    queued(pair, "news", 4)
    with pytest.raises(failure, match="no such window"):
        pair.call.poll()
    assert got == [0, 1]
    assert pair.call.poll() == 2
    assert got == [0, 1, 2, 3]


def test_a_handler_may_ask_listen_and_poll(pair: Pair) -> None:
    answers: list[Any] = []

    def handler(payload: Any, meta: MessageMeta) -> None:
        answers.append(pair.client.ask("echo", payload["n"]))
        if payload["n"] == 0:
            pair.client.on("more", lambda payload, meta: None)
            pair.call.poll()
        else:
            remove()

    remove = pair.client.on("news", handler)
    queued(pair, "news", 2)
    pair.call.poll()
    assert answers == [0, 1]


def test_a_handler_that_makes_more_work_does_not_keep_poll(pair: Pair) -> None:
    ran: list[Any] = []

    @pair.client.on("news")
    def handler(payload: Any, meta: MessageMeta) -> None:
        ran.append(payload)
        queued(pair, "news", 1)

    queued(pair, "news", 2)
    assert pair.call.poll() == 2
    assert len(ran) == 2


def test_handlers_added_before_the_block(stage: Stage) -> None:
    got: list[Any] = []
    call = blocking.join(stage.url, stage.token("caller"))
    assert call.agent.presence.state is AgentState.UNCONNECTED
    assert call.agent.counts.malformed == 0
    call.agent.on("news", lambda payload, meta: got.append("removed"))()
    call.agent.on("news", lambda payload, meta: got.append("news"))
    call.agent.on_presence(lambda presence: got.append(presence.state))
    with call, AgentSide(stage) as agent:
        until(lambda: call.agent.presence.is_there)
        agent.tell("news")
        poll_until(call, lambda: "news" in got)
        assert got[0] is AgentState.ABSENT
        assert "removed" not in got


def test_presence_reaches_its_callback(stage: Stage) -> None:
    seen: list[AgentPresence] = []
    with blocking.join(stage.url, stage.token("caller")) as call:
        remove = call.agent.on_presence(seen.append)
        with AgentSide(stage):
            poll_until(call, lambda: seen and seen[-1].state is AgentState.READY)
        poll_until(call, lambda: seen[-1].state is AgentState.ABSENT)
        assert seen[-2].identity == "agent"
        remove()
        with AgentSide(stage):
            until(lambda: call.agent.presence.is_there)
            assert call.poll() == 0


def test_async_handlers_are_refused(pair: Pair) -> None:
    async def handler(payload: Any, meta: MessageMeta) -> None: ...

    class Handler:
        async def __call__(self, payload: Any, meta: MessageMeta) -> None: ...

    refused: Any
    for refused in (handler, Handler(), functools.partial(handler)):
        with pytest.raises(UsageError, match="the handler of 'news' is async, and your thread has no event loop"):
            pair.client.on("news", refused)
        with pytest.raises(UsageError, match="is async"):
            pair.client.on("news")(refused)
        with pytest.raises(UsageError, match="the callback of on_presence is async"):
            pair.client.on_presence(refused)
        with pytest.raises(UsageError, match="wake is async"):
            blocking.join(pair.stage.url, "token", wake=refused)
    refused = 5
    with pytest.raises(UsageError, match="the handler of 'news' is no function but int"):
        pair.client.on("news", refused)

    disguised: Any = lambda payload, meta: handler(payload, meta)  # noqa: E731
    pair.client.on("news", disguised)
    queued(pair, "news", 1)
    with pytest.raises(UsageError, match="the handler of 'news' is async"):
        pair.call.poll()


def test_wake_tells_of_what_waits(stage: Stage) -> None:
    woken = threading.Event()
    threads: set[str] = set()

    def wake() -> None:
        threads.add(threading.current_thread().name)
        woken.set()

    with blocking.join(stage.url, stage.token("caller"), wake=wake) as call, AgentSide(stage) as agent:
        until(lambda: call.agent.presence.is_there)
        call.agent.on("news", lambda payload, meta: None)
        assert not woken.is_set()
        agent.tell("news")
        assert woken.wait(10)
        assert call.poll() == 1
        assert threads == {"curb_client.blocking"}


def test_a_wake_that_fails_is_reported_and_disturbs_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def wake() -> None:
        raise LookupError("no such window")

    with blocking.join(stage.url, stage.token("caller"), wake=wake) as call, AgentSide(stage) as agent:
        call.agent.on("news", lambda payload, meta: None)
        agent.tell("news")
        assert call.poll(timeout=10) == 1
        until(lambda: "wake raised LookupError: no such window" in caplog.text)


def test_leaving_ends_a_poll_that_waits_on_another_thread(stage: Stage) -> None:
    ends: list[BaseException] = []
    waits = threading.Event()

    def poll() -> None:
        waits.set()
        try:
            call.poll(timeout=60)
        except ClosedError as error:
            ends.append(error)

    with blocking.join(stage.url, stage.token("caller")) as call:
        polling = threading.Thread(target=poll)
        polling.start()
        waits.wait(10)
        time.sleep(0.1)
    polling.join(10)
    assert [str(error) for error in ends] == ["the call was left while this waited"]
