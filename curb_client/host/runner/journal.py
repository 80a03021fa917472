"""The runner's window of records, and who reads it (host protocol, Event stream).

A reader holds nothing but a cursor: it takes its lines from the window itself. One that is so slow that the window has
moved past its cursor is told so by :class:`RecordsGoneError`, whereupon its connection is cut: it resumes by its
cursor, and hears 410 if that is too old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from curb_client.protocol.contract import RETAINED_RECORDS
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.records import Body, JournalRecord

__all__ = ["Journal", "Producer", "RecordsGoneError"]

RETAINED_BYTES: Final = 64 * 1024 * 1024


class RecordsGoneError(Exception):
    """The records after a cursor are no longer held."""


class Journal:
    """The last records, as the lines of the stream.

    Args:
        retained: how many are held, 4,096 by default.
        retained_bytes: how many bytes of lines at most; the newest is always held.
    """

    def __init__(self, retained: int = RETAINED_RECORDS, retained_bytes: int = RETAINED_BYTES) -> None:
        self.newest = 0
        """The envelope of the last record; 0 before the first."""
        self.closed = False
        """Whether the last record is written."""
        self._retained = retained
        self._retained_bytes = retained_bytes
        self._lines: dict[int, bytes] = {}
        self._bytes = 0
        self._changed = asyncio.Event()

    @property
    def oldest(self) -> int:
        """The envelope of the oldest record held; that of the next one where there is none."""
        return self.newest + 1 - len(self._lines)

    def append(self, producer: str, seq: int, record_class: str, at: int, body: Body) -> int:
        """Put a record last; returns its envelope. After :meth:`close` nothing is put.

        Raises:
            InvalidPayloadError: the body is not JSON; nothing was put.
        """
        if self.closed:
            return self.newest
        record = JournalRecord(
            envelope=self.newest + 1, producer=producer, seq=seq, record_class=record_class, at=at, body=body
        )
        line = encode_json(record).encode() + b"\n"
        self.newest += 1
        self._lines[self.newest] = line
        self._bytes += len(line)
        while len(self._lines) > self._retained or (self._bytes > self._retained_bytes and len(self._lines) > 1):
            self._bytes -= len(self._lines.pop(self.oldest))
        self._wake()
        return self.newest

    def close(self) -> None:
        """No more records; readers end when they have read those there are."""
        self.closed = True
        self._wake()

    def lines_after(self, cursor: int, most_bytes: int) -> list[bytes]:
        """The lines after this envelope, in order: all, or so many that they have about ``most_bytes``.

        Raises:
            RecordsGoneError: the one after ``cursor`` is no longer held.
        """
        if cursor + 1 < self.oldest:
            raise RecordsGoneError
        lines: list[bytes] = []
        size = 0
        while cursor + len(lines) < self.newest and size < most_bytes:
            line = self._lines[cursor + len(lines) + 1]
            lines.append(line)
            size += len(line)
        return lines

    async def more_after(self, cursor: int, seconds: float) -> bool:
        """Wait for a record after this envelope, or for the end; False when neither came in time."""
        if cursor >= self.newest and not self.closed:
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), seconds)
            except asyncio.TimeoutError:
                return False
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Producer:
    """One source of records in a journal: its ``seq`` has no gap."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name
        self._seq = 0

    def append(self, record_class: str, body_of: Callable[[int, int], Body]) -> int:
        """Put a record last; returns its envelope.

        Args:
            body_of: makes the body from the record's ``seq`` and ``at`` (milliseconds since the Unix epoch).

        Raises:
            InvalidPayloadError: the body is not JSON; nothing was put.
        """
        at = int(time.time() * 1000)
        envelope = self._journal.append(self._name, self._seq + 1, record_class, at, body_of(self._seq + 1, at))
        self._seq += 1
        return envelope
