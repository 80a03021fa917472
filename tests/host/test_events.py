"""The event stream over real sockets; what is decided without them is in tests/protocol/test_cursor.py."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from curb_client.errors import RunnerUnauthorizedError, UsageError
from curb_client.host import (
    Backoff,
    CallCut,
    EventStream,
    FileCursorStore,
    Gap,
    JournalRecord,
    MemoryCursorStore,
    Restarted,
    RunnerClient,
)
from curb_client.protocol.records import TurnBody
from tests.host.scripted_runner import (
    DEADLINE,
    PING,
    TOKEN,
    Connection,
    Received,
    ScriptedRunner,
    ended,
    lifecycle,
    line,
    ready,
    refuses,
    scripted_runner,
    sends,
    streams,
    turn,
    until,
)

FAST = Backoff(first=0.01, most=0.05)


def client(runner: ScriptedRunner) -> RunnerClient:
    return RunnerClient(runner.address, TOKEN, backoff=FAST)


def follow(runner: RunnerClient, cursor: Any = 0, **options: Any) -> EventStream:
    return runner.events(cursor, **{"backoff": FAST, "save_every": 0.0, **options})


async def take(stream: AsyncIterator[Any], count: int) -> list[Any]:
    return [await asyncio.wait_for(stream.__anext__(), DEADLINE) for _ in range(count)]


async def take_all(stream: AsyncIterator[Any]) -> list[Any]:
    async def everything() -> list[Any]:
        return [item async for item in stream]

    return await asyncio.wait_for(everything(), DEADLINE)


def envelopes(items: list[Any]) -> list[Any]:
    return [item.envelope if isinstance(item, JournalRecord) else item for item in items]


# Bytes


@pytest.mark.parametrize("size", [1, 7, 4096, "random"])
async def test_any_chunking_gives_the_same_records(size: int | str) -> None:
    records = [ready(), turn(2, seq=1, text="a\u2028b\u2029c\u0085d \U0001f600"), turn(3, seq=2), ended(4, seq=3)]
    data = b"".join(map(line, records))
    cuts = random.Random(7)

    async def script(received: Received, connection: Connection) -> None:
        await connection.begin_stream()
        rest = data
        while rest:
            step = size if isinstance(size, int) else cuts.randint(1, 60)
            await connection.chunks(rest[:step])
            rest = rest[step:]
        await connection.gone()

    async with scripted_runner(streams(script)) as server, client(server) as runner, follow(runner) as stream:
        items = await take(stream, 4)
    assert envelopes(items) == [1, 2, 3, 4]
    assert isinstance(items[1].body, TurnBody)
    assert items[1].body.text == "a\u2028b\u2029c\u0085d \U0001f600"
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_record_of_two_megabytes_and_two_in_a_chunk() -> None:
    long = "\u00e4" * 1_000_000
    script = streams(sends([turn(1, text=long), line(turn(2)) + line(turn(3))]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        items = await take(stream, 3)
    assert envelopes(items) == [1, 2, 3]
    assert items[0].body.text == long


async def test_a_last_line_without_its_end() -> None:
    last = line(lifecycle(2, "ended", 2)).rstrip()
    script = streams(sends([ready(), last], then="end"))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take_all(stream)) == [1, 2]
    assert len(server.requests) == 1


async def test_unknown_classes_are_skipped_and_counted_and_malformed_lines_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = {**turn(2), "class": "log", "body": {"text": "?"}}
    script = streams(sends([ready(), log, b"{broken\n", PING, turn(3, seq=1)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take(stream, 2)) == [1, 3]
        counts = stream.counts
    assert counts.skipped == {"log": 1}
    assert (counts.records, counts.pings, counts.malformed, counts.connections) == (2, 1, 1, 1)
    assert "a line was dropped" in caplog.text


# Connections


@pytest.mark.parametrize("then", ["reset", "leave"])
async def test_a_break_inside_a_record_is_resumed(then: str) -> None:
    half = line(turn(2, seq=1))[:30]
    script = streams(sends([ready(), half], then=then), sends([turn(2, seq=1)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take(stream, 2)) == [1, 2]
        assert stream.counts.malformed == 0
    assert [request.after for request in server.requests] == [0, 1]


async def test_an_end_inside_a_record_is_resumed() -> None:
    half = line(turn(2, seq=1))[:30]
    script = streams(sends([ready(), half], then="end"), sends([turn(2, seq=1)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take(stream, 2)) == [1, 2]
        assert stream.counts.malformed == 1
    assert [request.after for request in server.requests] == [0, 1]


async def test_a_silent_runner_is_left_without_its_goodbye() -> None:
    script = streams(sends([ready()]), sends([turn(2, seq=1)]))
    async with (
        scripted_runner(script) as server,
        client(server) as runner,
        follow(runner, read_timeout=0.3) as stream,
    ):
        assert envelopes(await take(stream, 2)) == [1, 2]
    assert [request.after for request in server.requests] == [0, 1]


async def test_two_drops_with_only_pings_between_keep_the_cursor() -> None:
    script = streams(
        sends([ready(), turn(2, seq=1)], then="reset"),
        sends([PING], then="reset"),
        sends([PING], then="end"),
        sends([turn(3, seq=2)]),
    )
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take(stream, 3)) == [1, 2, 3]
    assert [request.after for request in server.requests] == [0, 2, 2, 2]


async def test_an_overlap_is_dropped() -> None:
    script = streams(sends([ready(), turn(2, seq=1)], then="reset"), sends([ready(), turn(2, seq=1), turn(3, seq=2)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take(stream, 3)) == [1, 2, 3]
        assert stream.repeated == 2


async def test_a_cursor_too_old_is_a_gap() -> None:
    too_old = refuses(410, {"error": "cursor_too_old", "requested": 5, "oldestRetained": 9})
    script = streams(too_old, sends([turn(9)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner, 5) as stream:
        gap, record = await take(stream, 2)
    assert gap == Gap(6, 8, "too_old")
    assert record.envelope == 9
    assert [request.after for request in server.requests] == [5, 8]


async def test_a_cursor_too_old_twice_follows_from_now_on() -> None:
    def too_old(oldest: int) -> Any:
        return refuses(410, {"error": "cursor_too_old", "requested": 5, "oldestRetained": oldest})

    script = streams(too_old(9), too_old(12), sends([turn(20)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner, 5) as stream:
        gap, record = await take(stream, 2)
    assert gap == Gap(6, 19, "too_old")
    assert record.envelope == 20
    assert [request.after for request in server.requests] == [5, 8, None]


async def test_a_restarted_runner_cuts_the_calls_of_the_one_before() -> None:
    script = streams(
        sends([ready(), turn(2, seq=1)], then="reset"),
        refuses(400, {"error": "invalid_request"}),
        sends([ready(at=5)]),
    )
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        items = await take(stream, 5)
    assert envelopes(items) == [1, 2, Restarted(2, ("call-1",)), CallCut("call-1", "restarted"), 1]
    assert [request.after for request in server.requests] == [0, 2, 0]


async def test_it_ends_with_the_runner_and_says_which_calls_were_cut() -> None:
    records = [ready(), turn(2, "call-1", 1), turn(3, "call-2", 1), ended(4, "call-2", 2), lifecycle(5, "ended", 2)]
    script = streams(sends(records, then="end"))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take_all(stream)) == [1, 2, 3, 4, 5, CallCut("call-1", "runner_ended")]
        assert await take_all(stream) == []
    assert len(server.requests) == 1


async def test_a_refusal_that_is_not_about_the_cursor_is_raised() -> None:
    script = streams(refuses(401, {"error": "unauthorized"}))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        for _ in range(2):
            with pytest.raises(RunnerUnauthorizedError):
                await take(stream, 1)
    assert len(server.requests) == 1


# Consumers


async def test_cancelled_demands_lose_nothing() -> None:
    async def script(received: Received, connection: Connection) -> None:
        await connection.begin_stream()
        for envelope in range(1, 21):
            await connection.lines(turn(envelope))
            await asyncio.sleep(0.01)
        await connection.gone()

    got: list[int] = []
    async with scripted_runner(streams(script)) as server, client(server) as runner, follow(runner) as stream:
        patience = itertools.cycle((0.0, 0.004, 0.004, DEADLINE))  # in the end a slow machine has to get on
        while len(got) < 20:
            task = asyncio.ensure_future(stream.__anext__())
            await asyncio.wait({task}, timeout=next(patience))
            if not task.done():
                task.cancel()
                task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                item = task.result()
                assert isinstance(item, JournalRecord)
                got.append(item.envelope)
    assert got == list(range(1, 21))
    assert len(server.requests) == 1


async def test_a_double_cancel_leaks_nothing() -> None:
    before = asyncio.all_tasks()
    async with scripted_runner(streams(sends([ready()]))) as server:
        for _ in range(5):

            async def consume() -> None:
                async with client(server) as runner, follow(runner) as stream:
                    async for _ in stream:
                        pass

            task = asyncio.ensure_future(consume())
            await until(lambda: server.open_connections == 1)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=DEADLINE)
            assert task.cancelled()
            gc.collect()
            await until(lambda: server.open_connections == 0)
    await until(lambda: asyncio.all_tasks() <= before)


async def test_the_client_closes_a_stream_that_nobody_closed() -> None:
    async with scripted_runner(streams(sends([ready()]))) as server:
        async with client(server) as runner:
            async for _ in follow(runner):
                break
            assert server.open_connections == 1
        await until(lambda: server.open_connections == 0)


async def test_two_consumers_at_once_are_an_error() -> None:
    async with (
        scripted_runner(streams(sends([]))) as server,
        client(server) as runner,
        follow(runner) as stream,
    ):
        waiting = asyncio.ensure_future(stream.__anext__())
        await until(lambda: server.open_connections == 1)
        with pytest.raises(UsageError, match="somebody iterates over this stream already"):
            await stream.__anext__()
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, DEADLINE)


async def test_a_slow_consumer_holds_the_runner_back() -> None:
    sent = 0

    async def script(received: Received, connection: Connection) -> None:
        nonlocal sent
        await connection.begin_stream()
        for envelope in range(1, 3_001):
            await connection.lines(turn(envelope, text="x" * 10_000))
            sent = envelope

    async with scripted_runner(streams(script)) as server, client(server) as runner, follow(runner) as stream:
        await take(stream, 1)
        last = -1
        while sent != last:  # until the sockets' own buffers are full
            last = sent
            await asyncio.sleep(0.5)
        assert sent < 2_500, "30 MB are not all in memory or on their way"
        assert envelopes(await take(stream, 2_999)) == list(range(2, 3_001))


async def test_the_events_of_one_call() -> None:
    records = [ready(), turn(2, "call-1", 1), turn(3, "call-2", 1), ended(4, "call-1", 2), turn(5, "call-2", 2)]
    script = streams(sends(records))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes([item async for item in stream.call_events("call-1")]) == [2, 4]
    script = streams(sends([ready(), turn(2, "call-1", 1), turn(4, "call-1", 2), lifecycle(5, "ended", 2)], then="end"))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        items = [item async for item in stream.call_events("call-1")]
    assert envelopes(items) == [2, Gap(3, 3, "missing"), 4, CallCut("call-1", "runner_ended")]


# Stored cursors


async def test_a_host_that_restarts_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "cursor.json"
    script = streams(sends([ready(), turn(2, seq=1), turn(3, seq=2)]))
    async with scripted_runner(script) as server, client(server) as runner:
        async with follow(runner, FileCursorStore(path)) as stream:
            assert envelopes(await take(stream, 3)) == [1, 2, 3]  # 3 is handed out, and perhaps not processed
        server.script = streams(sends([turn(3, seq=2), turn(4, seq=3)]))
        async with follow(runner, FileCursorStore(path)) as stream:
            assert envelopes(await take(stream, 2)) == [3, 4]
    assert [request.after for request in server.requests] == [0, 2]


async def test_the_cursor_is_stored_while_the_stream_is_idle() -> None:
    store = MemoryCursorStore()
    script = streams(sends([ready(), turn(2, seq=1)]))
    async with scripted_runner(script) as server, client(server) as runner:
        stream = follow(runner, store, save_every=0.05)
        await take(stream, 2)
        waiting = asyncio.ensure_future(stream.__anext__())
        await until(lambda: (store.state or {}).get("cursor") == 2)
        waiting.cancel()
        await asyncio.wait({waiting})


async def test_a_store_that_fails_is_told() -> None:
    class Broken(MemoryCursorStore):
        async def save(self, state: dict[str, Any]) -> None:
            raise OSError("the disk is full")

    script = streams(sends([ready(), turn(2, seq=1)]))
    async with scripted_runner(script) as server, client(server) as runner:
        stream = follow(runner, Broken())
        with pytest.raises(OSError, match="the disk is full"):
            await take(stream, 3)
        with pytest.raises(OSError, match="the disk is full"):
            await stream.aclose()
