from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.protocol.contract import MAX_LINE_BYTES, MAX_SKIPPED_CLASSES
from curb_client.protocol.ndjson import (
    Line,
    LineDecoder,
    LineSplitter,
    MalformedLine,
    MalformedReason,
    SkippedRecord,
    decode_line,
)
from curb_client.protocol.records import JournalRecord, PingLine, TurnBody
from tests.protocol.vectors import cases


def decoder(case: Any) -> LineDecoder:
    return LineDecoder(case.get("limit", MAX_LINE_BYTES))


def data_of(case: Any) -> bytes:
    return bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode("utf-8")


def told(line: Line) -> dict[str, Any]:
    match line:
        case JournalRecord():
            return {"record": line.to_wire()}
        case PingLine():
            return {"ping": line.ping}
        case SkippedRecord():
            return {"skipped": line.record.record_class, "envelope": line.record.envelope}
        case MalformedLine():
            assert line.error
            return {"malformed": line.reason.value, "envelope": line.envelope}


def lines_of(case: Any, chunks: list[bytes]) -> list[Line]:
    reader = decoder(case)
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    return [*lines, *reader.end()]


@pytest.mark.parametrize("case", cases("streams"))
def test_vector(case: Any) -> None:
    data = data_of(case)
    whole = lines_of(case, [data])
    assert [told(line) for line in whole] == case["lines"]
    assert lines_of(case, [data[at : at + 1] for at in range(len(data))]) == whole
    for at in range(len(data)):
        assert lines_of(case, [data[:at], data[at:]]) == whole


# Splitting

pieces = st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b" ", b"\xe2\x80\xa8", b"\xc2\x85", b"\xff", b"long" * 5])


@settings(deadline=None, max_examples=200)
@given(st.lists(pieces, max_size=40), st.lists(st.integers(0, 60), max_size=8), st.integers(1, 30))
def test_any_chunking_gives_the_same_lines(parts: list[bytes], cuts: list[int], limit: int) -> None:
    data = b"".join(parts)
    expected = []
    for line in data.split(b"\n"):
        bare = line[:-1] if line.endswith(b"\r") else line
        if len(bare) > limit or bare.strip(b" \t\r"):
            expected.append("too long" if len(bare) > limit else bare)
    splitter = LineSplitter(limit)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    lines = [line for a, b in pairwise(edges) for line in splitter.feed(data[a:b])] + splitter.end()
    assert ["too long" if isinstance(line, MalformedLine) else line for line in lines] == expected
    assert splitter.end() == []


def test_a_splitter_goes_on_after_its_end() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a") == []
    assert splitter.end() == [b"a"]
    assert splitter.feed(b"b\n") == [b"b"]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_chunks_may_be_of_any_kind_of_bytes(kind: Any) -> None:
    assert LineSplitter().feed(kind(b"a\nb\n")) == [b"a", b"b"]


def test_a_line_over_the_limit_is_told_and_not_kept() -> None:
    splitter = LineSplitter(1_000)
    told_of = [line for _ in range(100) for line in splitter.feed(b"x" * 500)]
    assert [type(line) for line in told_of] == [MalformedLine]
    (line,) = told_of
    assert isinstance(line, MalformedLine)
    assert "1000 bytes" in line.error
    assert "max_line_bytes" in line.error
    assert line.excerpt == b"x" * 200
    assert len(splitter._buffer) == 0
    assert splitter.feed(b"\nnext\n") == [b"next"]


class CountingBuffer(bytearray):
    """Counts the bytes that a search may look at."""

    searched = 0

    def find(self, wanted: Any, start: Any = 0, end: Any = None) -> int:
        self.searched += len(self) - start
        return super().find(wanted, start)


@pytest.mark.parametrize("chunk", [1, 64, 65_536])
def test_a_line_of_2_mb_in_bits_is_searched_once(chunk: int) -> None:
    size = 2_000_000 if chunk > 1 else 50_000
    splitter = LineSplitter()
    splitter._buffer = buffer = CountingBuffer()
    data = b"x" * size
    for at in range(0, size, chunk):
        assert splitter.feed(data[at : at + chunk]) == []
    assert splitter.feed(b"\n") == [data]
    assert splitter._buffer is buffer
    assert buffer.searched == size + 1


