"""Recordings of requests."""

from pathlib import Path

import pytest

from curb_client import UsageError
from curb_client.model import RecordedRequest, read_recording

BODY = {"model": "m", "messages": [{"role": "user", "content": "line\u2028separator"}]}


def test_what_was_recorded_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    requests = [RecordedRequest(17, BODY, 429, 0.25, {"text": "no"}), RecordedRequest(18, BODY)]
    path.write_text("".join(f"{each.to_line()}\n" for each in requests) + "\n", encoding="utf-8")
    assert list(read_recording(path)) == requests
    assert requests[0].request.last_user_text == "line\u2028separator"


def test_half_a_character_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    recorded = RecordedRequest(17, {"messages": [{"role": "user", "content": "ä \ud83d \U0001f600"}]})
    path.write_text(f"{recorded.to_line()}\n", encoding="utf-8")
    assert "ä \\ud83d \U0001f600" in path.read_text(encoding="utf-8")
    assert list(read_recording(path)) == [recorded]


def test_bare_requests_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"messages": []}\n', encoding="utf-8")
    (recorded,) = read_recording(path)
    assert recorded.body == {"messages": []}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("oops", "Expecting value"),
        ("[]", "of type list; it must be an object"),
        ('{"request": {}, "at": "now"}', "at, status and took must be numbers"),
        ("[" * 100_000, "recursion|nested"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_text(f"{RecordedRequest(1, BODY).to_line()}\n{line}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=rf"recording.jsonl, line 2: no recorded request: .*({problem})"):
        list(read_recording(path))


@pytest.mark.parametrize("content", [None, b"\xff\n"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "recording.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"recording.jsonl cannot be read"):
        list(read_recording(path))
