"""Frames: ``[u32 big-endian length][payload]``, payloads up to 16 MiB (CrabTalk, Transport). No input or output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from curb_client.crabtalk.errors import CutFrameError, FrameTooLargeError

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["HEADER_BYTES", "MAX_FRAME_BYTES", "FrameDecoder", "encode_frame"]

MAX_FRAME_BYTES: Final = 16 * 2**20
"""Of a payload; exactly so many pass."""
HEADER_BYTES: Final = 4
_BUFFER_BYTES: Final = 64 * 1024


def encode_frame(message: Message, *, limit: int = MAX_FRAME_BYTES) -> bytes:
    """The frame of a ClientMessage or ServerMessage.

    Raises:
        FrameTooLargeError: the daemon would close the connection without a word.
    """
    size = message.ByteSize()
    if size > limit:
        raise FrameTooLargeError(
            f"the message {type(message).__name__} has {size} bytes; a frame takes at most {limit}: shorten it",
            size=size,
            limit=limit,
        )
    return b"".join((size.to_bytes(HEADER_BYTES, "big"), message.SerializeToString()))


class FrameDecoder:
    """Takes bytes in pieces of any size, gives payloads.

    Either :meth:`feed` it, or let a socket write into :meth:`get_buffer` and tell :meth:`received`. A payload that does
    not fit into the 64 KiB buffer is written into memory of its own, which is what is given out: it is copied at most
    once, and not at all where the socket writes. Time is linear in the bytes, however they are cut.

    Args:
        limit: bytes that a payload may have.
    """

    def __init__(self, *, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0  # of what is not decoded yet
        self._end = 0  # of what was received
        self._large: bytearray | None = None
        self._filled = 0  # of the large payload
        self._error: FrameTooLargeError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes | bytearray]:
        """The payloads that are whole with this piece. Go through all of them before the next piece.

        Raises:
            FrameTooLargeError: after the payloads before it, as soon as a header says so; and from then on always.
        """
        with memoryview(data) as given:
            at = 0
            while at < len(given):
                room = self.get_buffer()
                size = min(len(room), len(given) - at)
                room[:size] = given[at : at + size]
                at += size
                yield from self.received(size)

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return self._view[self._end :]

    def received(self, size: int) -> Iterator[bytes | bytearray]:
        """So many bytes were written to the buffer; otherwise as :meth:`feed`."""
        if self._error is not None:
            raise self._error
        if self._large is not None:
            self._filled += size
            if self._filled < len(self._large):
                return
            large, self._large = self._large, None
            yield large
            return
        self._end += size
        yield from self._payloads()

    def finish(self) -> None:
        """There are no more bytes.

        Raises:
            CutFrameError: the last frame is not whole; it says how many bytes came, and how many there should be.
            FrameTooLargeError: it was too large.
        """
        if self._error is not None:
            raise self._error
        if self._large is not None:
            expected, received = len(self._large) + HEADER_BYTES, self._filled + HEADER_BYTES
            raise CutFrameError(
                f"the connection ended after {received} of the {expected} bytes of a frame",
                received=received,
                expected=expected,
            )
        received = self._end - self._start
        if received == 0:
            return
        if received < HEADER_BYTES:
            raise CutFrameError(
                f"the connection ended after {received} of the {HEADER_BYTES} bytes of a frame's header",
                received=received,
                expected=None,
            )
        expected = self._length(self._start) + HEADER_BYTES
        raise CutFrameError(
            f"the connection ended after {received} of the {expected} bytes of a frame",
            received=received,
            expected=expected,
        )

    def _length(self, at: int) -> int:
        return int.from_bytes(self._view[at : at + HEADER_BYTES], "big")

    def _payloads(self) -> Iterator[bytes | bytearray]:
        while (available := self._end - self._start) >= HEADER_BYTES:
            length = self._length(self._start)
            if length > self._limit:
                self._error = FrameTooLargeError(
                    f"a frame's header says {length} bytes, the limit is {self._limit}: nothing after it can be read",
                    size=length,
                    limit=self._limit,
                )
                raise self._error
            body = self._start + HEADER_BYTES
            if available - HEADER_BYTES >= length:
                self._start = body + length
                yield bytes(self._view[body : self._start])
            elif HEADER_BYTES + length > _BUFFER_BYTES:
                self._begin_large(length, body)
                return
            else:
                break
        self._move_rest()

    def _begin_large(self, length: int, body: int) -> None:
        self._large = bytearray(length)
        self._filled = self._end - body
        self._large[: self._filled] = self._view[body : self._end]
        self._start = self._end = 0

    def _move_rest(self) -> None:
        """The part of one frame, which is thereby moved once at most."""
        rest = self._end - self._start
        if rest and self._start:
            self._buffer[:rest] = self._buffer[self._start : self._end]
        self._start, self._end = 0, rest
