"""SCTP packets that would keep aiortc busy for ever, or for minutes. No input, no output."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["check_packet"]

PACKET_HEADER_SIZE: Final = 12
CHUNK: Final = struct.Struct("!BBH")
PARAMETER: Final = struct.Struct("!HH")
GAP: Final = struct.Struct("!HH")
SACK: Final = 3
SACK_FIXED_SIZE: Final = 12
PARAMETERS_AT: Final = {1: 16, 2: 16, 4: 0, 5: 0, 6: 0, 9: 0, 130: 0}
"""By chunk type, where its parameters begin: INIT, INIT ACK, HEARTBEAT, HEARTBEAT ACK, ABORT, ERROR, RE-CONFIG."""
LARGEST_GAP: Final = 0xFFFF


def check_packet(data: bytes) -> None:
    """Looks at lengths alone; aiortc looks at the rest.

    Raises:
        ValueError: a parameter shorter than its own header, which aiortc reads over and over, or gap blocks that
            overlap, each of which it counts through.
    """
    position = PACKET_HEADER_SIZE
    while position + CHUNK.size <= len(data):
        kind, _, length = CHUNK.unpack_from(data, position)
        if length < CHUNK.size:
            return  # aiortc refuses it
        body = position + CHUNK.size
        if kind in PARAMETERS_AT:
            _check_parameters(data[body + PARAMETERS_AT[kind] : position + length])
        elif kind == SACK:
            _check_gaps(data[body : position + length])
        position += (length + 3) // 4 * 4


def _check_parameters(body: bytes) -> None:
    position = 0
    while position + PARAMETER.size <= len(body):
        _, length = PARAMETER.unpack_from(body, position)
        if length < PARAMETER.size:
            raise ValueError(f"a parameter of {length} bytes, less than its header has")
        position += (length + 3) // 4 * 4


def _check_gaps(body: bytes) -> None:
    if len(body) < SACK_FIXED_SIZE:
        return  # aiortc refuses it
    count = int.from_bytes(body[8:10], "big")
    blocks = body[SACK_FIXED_SIZE : SACK_FIXED_SIZE + count * GAP.size]
    covered = sum(max(last - first + 1, 0) for first, last in GAP.iter_unpack(blocks[: len(blocks) // 4 * 4]))
    if covered > LARGEST_GAP:
        raise ValueError(f"{count} gap blocks that overlap: they cover {covered} numbers of {LARGEST_GAP}")
