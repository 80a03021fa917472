from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.errors import AgentRefusedError, InvalidKeyError, InvalidPayloadError, InvalidReplyError, UsageError
from curb_client.protocol.contract import MAX_REFUSAL_DATA_BYTES, REFUSAL_NUMBER, RefusalCode
from curb_client.protocol.envelope import (
    MalformedTextError,
    Refusal,
    check_key,
    check_object,
    decode_message,
    decode_refusal,
    decode_reply,
    decode_request,
    decode_settings,
    encode_message,
    encode_refusal,
    encode_reply,
    encode_request,
    encode_update,
)
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.types import Issue, SessionUpdate, TtsUpdate
from tests.protocol.vectors import cases, vectors

# Keys


@pytest.mark.parametrize("case", cases("keys"))
def test_key_vector(case: Any) -> None:
    key = case["character"] * case["count"]
    if case["send"]:
        assert check_key(key) == key
        assert json.loads(encode_request(key, "1", {}))["key"] == key
    else:
        for send in (check_key, lambda key: encode_request(key, "1", {}), lambda key: encode_message(key, "1", {})):
            with pytest.raises(InvalidKeyError):
                send(key)
    if "receive" not in case:
        return
    text = json.dumps({"key": key, "id": "1"})
    for decode in (decode_request, decode_message):
        if case["receive"]:
            assert decode(text).key == key
        else:
            with pytest.raises(MalformedTextError) as caught:
                decode(text)
            assert [issue.path for issue in caught.value.issues] == [["key"]]


@pytest.mark.parametrize("key", [None, 7, True, b"key", ["key"], {"key": 1}])
def test_a_key_must_be_text(key: object) -> None:
    with pytest.raises(InvalidKeyError, match=type(key).__name__):
        check_key(key)


@pytest.mark.parametrize(
    ("key", "told"), [("k" * 257, "257 UTF-16 units"), ("😀" * 129, "258 UTF-16 units"), ("ab\ud800", "character 2")]
)
def test_a_wrong_key_is_told(key: str, told: str) -> None:
    with pytest.raises(InvalidKeyError, match=told) as caught:
        check_key(key)
    str(caught.value).encode("utf-8")


def test_usage_errors_are_value_errors() -> None:
    with pytest.raises(ValueError, match="key"):
        check_key("")


# Requests


@pytest.mark.parametrize("case", cases("requests", "encode"))
def test_request_vector(case: Any) -> None:
    assert encode_request(case["key"], case["id"], case["payload"]) == case["text"]
    request = decode_request(case["text"])
    assert (request.key, request.id, request.payload) == (case["key"], case["id"], case["payload"])


@pytest.mark.parametrize("case", cases("requests", "decode"))
def test_request_text_vector(case: Any) -> None:
    if "value" in case:
        request = decode_request(case["text"])
        assert {"key": request.key, "id": request.id, "payload": request.payload} == case["value"]
        return
    with pytest.raises(MalformedTextError) as caught:
        decode_request(case["text"])
    assert sorted(issue.path for issue in caught.value.issues) == sorted(case["malformed"])
    assert all(issue.message for issue in caught.value.issues)


@pytest.mark.parametrize("length", [1, 128])
def test_ids_that_fit(length: int) -> None:
    assert decode_request(encode_request("k", "i" * length, {})).id == "i" * length


@pytest.mark.parametrize("length", [0, 129, 5000])
def test_ids_that_do_not_fit(length: int) -> None:
    with pytest.raises(UsageError, match="1 to 128") as caught:
        encode_request("k", "i" * length, {})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("request_id", "told"), [(None, "None"), (7, "7"), (b"id", "b'id'"), ("a\ud800", "lone surrogate")]
)
def test_ids_that_are_no_text(request_id: Any, told: str) -> None:
    with pytest.raises(UsageError, match=f"id .*{told}") as caught:
        encode_request("k", request_id, {})
    str(caught.value).encode("utf-8")


def test_a_payload_that_is_not_json_is_told_with_its_path() -> None:
    with pytest.raises(InvalidPayloadError) as caught:
        encode_request("k", "1", {"items": [1, {2}]})
    assert caught.value.path == ("items", 1)


