from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.errors import InvalidPayloadError
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.kept import keep
from curb_client.protocol.records import CallMessage
from curb_client.protocol.types import TtsUpdate
from tests.protocol.vectors import cases


def text_of(runs: Any) -> str:
    return "".join(run["character"] * run["count"] for run in runs)


@pytest.mark.parametrize("case", cases("kept"))
def test_vector(case: Any) -> None:
    payload: Any = text_of(case["payload"])
    if "inside" in case:
        payload = {case["inside"]: payload}
    kept = keep(payload)
    assert kept.truncated is (case["kept"] is not None)
    assert kept.value == (payload if case["kept"] is None else text_of(case["kept"]))


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30), st.integers(50, 2_000))
def test_what_is_cut_is_the_longest_beginning(text: str, times: int) -> None:
    whole = encode_json([text * times])
    kept = keep([text * times])
    assert kept.truncated is (len(whole.encode()) > 4096)
    if kept.truncated:
        assert whole.startswith(kept.value)
        assert len(kept.value.encode()) <= 4096
        assert len(whole[: len(kept.value) + 1].encode()) > 4096


def test_what_is_kept_does_not_change_with_the_payload() -> None:
    payload: dict[str, Any] = {"items": [1]}
    kept = keep(payload)
    payload["items"].append(2)
    assert kept.value == {"items": [1]}


def test_what_is_kept_is_json() -> None:
    assert keep({"a": (1, 2.0), "b": TtsUpdate(voice=17)}).value == {"a": [1, 2], "b": {"voice": 17}}
    assert keep(None).value is None
    with pytest.raises(InvalidPayloadError):
        keep({"a": {1}})


def test_a_kept_payload_on_record() -> None:
    kept = keep({"text": "é" * 5_000})
    message = CallMessage(direction="fromClient", key="k", id="1", payload=kept.value, truncated=kept.truncated or None)
    written = json.loads(encode_json(message))
    assert written["truncated"] is True
    assert len(written["payload"].encode()) == 4096 - 1
    assert CallMessage.from_wire(written) == message
