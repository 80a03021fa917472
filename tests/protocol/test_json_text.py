from __future__ import annotations

import enum
import json
import math
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from curb_client.errors import InvalidPayloadError
from curb_client.protocol.contract import MAX_SAFE_INTEGER
from curb_client.protocol.json_text import _depth, decode_json, encode_json, path_text, utf8_size
from curb_client.protocol.types import SessionUpdate, TtsUpdate
from tests.protocol.vectors import cases

# The vectors


@pytest.mark.parametrize("case", cases("encoding"))
def test_vector(case: Any) -> None:
    assert encode_json(case["value"]) == case["text"]
    assert decode_json(case["text"]) == case["value"]


def leaf(case: Any) -> object:
    match case["kind"]:
        case "nan" | "infinity" | "-infinity" as name:
            return float(name)
        case "number":
            return case["number"]
        case "text":
            return case["text"]
        case "property":
            return {case["property"]: 1}
        case "arrays":
            value: list[object] = []
            for _ in range(case["levels"] - 1):
                value = [value]
            return value
        case "cycle":
            cycle: list[object] = []
            cycle.append(cycle)
            return cycle
        case kind:
            raise AssertionError(f"unknown kind {kind}")


@pytest.mark.parametrize("case", cases("encoding_refused"))
def test_refused_vector(case: Any) -> None:
    value = leaf(case)
    for step in reversed(case["at"]):
        value = {step: value} if isinstance(step, str) else [*[None] * step, value]
    if case.get("accepted"):
        assert encode_json(value).startswith("[[")
        return
    expected = case["path"]
    steps = [expected["step"]] * expected["times"] if isinstance(expected, dict) else expected
    with pytest.raises(InvalidPayloadError) as caught:
        encode_json(value)
    assert caught.value.path == tuple(steps)
    str(caught.value).encode("utf-8")  # can be logged


# What Python values become


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Tag(str, enum.Enum):
    NEW = "new"


@dataclass
class Point:
    x: float
    labels: list[str] = field(default_factory=list)


class Customer(BaseModel):
    full_name: str = Field(alias="fullName")
    email: str | None = None
    point: Point


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, (2, ())), "[1,[2,[]]]"),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (Color.RED, '"red"'),
        ([Level.HIGH, Tag.NEW], '[3,"new"]'),
        ({Tag.NEW: True}, '{"new":true}'),
        (Point(1.0, ["a"]), '{"x":1,"labels":["a"]}'),
        (Customer(fullName="Ana", point=Point(0.5)), '{"fullName":"Ana","email":null,"point":{"x":0.5,"labels":[]}}'),
        (SessionUpdate(tts=TtsUpdate(voice=17)), '{"tts":{"voice":17}}'),
        ([SessionUpdate()], "[{}]"),
    ],
)
def test_python_values(value: object, text: str) -> None:
    assert encode_json(value) == text


@pytest.mark.parametrize(
    ("value", "path", "told"),
    [
        ({"a": [1, {2}]}, ("a", 1), r"a\[1\] is of type set"),
        ({"a": b"bytes"}, ("a",), "a is of type bytes"),
        (object(), (), "payload is of type object"),
        (Point, (), "payload is of type type"),
        ([complex(1, 2)], (0,), r"\[0\] is of type complex"),
        ({"a": {1: "one"}}, ("a",), "a has the key 1 of type int"),
        ({None: 1}, (), "payload has the key None"),
        ([Point(math.nan)], (0, "x"), r"\[0\].x is nan"),
        ({"m": Customer(fullName="\ud800", point=Point(1))}, ("m", "fullName"), "lone surrogate"),
        (Customer(fullName="Ana", point=Point(math.inf)), ("point", "x"), "point.x is inf"),
        pytest.param(10**5000, (), "beyond 2", id="5,001 digits"),
        ({"n": -(10**20)}, ("n",), "send it as text"),
        ({"a": iter([])}, ("a",), "a is of type list_iterator"),
    ],
)
def test_what_json_has_no_form_for(value: object, path: tuple[str | int, ...], told: str) -> None:
    with pytest.raises(InvalidPayloadError, match=told) as caught:
        encode_json(value)
    assert caught.value.path == path


def test_a_model_that_cannot_be_dumped() -> None:
    class Model(BaseModel):
        anything: object

    with pytest.raises(InvalidPayloadError) as caught:
        encode_json({"m": Model(anything=object())})
    assert caught.value.path == ("m",)


def test_cycles_through_dicts_and_dataclasses_end() -> None:
    cycle: dict[str, object] = {}
    cycle["self"] = [cycle]
    point = Point(1)
    point.labels.append(point)  # type: ignore[arg-type]
    for value in (cycle, point):
        with pytest.raises(InvalidPayloadError, match="contains itself"):
            encode_json(value)


def test_the_same_value_twice_is_no_cycle() -> None:
    shared = [1]
    assert encode_json({"a": shared, "b": shared}) == '{"a":[1],"b":[1]}'


def test_a_failing_value_leaves_nothing_behind() -> None:
    with pytest.raises(InvalidPayloadError):
        encode_json([math.nan])
    assert encode_json([1]) == "[1]"


