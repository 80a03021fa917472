"""Many consumers of one stream, and what agents ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from curb_client.errors import EventStreamError, InvalidKeyError, RunnerUnauthorizedError, UsageError
from curb_client.host import (
    Ask,
    Backoff,
    CallCut,
    Follower,
    Gap,
    MemoryCursorStore,
    RunnerClient,
)
from curb_client.host import follower as follower_module
from curb_client.host import views as views_module
from curb_client.host.asks import reply_id
from tests.host.scripted_runner import (
    TOKEN,
    Connection,
    Received,
    ScriptedRunner,
    asked,
    ended,
    lifecycle,
    ready,
    scripted_runner,
    turn,
    until,
)
from tests.host.test_events import envelopes, take, take_all

FAST = Backoff(first=0.01, most=0.05)


class Feed:
    """A runner whose stream says what a test feeds it, and which takes messages."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.fed = asyncio.Event()
        self.messages: list[dict[str, Any]] = []
        self.refusals: list[tuple[int, object]] = []
        self.calls: dict[str, str] = {}
        self.asked: list[str] = []
        """The calls whose state was asked for."""
        self.server: ScriptedRunner | None = None

    def say(self, *records: Any) -> None:
        self.records += records
        self.fed.set()

    async def __call__(self, received: Received, connection: Connection) -> None:
        if received.path == "/v1/runner/events":
            await self.stream(received, connection)
        elif received.method == "POST":
            if self.refusals:
                await connection.answer(*self.refusals.pop(0))
                return
            message = received.json()
            is_new = message["id"] not in [each["id"] for each in self.messages]
            self.messages.append({"call": received.path.split("/")[3], **message})
            await connection.answer(202, {"id": message["id"], "delivered": is_new})
        else:
            call = received.path.split("/")[3]
            self.asked.append(call)
            live = {"sessionId": call, "state": self.calls.get(call), "startedAtMs": 1}
            missing = (404, {"error": "session_not_found"})
            await connection.answer(*((200, live) if call in self.calls else missing))

    async def stream(self, received: Received, connection: Connection) -> None:
        await connection.begin_stream()
        said = 0
        while True:
            for record in self.records[said:]:
                said += 1
                if isinstance(record, dict) and record["envelope"] <= (received.after or 0):
                    continue
                if record == "end":
                    await connection.end_stream()
                    return
                await connection.lines(record)
            self.fed.clear()
            await self.fed.wait()


@asynccontextmanager
async def following(cursor: Any = 0, feed: Feed | None = None) -> AsyncIterator[tuple[Feed, Follower]]:
    feed = feed or Feed()
    async with (
        scripted_runner(feed) as server,
        RunnerClient(server.address, TOKEN, backoff=FAST) as runner,
        runner.follow(cursor, backoff=FAST, save_every=0.0) as follower,
    ):
        feed.server = server
        yield feed, follower


# Views


async def test_each_view_gets_its_own() -> None:
    async with following() as (feed, host):
        everything, first, second = host.items(), host.call_events("call-1"), host.call_events("call-2")
        feed.say(ready(), turn(2, "call-1", 1), turn(3, "call-2", 1), ended(4, "call-1", 2), turn(5, "call-3", 1))
        feed.say(lifecycle(6, "ended", 2), "end")
        assert envelopes(await take_all(first)) == [2, 4]
        assert envelopes(await take_all(second)) == [3, CallCut("call-2", "runner_ended")]
        cut = [CallCut("call-2", "runner_ended"), CallCut("call-3", "runner_ended")]
        assert envelopes(await take_all(everything)) == [1, 2, 3, 4, 5, 6, *cut]
        await host.wait_ended()
        assert await take_all(host.items()) == []
        assert await take_all(host.call_events("call-9")) == []


async def test_a_failed_stream_fails_in_every_view() -> None:
    async def script(received: Received, connection: Connection) -> None:
        await connection.answer(401, {"error": "unauthorized"})

    async with scripted_runner(script) as server, RunnerClient(server.address, TOKEN) as runner:
        async with runner.follow() as host:
            for view in (host.items(), host.call_events("call-1")):
                with pytest.raises(RunnerUnauthorizedError):
                    await take_all(view)
            with pytest.raises(RunnerUnauthorizedError):
                await host.wait_ended()
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with runner.follow() as host:
            await until(lambda: told)
    assert isinstance(told[0]["exception"], RunnerUnauthorizedError)


