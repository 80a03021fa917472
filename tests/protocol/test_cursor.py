from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.errors import UsageError
from curb_client.protocol.contract import ErrorCode
from curb_client.protocol.cursor import (
    TRANSITIONS,
    EventCursor,
    FollowEvent,
    FollowPhase,
    Gap,
    Happening,
    LostRecords,
    Restarted,
)
from curb_client.protocol.host_errors import error_body
from curb_client.protocol.host_types import ErrorBody
from curb_client.protocol.ndjson import Line, MalformedLine, MalformedReason, SkippedRecord, decode_line
from curb_client.protocol.records import JournalRecord, PingLine
from tests.protocol.vectors import cases, vectors

BODIES = vectors("following")["bodies"]


def line(value: Any) -> Line:
    return decode_line(json.dumps(value).encode())


def record(envelope: int, body: str, seq: int, *, producer: str = "call-1", at: int = 1) -> Line:
    return line({"envelope": envelope, "producer": producer, "seq": seq, "at": at, **BODIES[body]})


def told(happening: Happening) -> dict[str, Any]:
    match happening:
        case JournalRecord():
            return {"record": happening.envelope}
        case Gap():
            return {"gap": [happening.first, happening.last], "cause": happening.cause}
        case LostRecords():
            return {"lost": [happening.producer, happening.first, happening.last]}
        case Restarted():
            return {"restarted": happening.cursor, "cut": list(happening.cut)}


def take(cursor: EventCursor, step: Any) -> list[Happening] | None:
    match step["do"]:
        case "connect":
            assert cursor.next_from == step["from"]
            return cursor.connected()
        case "refused":
            assert cursor.next_from == step["from"]
            return cursor.refused(ErrorBody.from_wire(step["error"]))
        case "commit":
            cursor.commit()
            return []
        case "ping":
            return cursor.handle(PingLine(ping=1))
        case "malformed":
            return cursor.handle(MalformedLine(MalformedReason.NOT_A_RECORD, "", b"", step["envelope"]))
        case _:
            return cursor.handle(
                record(step["envelope"], step["as"], step["seq"], producer=step["producer"], at=step["at"])
            )


@pytest.mark.parametrize("case", cases("following"))
def test_vector(case: Any) -> None:
    cursor = EventCursor(case["start"])
    repeated = 0
    for step in case["steps"]:
        if step["do"] == "store":
            repeated += cursor.repeated
            cursor = EventCursor.from_json(json.loads(json.dumps(cursor.to_json())))
            happenings: list[Happening] | None = []
        else:
            happenings = take(cursor, step)
        assert (happenings if happenings is None else [told(each) for each in happenings]) == step["expect"], step
        assert cursor.cursor == step["cursor"], step
    assert list(cursor.open_calls) == case["openCalls"]
    assert repeated + cursor.repeated == case["repeated"]
    assert cursor.runner_ended is case["runnerEnded"]


# Any run of a runner that holds few records, over connections that break


@dataclass
class Runner:
    """A runner as the protocol tells it, with records that get lost on its way to the stream or in it."""

    held: int
    journal: list[tuple[int, Line | None]] = field(default_factory=list)  # by envelope; None is never sent
    seqs: dict[str, int] = field(default_factory=dict)
    lost: set[tuple[str, int]] = field(default_factory=set)

    @property
    def last(self) -> int:
        return len(self.journal)

    @property
    def oldest(self) -> int:
        return max(1, self.last - self.held + 1)

    def write(self, call: str, kind: str) -> None:
        seq = self.seqs[call] = self.seqs.get(call, 0) + 1
        if kind == "lost":
            self.lost.add((call, seq))
            return
        envelope = self.last + 1
        sent: Line | None
        if kind == "missing":
            sent = None
        elif kind == "malformed":
            sent = MalformedLine(MalformedReason.NOT_A_RECORD, "", b"", envelope)
        else:
            sent = record(envelope, kind, seq, producer=call)
        self.journal.append((envelope, sent))

    def answer(self, wanted: int | None) -> ErrorBody | int:
        """A refusal, or the envelope after which the stream begins."""
        if wanted is None:
            return self.last
        if wanted and wanted > self.last:
            return error_body(ErrorCode.INVALID_REQUEST)
        if wanted and wanted < self.oldest - 1:
            return error_body(ErrorCode.CURSOR_TOO_OLD, requested=wanted, oldest_retained=self.oldest)
        return max(wanted, self.oldest - 1)


