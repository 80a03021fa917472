"""A client's signalling connection: messages in and out of one websocket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from aiohttp import WSMsgType, web
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from livekit.protocol import rtc

from curb_client.testing.embedded.journal import Journal

__all__ = ["SignalSocket"]

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
CLOSE_WITHIN: Final = 1.0
"""Seconds for a client to answer that the connection is closed."""
CUT_AFTER: Final = 2 * CLOSE_WITHIN
"""Seconds from a close until the connection is cut, of a client that reads nothing."""
MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""What may wait for a client that does not read. livekit-server drops what comes when 200 messages wait; here the
connection is cut, so that a client that reads again resumes, and is told what there is."""
BYTES_A_MESSAGE: Final = 256
"""Counted for each, whatever its size: what keeping it costs."""


class SignalSocket:
    """A websocket of its own accord: what is sent waits in a queue, so that no slow client makes others wait."""

    def __init__(self, journal: Journal) -> None:
        self.owner = "a client"
        """Whose it is, for the journal."""
        self._journal = journal
        self._waiting_bytes = 0
        self._cut: asyncio.TimerHandle | None = None
        self._queue: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self._web_socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES, timeout=CLOSE_WITHIN, compress=False)
        self._transport: asyncio.Transport | None = None
        self._is_closing = False
        self._speaks_json = False
        self._ended = asyncio.Event()

    def send(self, response: rtc.SignalResponse) -> None:
        """Sends a message, soon; in JSON to a client that sent text."""
        if self._is_closing:
            return
        text = json_format.MessageToJson(response, indent=None) if self._speaks_json else None
        data = text or response.SerializeToString()
        self._waiting_bytes += len(data) + BYTES_A_MESSAGE
        self._queue.put_nowait(data)
        if self._waiting_bytes > MOST_WAITING_BYTES:
            self._journal.write(
                f"{self.owner} does not read its signalling: {self._waiting_bytes} bytes wait, of {MOST_WAITING_BYTES} "
                "at most; its connection is cut"
            )
            self.abort()

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._queue.put_nowait(None)
            if not self._ended.is_set():
                self._cut = asyncio.get_running_loop().call_later(CUT_AFTER, self.abort)

    def abort(self) -> None:
        """Cuts the connection, as if the server had died."""
        self.close()
        if self._transport is not None:
            self._transport.abort()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def wait_until_ended(self, within: float) -> None:
        """Returns when the connection is closed, or after so many seconds."""
        if not self._ended.is_set():
            waiting = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait({waiting}, timeout=within)
            waiting.cancel()

    async def serve(self, request: web.Request, receive: Callable[[rtc.SignalRequest], None]) -> web.StreamResponse:
        """Carries messages until either side closes the connection, or the client sends what is no message."""
        writing: asyncio.Task[None] | None = None
        try:
            await self._web_socket.prepare(request)
            self._transport = request.transport
            writing = asyncio.ensure_future(self._write())
            async for message in self._web_socket:
                parsed = self._parse(message.type, message.data)
                if parsed is None:
                    break
                receive(parsed)
                self._acknowledge()
        finally:
            self.close()
            if writing is not None:
                await asyncio.wait({writing}, timeout=CLOSE_WITHIN)
                writing.cancel()
            self._ended.set()
            if self._cut is not None:
                self._cut.cancel()
        return self._web_socket

    def _acknowledge(self) -> None:
        """Has the system acknowledge what came, at once.

        Clients send small messages without TCP_NODELAY: the second waits until the first is acknowledged, for which
        the system takes 40 ms where nothing is answered.
        """
        if self._transport is not None and hasattr(socket, "TCP_QUICKACK"):  # Linux; it holds for what came so far
            with contextlib.suppress(OSError):
                tcp_socket = self._transport.get_extra_info("socket")
                tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _parse(self, kind: WSMsgType, data: bytes | str) -> rtc.SignalRequest | None:
        try:
            if isinstance(data, bytes) and kind == WSMsgType.BINARY:
                self._speaks_json = False
                return rtc.SignalRequest.FromString(data)
            if isinstance(data, str) and kind == WSMsgType.TEXT:
                self._speaks_json = True
                return json_format.Parse(data, rtc.SignalRequest(), ignore_unknown_fields=True)
        except (DecodeError, json_format.ParseError, RecursionError) as error:
            self._journal.once("signalling messages that made no sense", f"a client sent no message: {error}")
        return None

    async def _write(self) -> None:
        try:
            while (data := await self._queue.get()) is not None:
                self._waiting_bytes -= len(data) + BYTES_A_MESSAGE
                if isinstance(data, str):
                    await self._web_socket.send_str(data)
                else:
                    await self._web_socket.send_bytes(data)
            await self._web_socket.close()
        except ConnectionError:
            pass  # the reading side sees it too