@pytest.mark.parametrize("case", cases("sizes"))
def test_size_vector(case: Any) -> None:
    file = vectors("sizes")
    payload = "".join(run["character"] * run["count"] for run in case["payload"])
    exact = json.dumps(
        {"key": file["key"], "id": file["id"], "payload": payload}, ensure_ascii=False, separators=(",", ":")
    )
    assert len(exact.encode("utf-8")) == case["bytes"]
    if case["accepted"]:
        assert encode_request(file["key"], file["id"], payload) == exact
        return
    with pytest.raises(AgentRefusedError) as caught:
        encode_request(file["key"], file["id"], payload)
    refused = caught.value
    assert (refused.code, refused.size, refused.limit) == ("payload_too_large", case["bytes"], file["limit"])
    assert (refused.issues, refused.path) == ((), None)
    assert len(str(refused)) < 400


# Updates


def test_an_update_is_written_as_it_was_given() -> None:
    assert encode_update({"tts": {"voice": 17.0}}) == '{"tts":{"voice":17}}'
    assert encode_update({"anything": [None]}) == '{"anything":[null]}'


def test_an_update_model_leaves_out_what_was_not_given() -> None:
    assert encode_update(SessionUpdate(tts=TtsUpdate(voice=17))) == '{"tts":{"voice":17}}'
    assert encode_update(SessionUpdate()) == "{}"


def test_an_update_has_the_same_limit() -> None:
    frame = len('{"tts":{"model":""}}')
    assert len(encode_update({"tts": {"model": "m" * (15_360 - frame)}})) == 15_360
    with pytest.raises(AgentRefusedError) as caught:
        encode_update({"tts": {"model": "m" * (15_361 - frame)}})
    assert (caught.value.code, caught.value.size) == ("payload_too_large", 15_361)


# Replies


@pytest.mark.parametrize("case", cases("replies", "encode"))
def test_reply_vector(case: Any) -> None:
    assert encode_reply(case["reply"]) == case["text"]
    assert decode_reply(case["text"]) == case["reply"]


@pytest.mark.parametrize("case", cases("replies", "decode"))
def test_reply_text_vector(case: Any) -> None:
    if "invalid" not in case:
        assert decode_reply(case["text"]) == case["reply"]
        return
    with pytest.raises(InvalidReplyError):
        decode_reply(case["text"])


def test_the_answer_to_an_update() -> None:
    settings = {"tts": {"provider": "a", "voice": 1}, "stt": {"provider": "b", "language": "en"}}
    llm = {"provider": "openai-compatible", "model": "large", "baseURL": "http://llm.internal/v1"}
    answer = {**settings, "llm": {**llm, "base_url": 5}, "more": True}
    read = decode_settings(json.dumps(answer))
    assert read.to_wire()["llm"]["baseURL"] == llm["baseURL"]
    del llm["baseURL"]
    with pytest.raises(InvalidReplyError, match="is no settings") as invalid:
        decode_settings(json.dumps({**settings, "llm": {**llm, "base_url": "http://llm.internal/v1"}, "stt": 3}))
    assert invalid.value.reply["stt"] == 3  # type: ignore[index]
    assert ["stt"] in [issue.path for issue in invalid.value.issues]
    with pytest.raises(InvalidReplyError, match="is not JSON"):
        decode_settings(json.dumps({**settings, "llm": llm, "more": float("nan")}))


def test_an_invalid_reply_carries_what_came() -> None:
    with pytest.raises(InvalidReplyError) as caught:
        decode_reply("[1, 2]")
    assert caught.value.reply == [1, 2]
    with pytest.raises(InvalidReplyError) as caught:
        decode_reply("not JSON" * 10_000)
    assert caught.value.reply == "not JSON" * 10_000
    assert len(str(caught.value)) < 500


def test_the_agent_may_not_reply_over_the_limit() -> None:
    frame = len('{"reply":""}')
    assert len(encode_reply("r" * (15_360 - frame))) == 15_360
    with pytest.raises(InvalidPayloadError, match="15361 bytes"):
        encode_reply("r" * (15_361 - frame))
    with pytest.raises(InvalidPayloadError):
        encode_reply("€" * 5_120)


def test_a_client_takes_a_reply_over_the_limit() -> None:
    assert decode_reply(json.dumps({"reply": "r" * 100_000})) == "r" * 100_000


def test_the_agent_may_not_reply_what_is_not_json() -> None:
    with pytest.raises(InvalidPayloadError):
        encode_reply({1})


# The agent's messages


@pytest.mark.parametrize("case", cases("messages", "encode"))
def test_message_vector(case: Any) -> None:
    if "refused" in case:
        with pytest.raises(InvalidPayloadError):
            encode_message(case["key"], case["id"], case["payload"])
        return
    assert encode_message(case["key"], case["id"], case["payload"]) == case["text"]


