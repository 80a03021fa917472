"""Deadlines, and who has which part of a room."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from livekit import rtc

from curb_client.errors import RoomInUseError
from curb_client.room import sdk
from curb_client.room.sdk import abandon, claim, finish_within, on_disconnected


async def test_work_that_ends_in_time_gives_its_result() -> None:
    async def work() -> str:
        await asyncio.sleep(0.01)
        return "done"

    assert await finish_within(work(), 5) == "done"


async def test_what_work_raises_is_raised() -> None:
    async def work() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await finish_within(work(), 5)


@pytest.mark.parametrize("seconds", [0, 0.05])
async def test_work_that_takes_longer_is_cancelled(seconds: float) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(TimeoutError, match="not done after"):
        await finish_within(work(), seconds)
    await asyncio.sleep(0.01)
    assert ended in (["cancelled"], []) if seconds == 0 else ended == ["cancelled"]


async def test_cancelling_the_waiter_cancels_the_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    waiting = asyncio.ensure_future(finish_within(work(), 60))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(ended.wait(), 1)


async def test_work_that_swallows_its_cancellation_holds_up_nobody() -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(TimeoutError):
        await finish_within(stubborn(), 0.05)
    waiting = asyncio.ensure_future(finish_within(stubborn(), 60))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert loop.time() - started < 5
    let_go.set()
    await asyncio.sleep(0.01)


async def test_what_an_abandoned_task_ends_with_is_nobodys_business() -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))

    async def fails_when_cancelled() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise LookupError("too late") from None

    task = asyncio.ensure_future(fails_when_cancelled())
    await asyncio.sleep(0)
    abandon(task)
    await asyncio.wait({task})
    await asyncio.sleep(0)
    del task
    assert problems == []


def test_a_part_of_a_room_has_one_owner_at_a_time() -> None:
    class Room:
        """Anything that can be referred to weakly."""

    room, other = cast(rtc.Room, Room()), cast(rtc.Room, Room())
    release = claim(room, "a client", "first")
    with pytest.raises(RoomInUseError, match="this room has a client already"):
        claim(room, "a client", "second")
    claim(room, "an agent", "third")
    claim(other, "a client", "fourth")
    release()
    release_again = claim(room, "a client", "second")
    release()
    with pytest.raises(RoomInUseError):
        claim(room, "a client", "fifth")
    release_again()
    claim(room, "a client", "fifth")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "REASON_FOLLOWS_SECONDS", 0.02)


def room_and_reasons() -> tuple[rtc.Room, list[int]]:
    return cast(rtc.Room, rtc.EventEmitter[str]()), []


@pytest.mark.usefixtures("quick")
async def test_the_end_of_a_room_is_told_once_and_with_its_reason() -> None:
    room, reasons = room_and_reasons()
    on_disconnected(room, reasons.append)
    room.emit("connection_state_changed", rtc.ConnectionState.CONN_DISCONNECTED)
    room.emit("disconnected", rtc.DisconnectReason.ROOM_DELETED)
    room.emit("disconnected", rtc.DisconnectReason.ROOM_DELETED)
    await asyncio.sleep(0.05)
    assert reasons == [rtc.DisconnectReason.ROOM_DELETED]


@pytest.mark.usefixtures("quick")
async def test_the_end_of_a_room_is_told_where_the_sdk_gives_no_reason() -> None:
    room, reasons = room_and_reasons()
    on_disconnected(room, reasons.append)
    room.emit("connection_state_changed", rtc.ConnectionState.CONN_RECONNECTING)
    await asyncio.sleep(0.05)
    assert reasons == []
    room.emit("connection_state_changed", rtc.ConnectionState.CONN_DISCONNECTED)
    await asyncio.sleep(0.05)
    assert reasons == [rtc.DisconnectReason.UNKNOWN_REASON]


@pytest.mark.usefixtures("quick")
async def test_nobody_is_told_of_the_end_of_a_room_who_does_not_want_it_any_more() -> None:
    room, reasons = room_and_reasons()
    remove = on_disconnected(room, reasons.append)
    room.emit("connection_state_changed", rtc.ConnectionState.CONN_DISCONNECTED)
    remove()
    remove()
    room.emit("disconnected", rtc.DisconnectReason.ROOM_DELETED)
    await asyncio.sleep(0.05)
    assert reasons == []
