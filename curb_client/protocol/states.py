"""How far a client is from talking to its agent, as one table.

A client starts ``UNCONNECTED``. Each thing that it learns about the room or the agent is an event; ``TRANSITIONS``
names the state after it. An event that is not listed for a state changes nothing: a late report about an agent that
left, say. ``CLOSED`` is final. ``LOST`` ends when the client is moved to another room, or about to be.

================  ==========================================================
``UNCONNECTED``   the room is not connected yet, or is being joined again
``ABSENT``        the room is connected and the agent is not in it
``JOINED``        the agent is in the room and cannot receive data yet
``ACTIVE``        it can; whether its methods are registered is not known
``READY``         it said that calls reach it, or has answered one
``LOST``          the room was disconnected for good
``CLOSED``        the client was closed
================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

__all__ = ["MISSING_STEP", "TRANSITIONS", "AgentState", "StateEvent", "next_state"]


class AgentState(str, Enum):
    """See the module's text for the meaning of each."""

    UNCONNECTED = "unconnected"
    ABSENT = "absent"
    JOINED = "joined"
    ACTIVE = "active"
    READY = "ready"
    LOST = "lost"
    CLOSED = "closed"


class StateEvent(str, Enum):
    """What a client learns."""

    ROOM_CONNECTED = "room_connected"
    ROOM_LOST = "room_lost"
    REJOINING = "rejoining"
    AGENT_JOINED = "agent_joined"
    AGENT_ACTIVE = "agent_active"
    AGENT_READY = "agent_ready"
    AGENT_UNREGISTERED = "agent_unregistered"
    AGENT_LEFT = "agent_left"
    CLOSE = "close"


_S, _E = AgentState, StateEvent
_OPEN = (_S.UNCONNECTED, _S.ABSENT, _S.JOINED, _S.ACTIVE, _S.READY, _S.LOST)
_WITH_AGENT = (_S.JOINED, _S.ACTIVE, _S.READY)

TRANSITIONS: Final[Mapping[tuple[AgentState, StateEvent], AgentState]] = {
    (_S.UNCONNECTED, _E.ROOM_CONNECTED): _S.ABSENT,
    (_S.LOST, _E.ROOM_CONNECTED): _S.ABSENT,
    (_S.ABSENT, _E.AGENT_JOINED): _S.JOINED,
    (_S.JOINED, _E.AGENT_ACTIVE): _S.ACTIVE,
    (_S.JOINED, _E.AGENT_READY): _S.READY,
    (_S.ACTIVE, _E.AGENT_READY): _S.READY,
    (_S.READY, _E.AGENT_UNREGISTERED): _S.ACTIVE,
    **{(state, _E.AGENT_LEFT): _S.ABSENT for state in _WITH_AGENT},
    **{(state, _E.ROOM_LOST): _S.LOST for state in _OPEN},
    **{(state, _E.REJOINING): _S.UNCONNECTED for state in _OPEN},
    **{(state, _E.CLOSE): _S.CLOSED for state in _OPEN},
}

MISSING_STEP: Final[Mapping[AgentState, str]] = {
    _S.UNCONNECTED: "the room is not connected; connect it (await room.connect(url, token)) before or meanwhile",
    _S.ABSENT: "the room is connected and {who} is not in it; is the agent started, and in this room?",
    _S.JOINED: "{who} has joined and cannot receive data yet; its connection is not complete",
    _S.ACTIVE: "{who} is in the room and has not registered the RPC method {method}; is it a Curb agent, and ready?",
    _S.READY: "{who} is in the room and ready, and did not take the call in time",
    _S.LOST: "the room was disconnected for good{reason}; join it again with a new Room",
}


def next_state(state: AgentState, event: StateEvent) -> AgentState:
    """The state after the event."""
    return TRANSITIONS.get((state, event), state)