async def test_a_view_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views_module, "STALL_SECONDS", 0.2)
    async with following() as (feed, host):
        unread, read = host.call_events("call-1"), host.call_events("call-2")
        feed.say(ready(), *(turn(number + 2, "call-1", number + 1) for number in range(300)))
        feed.say(turn(302, "call-2", 1))
        assert envelopes(await take(read, 1)) == [302]
        with pytest.raises(EventStreamError, match=r"256 items waited in it and none was taken for 0\.2 s"):
            await take_all(unread)


async def test_a_dropped_view_holds_nothing_up() -> None:
    store = MemoryCursorStore()
    async with following(store) as (feed, host):
        read = host.call_events("call-2")
        view = host.call_events("call-1")
        feed.say(ready(), *(turn(number + 2, "call-1", number + 1) for number in range(600)), turn(602, "call-2", 1))
        async for _ in view:
            break
        del view
        assert envelopes(await take(read, 1)) == [602]


async def test_the_stored_cursor_is_before_what_is_not_processed() -> None:
    store = MemoryCursorStore()
    async with following(store) as (feed, host):
        slow, everything = host.call_events("call-1"), host.items()
        feed.say(ready(), turn(2, "call-1", 1), turn(3, "call-2", 1), turn(4, "call-2", 2))
        await take(slow, 1)
        assert envelopes(await take(everything, 4)) == [1, 2, 3, 4]
    assert store.state is not None
    assert store.state["cursor"] == 1
    async with following(store, feed) as (_, host):
        assert envelopes(await take(host.items(), 3)) == [2, 3, 4]
        assert feed.server is not None
        assert feed.server.requests[0].after == 1


async def test_a_call_whose_end_was_in_a_gap_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "GAP_SECONDS", 0.2)
    async with following() as (feed, host):
        over, live, everything = host.call_events("call-1"), host.call_events("call-2"), host.items()
        feed.calls = {"call-1": "ended", "call-2": "connected"}
        feed.say(ready(), turn(2, "call-1", 1), turn(3, "call-2", 1), turn(5, "call-2", 2))
        assert envelopes(await take_all(over)) == [2, Gap(4, 4, "missing"), CallCut("call-1", "gap")]
        feed.say(lifecycle(6, "ended", 2), "end")
        assert envelopes(await take_all(live)) == [3, Gap(4, 4, "missing"), 5, CallCut("call-2", "runner_ended")]
        items = await take_all(everything)
        assert [item for item in items if item == CallCut("call-1", "gap")] == [CallCut("call-1", "gap")]
        assert CallCut("call-1", "runner_ended") not in items


async def test_a_call_whose_end_waits_behind_a_slow_view_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "GAP_SECONDS", 0.0)
    monkeypatch.setattr(follower_module, "_CAUGHT_UP_SECONDS", 0.01)
    monkeypatch.setattr(views_module, "VIEW_ITEMS", 2)
    async with following() as (feed, host):
        call, everything = host.call_events("call-1"), host.items()
        reading = asyncio.ensure_future(take_all(call))
        feed.calls = {"call-1": "ended"}
        feed.say(ready(), turn(2, "call-1", 1), turn(4, "call-1", 2), turn(5, "call-1", 3), ended(6, "call-1", 4))
        first = await take(everything, 3)
        await until(lambda: feed.asked)
        await asyncio.sleep(0.1)
        rest = await take(everything, 3)
        assert envelopes(first + rest) == [1, 2, Gap(3, 3, "missing"), 4, 5, 6]
        assert envelopes(await reading) == [2, Gap(3, 3, "missing"), 4, 5, 6]


# Asks


async def test_an_ask_is_answered() -> None:
    asks: list[Ask] = []
    async with following() as (feed, host):

        @host.on_ask("human.requested")
        async def decide(ask: Ask) -> dict[str, Any]:
            asks.append(ask)
            return {"disposition": "allowed"}

        host.on_ask("nothing", lambda ask: None)
        feed.say(ready(), asked(2, "a-3", "human.requested", {"topic": "refund"}), asked(3, "a-4", "nothing", {}))
        await until(lambda: len(feed.messages) == 2)
    assert feed.messages == [
        {"call": "call-1", "id": "reply-a-3", "name": "human.requested", "payload": {"disposition": "allowed"}}
        | {"inReplyTo": "a-3"},
        {"call": "call-1", "id": "reply-a-4", "name": "nothing", "payload": {}, "inReplyTo": "a-4"},
    ]
    assert (asks[0].session_id, asks[0].id, asks[0].payload) == ("call-1", "a-3", {"topic": "refund"})