class Host:
    """A host that processes at its own pace, with an account of what it was told."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.cursor = EventCursor(0)
        self.at: int | None = None  # the last envelope that the connection has sent
        self.handed: list[Happening] = []
        self.done: list[Happening] = []

    def connect(self, records_meanwhile: int) -> None:
        self.handed = []
        answer = self.runner.answer(self.cursor.next_from)
        if isinstance(answer, ErrorBody):
            assert self.cursor.refused(answer) == []
            self.at = None
            for _ in range(records_meanwhile):
                self.runner.write("call-1", "turn")
            return
        self.handed = list(self.cursor.connected())
        self.at = answer

    def commit(self, _: int = 0) -> None:
        self.cursor.commit()
        self.done += self.handed
        self.handed = []

    def read(self, count: int) -> None:
        for _ in range(count):
            if self.at is None or self.at < self.runner.oldest - 1:  # too slow: the runner has closed the connection
                self.at = None
                return
            if self.at == self.runner.last:
                return
            self.at += 1
            _, sent = self.runner.journal[self.at - 1]
            if sent is None:
                continue
            self.commit()
            self.handed = list(self.cursor.handle(sent))

    def disconnect(self, _: int) -> None:
        self.at = None

    def write(self, count: int) -> None:
        for number in range(count):
            self.runner.write(f"call-{number % 2}", "turn")

    def write_other(self, pick: int) -> None:
        kinds = ["log", "host", "missing", "malformed", "lost", "call-ended"]
        self.runner.write(f"call-{pick % 2}", kinds[pick % len(kinds)])

    def store(self, _: int) -> None:
        self.cursor = EventCursor.from_json(json.loads(json.dumps(self.cursor.to_json())))
        self.at, self.handed = None, []

    def check(self) -> None:
        processed = [happening.envelope for happening in self.done if isinstance(happening, JournalRecord)]
        assert processed == sorted(set(processed)), "every record once, in order"
        gaps = [n for gap in self.done if isinstance(gap, Gap) for n in range(gap.first, gap.last + 1)]
        assert gaps == sorted(set(gaps)), "every gap once, in order"
        assert not set(gaps) & set(processed)
        unread = {n for n, sent in self.runner.journal if isinstance(sent, (MalformedLine, SkippedRecord))}
        told_of = {*gaps, *processed}
        assert set(range(1, (self.cursor.cursor or 0) + 1)) - told_of <= unread, "nothing is passed over in silence"
        assert max(told_of, default=0) <= (self.cursor.cursor or 0)
        for lost in self.done:
            assert not isinstance(lost, Restarted)
            if isinstance(lost, LostRecords):
                assert {(lost.producer, seq) for seq in range(lost.first, lost.last + 1)} <= self.runner.lost


steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                Host.connect,
                Host.connect,
                Host.read,
                Host.read,
                Host.commit,
                Host.write,
                Host.write_other,
                Host.disconnect,
                Host.store,
            ]
        ),
        st.integers(0, 9),
    ),
    min_size=20,
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(steps, st.integers(1, 12))
def test_any_run(run: list[tuple[Any, int]], held: int) -> None:
    host = Host(Runner(held))
    host.runner.write("runner", "ready")
    for act, argument in run:
        act(host, argument)
        host.check()
    host.read(10_000)
    for _ in range(3):
        if host.at is None:
            host.connect(0)
    host.read(10_000)
    host.runner.write("call-1", "turn")  # to follow from now on takes a record
    host.read(10_000)
    host.commit()
    host.check()
    assert host.cursor.cursor == host.runner.last
    assert host.cursor.phase is FollowPhase.AT_CURSOR


# Stored cursors


def test_a_seq_that_was_seen_is_no_repeat_where_its_record_is_later() -> None:
    """A runner that restarted and has passed the cursor numbers the records of its producers anew; so does a call under
    the name of one whose end was in a gap."""
    cursor = EventCursor()
    cursor.connected()
    cursor.handle(record(1, "ready", 1, producer="runner", at=5))
    cursor.handle(record(2, "turn", 1, at=6))
    cursor.handle(record(3, "turn", 2, at=7))
    cursor.commit()
    cursor = EventCursor.from_json(cursor.to_json())
    cursor.connected()
    assert cursor.handle(record(4, "turn", 1, at=7)) == []
    assert cursor.handle(record(5, "turn", 2, at=8)) == [record(5, "turn", 2, at=8)]
    assert cursor.repeated == 1
    assert cursor.handle(record(6, "ended", 1, producer="runner", at=9)) == [Restarted(5, ("call-1",))]
    assert cursor.next_from == 0


def test_before_the_first_record_of_a_second_connection_from_now_on_anything_may_be_lost() -> None:
    cursor = EventCursor(None)
    first = record(7, "turn", 3)
    cursor.connected()
    assert cursor.handle(first) == [first]
    cursor = EventCursor(None)
    cursor.connected()
    cursor.connected()
    assert cursor.handle(first) == [Gap(1, 6, "missing"), first]
    cursor.commit()
    cursor.connected()
    assert cursor.handle(record(8, "turn", 4)) == [record(8, "turn", 4)]


def test_what_is_stored() -> None:
    cursor = EventCursor()
    cursor.connected()
    cursor.handle(record(1, "ready", 1, producer="runner", at=5))
    cursor.handle(record(2, "turn", 1))
    cursor.commit()
    assert cursor.to_json() == {
        "cursor": 2,
        "readyAt": 5,
        "newestAt": 5,
        "producers": [
            {"producer": "runner", "ranges": [[1, 1]], "nextSeq": 2},
            {"producer": "call-1", "ranges": [[1, 1]], "nextSeq": 2, "isCall": True},
        ],
    }


@pytest.mark.parametrize("value", [{"cursor": 57}, {"cursor": 57.0, "later": 1}, {"cursor": 57, "producers": []}])
def test_a_number_is_enough(value: object) -> None:
    assert EventCursor.from_json(value).next_from == 57


@pytest.mark.parametrize(
    "value", [None, 57, [], {"cursor": -1}, {"cursor": True}, {"cursor": "57"}, {"producers": [{"ranges": []}]}]
)
def test_what_was_not_stored(value: object) -> None:
    with pytest.raises(UsageError, match="no stored cursor: "):
        EventCursor.from_json(value)


@pytest.mark.parametrize("cursor", [-1, True, 1.5, "57", 2**53])
def test_what_is_no_cursor(cursor: Any) -> None:
    with pytest.raises(UsageError, match="cursor must be a whole number from 0"):
        EventCursor(cursor)


def test_what_is_stored_stays_small() -> None:
    cursor = EventCursor()
    cursor.connected()
    for envelope in range(1, 3_001):
        cursor.handle(record(envelope, "turn", envelope, producer="call-1"))
    for envelope in range(3_001, 4_201):
        cursor.handle(record(envelope, "turn", 1, producer=f"call-{envelope}"))
    cursor.commit()
    assert len(cursor.open_calls) == 1_024
    assert len(json.dumps(cursor.to_json())) < 1_024 * 100


# The table


def test_the_table_leads_everywhere_and_nowhere_else() -> None:
    assert {FollowPhase.AT_CURSOR, *TRANSITIONS.values()} == set(FollowPhase)
    assert {event for _, event in TRANSITIONS} == set(FollowEvent)
    for phase in FollowPhase:
        seen = {phase}
        for _ in FollowPhase:
            seen |= {after for (before, _), after in TRANSITIONS.items() if before in seen}
        assert FollowPhase.AT_CURSOR in seen, f"{phase} is a dead end"


def test_a_refusal_cannot_repeat_for_ever() -> None:
    """Whatever a runner says of a cursor, it is soon asked for what cannot be too old."""
    for code in (ErrorCode.CURSOR_TOO_OLD, ErrorCode.INVALID_REQUEST):
        for oldest in (1, 57, 58, 59, 100, 10**9):
            cursor = EventCursor(57)
            error = ErrorBody(error=code.value, oldest_retained=oldest)
            asked = 0
            while cursor.refused(error) is not None:
                asked += 1
                assert asked <= 2
            assert not cursor.next_from
