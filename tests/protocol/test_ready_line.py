from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.errors import InvalidPayloadError
from curb_client.protocol.envelope import MalformedTextError
from curb_client.protocol.ndjson import LineSplitter
from curb_client.protocol.ready_line import read_lifecycle_line, write_lifecycle_line
from curb_client.protocol.records import LifecycleDraining, LifecycleReady, OtherBody, lifecycle_body
from tests.protocol.vectors import cases


@pytest.mark.parametrize("case", cases("lifecycle_lines", "encode"))
def test_written_vector(case: Any) -> None:
    body = lifecycle_body(case["body"])
    assert not isinstance(body, OtherBody)
    assert write_lifecycle_line(body) == case["text"]
    assert read_lifecycle_line(case["text"]) == body


@pytest.mark.parametrize("case", cases("lifecycle_lines", "decode"))
def test_read_vector(case: Any) -> None:
    if "malformed" in case:
        with pytest.raises(MalformedTextError, match="lifecycle line"):
            read_lifecycle_line(case["text"])
        return
    body = read_lifecycle_line(case["text"])
    if "other" in case:
        assert body == OtherBody(case["other"])
    else:
        assert body == (None if case["body"] is None else lifecycle_body(case["body"]))


@settings(deadline=None)
@given(st.text())
def test_other_output_is_never_a_lifecycle_line(line: str) -> None:
    assert read_lifecycle_line(line) is None


@settings(deadline=None)
@given(st.text(min_size=1), st.integers(0, 100), st.integers(0, 10**6))
def test_what_was_written_is_one_line_and_can_be_read(address: str, sessions: int, warmup: int) -> None:
    ready = LifecycleReady(event="ready", address=address, max_sessions=sessions, warmup_ms=warmup)
    written = write_lifecycle_line(ready)
    assert written.startswith('curb-hosted {"event":"ready",')
    assert LineSplitter().feed(f"{written}\n".encode()) == [written.encode()]
    assert read_lifecycle_line(written) == ready


def test_what_cannot_be_written() -> None:
    with pytest.raises(InvalidPayloadError):
        write_lifecycle_line(LifecycleDraining(event="draining", signal="\ud800"))
