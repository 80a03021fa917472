from __future__ import annotations

from typing import Any

import pytest

from curb_client.errors import UsageError
from curb_client.protocol.contract import ErrorCode, RefusalCode
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.host_errors import error_body, known_code, refusal_body
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.types import Issue


def test_a_stranger_learns_nothing() -> None:
    assert encode_json(error_body(ErrorCode.UNAUTHORIZED)) == '{"error":"unauthorized"}'
    with pytest.raises(UsageError, match="leave out detail"):
        error_body(ErrorCode.UNAUTHORIZED, "the token is too short")


def test_an_unknown_version_tells_the_known_ones() -> None:
    body = error_body(ErrorCode.UNKNOWN_VERSION, "no such path")
    assert encode_json(body) == '{"error":"unknown_version","detail":"no such path","versions":[1]}'


def test_a_cursor_too_old() -> None:
    body = error_body(ErrorCode.CURSOR_TOO_OLD, requested=0, oldest_retained=5)
    assert encode_json(body) == '{"error":"cursor_too_old","requested":0,"oldestRetained":5}'


@pytest.mark.parametrize(
    ("code", "given", "missing"),
    [
        (ErrorCode.CURSOR_TOO_OLD, {"requested": 5}, "must carry oldest_retained"),
        (ErrorCode.CURSOR_TOO_OLD, {}, "must carry requested and oldest_retained"),
        (ErrorCode.NOT_ADJUSTABLE, {}, "must carry path"),
        (ErrorCode.INVALID_SETTINGS, {}, "must carry issues"),
        (ErrorCode.INVALID_PAYLOAD, {}, "must carry issues"),
    ],
)
def test_what_a_code_must_carry(code: ErrorCode, given: Any, missing: str) -> None:
    with pytest.raises(UsageError, match=missing):
        error_body(code, "why", **given)


ISSUES = [Issue(path=["score"], message="Required"), Issue(path=["items", 2], message="Too long")]


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal(RefusalCode.NO_HANDLER), '{"error":"no_handler"}'),
        (Refusal(RefusalCode.HANDLER_FAILED), '{"error":"handler_failed"}'),
        (
            Refusal(RefusalCode.INVALID_PAYLOAD, issues=ISSUES),
            (
                '{"error":"invalid_payload","detail":"invalid_payload: score: Required; items.2: Too long",'
                '"issues":[{"path":["score"],"message":"Required"},{"path":["items",2],"message":"Too long"}]}'
            ),
        ),
        (Refusal(RefusalCode.INVALID_PAYLOAD), '{"error":"invalid_payload","issues":[]}'),
        (
            Refusal(RefusalCode.NOT_ADJUSTABLE, path="stt.language"),
            (
                '{"error":"not_adjustable","detail":"not_adjustable: stt.language may not be changed by the host",'
                '"path":"stt.language"}'
            ),
        ),
    ],
)
def test_an_agents_refusal(refusal: Refusal, text: str) -> None:
    assert encode_json(refusal_body(refusal)) == text


def test_of_many_issues_the_first_are_told() -> None:
    issues = [Issue(path=[f"setting-{number}"], message="unknown") for number in range(1000)]
    body = refusal_body(Refusal(RefusalCode.INVALID_SETTINGS, issues=issues))
    assert body.issues == issues[:32]
    assert body.detail is not None
    assert body.detail.endswith("setting-4: unknown; and 995 more")
    assert len(error_body(ErrorCode.INTERNAL, "x" * 10_000).detail or "") == 2000


def test_a_runner_never_answers_payload_too_large() -> None:
    with pytest.raises(ValueError, match="payload_too_large"):
        refusal_body(Refusal(RefusalCode.PAYLOAD_TOO_LARGE))


def test_what_a_peer_sent_can_be_told_back() -> None:
    issue = Issue(path=["a\ud800", 1], message="b\udc00")
    body = error_body(ErrorCode.INVALID_PAYLOAD, "c\ud800", issues=[issue])
    assert encode_json(body) == '{"error":"invalid_payload","detail":"c�","issues":[{"path":["a�",1],"message":"b�"}]}'


@pytest.mark.parametrize(
    "error", ["quota_exceeded", "No route for POST /v1/sessions", "", "Not_Found", "payload_too_large"]
)
def test_codes_that_are_not_known(error: str) -> None:
    assert known_code(error) is None
