"""One connection to a daemon: frames out, messages in, with deadlines."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from google.protobuf.message import DecodeError

from curb_client.crabtalk.crabtalk_pb2 import ServerMessage
from curb_client.crabtalk.errors import (
    DaemonClosedError,
    DaemonTimeoutError,
    FrameError,
    MalformedMessageError,
)
from curb_client.crabtalk.frames import FrameDecoder
from curb_client.errors import UsageError

if TYPE_CHECKING:
    from curb_client.crabtalk.addresses import Address

__all__ = ["Connection"]

MOST_WAITING_BYTES: Final = 4 * 2**20
MOST_WAITING_FRAMES: Final = 4096
"""Beyond these nothing is read until somebody takes what is there; TCP and the socket hold back the daemon."""


class Connection(asyncio.BufferedProtocol):
    """Made by :meth:`open`; used by one exchange at a time.

    Attributes:
        doing: what the exchange asked, for the errors.
    """

    def __init__(self) -> None:
        self.doing = "connecting"
        self._decoder = FrameDecoder()
        self._frames: deque[bytes | bytearray] = deque()
        self._bytes = 0
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self._error: FrameError | None = None
        self._lost: Exception | None = None

    @classmethod
    async def open(cls, address: Address, seconds: float) -> Connection:
        """A connection to ``address``.

        Raises:
            DaemonUnreachableError: none.
            DaemonTimeoutError: none within so many seconds.
        """
        connection = cls()
        opening = asyncio.ensure_future(address.open(lambda: connection))
        try:
            done, _ = await asyncio.wait({opening}, timeout=seconds)
        except BaseException:
            opening.cancel()
            connection.close()
            raise
        if not done:
            opening.cancel()
            connection.close()
            raise DaemonTimeoutError(
                f"no connection to {address} within {seconds:g} s", doing=connection.doing, waited=seconds
            )
        opening.result()
        return connection

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._ended:  # given up while it was opened
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        frames = self._frames
        try:
            for payload in self._decoder.received(nbytes):
                frames.append(payload)
                self._bytes += len(payload)
        except FrameError as error:
            self._error = error
            self._end()
            return
        if not frames:
            return
        if self._bytes > MOST_WAITING_BYTES or len(frames) > MOST_WAITING_FRAMES:
            self._pause()
        self._wake()

    def eof_received(self) -> bool:
        try:
            self._decoder.finish()
        except FrameError as error:
            self._error = error
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc
        self._end()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self) -> None:
        self._ended = True
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pause(self) -> None:
        if not self._paused and not self._ended and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    # What an exchange calls

    @property
    def is_idle(self) -> bool:
        """Whether it is open, and nothing came that nobody asked for."""
        return not self._ended and not self._frames

    def close(self) -> None:
        """Drop it; may be called more than once."""
        self._end()

    async def send(self, frame: bytes, seconds: float) -> None:
        """Write a frame; returns when the socket has nearly all of it.

        Raises:
            DaemonClosedError: the daemon had closed the connection. DaemonTimeoutError: it does not read.
        """
        if self._ended or self._transport is None:
            raise self._closed()
        self._transport.write(frame)
        if not self._writable.is_set():
            written = asyncio.ensure_future(self._writable.wait())
            try:
                await asyncio.wait({written}, timeout=seconds)
            finally:
                written.cancel()
            if not self._writable.is_set():
                raise DaemonTimeoutError(
                    f"{self.doing}: the daemon took less than {len(frame)} bytes in {seconds:g} s",
                    doing=self.doing,
                    waited=seconds,
                )
        if self._ended:
            raise self._closed()

    async def receive(self, seconds: float, *, of: float | None = None) -> ServerMessage:
        """The next message.

        Args:
            of: the seconds that the user gave, of which these are left; for the error.

        Raises:
            DaemonTimeoutError: none within so many seconds.
            DaemonClosedError: none, and the connection is closed.
            FrameError: what comes is no message.
        """
        if not self._frames:
            await self._wait(seconds, seconds if of is None else of)
        message = self.take()
        assert message is not None
        return message

    def take(self) -> ServerMessage | None:
        """The next message if it is here already; raises FrameError where it is none."""
        frames = self._frames
        if not frames:
            return None
        payload = frames.popleft()
        self._bytes -= len(payload)
        if self._paused and self._bytes <= MOST_WAITING_BYTES // 2 and len(frames) <= MOST_WAITING_FRAMES // 2:
            self._resume()
        try:
            # a bytearray is parsed where it is, which the stubs do not know
            return ServerMessage.FromString(payload)  # type: ignore[arg-type, unused-ignore]
        except DecodeError as error:
            self.close()
            raise MalformedMessageError(
                f"{self.doing}: a frame of {len(payload)} bytes is no ServerMessage ({error}). Is it a CrabTalk daemon?"
            ) from None

    async def _wait(self, seconds: float, of: float) -> None:
        if self._ended:
            raise self._error or self._closed()
        if self._waiter is not None:
            raise UsageError(f"{self.doing}: two tasks wait for the same answer; let one of them hand it on")
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        if self._frames:
            return
        if self._ended:
            raise self._error or self._closed()
        raise DaemonTimeoutError(f"{self.doing}: no answer of the daemon within {of:g} s", doing=self.doing, waited=of)

    def _resume(self) -> None:
        self._paused = False
        if not self._ended and self._transport is not None:
            self._transport.resume_reading()

    def _closed(self) -> DaemonClosedError:
        """A daemon closes without a word on what it cannot read or write, and when it ends: the reason is not known."""
        how = f" ({self._lost})" if self._lost is not None else ""
        return DaemonClosedError(
            f"{self.doing}: the daemon closed the connection without an answer{how}. It does so when it ends, and "
            "for an answer of more than 16 MiB; what was asked may have been done",
            doing=self.doing,
        )
