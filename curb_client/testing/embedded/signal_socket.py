"""A client's signalling connection: messages in and out of one websocket."""

from __future__ import annotations

import asyncio
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


class SignalSocket:
    """A websocket of its own accord: what is sent waits in a queue, so that no slow client makes others wait."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queue: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self._web_socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES, timeout=CLOSE_WITHIN, compress=False)
        self._transport: asyncio.Transport | None = None
        self._is_closing = False
        self._speaks_json = False
        self._ended = asyncio.Event()

    def send(self, response: rtc.SignalResponse) -> None:
        """Sends a message, soon; in JSON to a client that sent text."""
        if not self._is_closing:
            text = json_format.MessageToJson(response, indent=None) if self._speaks_json else None
            self._queue.put_nowait(text or response.SerializeToString())

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._queue.put_nowait(None)

    def abort(self) -> None:
        """Cuts the connection, as if the server had died."""
        self.close()
        if self._transport is not None:
            self._transport.abort()

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
        finally:
            self.close()
            if writing is not None:
                await asyncio.wait({writing}, timeout=CLOSE_WITHIN)
                writing.cancel()
            self._ended.set()
        return self._web_socket

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
                if isinstance(data, str):
                    await self._web_socket.send_str(data)
                else:
                    await self._web_socket.send_bytes(data)
            await self._web_socket.close()
        except ConnectionError:
            pass  # the reading side sees it too
