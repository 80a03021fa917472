"""Payloads and replies as the type asked for, and where they do not fit."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any, Literal, Union

import pydantic
import pytest
from typing_extensions import TypedDict

from curb_client.errors import InvalidReplyError
from curb_client.room.typed import SchemaMismatchError, as_reply, parse_as


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: str


class Cash(pydantic.BaseModel):
    kind: Literal["cash"]
    coins: list[int]


class Order(pydantic.BaseModel):
    lines: list[dict[str, int]]
    payment: Union[Card, Cash] = pydantic.Field(discriminator="kind")  # noqa: UP007 - as users of 3.10 write it


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Size(enum.Enum):
    SMALL = "small"


@pytest.mark.parametrize(
    ("wanted", "value", "parsed"),
    [
        (int, 3, 3),
        (list[int], [1, 2], [1, 2]),
        (Point, {"x": 1}, Point(1)),
        (Named, {"name": "a"}, {"name": "a"}),
        (Size, "small", Size.SMALL),
        (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
        (Any, {"a": None}, {"a": None}),
        (type(None), None, None),
        (tuple[int, str], [1, "a"], (1, "a")),
    ],
)
def test_what_fits(wanted: Any, value: object, parsed: object) -> None:
    assert parse_as(wanted, value) == parsed
    assert as_reply(wanted, value, "the reply") == parsed


def paths_of(wanted: Any, value: object) -> list[list[str | int]]:
    with pytest.raises(SchemaMismatchError) as mismatch:
        parse_as(wanted, value)
    assert all(issue.message for issue in mismatch.value.issues)
    return [issue.path for issue in mismatch.value.issues]


def test_issues_lead_to_what_does_not_fit() -> None:
    assert paths_of(int, "three") == [[]]
    assert paths_of(list[int], [1, "two", None]) == [[1], [2]]
    assert paths_of(Order, {"lines": [{"a": 1}, {"b": "x"}], "payment": {"kind": "cash", "coins": [1, "2x"]}}) == [
        ["lines", 1, "b"],
        ["payment", "coins", 1],
    ]
    assert paths_of(Order, {"payment": {"kind": "card"}}) == [["lines"], ["payment", "number"]]
    assert paths_of(Order, {"lines": [], "payment": {"kind": "cheque"}}) == [["payment"]]
    assert paths_of(Order, [1]) == [[]]
    assert paths_of(dict[str, list[Point]], {"a": [{"x": 1}, {"y": 2}]}) == [["a", 1, "x"]]


def test_the_names_of_union_members_are_not_part_of_a_path() -> None:
    assert set(map(tuple, paths_of(list[Union[int, Point]], [1, {"x": "far"}]))) <= {(1,), (1, "x")}  # noqa: UP007


def test_a_reply_that_does_not_fit_says_so_and_is_kept() -> None:
    with pytest.raises(InvalidReplyError, match=r"^the reply to 'quote' does not fit Point: x: ") as invalid:
        as_reply(Point, {"x": "far"}, "the reply to 'quote'")
    assert invalid.value.reply == {"x": "far"}
    assert [issue.path for issue in invalid.value.issues] == [["x"]]


def test_half_a_surrogate_pair_fits_no_schema_and_is_no_accident() -> None:
    assert paths_of(dict[str, list[str]], {"a": ["b", "\ud800"]}) == [["a", 1]]


def test_without_a_type_the_reply_is_what_came() -> None:
    reply = {"anything": [1]}
    assert as_reply(None, reply, "the reply") is reply
