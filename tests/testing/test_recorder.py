"""The exchange as people read it."""

from __future__ import annotations

from typing import Any

from curb_client import TraceEvent
from curb_client.testing import Recorder
from curb_client.testing.recorder import KEPT_STEPS, shortened


def event(at: float, side: Any, step: Any, **what: Any) -> TraceEvent:
    identity = what.pop("identity", {"client": "caller", "agent": "agent"}.get(side, ""))
    return TraceEvent(at, side, identity, step, **what)


def test_every_step_is_a_sentence() -> None:
    recorder = Recorder()
    steps = [
        event(10.0, "kit", "note", detail="caller has joined"),
        event(10.1, "client", "presence", peer="agent", detail="ready"),
        event(10.2, "client", "ask", key="quote", id="1", payload={"plan": "é"}),
        event(10.3, "agent", "request", key="quote", id="1", payload={"plan": "é"}, peer="caller"),
        event(10.3, "agent", "reply", key="quote", id="1", payload=None, peer="caller", ms=1.2),
        event(10.31, "client", "answer", key="quote", id="1", payload=None, ms=110.4),
        event(10.4, "client", "ask", key="claim", id="2", payload={}),
        event(10.4, "agent", "reply", key="claim", id="2", error="invalid_payload", detail="name: required"),
        event(
            10.41, "client", "answer", key="claim", id="2", error="invalid_payload", detail="name: required", ms=10.0
        ),
        event(10.5, "agent", "send", key="show-form", payload={"n": 1}, peer="caller"),
        event(10.5, "agent", "send", key="status", payload={}, error="no client is in the room"),
        event(10.5, "client", "message", key="show-form", payload={"n": 1}, peer="agent"),
        event(10.6, "agent", "reply", peer="caller", error="no_handler"),
        event(10.6, "agent", "to-host", key="human.requested", payload={}),
        event(10.6, "agent", "to-host", key="human.requested", payload={}, error="no host is connected"),
        event(10.7, "kit", "expect", key="status"),
        event(10.7, "kit", "expected", key="status", error="it did not come within 5 s"),
        event(10.8, "client", "presence", detail="closed"),
    ]
    for step in steps:
        recorder.record(step)
    assert recorder.steps() == [
        "      0  kit     caller has joined",
        "    100  caller  sees the agent ready",
        '    200  caller  asks quote {"plan":"é"}',
        '    300  agent   takes quote {"plan":"é"} from caller',
        "    300  agent   answers quote null",
        "    310  caller  gets the answer to quote null after 110 ms",
        "    400  caller  asks claim {}",
        "    400  agent   refuses claim: invalid_payload (name: required)",
        "    410  caller  gets no reply to claim: invalid_payload (name: required) after 10 ms",
        '    500  agent   sends show-form {"n":1} to caller',
        "    500  agent   could not send status {}: no client is in the room",
        '    500  caller  gets the message show-form {"n":1} from agent',
        "    600  agent   refuses a message: no_handler",
        "    600  agent   tells the host human.requested {}",
        "    600  agent   could not tell the host human.requested: no host is connected",
        "    700  kit     expects status",
        "    700  kit     misses what it expected, status: it did not come within 5 s",
    ]
    assert recorder.pending(11.0) == []


def test_requests_without_an_answer_are_pending() -> None:
    recorder = Recorder()
    recorder.record(event(1.0, "client", "ask", key="quote", id="1", payload={"plan": "basic"}))
    recorder.record(event(1.5, "client", "ask", key="quote", id="2", payload={}))
    recorder.record(event(2.0, "client", "answer", key="quote", id="2", error="no_handler"))
    assert recorder.pending(4.04) == ['caller asks quote {"plan":"basic"} - for 3.0 s']
    assert recorder.report(4.04, 2).splitlines() == [
        "pending requests:",
        '  caller asks quote {"plan":"basic"} - for 3.0 s',
        "the last 2 of 3 steps (milliseconds, who, what):",
        "    500  caller  asks quote {}",
        "   1000  caller  gets no reply to quote: no_handler",
    ]


def test_nothing_passed_yet() -> None:
    assert Recorder().report(1.0) == "no request is pending\nnothing passed yet"


def test_memory_is_bounded_and_payloads_are_written_when_they_pass() -> None:
    recorder = Recorder()
    payload = {"n": 0}
    for number in range(KEPT_STEPS * 2):
        payload["n"] = number
        recorder.record(event(number, "client", "message", key="n", payload=payload, peer="agent"))
    steps = recorder.steps()
    assert len(steps) == KEPT_STEPS
    assert f'n {{"n":{KEPT_STEPS}}}' in steps[0]
    assert shortened("x" * 1_000_000) == '"' + "x" * 199 + "… (1,000,002 characters)"


def test_what_is_no_json_is_shown_as_python_writes_it() -> None:
    assert shortened(float("nan")) == "nan"
    assert shortened({1: object}).startswith("{1:")
