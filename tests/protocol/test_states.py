from __future__ import annotations

import string
from itertools import product
from typing import Any

import pytest

from curb_client.protocol.states import MISSING_STEP, TRANSITIONS, AgentState, StateEvent, next_state
from tests.protocol.vectors import cases, vectors


def after(*events: StateEvent, start: AgentState = AgentState.UNCONNECTED) -> AgentState:
    state = start
    for event in events:
        state = next_state(state, event)
    return state


@pytest.mark.parametrize("case", cases("states"))
def test_vector(case: Any) -> None:
    state, event = AgentState(case["state"]), StateEvent(case["event"])
    assert next_state(state, event) is AgentState(case["after"])
    assert ((state, event) in TRANSITIONS) is case["listed"]


def test_the_vectors_cover_every_pair_once() -> None:
    covered = [(case["state"], case["event"]) for case in vectors("states")["cases"]]
    assert sorted(covered) == sorted((s.value, e.value) for s, e in product(AgentState, StateEvent))


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(AgentState, StateEvent) if pair not in TRANSITIONS]
)
def test_an_event_that_is_not_listed_changes_nothing(state: AgentState, event: StateEvent) -> None:
    assert next_state(state, event) is state


def test_from_connecting_to_ready() -> None:
    E = StateEvent  # noqa: N806
    assert after(E.ROOM_CONNECTED) is AgentState.ABSENT
    assert after(E.ROOM_CONNECTED, E.AGENT_JOINED) is AgentState.JOINED
    assert after(E.ROOM_CONNECTED, E.AGENT_JOINED, E.AGENT_ACTIVE) is AgentState.ACTIVE
    assert after(E.ROOM_CONNECTED, E.AGENT_JOINED, E.AGENT_ACTIVE, E.AGENT_READY) is AgentState.READY


def test_ready_may_be_told_before_active() -> None:
    state = after(StateEvent.AGENT_READY, StateEvent.AGENT_ACTIVE, start=AgentState.JOINED)
    assert state is AgentState.READY


@pytest.mark.parametrize("state", [AgentState.JOINED, AgentState.ACTIVE, AgentState.READY])
def test_the_agent_leaves_and_comes_again(state: AgentState) -> None:
    assert next_state(state, StateEvent.AGENT_LEFT) is AgentState.ABSENT
    assert after(StateEvent.AGENT_LEFT, StateEvent.AGENT_JOINED, start=state) is AgentState.JOINED


@pytest.mark.parametrize("state", [state for state in AgentState if state is not AgentState.CLOSED])
def test_from_every_open_state(state: AgentState) -> None:
    assert next_state(state, StateEvent.ROOM_LOST) is AgentState.LOST
    assert next_state(state, StateEvent.REJOINING) is AgentState.UNCONNECTED
    assert next_state(state, StateEvent.CLOSE) is AgentState.CLOSED


@pytest.mark.parametrize("event", list(StateEvent))
def test_closed_is_final(event: StateEvent) -> None:
    assert next_state(AgentState.CLOSED, event) is AgentState.CLOSED


@pytest.mark.parametrize("event", [e for e in StateEvent if e.value.startswith("agent_")])
def test_a_late_report_about_an_agent_does_not_revive_a_lost_room(event: StateEvent) -> None:
    assert next_state(AgentState.LOST, event) is AgentState.LOST


def test_every_state_can_be_reached() -> None:
    assert {AgentState.UNCONNECTED, *TRANSITIONS.values()} == set(AgentState)


@pytest.mark.parametrize("state", [state for state in AgentState if state is not AgentState.CLOSED])
def test_a_waiting_call_can_say_what_is_missing(state: AgentState) -> None:
    text = MISSING_STEP[state]
    fields = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    assert fields <= {"who", "method", "reason"}
    told = text.format(who="the agent 'a-1'", method="curb.message", reason=" (kicked)")
    assert len(told) > 30
    assert "{" not in told
    if state in {AgentState.ABSENT, AgentState.JOINED, AgentState.ACTIVE, AgentState.READY}:
        assert "the agent 'a-1'" in told


def test_the_missing_steps_differ() -> None:
    assert len(set(MISSING_STEP.values())) == len(MISSING_STEP)
