"""What the record tells of app messages, step by step, where a call would not come to it by itself."""

from __future__ import annotations

import json
import logging
from typing import Any

from curb_client import HostRecord, TraceEvent
from curb_client.host.runner.logs import JsonFormatter
from curb_client.host.runner.message_log import MessageLog
from curb_client.host.runner.secrets import Secrets
from curb_client.protocol.records import CallMessage

told: list[dict[str, Any]]


def log() -> MessageLog:
    global told
    told = []
    return MessageLog(lambda message: told.append(message.to_wire()))


def step(name: Any, message_id: str = "m", **what: Any) -> TraceEvent:
    given: dict[str, Any] = {"key": "k", "peer": "caller", "sender": "client", **what}
    return TraceEvent(0.0, "agent", "agent", name, id=message_id, **given)


def test_a_client_that_is_called_host_is_a_client() -> None:
    messages = log()
    for sender in ("client", "host"):
        messages.record(step("request", payload={"n": 1}, peer="host", sender=sender))
    for sender in ("host", "client"):
        messages.record(step("reply", payload={"m": 2}, peer="host", sender=sender))
    assert [message["direction"] for message in told] == ["fromHost", "fromClient"]


def test_a_repeat_is_told_once_and_a_retry_after_a_refusal_again() -> None:
    messages = log()
    for error in ("no_handler", None, None):
        messages.record(step("request", payload={}))
        messages.record(step("request", payload={}))
        messages.record(step("reply", payload={"ok": True}, error=error))
        messages.record(step("reply", payload={"ok": True}, error=error))
    assert [(message.get("code"), message.get("reply")) for message in told] == [
        ("no_handler", None),
        (None, {"ok": True}),
    ]


def test_a_sender_that_gave_up_and_what_is_open_at_the_end() -> None:
    messages = log()
    messages.record(step("request", "given-up", payload={}))
    messages.record(step("reply", "given-up", error="given up by whoever asked"))
    messages.record(step("request", "open", payload={"n": 1}))
    messages.to_host(HostRecord("a-1", "asked", {"n": 2}, expects_reply=True))
    messages.close()
    messages.record(step("reply", "open", error="given up by whoever asked"))
    messages.record(step("reply", "a-1", sender=None, error="HostUnavailableError"))
    assert told == [
        {"direction": "fromClient", "key": "k", "id": "given-up"},
        {"direction": "fromClient", "key": "k", "id": "open", "payload": {"n": 1}},
        {"direction": "toHost", "key": "asked", "id": "a-1", "payload": {"n": 2}},
    ]


def test_a_payload_that_the_record_cannot_hold_is_its_text() -> None:
    messages = log()
    for payload in ({"n": 2**60}, {"n": float("inf")}, {"text": "\ud800"}):
        messages.record(step("request", str(payload), payload=payload))
        messages.record(step("reply", str(payload)))
    assert [message["payload"] for message in told] == [
        '{"n":1152921504606846976}',
        '{"n":Infinity}',
        '{"text":"\\ud800"}',
    ]
    assert not any(CallMessage.from_wire(message).truncated for message in told), "all of it is there"
    messages.record(step("request", "long", payload={"n": 2**60, "text": "x" * 5000}))
    messages.record(step("reply", "long"))
    assert len(told[3]["payload"]) == 4096
    assert CallMessage.from_wire(told[3]).truncated


def test_other_steps_are_no_messages() -> None:
    messages = log()
    messages.record(step("request", "", key="curb.update", payload="{}", sender=None))
    messages.record(step("reply", "", key="curb.update", sender=None))
    messages.record(step("send", error="no client is in the room", sender=None, payload={}))
    messages.record(step("to-host", sender=None, payload={}))
    messages.close()
    assert told == []


def test_a_log_line_is_json_and_hides_tokens() -> None:
    secrets = Secrets("secret-token", "abc")
    formatter = JsonFormatter(secrets)
    record = logging.LogRecord("x", logging.WARNING, "p", 1, "abc %s \ud800", ("secret-token",), None)
    record.extra = {"url": "http://x/?t=secret-token"}
    line = json.loads(formatter.format(record))
    assert (line["level"], line["logger"], line["message"]) == ("warning", "x", "abc [hidden] �")
    assert line["extra"] == {"url": "http://x/?t=[hidden]"}
    secrets.add("another-token")
    secrets.remove("secret-token")
    assert secrets.hide("secret-token another-token") == "secret-token [hidden]"
    secrets.add('quoted"and\\more')
    hidden = formatter.format(logging.makeLogRecord({"msg": 'it is quoted"and\\more'}))
    assert json.loads(hidden)["message"] == "it is [hidden]"
