"""Which records were processed, by producer and seq, in bounded memory (host protocol, Event stream).

A producer numbers its records without gaps, so what was seen of it is a range or a few. Both how many producers and
how many ranges of each are remembered is limited; the longest unused and the lowest are forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

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
        self._states = OrderedDict((state.producer, state) for state in states)

    def has(self, producer: str, seq: int) -> bool:
        """Whether that record was processed before."""
        state = self._states.get(producer)
        return state is not None and any(first <= seq <= last for first, last in state.ranges)

    def lost_before(self, producer: str, seq: int) -> tuple[int, int] | None:
        """The first and last seq that should have come before this one and did not."""
        state = self._states.get(producer)
        if state is None or state.next_seq is None or state.next_seq >= seq:
            return None
        return state.next_seq, seq - 1

    def add(self, producer: str, seq: int, *, of_call: bool) -> None:
        """Note a record as processed."""
        state = self._states.pop(producer, None) or ProducerState(producer=producer)
        self._states[producer] = ProducerState(
            producer=producer,
            ranges=_with(state.ranges, seq)[-self._max_ranges :],
            next_seq=max(seq + 1, state.next_seq or 0),
            is_call=state.is_call or of_call,
        )
        while len(self._states) > self._max_producers:
            self._states.popitem(last=False)

    def forget(self, producer: str) -> None:
        """Note a call as complete: another one may come under its name and number its records from 1."""
        self._states.pop(producer, None)

    def expect_nothing(self) -> None:
        """Note a gap in the stream, which may have swallowed records of any producer."""
        for producer, state in self._states.items():
            self._states[producer] = state.model_copy(update={"next_seq": None})

    def open_calls(self) -> tuple[str, ...]:
        """The producers that are calls and not complete, the one heard of last at the end."""
        return tuple(state.producer for state in self._states.values() if state.is_call)

    def states(self) -> list[ProducerState]:
        """What to store."""
        return list(self._states.values())


def _with(ranges: list[tuple[int, int]], seq: int) -> list[tuple[int, int]]:
    if ranges and ranges[-1][1] + 1 == seq:  # nearly always
        return [*ranges[:-1], (ranges[-1][0], seq)]
    merged: list[tuple[int, int]] = []
    for first, last in sorted([*ranges, (seq, seq)]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
