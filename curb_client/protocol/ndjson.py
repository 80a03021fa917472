"""From the bytes of an event stream to its records (host protocol, Event stream).

A line ends with ``\\n``, perhaps after ``\\r``, and with nothing else: U+2028 and U+0085 may stand in a record as they
are. Nothing in here raises on what a peer sent: a line that is no record is a :class:`MalformedLine`, and the stream
goes on after it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from curb_client.protocol.contract import MAX_LINE_BYTES, MAX_SKIPPED_CLASSES
from curb_client.protocol.json_text import decode_json, path_text, without_lone_surrogates
from curb_client.protocol.records import JournalRecord, PingLine
from curb_client.protocol.scalars import Positive
from curb_client.protocol.types import issues_of

__all__ = [
    "Line",
    "LineDecoder",
    "LineSplitter",
    "MalformedLine",
    "MalformedReason",
    "SkippedRecord",
    "decode_line",
]

_BLANK = b" \t\r"
_EXCERPT = 200  # bytes
_ENVELOPE: TypeAdapter[int] = TypeAdapter(Positive)


class MalformedReason(str, Enum):
    """Why a line could not be read."""

    TOO_LONG = "too_long"
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    NOT_A_RECORD = "not_a_record"
    CUT = "cut"


@dataclass(frozen=True)
class MalformedLine:
    """A line that is no record.

    Attributes:
        reason: ``CUT`` is a last line whose end is missing: the stream broke off inside of it.
        error: for people, with what to do where there is something.
        excerpt: the first 200 bytes of the line, or fewer.
        envelope: of the record that this should have been, where it can be read: to go on after it.
    """

    reason: MalformedReason
    error: str
    excerpt: bytes
    envelope: int | None = None


@dataclass(frozen=True)
class SkippedRecord:
    """A record of a class that this library does not know, to be skipped; its envelope counts."""

    record: JournalRecord


Line: TypeAlias = JournalRecord | PingLine | SkippedRecord | MalformedLine


class LineSplitter:
    """Bytes in chunks of any size to lines, in time linear in their number. Blank lines are left out.

    A line over ``max_line_bytes`` is reported once and dropped as it comes, so that memory is bounded by the limit and
    the largest chunk.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_line_bytes
        self._buffer = bytearray()
        self._searched = 0  # so far there is no line end: a long line that comes in bits is not searched over and over
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | MalformedLine]:
        """The lines that are complete with these bytes, without their ends."""
        self._buffer += data
        lines: list[bytes | MalformedLine] = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._searched))) >= 0:
            lines += self._line(start, end)
            start = end + 1
        del self._buffer[:start]
        if len(self._buffer) > self._limit + 1 and not self._dropping:  # 1: it may end in \r
            lines.append(self._too_long(0))
            self._dropping = True
        if self._dropping:
            self._buffer.clear()
        self._searched = len(self._buffer)
        return lines

    def end(self) -> list[bytes | MalformedLine]:
        """The last line, where the stream ended without a line end after it: none or one."""
        lines = self._line(0, len(self._buffer))
        self._buffer.clear()
        self._searched = 0
        return lines

    def _line(self, start: int, end: int) -> list[bytes | MalformedLine]:
        if self._dropping:
            self._dropping = False
            return []
        if end > start and self._buffer[end - 1] == 0x0D:
            end -= 1
        if end - start > self._limit:
            return [self._too_long(start)]
        line = bytes(self._buffer[start:end])
        return [line] if line.strip(_BLANK) else []

    def _too_long(self, start: int) -> MalformedLine:
        return MalformedLine(
            MalformedReason.TOO_LONG,
            f"the line has more than {self._limit} bytes and was dropped; raise max_line_bytes to read it",
            bytes(self._buffer[start : start + min(_EXCERPT, self._limit)]),
        )


def decode_line(line: bytes) -> Line:
    """What one line is. Lone surrogates in its texts, which nothing could write again, become U+FFFD."""

    try:
        text = line.decode("utf-8")
        value = decode_json(text)
        if "\\" in text and ("\\ud" in text or "\\uD" in text):
            value = without_lone_surrogates(value)
    except UnicodeDecodeError as error:
        return _malformed(line, MalformedReason.NOT_UTF8, f"the line is not UTF-8 at byte {error.start}")
    except ValueError as error:
        return _malformed(line, MalformedReason.NOT_JSON, f"the line is not JSON: {error}")
    except RecursionError:
        return _malformed(line, MalformedReason.NOT_JSON, "the line is nested too deeply")
    if not isinstance(value, dict):
        return _malformed(line, MalformedReason.NOT_A_RECORD, f"the line is no JSON object but {type(value).__name__}")
    try:
        if "ping" in value and "envelope" not in value:
            return PingLine.from_wire(value)
        record = JournalRecord.from_wire(value)
    except ValidationError as error:
        issues = [f"{path_text(tuple(issue.path))}: {issue.message}" for issue in issues_of(error, value)]
        return _malformed(
            line, MalformedReason.NOT_A_RECORD, f"the line is no record: {'; '.join(issues)}", _envelope(value)
        )
    return record if record.is_known else SkippedRecord(record)


def _malformed(line: bytes, reason: MalformedReason, error: str, envelope: int | None = None) -> MalformedLine:
    return MalformedLine(reason, error, line[:_EXCERPT], envelope)


class LineDecoder:
    """A :class:`LineSplitter` with :func:`decode_line` after it, which counts what a host should know of.

    Attributes:
        records: records read.
        pings: heartbeats.
        malformed: lines that are no records.
        skipped: by class, the records skipped. After 64 classes the others are counted together, under ``""``.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._splitter = LineSplitter(max_line_bytes)
        self.records = 0
        self.pings = 0
        self.malformed = 0
        self.skipped: Counter[str] = Counter()

    def feed(self, data: bytes) -> list[Line]:
        """What is complete with these bytes."""
        return [self._counted(self._decoded(line)) for line in self._splitter.feed(data)]

    def end(self) -> list[Line]:
        """What the stream's end leaves: none or one. Not to be called where the connection broke."""
        return [self._counted(self._cut(self._decoded(line))) for line in self._splitter.end()]

    def _decoded(self, line: bytes | MalformedLine) -> Line:
        return line if isinstance(line, MalformedLine) else decode_line(line)

    def _cut(self, line: Line) -> Line:
        if not isinstance(line, MalformedLine) or line.reason not in (
            MalformedReason.NOT_JSON,
            MalformedReason.NOT_UTF8,
        ):
            return line
        return replace(line, reason=MalformedReason.CUT, error=f"the stream ended inside a line ({line.error})")

    def _counted(self, line: Line) -> Line:
        if isinstance(line, JournalRecord):
            self.records += 1
        elif isinstance(line, PingLine):
            self.pings += 1
        elif isinstance(line, MalformedLine):
            self.malformed += 1
        else:
            name = line.record.record_class[:_EXCERPT]
            known = name in self.skipped or len(self.skipped) < MAX_SKIPPED_CLASSES
            self.skipped[name if known else ""] += 1
        return line


def _envelope(value: dict[str, Any]) -> int | None:
    try:
        return _ENVELOPE.validate_python(value.get("envelope"))
    except ValidationError:
        return None