async def test_an_ask_that_was_not_answered_is_asked_again_after_a_restart() -> None:
    store, feed = MemoryCursorStore(), Feed()
    feed.say(ready(), asked(2, "a-3", "human.requested", {}), turn(3, seq=3))
    started = asyncio.Event()

    async def never(ask: Ask) -> None:
        started.set()
        await asyncio.Event().wait()

    async with following(store, feed) as (_, host):
        host.on_ask("human.requested", never)
        await started.wait()
        await until(lambda: host.stream.counts.records == 3)
    assert not feed.messages
    for _ in range(2):  # and once it is answered, not any more
        async with following(store, feed) as (_, host):
            host.on_ask("human.requested", lambda ask: {"n": 1})
            newest = len(feed.records) + 1
            feed.say(turn(newest, seq=newest))
            await until(lambda: len(feed.messages) == 1)
            feed.say(turn(newest + 1, seq=newest + 1))  # what asks for it has processed the one before
            await until(lambda: (store.state or {})["cursor"] >= 3)
    assert [message["id"] for message in feed.messages] == ["reply-a-3"]


async def test_a_handler_that_fails_or_takes_too_long_is_told() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))

    def fail(ask: Ask) -> None:
        raise ValueError("no supervisor")

    async with following() as (feed, host):
        host.on_ask("failing", fail)
        host.on_ask("slow", lambda ask: asyncio.sleep(60), timeout=0.05)
        host.on_ask("wrong", lambda ask: [1])
        feed.say(ready(), asked(2, "a-1", "failing", {}), asked(3, "a-2", "slow", {}), asked(4, "a-3", "wrong", {}))
        await until(lambda: len(told) == 3)
    assert not feed.messages
    assert any("the answer to 'failing' of call call-1 failed" in message for message in told)
    assert any("TimeoutError" in message for message in told)
    assert any("UsageError" in message for message in told)


async def test_answers_that_nobody_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    async with following() as (feed, host):
        feed.refusals = [(422, {"error": "no_handler"}), (404, {"error": "session_not_found"})]
        host.on_ask("late", lambda ask: {})
        feed.say(ready(), asked(2, "a-1", "late", {}), asked(3, "a-2", "late", {}), asked(4, "a-3", "unheard", {}))
        await until(lambda: not feed.refusals and "unheard" in caplog.text)
        await until(lambda: "an answer came too late" in caplog.text)
    assert "an agent asked and nothing answers" in caplog.text


async def test_the_end_of_a_call_ends_its_handlers() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(ask: Ask) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with following() as (feed, host):
        host.on_ask("human.requested", wait)
        feed.say(ready(), asked(2, "a-1", "human.requested", {}))
        await asyncio.wait_for(started.wait(), 20)
        feed.say(ended(3, seq=3))
        await asyncio.wait_for(cancelled.wait(), 20)
    assert not feed.messages


async def test_handlers_are_added_once_and_removed() -> None:
    async with following() as (feed, host):
        remove = host.on_ask("human.requested", lambda ask: {"first": 1})
        with pytest.raises(UsageError, match="has a handler already"):
            host.on_ask("human.requested", lambda ask: {})
        with pytest.raises(InvalidKeyError):
            host.on_ask("", lambda ask: {})
        remove()
        host.on_ask("human.requested", lambda ask: {"second": 1})
        remove()
        feed.say(ready(), asked(2, "a-1", "human.requested", {}))
        await until(lambda: feed.messages)
    assert feed.messages[0]["payload"] == {"second": 1}


def test_ids_of_replies_fit() -> None:
    assert reply_id("a-3") == "reply-a-3"
    long = "\U0001f600" * 64
    assert len(reply_id(long)) <= 128
    assert reply_id(long) == reply_id(long) != reply_id(long[:-1] + "x")
