"""Following a runner's event stream over broken connections, without the connections (host protocol, Event stream).

Whoever has the connections asks :attr:`EventCursor.next_from` and connects; tells :meth:`~EventCursor.connected` or
:meth:`~EventCursor.refused`; hands over each line with :meth:`~EventCursor.handle`, no sooner than its consumer asks
for the next record; and starts again when the stream ends. What comes out is every record once, and everything that
will never come, as a :class:`Gap`, :class:`LostRecords` or :class:`Restarted`.

The cursor is the last envelope that the consumer has processed. A connection is wanted in one of these phases;
``TRANSITIONS`` has every change.

==================  ==================================================================================
``AT_CURSOR``       after the cursor, or from now on while there is none
``AT_OLDEST``       the cursor was too old: from the oldest record held; what is before it is a gap
``WITHOUT_CURSOR``  that was too old too: from now on; the gap ends before the first record that comes
``RESTARTED``       it is another runner than before: from its first record
==================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError

from curb_client.errors import UsageError
from curb_client.protocol.contract import MAX_SAFE_INTEGER, RUNNER_PRODUCER, ErrorCode
from curb_client.protocol.host_types import ErrorBody
from curb_client.protocol.ndjson import Line, MalformedLine, SkippedRecord
from curb_client.protocol.records import (
    EventBody,
    HostBody,
    JournalRecord,
    LifecycleEnded,
    LifecycleReady,
    PingLine,
    TurnBody,
)
from curb_client.protocol.scalars import Count, Milliseconds
from curb_client.protocol.seen import ProducerState, SeenRecords
from curb_client.protocol.types import HostModel, issues_of

__all__ = [
    "TRANSITIONS",
    "CursorState",
    "EventCursor",
    "FollowEvent",
    "FollowPhase",
    "Gap",
    "Happening",
    "LostRecords",
    "Restarted",
]


class FollowPhase(str, Enum):
    """See the module's text for the meaning of each."""

    AT_CURSOR = "at_cursor"
    AT_OLDEST = "at_oldest"
    WITHOUT_CURSOR = "without_cursor"
    RESTARTED = "restarted"


class FollowEvent(str, Enum):
    """What the runner does."""

    ACCEPTED = "accepted"  # 200, a stream begins
    TOO_OLD = "too_old"  # 410 that says from where on it would do
    TOO_OLD_BLINDLY = "too_old_blindly"  # 410 that does not, or what cannot be
    UNKNOWN_CURSOR = "unknown_cursor"  # 400: no such envelope yet
    NEW_RECORD = "new_record"
    RENUMBERED = "renumbered"  # a record that cannot be of the runner that the cursor is of


_P, _E = FollowPhase, FollowEvent

TRANSITIONS: Final[Mapping[tuple[FollowPhase, FollowEvent], FollowPhase]] = {
    (_P.AT_CURSOR, _E.TOO_OLD): _P.AT_OLDEST,
    (_P.AT_CURSOR, _E.TOO_OLD_BLINDLY): _P.WITHOUT_CURSOR,
    (_P.AT_CURSOR, _E.UNKNOWN_CURSOR): _P.RESTARTED,
    (_P.AT_CURSOR, _E.RENUMBERED): _P.RESTARTED,
    (_P.AT_OLDEST, _E.ACCEPTED): _P.AT_CURSOR,
    (_P.AT_OLDEST, _E.TOO_OLD): _P.WITHOUT_CURSOR,
    (_P.AT_OLDEST, _E.TOO_OLD_BLINDLY): _P.WITHOUT_CURSOR,
    (_P.AT_OLDEST, _E.UNKNOWN_CURSOR): _P.RESTARTED,
    (_P.WITHOUT_CURSOR, _E.NEW_RECORD): _P.AT_CURSOR,
    (_P.WITHOUT_CURSOR, _E.RENUMBERED): _P.RESTARTED,
    (_P.RESTARTED, _E.ACCEPTED): _P.AT_CURSOR,
}


@dataclass(frozen=True)
class Gap:
    """Envelopes that will never come.

    Attributes:
        first: the first of them.
        last: the last of them.
        cause: ``too_old``, the runner no longer held them; ``missing``, the stream left them out, or their lines could
            not be read. A stream that was followed from now on and broke before its first record is missing all before
            the one that came first, from 1 on, as nobody knows where it began.
    """

    first: int
    last: int
    cause: Literal["too_old", "missing"]


@dataclass(frozen=True)
class LostRecords:
    """Records of a producer that were lost before they reached the stream.

    Attributes:
        first: the first of their seqs.
        last: the last of them.
    """

    producer: str
    first: int
    last: int


