"""The agent's messages through a connection that breaks, which a real server does not do on command."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from livekit import rtc

from curb_client.room import outbox as outbox_module
from curb_client.room.callbacks import Warnings
from curb_client.room.outbox import Outbox
from curb_client.room.trace import Tracer


class FakeRoom:
    """A connected room whose first ``hanging`` sends never end."""

    def __init__(self, hanging: int = 0) -> None:
        self.connection_state = rtc.ConnectionState.CONN_CONNECTED
        self.sent: list[str] = []
        self.hanging = hanging
        self.local_participant = SimpleNamespace(send_text=self.send_text)

    def isconnected(self) -> bool:
        return True

    async def send_text(self, text: str, **_: Any) -> None:
        if self.hanging:
            self.hanging -= 1
            await asyncio.Event().wait()
        self.sent.append(text)


def outbox_in(room: FakeRoom) -> Outbox:
    return Outbox(cast(rtc.Room, room), lambda to: ["caller"], Warnings(), Tracer(None, "agent", lambda: "agent"))


async def test_a_send_that_never_ends_is_dropped_and_counted_and_the_next_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "SEND_SECONDS", 0.05)
    room = FakeRoom(hanging=1)
    outbox = outbox_in(room)
    first, second = outbox.put("form", {"n": 1}, None), outbox.put("form", {"n": 2}, None)
    assert await asyncio.wait_for(first, 5) is False
    assert await asyncio.wait_for(second, 5) is True
    assert [text for text in room.sent if '"n":2' in text] == room.sent
    assert outbox.undelivered == {"form": 1}


async def test_after_a_reconnect_a_send_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "AFTER_RECONNECT_SECONDS", 0.05)
    room = FakeRoom(hanging=1)
    outbox = outbox_in(room)
    first, second = outbox.put("form", {"n": 1}, None), outbox.put("form", {"n": 2}, None)
    await asyncio.sleep(0.2)
    assert not first.done(), "without a reconnect it has ten seconds"
    outbox.reconnected()
    assert await asyncio.wait_for(first, 5) is False
    assert await asyncio.wait_for(second, 5) is True


async def test_messages_wait_for_the_connection_until_told_of_it() -> None:
    room = FakeRoom()
    room.connection_state = rtc.ConnectionState.CONN_RECONNECTING
    outbox = outbox_in(room)
    sent = outbox.put("form", {}, None)
    await asyncio.sleep(0.2)
    assert not sent.done()
    outbox.reconnected()  # though the state may still say otherwise
    assert await asyncio.wait_for(sent, 5) is True


async def test_what_is_left_at_the_end_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "FLUSH_SECONDS", 0.05)
    outbox = outbox_in(FakeRoom(hanging=2))
    sent = [outbox.put("form", {}, None) for _ in range(3)]
    await asyncio.sleep(0)
    await outbox.aclose()
    assert await asyncio.wait_for(asyncio.gather(*sent), 5) == [False] * 3
    assert await outbox.put("form", {}, None) is False
    assert outbox.undelivered == {"form": 4}
