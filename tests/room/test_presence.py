"""Steps of the agent's arrival that a real server does not let a test hold: the participant is a fake here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, cast

import pytest
from livekit import rtc

from curb_client import AgentPresence, AgentState, AgentUnavailableError
from curb_client.room.presence import AgentWatch

STATE = rtc.ParticipantState
KIND = rtc.ParticipantKind


@dataclass
class FakeParticipant:
    identity: str = "agent"
    sid: str = "PA_1"
    kind: int = KIND.PARTICIPANT_KIND_AGENT
    state: int = STATE.PARTICIPANT_STATE_ACTIVE
    attributes: dict[str, str] = field(default_factory=dict)
    joined_at: datetime | None = None


class FakeRoom:
    def __init__(self) -> None:
        self.remote_participants: dict[str, FakeParticipant] = {}
        self.connected = True
        self.callbacks: dict[str, list[Callable[..., Any]]] = {}

    def isconnected(self) -> bool:
        return self.connected

    def on(self, event: str, callback: Callable[..., Any]) -> None:
        self.callbacks.setdefault(event, []).append(callback)

    def off(self, event: str, callback: Callable[..., Any]) -> None:
        self.callbacks[event].remove(callback)

    def happens(self, event: str, *args: object) -> None:
        for callback in list(self.callbacks.get(event, ())):
            callback(*args)

    def join(self, participant: FakeParticipant) -> FakeParticipant:
        self.remote_participants[participant.identity] = participant
        self.happens("participant_connected", participant)
        return participant


@pytest.fixture
async def room() -> FakeRoom:
    return FakeRoom()


@pytest.fixture
async def watch(room: FakeRoom) -> AsyncIterator[AgentWatch]:
    watch = AgentWatch(None)
    watch.attach(cast(rtc.Room, room))
    yield watch
    watch.close()
    assert not any(room.callbacks.values()), "nothing stays registered in the room"


async def chosen(watch: AgentWatch, within: float = 5.0) -> str:
    _, agent = await watch.active_agent(time.monotonic() + within, "curb.message")
    return agent.identity


async def test_an_agent_that_joined_and_is_not_active_gets_no_request(room: FakeRoom, watch: AgentWatch) -> None:
    agent = room.join(FakeParticipant(state=STATE.PARTICIPANT_STATE_JOINED))
    assert watch.presence == AgentPresence(AgentState.JOINED, "agent")
    assert not watch.presence.is_there
    with pytest.raises(AgentUnavailableError, match="the agent 'agent' has joined and cannot receive data yet") as late:
        await chosen(watch, within=0.2)
    assert late.value.state == "joined"
    assert 0.2 <= late.value.waited < 2

    waiting = asyncio.ensure_future(chosen(watch))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    agent.state = STATE.PARTICIPANT_STATE_ACTIVE
    room.happens("participant_active", agent)
    assert await waiting == "agent"
    assert watch.presence.state is AgentState.ACTIVE


async def test_becoming_active_is_noticed_without_an_event(room: FakeRoom, watch: AgentWatch) -> None:
    agent = room.join(FakeParticipant(state=STATE.PARTICIPANT_STATE_JOINED))
    waiting = asyncio.ensure_future(chosen(watch))
    await asyncio.sleep(0.05)
    agent.state = STATE.PARTICIPANT_STATE_ACTIVE
    assert await waiting == "agent"


async def test_ready_is_said_or_shown_and_belongs_to_one_visit(room: FakeRoom, watch: AgentWatch) -> None:
    agent = room.join(FakeParticipant())
    watch.answered(cast(rtc.RemoteParticipant, agent))
    states = [watch.presence.state]
    watch.unregistered()
    states.append(watch.presence.state)
    assert states == [AgentState.READY, AgentState.ACTIVE], "an answer of another time is no proof any more"
    agent.attributes["curb.ready"] = "1"
    room.happens("participant_attributes_changed", {"curb.ready": "1"}, agent)
    assert watch.presence.state is AgentState.READY

    seen: list[AgentState] = []
    watch.add_listener(lambda presence: seen.append(presence.state))
    room.join(FakeParticipant(sid="PA_2"))
    assert seen == [AgentState.ABSENT, AgentState.ACTIVE], "the same identity, joined anew"


async def test_the_first_to_join_is_the_agent_and_an_avatar_is_not(room: FakeRoom, watch: AgentWatch) -> None:
    def at(second: int) -> datetime:
        return datetime(2026, 1, 1, 12, 0, second, tzinfo=timezone.utc)

    room.join(FakeParticipant("avatar", joined_at=at(0), attributes={"lk.publish_on_behalf": "agent"}))
    room.join(FakeParticipant("guest", joined_at=at(0), kind=KIND.PARTICIPANT_KIND_STANDARD))
    assert watch.presence.state is AgentState.ABSENT
    room.join(FakeParticipant("third", joined_at=at(3)))
    room.join(FakeParticipant("b", joined_at=at(2)))
    assert await chosen(watch) == "b"
    room.join(FakeParticipant("a", joined_at=at(2)))
    assert await chosen(watch) == "a", "ties are broken by identity"
    assert watch.is_agent("a") is True
    assert [watch.is_agent(other) for other in ("guest", "avatar")] == [False] * 2
    assert [watch.is_agent(other) for other in ("b", "third", "not announced yet")] == [None] * 3, "they may become it"


async def test_many_who_wait_do_not_wake_each_other(
    room: FakeRoom, watch: AgentWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    choose = watch._choose

    def counted(room: rtc.Room) -> rtc.RemoteParticipant | None:
        nonlocal looks
        looks += 1
        return choose(room)

    monkeypatch.setattr(watch, "_choose", counted)
    waiting = []
    for _ in range(3):  # not in step
        waiting.append(asyncio.ensure_future(chosen(watch, within=0.6)))
        await asyncio.sleep(0.02)
    for ended in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(ended, AgentUnavailableError)
    assert looks < 50, "a few each"


async def test_listeners_are_told_where_it_leads_to_and_not_of_the_steps_between(
    room: FakeRoom, watch: AgentWatch
) -> None:
    told: list[AgentPresence] = []
    watch.add_listener(told.append)
    room.join(FakeParticipant("first", attributes={"curb.ready": "1"}))
    del room.remote_participants["first"]
    room.join(FakeParticipant("second", "PA_2", attributes={"curb.ready": "1"}))
    ready = AgentState.READY
    assert told == [
        AgentPresence(ready, "first"),
        AgentPresence(AgentState.ABSENT, None),
        AgentPresence(ready, "second"),
    ]


async def test_a_client_that_is_closed_when_it_is_told_of_a_change_stays_closed(
    room: FakeRoom, watch: AgentWatch
) -> None:
    told: list[AgentState] = []
    room.join(FakeParticipant("first"))
    watch.add_listener(lambda presence: watch.close() if presence.state is AgentState.ABSENT else None)
    watch.add_listener(lambda presence: told.append(presence.state))
    del room.remote_participants["first"]
    room.join(FakeParticipant("second", "PA_2"))
    assert told == [AgentState.ABSENT, AgentState.CLOSED]
    assert watch.presence == AgentPresence(AgentState.CLOSED, None)


async def test_the_last_words_of_an_agent_whose_room_is_lost_are_heard(room: FakeRoom, watch: AgentWatch) -> None:
    room.join(FakeParticipant("agent"))
    room.connected = False
    room.happens("disconnected", rtc.DisconnectReason.ROOM_DELETED)
    assert watch.is_agent("agent") is True
    assert watch.is_agent("another") is None


async def test_an_agent_that_withdraws_makes_room_for_another(room: FakeRoom, watch: AgentWatch) -> None:
    first = FakeParticipant("first", joined_at=datetime(2026, 1, 1, tzinfo=timezone.utc))
    first.attributes["curb.ready"] = "1"
    room.join(first)
    assert await chosen(watch) == "first"
    assert watch.presence.state is AgentState.READY
    del first.attributes["curb.ready"]
    room.happens("participant_attributes_changed")
    assert watch.presence == AgentPresence(AgentState.ABSENT, None)
    assert watch.is_agent("first") is True, "its last words may be on their way"
    room.join(FakeParticipant("second", "PA_2", joined_at=datetime(2026, 1, 2, tzinfo=timezone.utc)))
    room.happens("participant_connected")
    assert await chosen(watch) == "second"
    first.attributes["curb.ready"] = "1"
    room.happens("participant_attributes_changed")
    assert await chosen(watch) == "first", "it is back, and was there before"


async def test_a_room_that_is_left_without_a_reason_is_lost_too(room: FakeRoom, watch: AgentWatch) -> None:
    waiting = asyncio.ensure_future(chosen(watch, within=30))
    await asyncio.sleep(0.05)
    room.connected = False
    room.happens("connection_state_changed", rtc.ConnectionState.CONN_DISCONNECTED)
    with pytest.raises(AgentUnavailableError, match=r"disconnected for good \(UNKNOWN_REASON\)"):
        await asyncio.wait_for(waiting, 10)


async def test_a_reconnect_is_no_loss(room: FakeRoom, watch: AgentWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curb_client.room.sdk.REASON_FOLLOWS_SECONDS", 0.01)
    room.join(FakeParticipant())
    room.happens("connection_state_changed", rtc.ConnectionState.CONN_RECONNECTING)
    room.happens("connection_state_changed", rtc.ConnectionState.CONN_CONNECTED)
    await asyncio.sleep(0.05)
    assert await chosen(watch) == "agent"


async def test_a_room_lost_for_good_fails_who_waits_at_once(room: FakeRoom, watch: AgentWatch) -> None:
    waiting = asyncio.ensure_future(chosen(watch, within=30))
    await asyncio.sleep(0.05)
    room.connected = False
    room.happens("disconnected", rtc.DisconnectReason.ROOM_DELETED)
    with pytest.raises(AgentUnavailableError, match=r"disconnected for good \(ROOM_DELETED\)") as lost:
        await asyncio.wait_for(waiting, 2)
    assert lost.value.state == "lost"
