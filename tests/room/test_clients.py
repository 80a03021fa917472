"""Who is taken as the client, by the picture that a room has of its participants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from livekit import rtc

from curb_client.room.clients import ClientRoster

STANDARD = rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD
AGENT = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
SIP = rtc.ParticipantKind.PARTICIPANT_KIND_SIP


@dataclass
class FakeParticipant:
    kind: int


class FakeRoom:
    def __init__(self, **kinds: int) -> None:
        self.remote_participants = {identity: FakeParticipant(kind) for identity, kind in kinds.items()}

    def joins(self, identity: str, kind: int = STANDARD) -> None:
        self.remote_participants[identity] = FakeParticipant(kind)


def roster(room: FakeRoom, client_identity: str | None = None) -> ClientRoster:
    return ClientRoster(cast(rtc.Room, room), client_identity)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be moved on."""
    time = [1000.0]
    monkeypatch.setattr("curb_client.room.clients.time.monotonic", lambda: time[0])
    return time


def test_everybody_of_kind_standard_is_a_client() -> None:
    clients = roster(FakeRoom(ann=STANDARD, bot=AGENT, phone=SIP, bob=STANDARD))
    assert [name for name in ("ann", "bot", "phone", "bob") if clients.is_client(name)] == ["ann", "bob"]
    assert clients.recipients(None) == ["ann", "bob"]
    assert clients.recipients("bob") == ["bob"]
    assert clients.recipients("bot") == []
    assert clients.recipients("ghost") == []


def test_the_client_that_is_named_is_the_only_one_whatever_its_kind() -> None:
    clients = roster(FakeRoom(ann=STANDARD, phone=SIP), "phone")
    assert clients.is_client("phone")
    assert not clients.is_client("ann")
    assert not clients.is_client("ghost")
    assert clients.recipients(None) == ["phone"]
    assert clients.recipients("ann") == []
    assert roster(FakeRoom(ann=STANDARD), "phone").recipients(None) == []


def test_a_client_that_was_heard_before_it_was_announced_gets_messages(now: list[float]) -> None:
    room = FakeRoom()
    clients = roster(room)
    assert clients.recipients(None) == []
    assert clients.is_client("early")
    assert clients.recipients(None) == clients.recipients("early") == ["early"]
    room.joins("early")
    assert clients.recipients(None) == ["early"], "once, not twice"
    del room.remote_participants["early"]
    assert clients.recipients(None) == [], "it was announced, and has left"


def test_one_that_is_announced_as_something_else_is_no_client_any_more(now: list[float]) -> None:
    room = FakeRoom()
    clients = roster(room)
    assert clients.is_client("early")
    room.joins("early", AGENT)
    assert not clients.is_client("early")
    assert clients.recipients(None) == []


def test_one_that_never_is_announced_is_forgotten_after_ten_seconds(now: list[float]) -> None:
    clients = roster(FakeRoom())
    assert clients.is_client("early")
    now[0] += 9.9
    assert clients.recipients(None) == ["early"]
    now[0] += 0.2
    assert clients.recipients(None) == []
    assert clients.is_client("early")
    assert clients.recipients(None) == ["early"]
