"""SCTP packets that would keep the server busy, and those that it has to take."""

from __future__ import annotations

import contextlib
import struct

import pytest
from aiortc.rtcsctptransport import (
    HeartbeatChunk,
    InitChunk,
    ReconfigChunk,
    SackChunk,
    parse_packet,
    serialize_packet,
)
from hypothesis import given
from hypothesis import strategies as st

from curb_client.testing.embedded.sctp_check import check_packet

PARAMETERS = st.lists(st.tuples(st.integers(0, 0xFFFF), st.binary(max_size=20)), max_size=5)
GAPS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 50)), max_size=8)


def packet(*chunks: bytes) -> bytes:
    return struct.pack("!HHLL", 5000, 5000, 1, 0) + b"".join(chunks)


def chunk(kind: int, body: bytes) -> bytes:
    return struct.pack("!BBH", kind, 0, len(body) + 4) + body


def sack(*gaps: tuple[int, int]) -> bytes:
    return chunk(3, struct.pack("!LLHH", 1, 1000, len(gaps), 0) + b"".join(struct.pack("!HH", *gap) for gap in gaps))


@given(PARAMETERS)
def test_parameters_as_aiortc_writes_them_are_taken(parameters: list[tuple[int, bytes]]) -> None:
    init = InitChunk()
    init.params = parameters
    for kind in (HeartbeatChunk, ReconfigChunk):
        plain = kind()
        plain.params = parameters
        check_packet(serialize_packet(5000, 5000, 1, plain))
    data = serialize_packet(5000, 5000, 0, init)
    check_packet(data)
    assert len(parse_packet(data)[3]) == 1


@given(GAPS)
def test_gaps_one_after_the_other_are_taken(distances: list[tuple[int, int]]) -> None:
    acknowledgement, at = SackChunk(), 1
    for before, length in distances:
        acknowledgement.gaps.append((at + before, at + before + length))
        at += before + length + 1
    check_packet(serialize_packet(5000, 5000, 1, acknowledgement))


@pytest.mark.parametrize("kind", [1, 2, 4, 5, 6, 9, 130])
@pytest.mark.parametrize("length", [0, 3])
def test_a_parameter_shorter_than_its_header_is_refused(kind: int, length: int) -> None:
    fixed = bytes(16) if kind in (1, 2) else b""
    endless = struct.pack("!HH", 1, length)
    whole = struct.pack("!HH", 1, 5) + b"x\x00\x00\x00"
    for body in (fixed + endless, fixed + whole + endless):
        with pytest.raises(ValueError, match=f"a parameter of {length} bytes"):
            check_packet(packet(chunk(11, b""), chunk(kind, body)))


def test_gaps_that_overlap_are_refused() -> None:
    check_packet(packet(sack((1, 0xFFFF))))
    check_packet(packet(sack((0xFFFF, 1))))
    with pytest.raises(ValueError, match="2 gap blocks that overlap"):
        check_packet(packet(sack((1, 0xFFFF), (1, 1))))


@given(st.binary(max_size=200))
def test_whatever_comes_ends(data: bytes) -> None:
    for candidate in (data, packet(data), packet(chunk(130, data)), packet(chunk(3, data))):
        with contextlib.suppress(ValueError):
            check_packet(candidate)