@pytest.mark.parametrize(
    ("path", "text"),
    [((), "payload"), (("a",), "a"), (("items", 2, "name"), "items[2].name"), ((0, 1), "[0][1]"), ((0, "a"), "[0].a")],
)
def test_path_text(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


@pytest.mark.parametrize(("text", "size"), [("", 0), ("a", 1), ("é", 2), ("€", 3), ("😀", 4), ("a€😀", 8)])
def test_utf8_size(text: str, size: int) -> None:
    assert utf8_size(text) == size


# Reading


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[1,]", "{'a':1}", "NaN", "[Infinity]", '{"a":-Infinity}', "1 2", "tru", '"\n"', "\ufeff1", "01"],
)
def test_not_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_json(text)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "9" * 10_000], ids=["arrays", "objects", "digits"])
def test_hostile_texts_are_value_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_json(text)


# Any value

safe_floats = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not number.is_integer() or abs(number) <= MAX_SAFE_INTEGER
)
leaves = st.none() | st.booleans() | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | safe_floats | st.text()
property_names = st.text().filter(lambda name: not name.isdecimal())  # JavaScript moves 7 before a
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(property_names, inner), max_leaves=20)


@settings(deadline=None)
@given(values)
def test_any_value_is_read_back(value: object) -> None:
    text = encode_json(value)
    assert decode_json(text) == value
    assert json.loads(text.encode("utf-8")) == value


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_exact_or_refused(number: float) -> None:
    if number.is_integer() and abs(number) > MAX_SAFE_INTEGER:
        with pytest.raises(InvalidPayloadError):
            encode_json(number)
    else:
        assert float(encode_json(number)) == number


# The same bytes as JavaScript

SCRIPT = """
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const bytes = Buffer.from(line.slice(1), "hex");
  const value = { d: () => bytes.readDoubleBE(0), s: () => bytes.toString("utf16le"),
                  j: () => JSON.parse(bytes.toString("utf8")) }[line[0]]();
  process.stdout.write(JSON.stringify(value) + "\\n");
});
"""


class Node:
    """One process that answers each value with its JSON.stringify."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def stringify(self, requests: list[str]) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answers = []
        for request in requests:
            self._process.stdin.write(request.encode("ascii") + b"\n")
            self._process.stdin.flush()
            answers.append(self._process.stdout.readline().decode("utf-8").removesuffix("\n"))
        return answers


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    program = shutil.which("node")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node is not on the PATH, and CI must compare with JavaScript")
        pytest.skip("node is not on the PATH")
    with subprocess.Popen([program, "-e", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Node(process)


def is_refused(number: float) -> bool:
    return number.is_integer() and abs(number) > MAX_SAFE_INTEGER


doubles = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e-3, 1e-3) | st.floats(-1e6, 1e6)


@settings(max_examples=200, deadline=None)
@given(numbers=st.lists(doubles.filter(lambda number: not is_refused(number)), min_size=1, max_size=40))
def test_doubles_as_javascript_writes_them(node: Node, numbers: list[float]) -> None:
    assert [encode_json(n) for n in numbers] == node.stringify(["d" + struct.pack(">d", n).hex() for n in numbers])


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.text(), min_size=1, max_size=20))
def test_texts_as_javascript_writes_them(node: Node, texts: list[str]) -> None:
    assert [encode_json(text) for text in texts] == node.stringify(
        ["s" + text.encode("utf-16-le").hex() for text in texts]
    )


@settings(max_examples=200, deadline=None)
@given(value=values)
def test_values_as_javascript_writes_them(node: Node, value: object) -> None:
    text = encode_json(value)
    assert node.stringify(["j" + text.encode("utf-8").hex()]) == [text]


def test_every_power_of_ten_as_javascript_writes_it(node: Node) -> None:
    numbers = [
        sign * digits * 10.0**power for power in range(-323, 16) for digits in (1, 1.5, 9.75) for sign in (1, -1)
    ]
    written = [n for n in numbers if not is_refused(n)]
    assert len(written) > 1900
    assert [encode_json(n) for n in written] == node.stringify(["d" + struct.pack(">d", n).hex() for n in written])


def test_every_character_of_the_first_plane_as_javascript_writes_it(node: Node) -> None:
    text = "".join(chr(code) for code in range(0x10000) if not 0xD800 <= code <= 0xDFFF)
    assert node.stringify(["s" + text.encode("utf-16-le").hex()]) == [encode_json(text)]


def test_a_text_of_500_levels_is_read() -> None:
    value: Any = decode_json('[{"a":' * 250 + "1" + "}]" * 250)
    for _ in range(250):
        value = value[0]["a"]
    assert value == 1


@pytest.mark.parametrize("text", ["[" * 501 + "]" * 501, "[" * 15_000, '{"a":' * 501, "[" * 501 + '"'])
def test_deeper_texts_are_refused_before_they_are_read(text: str) -> None:
    with pytest.raises(ValueError, match="deeper than 500 levels"):
        decode_json(text)


@pytest.mark.parametrize(
    "text",
    ["[" + "[]," * 600 + "1]", f'["{"[" * 600}"]', f'["a\\"{"{" * 600}","\\\\",{"[0]," * 600}{{}}]'],
    ids=["beside each other", "in a string", "after escapes"],
)
def test_brackets_that_are_no_levels(text: str) -> None:
    assert decode_json(text) == json.loads(text)


def test_brackets_in_a_string_without_an_end() -> None:
    with pytest.raises(ValueError, match="Unterminated string"):
        decode_json('["' + "[" * 600)


@given(st.text(alphabet='[]{}"\\a', max_size=60))
def test_the_depth_of_a_text_is_that_of_its_value(inner: str) -> None:
    text = json.dumps({"a": [inner, [[inner]]]})
    assert _depth(text) == 4
