"""What fits an expectation, and how a difference is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from curb_client.testing.expectations import ANYTHING, Mailbox, ReceivedMessage, difference


class Positive:
    """An object that compares itself, as those of matcher libraries do."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other > 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Positive()"


def is_even(value: Any) -> bool:
    return bool(value["n"] % 2 == 0)


@pytest.mark.parametrize(
    ("expected", "came"),
    [
        (ANYTHING, {"n": 1}),
        (None, None),
        ({"n": 1}, {"n": 1.0}),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ((1, 2), [1, 2]),
        ({"n": Positive()}, {"n": 3}),
        (is_even, {"n": 2}),
        ({"n": lambda n: n > 1}, {"n": 2}),
        (True, True),
    ],
)
def test_what_fits(expected: object, came: object) -> None:
    assert difference(expected, came) is None


@pytest.mark.parametrize(
    ("expected", "came", "told"),
    [
        ({"price": 12}, {"price": 13}, "expected 12 at price, came 13"),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": "2"}]}, 'expected 2 at a[1].b, came "2"'),
        ({"a": {"b": 1}}, {"a": {}}, "b is missing at a"),
        ({"a": 1}, {"a": 1, "b": 2, "c": 3}, "b, c was not expected"),
        ({}, {"a": 1}, "a was not expected"),
        ([1, 2], [1], "expected 2 items, came 1"),
        ({"f": []}, {"f": [1]}, "expected 0 items at f, came 1"),
        ({"a": 1}, [1], 'expected {"a":1}, came [1]'),
        (True, 1, "expected true, came 1"),
        (1, True, "expected 1, came true"),
        (0, False, "expected 0, came false"),
        (None, {}, "expected null, came {}"),
        ({"n": Positive()}, {"n": -3}, "expected Positive() at n, came -3"),
        (is_even, {"n": 3}, '{"n":3} does not satisfy is_even'),
        ("x" * 300, "y", 'expected "' + "x" * 199 + '… (302 characters), came "y"'),
    ],
)
def test_what_differs_is_told(expected: object, came: object, told: str) -> None:
    assert difference(expected, came) == told


def message(key: str, payload: object, handled: bool = False) -> ReceivedMessage:
    return ReceivedMessage(key, payload, "agent", handled)


def test_a_message_answers_one_expectation_and_the_first_that_fits_is_taken() -> None:
    mailbox = Mailbox()
    for number in (1, 2, 2):
        mailbox.put(message("n", number))
    mailbox.put(message("other", 1, handled=True))
    second = mailbox.take("n", 2)
    assert second is mailbox.messages[1]
    assert mailbox.take("n", ANYTHING) is mailbox.messages[0]
    assert mailbox.take("n", 1) is None
    assert mailbox.untaken() == [mailbox.messages[2]]
    assert mailbox.untaken("other") == []
    assert mailbox.take("other", 1) is mailbox.messages[3], "a message that a handler took may be expected all the same"


async def test_waiting_for_a_message_ends_with_one_or_with_the_time() -> None:
    mailbox = Mailbox()
    assert not await mailbox.wait(0.01)
    asyncio.get_running_loop().call_later(0.01, mailbox.put, message("n", 1))
    assert await asyncio.wait_for(mailbox.wait(60), 10)
