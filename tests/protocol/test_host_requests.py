from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from curb_client.errors import InvalidKeyError, InvalidPayloadError, UsageError
from curb_client.protocol.envelope import MalformedTextError
from curb_client.protocol.host_requests import (
    HostMessage,
    StartCallRequest,
    check_grace_ms,
    encode_host_message,
    read_from,
    read_grace_ms,
)
from curb_client.protocol.json_text import encode_json
from tests.protocol.vectors import cases


def test_a_start_is_written_without_what_was_not_given() -> None:
    request = StartCallRequest(session_id="call-42", realtime_url="wss://h", realtime_token="t")
    text = '{"sessionId":"call-42","realtimeUrl":"wss://h","realtimeToken":"t"}'
    assert encode_json(request) == text
    assert (request.direction, request.client_context, request.experiments) == ("inbound", {}, {})
    assert encode_json(request.model_copy(update={"direction": "outbound"})) == text[:-1] + ',"direction":"outbound"}'


def test_none_is_not_given_in_python_and_wrong_on_the_wire() -> None:
    request = StartCallRequest(session_id="c", realtime_url="u", realtime_token="t", deployment_id=None)
    assert "deploymentId" not in request.to_wire()
    with pytest.raises(ValidationError, match="must not be null; leave it out"):
        StartCallRequest.from_wire({**request.to_wire(), "deploymentId": None})


def test_what_may_be_left_out_is_told_its_own_limit_alone() -> None:
    with pytest.raises(ValidationError) as raised:
        StartCallRequest.from_wire({"sessionId": "c", "realtimeUrl": "u", "realtimeToken": "t", "deploymentId": ""})
    assert [error["msg"] for error in raised.value.errors()] == ["String should have at least 1 character"]


def test_maps_are_not_shared() -> None:
    first, second = (StartCallRequest(session_id="c", realtime_url="u", realtime_token="t") for _ in range(2))
    assert first.client_context is not second.client_context


def test_a_message_is_written() -> None:
    message = HostMessage(id="m-7", name="ops.notice", payload={"a": 1.0, "b": None})
    assert encode_host_message(message) == '{"id":"m-7","name":"ops.notice","payload":{"a":1,"b":null}}'
    reply = HostMessage(id="m-7", name="ops.notice", payload={}, in_reply_to="a-3")
    assert encode_host_message(reply) == '{"id":"m-7","name":"ops.notice","payload":{},"inReplyTo":"a-3"}'


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": "😀" * 129}, InvalidKeyError),
        ({"id": "😀" * 65}, UsageError),
        ({"in_reply_to": "😀" * 65}, UsageError),
        ({"payload": {"a": float("nan")}}, InvalidPayloadError),
        ({"payload": {"a": {1}}}, InvalidPayloadError),
    ],
)
def test_what_curb_would_not_take_is_not_written(change: Any, error: type[Exception]) -> None:
    message = HostMessage(**{"id": "m-7", "name": "n", "payload": {}, **change})
    with pytest.raises(error):
        encode_host_message(message)


def test_the_longest_that_curb_takes_is_written() -> None:
    message = HostMessage(id="😀" * 64, name="😀" * 128, payload={}, in_reply_to="i" * 128)
    assert encode_host_message(message)


@pytest.mark.parametrize("case", cases("queries"))
def test_query_vector(case: Any) -> None:
    read = {"graceMs": read_grace_ms, "from": read_from}[case["parameter"]]
    if "refused" not in case:
        assert read(case["text"]) == case["value"]
        return
    with pytest.raises(MalformedTextError) as caught:
        read(case["text"])
    assert [issue.path for issue in caught.value.issues] == [[case["parameter"]]]


@pytest.mark.parametrize("grace_ms", [0, 1, 60_000])
def test_a_grace_that_fits(grace_ms: int) -> None:
    assert check_grace_ms(grace_ms) == grace_ms


@pytest.mark.parametrize("grace_ms", [-1, 60_001, 1.5, 2.0, True, "5", None])
def test_a_grace_that_does_not_fit(grace_ms: object) -> None:
    with pytest.raises(UsageError, match="from 0 to 60000 milliseconds"):
        check_grace_ms(grace_ms)
