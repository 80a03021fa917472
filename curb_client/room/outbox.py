"""The agent's messages to its clients: sent one after the other, dropped with a warning when nobody is there."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from livekit import rtc

from curb_client.protocol.contract import MESSAGE
from curb_client.protocol.envelope import encode_message
from curb_client.room.callbacks import Warnings
from curb_client.room.sdk import abandon

__all__ = ["Outbox"]

SEND_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = 30.0  # the SDK gives up after 26
AFTER_RECONNECT_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 2.0
_LOOK_AGAIN_SECONDS: Final = 0.05


class Outbox:
    """Sends in the order of the calls of :meth:`put`.

    Args:
        recipients: the identities of the clients that are there, all of them or the one named.
    """

    def __init__(self, room: rtc.Room, recipients: Callable[[str | None], list[str]], warnings: Warnings) -> None:
        self.undelivered: Counter[str] = Counter()
        self._room = room
        self._recipients = recipients
        self._warnings = warnings
        self._queue: asyncio.Queue[tuple[str, str, str | None, asyncio.Future[bool]]] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._sending: asyncio.Future[Any] | None = None
        self._reconnects = 0
        self._closed = False

    def put(self, key: str, payload: object, to: str | None) -> asyncio.Future[bool]:
        """Queue a message; the future tells whether it was handed to LiveKit for at least one client.

        Raises:
            InvalidKeyError, InvalidPayloadError: at once, and nothing is queued.
        """
        text = encode_message(key, str(uuid.uuid4()), payload)
        sent: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._closed:
            self._drop(key, "the call is over", sent)
            return sent
        self._queue.put_nowait((key, text, to, sent))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.ensure_future(self._send_all())
        return sent

    async def aclose(self) -> None:
        """Send what is queued, for at most two seconds; drop and count the rest."""
        self._closed = True
        if self._sender is not None:
            await asyncio.wait({self._sender}, timeout=FLUSH_SECONDS)
            self._sender.cancel()
        while not self._queue.empty():
            key, _, _, sent = self._queue.get_nowait()
            self._drop(key, "the call ended before it was sent", sent)

    async def _send_all(self) -> None:
        while not self._queue.empty():
            key, text, to, sent = self._queue.get_nowait()
            try:
                await self._send(key, text, to, sent)
            finally:
                if not sent.done():
                    self._drop(key, "the call ended before it was sent", sent)

    async def _send(self, key: str, text: str, to: str | None, sent: asyncio.Future[bool]) -> None:
        await self._connection()
        recipients = self._recipients(to)
        if not recipients or not self._room.isconnected():
            self._drop(key, f"{to!r} is not in the room" if to else "no client is in the room", sent)
            return
        sending = self._sending = asyncio.ensure_future(
            self._room.local_participant.send_text(text, topic=MESSAGE, destination_identities=recipients)
        )
        try:
            await asyncio.wait({sending}, timeout=SEND_SECONDS)
        finally:
            if not sending.done():
                abandon(sending)
        if not sending.done() or sending.cancelled():
            self._drop(key, "LiveKit did not send it in time", sent)
        elif error := sending.exception():
            self._drop(key, f"LiveKit did not send it ({type(error).__name__}: {error})", sent)
        elif not sent.done():
            sent.set_result(True)

    def reconnected(self) -> None:
        """What LiveKit was sending when the connection broke may never end; the rest need not wait for it."""
        self._reconnects += 1
        if self._sending is not None and not self._sending.done():
            asyncio.get_running_loop().call_later(AFTER_RECONNECT_SECONDS, self._sending.cancel)

    async def _connection(self) -> None:
        """LiveKit takes what is sent while it reconnects, and loses most of it."""
        loop = asyncio.get_running_loop()
        given_up, before = loop.time() + RECONNECT_SECONDS, self._reconnects
        while (  # noqa: ASYNC110 - rare, and short
            self._room.connection_state == rtc.ConnectionState.CONN_RECONNECTING
            and self._reconnects == before
            and loop.time() < given_up
        ):
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def _drop(self, key: str, reason: str, sent: asyncio.Future[bool]) -> None:
        self.undelivered[key] += 1
        self._warnings.once(f"the message {key!r} to the client", reason, "dropped")
        if not sent.done():
            sent.set_result(False)