@pytest.mark.parametrize("case", cases("messages", "decode"))
def test_message_text_vector(case: Any) -> None:
    if "value" in case:
        message = decode_message(case["text"])
        assert {"key": message.key, "id": message.id, "payload": message.payload} == case["value"]
        return
    with pytest.raises(MalformedTextError) as caught:
        decode_message(case["text"])
    assert sorted(issue.path for issue in caught.value.issues) == sorted(case["malformed"])


@pytest.mark.parametrize("payload", [[], "text", 5, True, (1, 2)])
def test_what_an_agent_sends_must_be_an_object(payload: object) -> None:
    with pytest.raises(InvalidPayloadError, match=f"{type(payload).__name__}.*JSON object"):
        check_object(payload)


def test_a_model_is_an_object() -> None:
    assert check_object(TtsUpdate(voice=1)) == '{"voice":1}'


def test_a_stream_has_no_limit() -> None:
    assert decode_message(encode_message("k", "1", {"text": "t" * 100_000})).payload == {"text": "t" * 100_000}


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"key":"\\ud800","id":"1"}', '{"key":{"str":"a"},"id":["i"]}'],
    ids=["arrays", "lone surrogate", "objects for text"],
)
def test_hostile_texts_are_malformed(text: str) -> None:
    for decode in (decode_request, decode_message):
        with pytest.raises(MalformedTextError) as caught:
            decode(text)
        str(caught.value).encode("utf-8")


# Refusals


def refusal_of(issues: list[Issue]) -> str:
    code, data = encode_refusal(Refusal(RefusalCode.INVALID_PAYLOAD, issues=issues))
    assert code == "invalid_payload"
    assert len(data.encode("utf-8")) <= 15_360
    return data


def issues_in(data: str) -> list[Issue]:
    return [Issue.model_validate(issue) for issue in json.loads(data)["issues"]]


@pytest.mark.parametrize("case", cases("refusals"))
def test_refusal_vector(case: Any) -> None:
    refused = decode_refusal(case["number"], case["message"], case["data"])
    if case["refusal"] is None:
        assert refused is None
        return
    assert refused is not None
    assert refused.code == case["refusal"]["code"]
    assert [issue.to_wire() for issue in refused.issues] == case["refusal"]["issues"]
    assert refused.path == case["refusal"]["path"]
    assert str(refused).startswith(refused.code)


@pytest.mark.parametrize("code", list(RefusalCode))
def test_a_bare_refusal_has_no_data(code: RefusalCode) -> None:
    assert encode_refusal(Refusal(code)) == (code.value, "")
    refused = decode_refusal(REFUSAL_NUMBER, code.value, "")
    assert refused is not None
    assert (refused.code, refused.issues, refused.path) == (code.value, (), None)


def test_a_path_travels() -> None:
    code, data = encode_refusal(Refusal(RefusalCode.NOT_ADJUSTABLE, path="tts.voice"))
    assert (code, data) == ("not_adjustable", '{"path":"tts.voice"}')
    refused = decode_refusal(REFUSAL_NUMBER, code, data)
    assert refused is not None
    assert refused.path == "tts.voice"
    assert "tts.voice" in str(refused)


def test_issues_travel() -> None:
    issues = [Issue(path=["items", 0, "é"], message="Required"), Issue(path=[], message="")]
    data = refusal_of(issues)
    assert data == '{"issues":[{"path":["items",0,"é"],"message":"Required"},{"path":[],"message":""}]}'
    refused = decode_refusal(REFUSAL_NUMBER, "invalid_payload", data)
    assert refused is not None
    assert list(refused.issues) == issues
    assert "items.0.é: Required" in str(refused)


def test_a_reason_of_300_bytes_is_not_cut() -> None:
    issues = [Issue(path=["a"], message="€" * 100)]
    assert issues_in(refusal_of(issues)) == issues


def test_20_kb_of_issues_are_shortened_to_what_fits() -> None:
    issues = [Issue(path=["items", number], message="m" * 170) for number in range(100)]
    assert len(encode_json([issue.to_wire() for issue in issues])) > 20_000
    data = refusal_of(issues)
    kept = issues_in(data)
    assert kept[:-1] == issues[: len(kept) - 1]
    assert kept[-1] == Issue(path=[], message=f"{100 - (len(kept) - 1)} more")
    assert len(data) > 15_360 - 400  # hardly any room is wasted


