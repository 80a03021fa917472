from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from curb_client.protocol.json_text import encode_json
from curb_client.protocol.records import (
    CallEnded,
    CallMessage,
    CallMessages,
    CallSettings,
    CallStarted,
    EventBody,
    HostBody,
    JournalRecord,
    LifecycleReady,
    OtherBody,
    TurnBody,
    is_complete,
)

READY = {"event": "ready", "address": "127.0.0.1:7071", "maxSessions": 1, "warmupMs": 185}
HOST = {"type": "host", "seq": 31, "at": 5, "id": "a-3", "name": "n", "payload": {}, "expectsReply": True}
TURN = {"type": "turn", "role": "user", "text": "Hello?"}
ENDED = {"type": "event", "name": "curb.ended", "payload": {"reason": "completed"}}


def record(record_class: str, body: Any, **changes: Any) -> JournalRecord:
    return JournalRecord.from_wire(
        {"envelope": 1, "producer": "call-42", "seq": 1, "class": record_class, "at": 5, "body": body, **changes}
    )


@pytest.mark.parametrize(
    ("record_class", "body", "kind"),
    [
        ("lifecycle", READY, LifecycleReady),
        ("lifecycle", {"event": "warming"}, OtherBody),
        ("host", HOST, HostBody),
        ("conversation", HOST, HostBody),
        ("session", HOST, HostBody),
        ("conversation", TURN, TurnBody),
        ("host", TURN, TurnBody),
        ("session", ENDED, EventBody),
        ("conversation", READY, OtherBody),
        ("log", READY, OtherBody),
        ("conversation", {"type": "turn"}, OtherBody),
        ("session", {"type": "host"}, OtherBody),
        ("log", None, OtherBody),
    ],
)
def test_a_body_is_read_by_what_it_says(record_class: str, body: Any, kind: type) -> None:
    read = record(record_class, body)
    assert type(read.body) is kind
    if isinstance(read.body, OtherBody):
        assert read.body.content == body


@pytest.mark.parametrize(
    ("record_class", "body", "known"),
    [
        ("lifecycle", {"event": "warming"}, True),
        ("conversation", {"type": "tool"}, True),
        ("session", TURN, True),
        ("session", {"type": "tool"}, False),
        ("log", "hello", False),
        ("Lifecycle", READY, False),
    ],
)
def test_which_records_are_known(record_class: str, body: Any, known: bool) -> None:
    assert record(record_class, body).is_known is known


def test_the_record_of_the_texts_is_written_as_it_was_read() -> None:
    text = (
        '{"envelope":57,"producer":"call-42","seq":31,"class":"host","at":1790625600000,"body":{"type":"host","seq":31,'
        '"at":1790625600000,"id":"a-3","name":"human.requested","payload":{"topic":"refund"},"expectsReply":true}}'
    )
    body = HostBody(
        type="host",
        seq=31,
        at=1790625600000,
        id="a-3",
        name="human.requested",
        payload={"topic": "refund"},
        expects_reply=True,
    )
    made = JournalRecord(envelope=57, producer="call-42", seq=31, record_class="host", at=1790625600000, body=body)
    assert encode_json(made) == text
    assert JournalRecord.from_wire(made.to_wire()) == made


def test_what_is_not_known_is_written_whole() -> None:
    body = {"type": "tool", "args": [None, {"base_url": 1}]}
    assert record("conversation", body).to_wire()["body"] == body
    made = JournalRecord(envelope=1, producer="p", seq=1, record_class="x", at=1, body=OtherBody([1]))
    assert made.to_wire()["body"] == [1]


def test_a_broken_body_is_told_with_its_path() -> None:
    with pytest.raises(ValidationError, match=r"maxSessions: .*integer"):
        record("lifecycle", {**READY, "maxSessions": "1"})
    with pytest.raises(ValidationError, match="expectsReply: Field required"):
        record("host", {name: value for name, value in HOST.items() if name != "expectsReply"})


@pytest.mark.parametrize(
    ("name", "payload", "details"),
    [
        ("curb.started", {"direction": "inbound"}, CallStarted(direction="inbound")),
        ("curb.ended", {"reason": "stopped"}, CallEnded(reason="stopped")),
        ("curb.messages", {"undeliveredToClient": {"k": 2}}, CallMessages(undelivered_to_client={"k": 2})),
        ("curb.message", {"direction": "toClient", "key": "k"}, CallMessage(direction="toClient", key="k")),
        ("curb.settings", {"origin": "host", "settings": {}}, CallSettings(origin="host", settings={})),
        ("curb.ended", {"why": "stopped"}, None),
        ("curb.ended", None, None),
        ("curb.messages", {"undelivered_to_client": {"k": 2}}, CallMessages()),
        ("acme.scored", {"reason": "x"}, None),
    ],
)
def test_details_of_events(name: str, payload: Any, details: object) -> None:
    assert EventBody.from_wire({"type": "event", "name": name, "payload": payload}).details() == details


@pytest.mark.parametrize("payload", [{"reason": "completed"}, {}, None, "cut"])
def test_a_call_ends_by_the_name_alone(payload: Any) -> None:
    assert record("conversation", {**ENDED, "payload": payload}).ends_call


def test_a_calls_record_is_complete_when_its_end_is_the_last() -> None:
    turn, ended = record("conversation", TURN), record("session", ENDED)
    assert is_complete([turn, ended])
    assert is_complete(iter([ended]))
    assert not is_complete([])
    assert not is_complete([turn])
    assert not is_complete([turn, ended, turn])
    assert not record("conversation", {**ENDED, "name": "curb.started"}).ends_call


def test_values_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        record("conversation", TURN).envelope = 2  # type: ignore[misc]