# Lines


def test_a_record_of_2_mb() -> None:
    text = "é" * 1_000_000
    value = {"envelope": 1, "producer": "c", "seq": 1, "class": "conversation", "at": 1}
    data = json.dumps({**value, "body": {"type": "turn", "role": "user", "text": text}}, ensure_ascii=False).encode()
    reader = LineDecoder()
    lines = [line for at in range(0, len(data), 65_536) for line in reader.feed(data[at : at + 65_536])]
    assert lines == []
    (record,) = reader.feed(b"\n")
    assert isinstance(record, JournalRecord)
    assert isinstance(record.body, TurnBody)
    assert record.body.text == text


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_nothing_that_a_peer_sends_raises(data: bytes) -> None:
    line = decode_line(data)
    assert isinstance(line, (MalformedLine, PingLine))
    reader = LineDecoder(40)
    reader.feed(data)
    reader.end()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(["envelope", "producer", "seq", "class", "at", "body", "ping"]),
        json_values | st.sampled_from(["lifecycle", "host", "conversation", {"type": "host"}, {"event": "ready"}, 1]),
    )
)
def test_no_object_raises(value: dict[str, Any]) -> None:
    decode_line(json.dumps(value).encode())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5_000,
        '{"a":' * 900 + "1" + "}" * 900,
        '{"a":' * 900 + '"\\ud800"' + "}" * 900,
    ],
    ids=["arrays", "objects", "digits", "closed objects", "a lone surrogate deep inside"],
)
def test_hostile_lines(text: str) -> None:
    line = decode_line(text.encode())
    assert isinstance(line, MalformedLine)
    assert len(line.error) < 500
    assert len(line.excerpt) <= 200


def test_an_error_names_the_property() -> None:
    line = decode_line(b'{"envelope":0,"producer":"c","seq":1,"class":"host","at":1,"body":{"type":"host","seq":1}}')
    assert isinstance(line, MalformedLine)
    assert "envelope: Input should be a valid integer from 1 to" in line.error
    assert "expectsReply: Field required" in line.error


@pytest.mark.parametrize("envelope", [0, -1, 1.5, True, "1", None, 2**53, [1]])
def test_an_envelope_that_is_none(envelope: object) -> None:
    line = decode_line(json.dumps({"envelope": envelope, "producer": ""}).encode())
    assert isinstance(line, MalformedLine)
    assert line.envelope is None


def test_counts() -> None:
    reader = LineDecoder()
    record = {"envelope": 1, "producer": "c", "seq": 1, "at": 1, "body": {"type": "turn", "role": "user", "text": ""}}
    log = {**record, "class": "log", "body": {}}
    lines = [{**record, "class": "conversation"}, log, log, {**log, "class": "audit"}, {"ping": 1}, {}, 7]
    reader.feed("\n".join(map(json.dumps, lines)).encode() + b"\n\n{")
    assert (reader.records, reader.pings, reader.malformed) == (1, 1, 2)
    assert reader.skipped == {"log": 2, "audit": 1}
    reader.end()
    assert reader.malformed == 3


def test_the_names_of_unknown_classes_are_bounded() -> None:
    reader = LineDecoder()
    for number in range(1, 201):
        name = f"class-{number}-{'x' * 10_000}"
        record = {"envelope": number, "producer": "c", "seq": 1, "at": 1, "class": name, "body": None}
        reader.feed(json.dumps(record).encode() + b"\n")
    assert len(reader.skipped) == MAX_SKIPPED_CLASSES + 1
    assert sum(reader.skipped.values()) == 200
    assert reader.skipped[""] == 200 - MAX_SKIPPED_CLASSES
    assert max(map(len, reader.skipped)) <= 200


@pytest.mark.parametrize("rest", [b'{"envelope":2', b'{"x":"\xf0\x9f'])
def test_a_cut_line_is_told_as_such(rest: bytes) -> None:
    reader = LineDecoder()
    assert reader.feed(rest) == []
    (line,) = reader.end()
    assert isinstance(line, MalformedLine)
    assert line.reason is MalformedReason.CUT
    assert line.excerpt == rest
    assert "ended inside a line" in line.error
