from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.protocol.contract import OVERTAKE_SECONDS
from curb_client.protocol.ordering import Delivery, InOrder
from tests.protocol.vectors import cases


@pytest.mark.parametrize("case", cases("ordering"))
def test_vector(case: Any) -> None:
    order: InOrder[str] = InOrder(case["overtake"])
    for event in case["events"]:
        match event["do"]:
            case "start":
                assert order.start() == event["stream"]
                continue
            case "complete":
                deliveries = order.complete(event["stream"], event["message"], event["at"])
            case "fail":
                deliveries = order.fail(event["stream"])
            case _:
                deliveries = order.overtake(event["at"])
        assert deliveries == [Delivery(d["message"], late=d["late"]) for d in event["deliveries"]], event
        assert order.next_deadline() == event["deadline"], event


def test_the_default_patience() -> None:
    order: InOrder[str] = InOrder()
    order.start()
    order.complete(order.start(), "second", 1.0)
    assert order.next_deadline() == 1.0 + OVERTAKE_SECONDS


def test_idle_only_when_nothing_is_left() -> None:
    order: InOrder[str] = InOrder()
    assert order.is_idle
    first, second = order.start(), order.start()
    assert not order.is_idle
    order.complete(second, "second", 0.0)
    order.overtake(OVERTAKE_SECONDS)
    assert not order.is_idle  # the first was overtaken and may still complete
    order.complete(first, "first", 5.0)
    assert order.is_idle


def test_idle_after_an_overtaken_stream_failed() -> None:
    order: InOrder[str] = InOrder()
    first = order.start()
    order.complete(order.start(), "second", 0.0)
    order.overtake(OVERTAKE_SECONDS)
    assert order.fail(first) == []
    assert order.is_idle


def test_idle_after_a_failure() -> None:
    order: InOrder[str] = InOrder()
    order.fail(order.start())
    assert order.is_idle


class Run:
    """A random run, with an account of it that does not use the code under test."""

    def __init__(self) -> None:
        self.order: InOrder[int] = InOrder(2.0)
        self.now = 0.0
        self.open: list[int] = []
        self.failed: set[int] = set()
        self.completed_at: dict[int, float] = {}
        self.delivered: list[Delivery[int]] = []

    def start(self, _: int) -> None:
        self.open.append(self.order.start())

    def complete(self, pick: int) -> None:
        if self.open:
            number = self.open.pop(pick % len(self.open))
            self.completed_at[number] = self.now
            self.take(self.order.complete(number, number, self.now))

    def fail(self, pick: int) -> None:
        if self.open:
            number = self.open.pop(pick % len(self.open))
            self.failed.add(number)
            self.take(self.order.fail(number))

    def wait(self, quarters: int) -> None:
        """Time passes, and each deadline on the way is kept."""
        until = self.now + quarters / 4
        while (deadline := self.order.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            before = len(self.delivered)
            self.take(self.order.overtake(self.now))
            assert len(self.delivered) > before, "a deadline came and nothing was handed out"
        self.now = until

    def take(self, deliveries: list[Delivery[int]]) -> None:
        for delivery in deliveries:
            overtaken = any(earlier.message > delivery.message for earlier in self.delivered)
            assert delivery.late is overtaken
            self.delivered.append(delivery)

    def check(self) -> None:
        messages = [delivery.message for delivery in self.delivered]
        assert len(messages) == len(set(messages))
        assert set(messages) <= set(self.completed_at)
        on_time = [delivery.message for delivery in self.delivered if not delivery.late]
        assert on_time == sorted(on_time)
        withheld = [at for number, at in self.completed_at.items() if number not in messages]
        assert self.order.next_deadline() == (min(withheld) + 2.0 if withheld else None)
        assert self.order.is_idle is not bool(self.open or withheld)


Step = tuple[Callable[[Run, int], None], int]
acts = st.sampled_from([Run.start, Run.start, Run.complete, Run.complete, Run.fail, Run.wait])
steps = st.lists(st.tuples(acts, st.integers(0, 12)), min_size=20, max_size=80)  # shorter runs rarely overtake


@settings(deadline=None)
@given(steps)
def test_any_run(run_steps: list[Step]) -> None:
    run = Run()
    for act, argument in run_steps:
        act(run, argument)
        run.check()
    while run.open:
        run.complete(0)
        run.check()
    assert sorted(delivery.message for delivery in run.delivered) == sorted(run.completed_at)
    assert run.order.is_idle


@settings(deadline=None)
@given(st.permutations(range(8)))
def test_without_a_pause_everything_is_in_order(completion: list[int]) -> None:
    order: InOrder[int] = InOrder()
    for _ in completion:
        order.start()
    handed_out = [delivery for number in completion for delivery in order.complete(number, number, 0.0)]
    assert handed_out == [Delivery(number) for number in range(8)]


def test_nothing_is_overtaken_before_its_deadline() -> None:
    order: InOrder[str] = InOrder(2.0)
    order.start()
    order.complete(order.start(), "second", 1.0)
    assert order.overtake(2.999) == []
    assert order.overtake(3.0) == [Delivery("second")]
