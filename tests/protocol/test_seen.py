from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from curb_client.protocol.seen import ProducerState, SeenRecords

seqs = st.lists(st.integers(1, 30), max_size=40)


@settings(deadline=None)
@given(seqs)
def test_it_is_a_set(added: list[int]) -> None:
    seen = SeenRecords()
    for seq in added:
        seen.add("call-1", seq, of_call=True)
    assert [seq for seq in range(1, 32) if seen.has("call-1", seq)] == sorted(set(added))
    assert not any(seen.has("call-2", seq) for seq in added)
    restored = SeenRecords(ProducerState.from_wire(state.to_wire()) for state in seen.states())
    assert restored.states() == seen.states()


@settings(deadline=None)
@given(seqs)
def test_ranges_are_the_fewest(added: list[int]) -> None:
    seen = SeenRecords()
    for seq in added:
        seen.add("call-1", seq, of_call=True)
    ranges = [step for state in seen.states() for step in state.ranges]
    assert all(first <= last for first, last in ranges)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))


def test_a_whole_call_is_one_range() -> None:
    seen = SeenRecords()
    for seq in range(1, 5_001):
        seen.add("call-1", seq, of_call=True)
    assert [state.ranges for state in seen.states()] == [[(1, 5_000)]]


def test_the_lowest_ranges_are_forgotten_first() -> None:
    seen = SeenRecords(max_ranges=3)
    for seq in (1, 11, 21, 31, 5):
        seen.add("call-1", seq, of_call=True)
    assert [seq for seq in range(40) if seen.has("call-1", seq)] == [11, 21, 31]


def test_the_producer_longest_unused_is_forgotten_first() -> None:
    seen = SeenRecords(max_producers=2)
    for producer, seq in (("call-1", 1), ("call-2", 1), ("call-1", 2), ("call-3", 1)):
        seen.add(producer, seq, of_call=True)
    assert seen.open_calls() == ("call-1", "call-3")
    assert not seen.has("call-2", 1)


def test_what_a_producer_lost() -> None:
    seen = SeenRecords()
    assert seen.lost_before("call-1", 7) is None
    seen.add("call-1", 7, of_call=True)
    assert seen.lost_before("call-1", 8) is None
    assert seen.lost_before("call-1", 7) is None
    assert seen.lost_before("call-1", 10) == (8, 9)
    seen.add("call-1", 3, of_call=True)  # late
    assert seen.lost_before("call-1", 9) == (8, 8)
    seen.expect_nothing()
    assert seen.lost_before("call-1", 10) is None
    seen.add("call-1", 20, of_call=True)
    assert seen.lost_before("call-1", 22) == (21, 21)


def test_only_calls_are_open_calls() -> None:
    seen = SeenRecords()
    seen.add("runner", 1, of_call=False)
    seen.add("call-1", 1, of_call=True)
    seen.add("call-1", 2, of_call=False)  # a record of an unknown class
    assert seen.open_calls() == ("call-1",)
    seen.forget("call-1")
    seen.forget("call-1")
    assert seen.open_calls() == ()
    assert seen.has("runner", 1)


@pytest.mark.parametrize("ranges", [[[0, 1]], [[1]], [[1, 2, 3]], [["1", "2"]], [5], {"1": 2}])
def test_what_was_not_stored(ranges: object) -> None:
    with pytest.raises(ValidationError):
        ProducerState.from_wire({"producer": "call-1", "ranges": ranges})
