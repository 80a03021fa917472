"""Which records were processed, by producer and seq, in bounded memory (host protocol, Event stream).

A producer numbers its records without gaps, so what was seen of it is a range or a few. Both how many producers and
how many ranges of each are remembered is limited; the longest unused and the lowest are forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from curb_client.protocol.contract import REMEMBERED_PRODUCERS, REMEMBERED_RANGES
from curb_client.protocol.scalars import Flag, NonEmpty, Positive
from curb_client.protocol.types import HostModel

__all__ = ["ProducerState", "SeenRecords"]


class ProducerState(HostModel):
    """What is known of one producer, as it is stored.

    Attributes:
        ranges: of seqs, each with its first and last, ascending, not touching.
        next_seq: what its next record must have; None after a gap in the stream, when it may have any.
        is_call: it is a call, whose ``curb.ended`` has not come.
    """

    producer: NonEmpty
    ranges: list[tuple[Positive, Positive]] = Field(default_factory=list)
    next_seq: Positive | None = None
    is_call: Flag = False


class SeenRecords:
    """See the module's text. Beyond the limits a repeated record is taken for a new one."""

    def __init__(
        self,
        states: Iterable[ProducerState] = (),
        *,
        max_producers: int = REMEMBERED_PRODUCERS,
        max_ranges: int = REMEMBERED_RANGES,
    ) -> None:
        self._max_producers = max_producers
        self._max_ranges = max_ranges
        self._known = OrderedDict(
            (state.producer, _Producer(list(state.ranges), state.next_seq, state.is_call)) for state in states
        )

    def has(self, producer: str, seq: int) -> bool:
        """Whether that record was processed before."""
        known = self._known.get(producer)
        if known is None or not known.ranges or seq > known.ranges[-1][1]:  # nearly always
            return False
        return any(first <= seq <= last for first, last in known.ranges)

    def lost_before(self, producer: str, seq: int) -> tuple[int, int] | None:
        """The first and last seq that should have come before this one and did not."""
        known = self._known.get(producer)
        if known is None or known.next_seq is None or known.next_seq >= seq:
            return None
        return known.next_seq, seq - 1

    def add(self, producer: str, seq: int, *, of_call: bool) -> None:
        """Note a record as processed."""
        known = self._known.get(producer)
        if known is None:
            known = self._known[producer] = _Producer([], None, False)
        else:
            self._known.move_to_end(producer)
        _put(known.ranges, seq)
        del known.ranges[: -self._max_ranges]
        known.next_seq = max(seq + 1, known.next_seq or 0)
        known.is_call = known.is_call or of_call
        while len(self._known) > self._max_producers:
            self._known.popitem(last=False)

    def forget(self, producer: str) -> None:
        """Note a call as complete: another one may come under its name and number its records from 1."""
        self._known.pop(producer, None)

    def expect_nothing(self) -> None:
        """Note a gap in the stream, which may have swallowed records of any producer."""
        for known in self._known.values():
            known.next_seq = None

    def open_calls(self) -> tuple[str, ...]:
        """The producers that are calls and not complete, the one heard of last at the end."""
        return tuple(producer for producer, known in self._known.items() if known.is_call)

    def states(self) -> list[ProducerState]:
        """What to store."""
        return [
            ProducerState(producer=producer, ranges=list(known.ranges), next_seq=known.next_seq, is_call=known.is_call)
            for producer, known in self._known.items()
        ]


@dataclass(slots=True)
class _Producer:
    ranges: list[tuple[int, int]]
    next_seq: int | None
    is_call: bool


def _put(ranges: list[tuple[int, int]], seq: int) -> None:
    if ranges and ranges[-1][1] + 1 == seq:  # nearly always
        ranges[-1] = (ranges[-1][0], seq)
        return
    merged: list[tuple[int, int]] = []
    for first, last in sorted([*ranges, (seq, seq)]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    ranges[:] = merged