def test_issues_at_the_limit() -> None:
    issues = [Issue(path=[], message="m" * 1_500) for _ in range(9)]
    room = MAX_REFUSAL_DATA_BYTES - len(refusal_of(issues)) - len(',{"path":[],"message":""}')
    fitting = [*issues, Issue(path=[], message="x" * (room - 1))]
    assert issues_in(refusal_of(fitting)) == fitting
    too_much = [*issues, Issue(path=[], message="x" * (room + 1))]
    assert issues_in(refusal_of(too_much)) == [*issues, Issue(path=[], message="1 more")]


def test_the_closing_issue_has_room_whatever_the_others_leave() -> None:
    for length in range(400, 700):
        issues = [Issue(path=[], message="m" * length) for _ in range(40)]
        kept = issues_in(refusal_of(issues))
        assert kept[-1].message == f"{41 - len(kept)} more"


@pytest.mark.parametrize("character", ["m", "é", "€", "😀"])
@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_one_giant_message_is_cut_between_characters(character: str, before: str) -> None:
    giant = Issue(path=["a"], message=before + character * 20_000)
    other = Issue(path=["b"], message="short")
    cut, second = issues_in(refusal_of([giant, other]))
    assert second == other
    assert cut.path == ["a"]
    assert cut.message.endswith("…")
    assert giant.message.startswith(cut.message[:-1])
    assert len(cut.message.encode("utf-8")) > 3_000


def test_a_giant_path_counts_as_left_out() -> None:
    issues = [Issue(path=["p" * 20_000], message="m"), Issue(path=["b"], message="short")]
    assert issues_in(refusal_of(issues)) == [Issue(path=[], message="2 more")]


def test_lone_surrogates_do_not_keep_a_refusal_from_being_sent() -> None:
    data = refusal_of([Issue(path=["a\ud800", 1], message="not \udfff")])
    assert issues_in(data) == [Issue(path=["a�", 1], message="not �")]


steps = st.text(st.characters(), max_size=10) | st.integers(0, 10**6)
messages = st.builds(lambda text, times: text * times, st.text(st.characters(), max_size=20), st.integers(0, 500))
some_issues = st.builds(lambda path, message: Issue(path=path, message=message), st.lists(steps, max_size=4), messages)


def is_of(sent: Issue, issue: Issue) -> bool:
    """Whether ``sent`` is the issue, perhaps with a shortened message."""
    path = [step if isinstance(step, int) else step.encode("utf-8", "replace").decode() for step in issue.path]
    message = issue.message.encode("utf-8", "replace").decode()
    shortened = sent.message.endswith("…") and message.startswith(sent.message[:-1])
    return sent.path == path and (sent.message == message or shortened)


@settings(deadline=None)
@given(st.lists(some_issues, min_size=1, max_size=40))
def test_any_issues_travel_whole(issues: list[Issue]) -> None:
    sent = issues_in(refusal_of(issues))
    if len(sent) == len(issues) and all(map(is_of, sent, issues)):
        return
    kept = sent[:-1]
    assert all(map(is_of, kept, issues))
    assert sent[-1] == Issue(path=[], message=f"{len(issues) - len(kept)} more")


def test_the_message_of_a_refusal_stays_readable() -> None:
    data = refusal_of([Issue(path=[number], message="wrong") for number in range(50)])
    refused = decode_refusal(REFUSAL_NUMBER, "invalid_payload", data)
    assert refused is not None
    assert len(refused.issues) == 50
    assert len(str(refused)) < 200


# Round trips

texts = st.text(min_size=1, max_size=100)
payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@settings(deadline=None)
@given(key=texts, request_id=texts, payload=payloads)
def test_a_request_arrives_as_it_was_sent(key: str, request_id: str, payload: object) -> None:
    request = decode_request(encode_request(key, request_id, payload))
    assert (request.key, request.id, request.payload) == (key, request_id, payload)


@settings(deadline=None)
@given(key=texts, payload=st.dictionaries(st.text(max_size=8), payloads, max_size=4))
def test_a_message_arrives_as_it_was_sent(key: str, payload: dict[str, object]) -> None:
    message = decode_message(encode_message(key, "m-1", payload))
    assert (message.key, message.id, message.payload) == (key, "m-1", payload)


@settings(deadline=None)
@given(payloads)
def test_a_reply_arrives_as_it_was_given(reply: object) -> None:
    assert decode_reply(encode_reply(reply)) == reply
