"""Recordings: a file of requests, one JSON object a line, as a model endpoint received them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from curb_client.errors import UsageError
from curb_client.model.request import ModelRequest

__all__ = ["RecordedRequest", "read_recording"]

_MAX_AT: Final = 253_402_300_800_000  # the year 10000, in milliseconds


@dataclass(frozen=True)
class RecordedRequest:
    """A request that came, and how it was answered.

    Attributes:
        at: when it came, milliseconds since the Unix epoch. took: until the answer was complete, seconds.
        body: the JSON value of the request.
        status: of HTTP. answer: what the model said and called, in the form of the script.
    """

    at: int
    body: Any
    status: int = 200
    took: float = 0.0
    answer: Any = None

    @cached_property
    def request(self) -> ModelRequest:
        """The request, read."""
        return ModelRequest.parse(self.body)

    def to_line(self) -> str:
        """Its line of a recording, without a line break."""
        content = {"at": self.at, "status": self.status, "took": self.took, "answer": self.answer, "request": self.body}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate becomes its escape in JSON

    @classmethod
    def from_line(cls, line: str) -> RecordedRequest:
        """Read a line; one that holds a request and nothing else is taken too.

        Raises:
            ValueError: it is no JSON object.
        """
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError(f"it is of type {type(value).__name__}; it must be an object")
        if not isinstance(value.get("request"), dict):
            return cls(0, value)
        at, status, took = value.get("at", 0), value.get("status", 200), value.get("took", 0.0)
        if not all(isinstance(number, (int, float)) for number in (at, status, took)):
            raise ValueError("at, status and took must be numbers")
        if not (0 <= at < _MAX_AT and 0 <= status < 1000 and 0 <= took < _MAX_AT):
            raise ValueError(
                f"at is {at:g}, status {status:g}, took {took:g}; they must be milliseconds since 1970 before the "
                "year 10000, an HTTP status of up to three digits, and seconds"
            )
        return cls(int(at), value["request"], int(status), float(took), value.get("answer"))


def read_recording(path: str | Path) -> Iterator[RecordedRequest]:
    """The requests of a recording, one after the other.

    Raises:
        UsageError: the file cannot be read, or a line is no request; it names the line.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _read_line(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the recording {path} cannot be read: {error}") from error


def _read_line(path: str | Path, number: int, line: str) -> RecordedRequest:
    try:
        return RecordedRequest.from_line(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}, line {number}: no recorded request: {error}") from None
