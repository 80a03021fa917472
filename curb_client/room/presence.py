"""Which participant is the agent, and how far it is: LiveKit's events put through the table of states."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from livekit import rtc
from livekit.rtc.room import EventTypes

from curb_client.errors import AgentUnavailableError, ClosedError
from curb_client.protocol.contract import AVATAR_ATTRIBUTE, READY_ATTRIBUTE, READY_VALUE
from curb_client.protocol.states import MISSING_STEP, AgentState, StateEvent, next_state
from curb_client.room.callbacks import add_removable, call_safely
from curb_client.room.sdk import AGENT_KIND, is_active, on_disconnected

__all__ = ["AgentPresence", "AgentWatch"]

_LOOK_AGAIN_SECONDS = 0.25
_LAST_WORDS_SECONDS = 10.0
_ROOM_EVENTS: tuple[EventTypes, ...] = (
    "connection_state_changed",
    "participant_connected",
    "participant_active",
    "participant_attributes_changed",
    "participant_disconnected",
    "reconnected",
)


@dataclass(frozen=True)
class AgentPresence:
    """Whether the agent is there.

    Attributes:
        state: see :mod:`curb_client.protocol.states`.
        identity: the agent's, or None while no agent is in the room.
    """

    state: AgentState
    identity: str | None

    @property
    def is_there(self) -> bool:
        """Whether a request would be sent at once."""
        return self.state in (AgentState.ACTIVE, AgentState.READY)


class AgentWatch:
    """Follows one room after another (a client may be moved when it rejoins) and the agent in it.

    The agent is the participant named ``agent_identity``, else the first remote participant of kind AGENT to have
    joined that is no avatar worker (host protocol, curb/client). One that has withdrawn its ``curb.ready`` is gone.
    """

    def __init__(
        self,
        agent_identity: str | None,
        will_rejoin: Callable[[rtc.DisconnectReason.ValueType], bool] = lambda _: False,
    ) -> None:
        self._agent_identity = agent_identity
        self._will_rejoin = will_rejoin
        self._room: rtc.Room | None = None
        self._stop_waiting_for_its_end: Callable[[], None] = lambda: None
        self._agent: rtc.RemoteParticipant | None = None
        self._answered_sid: str | None = None
        self._said_ready: set[str] = set()
        self._left_at: dict[str, float] = {}
        self._state = AgentState.UNCONNECTED
        self._told = AgentPresence(AgentState.UNCONNECTED, None)
        self._is_telling = False
        self._lost_reason = ""
        self._changed = asyncio.Event()
        self._listeners: dict[object, Callable[[AgentPresence], object]] = {}

    @property
    def presence(self) -> AgentPresence:
        if self._state is AgentState.UNCONNECTED:
            self._look()  # LiveKit sends no event before connect() returns
        return self._known_presence()

    def _known_presence(self) -> AgentPresence:
        return AgentPresence(self._state, self._agent.identity if self._agent else None)

    def add_listener(self, listener: Callable[[AgentPresence], object]) -> Callable[[], None]:
        """``listener`` is called on each change; the returned function removes it."""
        return add_removable(self._listeners, listener)

    def local_identity(self) -> str:
        """This participant's own, ``""`` while it is in no room."""
        room = self._room
        return room.local_participant.identity if room is not None and room.isconnected() else ""

    # The room

    def attach(self, room: rtc.Room) -> None:
        self.detach()
        self._room = room
        for event in _ROOM_EVENTS:
            room.on(event, self._look)
        self._stop_waiting_for_its_end = on_disconnected(room, self._room_lost)
        self._look()

    def detach(self) -> None:
        """Follow no room."""
        room, self._room = self._room, None
        if room is None:
            return
        for event in _ROOM_EVENTS:
            room.off(event, self._look)
        self._stop_waiting_for_its_end()

    def lost(self, reason: str) -> None:
        """The room was lost for good: callers fail at once."""
        self._lost_reason = reason
        self._step(StateEvent.ROOM_LOST, agent=None)

    def close(self) -> None:
        self.detach()
        self._step(StateEvent.CLOSE, agent=None)

    # The agent

    def is_agent(self, identity: str) -> bool | None:
        """Whether messages of this participant are the agent's; None while that may still turn out.

        The server tells of a participant up to three seconds after its first message can arrive, and as late that
        another has left: then the next one of kind AGENT is the agent. What an agent said before it left may still be
        on its way.
        """
        if self._agent_identity is not None:
            return identity == self._agent_identity
        self._look()
        if self._agent is not None and identity == self._agent.identity:
            return True
        if time.monotonic() - self._left_at.get(identity, -math.inf) < _LAST_WORDS_SECONDS:
            return True
        participant = self._room.remote_participants.get(identity) if self._room is not None else None
        return None if participant is None or _may_be_agent(participant) else False

    def is_present(self, agent: rtc.RemoteParticipant) -> bool:
        """Whether this is the agent still, and no other under its name."""
        self._look()
        return self._agent is not None and self._agent.sid == agent.sid

    def answered(self, agent: rtc.RemoteParticipant) -> None:
        """The agent took a request: its methods are registered."""
        self._answered_sid = agent.sid
        if self._state is not AgentState.READY:
            self._look()

    def unregistered(self) -> None:
        """The agent does not know a method: it has not registered it yet, or not any more."""
        self._answered_sid = None
        if self._agent is not None and not _says_ready(self._agent):
            self._step(StateEvent.AGENT_UNREGISTERED, agent=self._agent)

    async def active_agent(self, until: float, method: str) -> tuple[rtc.Room, rtc.RemoteParticipant]:
        """The room and the agent in it, once requests can be sent to it.

        Args:
            until: ``time.monotonic()`` seconds.

        Raises:
            AgentUnavailableError: not by then; its text names the missing step.
            ClosedError: the client was closed.
        """
        started = time.monotonic()
        while True:
            if not self.presence.is_there:
                self._look()
            if self._room is not None and self._agent is not None and self.presence.is_there:
                return self._room, self._agent
            left = until - time.monotonic()
            if left <= 0 or self._state in (AgentState.LOST, AgentState.CLOSED):
                raise self.unavailable(time.monotonic() - started, method)
            self._changed.clear()
            waiter = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({waiter}, timeout=min(left, _LOOK_AGAIN_SECONDS))
            finally:
                waiter.cancel()

    def unavailable(
        self, waited: float, method: str, state: AgentState | None = None
    ) -> AgentUnavailableError | ClosedError:
        """The error that names the missing step, that of ``state`` instead of the present one where it is given."""
        state = state or self._state
        if state is AgentState.CLOSED:
            return ClosedError("this client is closed; make a new one with connect_agent(room)")
        who = (
            f"the agent {self._agent_identity!r}" if self._agent_identity else "an agent (a participant of kind AGENT)"
        )
        if self._agent is not None:
            who = f"the agent {self._agent.identity!r}"
        step = MISSING_STEP[state].format(who=who, method=method, reason=self._lost_reason)
        return AgentUnavailableError(
            f"no agent took the call within {waited:.1f} s: {step}", state=state.value, waited=waited
        )

    # From LiveKit's picture to the table

    def _look(self, *_: object) -> None:
        room = self._room
        if room is None or not room.isconnected() or self._is_telling:
            return
        agent = self._choose(room)
        if self._agent is not None and (agent is None or agent.sid != self._agent.sid):
            self._step(StateEvent.AGENT_LEFT, agent=None)
            return  # having told of that, it looked for the next one
        events = [StateEvent.ROOM_CONNECTED]
        if agent is not None:
            events.append(StateEvent.AGENT_JOINED)
            if is_active(agent):
                events.append(StateEvent.AGENT_ACTIVE)
                if self._answered_sid == agent.sid or _says_ready(agent):
                    events.append(StateEvent.AGENT_READY)
        self._step(*events, agent=agent)

    def _choose(self, room: rtc.Room) -> rtc.RemoteParticipant | None:
        if self._agent_identity is not None:
            named = room.remote_participants.get(self._agent_identity)
            agents = [named] if named is not None else []
        else:
            agents = [participant for participant in room.remote_participants.values() if _may_be_agent(participant)]
        return min((agent for agent in agents if not self._has_withdrawn(agent)), key=_joining_order, default=None)

    def _has_withdrawn(self, agent: rtc.RemoteParticipant) -> bool:
        """Whether it said that it is ready and does not any more: the call is over for it, leaving comes next."""
        if _says_ready(agent):
            self._said_ready.add(agent.sid)
            return False
        return agent.sid in self._said_ready

    def _room_lost(self, reason: rtc.DisconnectReason.ValueType) -> None:
        if self._will_rejoin(reason):
            self._step(StateEvent.REJOINING, agent=None)
        else:
            self.lost(f" ({rtc.DisconnectReason.Name(reason)})")

    def _step(self, *events: StateEvent, agent: rtc.RemoteParticipant | None) -> None:
        """Listeners are told where it leads to, not of the steps between."""
        before = self._known_presence()
        if self._agent is not None and agent is None:
            self._left_at[self._agent.identity] = time.monotonic()
        for event in events:
            self._state = next_state(self._state, event)
        self._agent = agent
        if self._known_presence() != before:  # those who wait look themselves, and would wake each other for ever
            self._changed.set()
        self._tell()

    def _tell(self) -> None:
        """Whoever is told may look, or close the client: all are told of this change before the next."""
        presence = self._known_presence()
        if self._is_telling or presence == self._told:
            return
        self._told = presence
        self._is_telling = True
        try:
            for listener in list(self._listeners.values()):
                call_safely(listener, presence)
        finally:
            self._is_telling = False
        self._tell()
        self._look()


def _may_be_agent(participant: rtc.RemoteParticipant) -> bool:
    return participant.kind == AGENT_KIND and AVATAR_ATTRIBUTE not in participant.attributes


def _says_ready(agent: rtc.RemoteParticipant) -> bool:
    return agent.attributes.get(READY_ATTRIBUTE) == READY_VALUE


def _joining_order(participant: rtc.RemoteParticipant) -> tuple[float, str]:
    joined_at = participant.joined_at
    return (joined_at.timestamp() if joined_at else float("inf"), participant.identity)