@dataclass(frozen=True)
class Restarted:
    """The runner is another one, which numbers anew; what comes next is from its beginning.

    Attributes:
        cursor: the last envelope processed of the runner before.
        cut: the calls of that runner whose records broke off.
    """

    cursor: int | None
    cut: tuple[str, ...]


Happening: TypeAlias = JournalRecord | Gap | LostRecords | Restarted


class CursorState(HostModel):
    """What a host stores to go on later. ``{"cursor": 57}`` alone will do; the rest makes repeats certain.

    Attributes:
        cursor: the last envelope processed, 0 for all that is held, None for from now on.
        ready_at: the runner's own, in milliseconds since the Unix epoch: to tell a restarted one.
        newest_at: the latest ``at`` of a record processed: what is later is no repeat.
    """

    cursor: Count | None = None
    ready_at: Milliseconds | None = None
    newest_at: Milliseconds | None = None
    producers: list[ProducerState] = Field(default_factory=list)


class EventCursor:
    """See the module's text.

    Args:
        cursor: the last envelope processed before; 0 for everything still held, None to follow from now on.

    Raises:
        UsageError: another cursor than these.

    Attributes:
        repeated: records that came again and were dropped.
        runner_ended: the runner wrote its last record, ``ended``; there is nothing more to connect to.
    """

    def __init__(self, cursor: int | None = 0) -> None:
        try:
            self._cursor = CursorState(cursor=cursor).cursor
        except ValidationError:
            wrong = f"cursor must be a whole number from 0 to {MAX_SAFE_INTEGER}, or None, not {cursor!r:.80}"
            raise UsageError(wrong) from None
        self.repeated = 0
        self.runner_ended = False
        self._phase = FollowPhase.AT_CURSOR
        self._oldest = 0  # while AT_OLDEST
        self._base: int | None = None  # after which envelope the connection was to begin
        self._position: int | None = None  # of the last line on this connection
        self._blind_connections = 0  # from now on, without a record so far
        self._ready_at: float | None = None
        self._newest_at: float | None = None
        self._seen = SeenRecords()
        self._pending: tuple[int, JournalRecord | None] | None = None  # handed out and perhaps not processed

    @classmethod
    def from_json(cls, value: object) -> EventCursor:
        """Where :meth:`to_json` left off.

        Raises:
            UsageError: it is not what :meth:`to_json` gives.
        """
        try:
            state = CursorState.from_wire(value)
        except ValidationError as error:
            issue = issues_of(error, value)[0]
            where = ".".join(map(str, issue.path)) or "the whole"
            raise UsageError(f"this is no stored cursor: {where}: {issue.message}") from None
        self = cls(state.cursor)
        self._ready_at = state.ready_at
        self._newest_at = state.newest_at
        self._seen = SeenRecords(state.producers)
        return self

    def to_json(self) -> dict[str, Any]:
        """What to store, a JSON object: everything up to the last :meth:`commit`, and nothing after it."""
        state = CursorState(
            cursor=self._cursor,
            ready_at=self._ready_at,
            newest_at=self._newest_at,
            producers=self._seen.states(),
        )
        return {"cursor": None, **state.to_wire()}

    @property
    def cursor(self) -> int | None:
        """The last envelope processed."""
        return self._cursor

    @property
    def phase(self) -> FollowPhase:
        """How the next connection is wanted; after ``RESTARTED`` the present one is of no use."""
        return self._phase

    @property
    def next_from(self) -> int | None:
        """``from`` of the next connection; None is without the parameter."""
        if self._phase is FollowPhase.AT_OLDEST:
            return self._oldest - 1
        if self._phase is FollowPhase.RESTARTED:
            return 0
        return None if self._phase is FollowPhase.WITHOUT_CURSOR else self._cursor

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Calls whose ``curb.ended`` has not come: cut, if nothing comes any more (Truncation rule)."""
        return self._seen.open_calls()

    def connected(self) -> list[Happening]:
        """The runner answered 200 to :attr:`next_from`. A record handed out and not committed will come again."""
        self._pending = None
        self._position = self._base = self.next_from
        self._blind_connections += self._cursor is None
        gap: list[Happening] = []
        if self._phase is FollowPhase.AT_OLDEST:
            gap = [Gap((self._cursor or 0) + 1, self._oldest - 1, "too_old")]
            self._pending = (self._oldest - 1, None)
        self._step(FollowEvent.ACCEPTED)
        return gap

    def refused(self, error: ErrorBody) -> list[Happening] | None:
        """The runner's answer to :attr:`next_from` was no success.

        Returns:
            What to hand out before connecting again, or None if the answer is not about the cursor: it is then the
            caller's to raise.
        """
        self._pending = None
        if not self.next_from:  # without a cursor, and from the first record on, no cursor can be wrong
            return None
        if error.error == ErrorCode.INVALID_REQUEST:
            return [self._restart(FollowEvent.UNKNOWN_CURSOR)]
        if error.error != ErrorCode.CURSOR_TOO_OLD:
            return None
        self._oldest = error.oldest_retained or 0
        is_told = self._oldest - 1 > (self._cursor or 0)
        self._step(FollowEvent.TOO_OLD if is_told else FollowEvent.TOO_OLD_BLINDLY)
        return []

    def handle(self, line: Line) -> list[Happening]:
        """What to hand out for a line, in order; a record, if there is one, is the last.

        This commits what was handed out before.
        """
        if self._phase is FollowPhase.RESTARTED:
            return []
        self.commit()
        envelope = _envelope_of(line)
        record = line.record if isinstance(line, SkippedRecord) else line if isinstance(line, JournalRecord) else None
        if envelope is None:
            return []
        if self._is_renumbered(envelope, record):
            return [self._restart(FollowEvent.RENUMBERED)]
        if self._is_repeat(envelope):
            self.repeated += 1
            return []
        if record is not None and self._is_numbered_anew(record):
            self._seen.forget(record.producer)
        happenings = self._holes_before(envelope, record)
        self._position = envelope
        self._step(FollowEvent.NEW_RECORD)
        self._pending = (envelope, record)
        if record is not None and self._seen.has(record.producer, record.seq):
            self.repeated += 1
        elif isinstance(line, JournalRecord):
            happenings.append(line)
        if not happenings:
            self.commit()
        return happenings

    def commit(self) -> None:
        """What was handed out has been processed: the cursor is now after it."""
        if self._pending is None:
            return
        self._cursor, record = self._pending
        self._pending = None
        if record is not None:
            self._newest_at = max(record.at, self._newest_at or 0)
        if record is None:
            self._seen.expect_nothing()
        elif record.ends_call:
            self._seen.forget(record.producer)
        else:
            is_of_call = isinstance(record.body, (HostBody, TurnBody, EventBody))
            self._seen.add(record.producer, record.seq, of_call=is_of_call)
            if isinstance(record.body, LifecycleReady):
                self._ready_at = record.at
            self.runner_ended = self.runner_ended or isinstance(record.body, LifecycleEnded)

    def _step(self, event: FollowEvent) -> None:
        self._phase = TRANSITIONS.get((self._phase, event), self._phase)

    def _is_repeat(self, envelope: int) -> bool:
        floor = self._cursor if self._position is None else self._position
        return floor is not None and envelope <= floor

    def _is_renumbered(self, envelope: int, record: JournalRecord | None) -> bool:
        if self._phase is FollowPhase.WITHOUT_CURSOR and envelope <= (self._cursor or 0):
            return record is None or not self._seen.has(record.producer, record.seq)
        if record is not None and record.producer == RUNNER_PRODUCER and self._is_numbered_anew(record):
            return True  # it restarted and has passed the cursor
        if record is None or not isinstance(record.body, LifecycleReady):
            return False
        return envelope <= (self._base or 0) and record.at != self._ready_at

    def _is_numbered_anew(self, record: JournalRecord) -> bool:
        """Whether its seq was seen of another record: of another runner, or of another call under the same name."""
        is_later = self._newest_at is not None and record.at > self._newest_at
        return is_later and self._seen.has(record.producer, record.seq)

    def _holes_before(self, envelope: int, record: JournalRecord | None) -> list[Happening]:
        floor = self._cursor if self._position is None else self._position
        is_start = floor is not None and not self._position
        if floor is None and self._blind_connections > 1:
            floor = 0
        if floor is not None and envelope > floor + 1:
            self._seen.expect_nothing()
            return [Gap(floor + 1, envelope - 1, "too_old" if is_start else "missing")]
        lost = None if record is None else self._seen.lost_before(record.producer, record.seq)
        return [] if lost is None or record is None else [LostRecords(record.producer, *lost)]

    def _restart(self, event: FollowEvent) -> Restarted:
        restarted = Restarted(self._cursor, self._seen.open_calls())
        self._step(event)
        self._cursor = 0
        self._ready_at = self._newest_at = None
        self._seen = SeenRecords()
        self._pending = None
        self.runner_ended = False
        return restarted


def _envelope_of(line: Line) -> int | None:
    if isinstance(line, PingLine):
        return None
    if isinstance(line, MalformedLine):
        return line.envelope
    return line.record.envelope if isinstance(line, SkippedRecord) else line.envelope
