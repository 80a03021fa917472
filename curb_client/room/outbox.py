"""The agent's messages to its clients: sent one after the other, dropped with a warning when nobody is there."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from livekit import rtc

from curb_client.protocol.contract import MESSAGE
from curb_client.protocol.envelope import encode_message
from curb_client.room.callbacks import Warnings
from curb_client.room.sdk import abandon
from curb_client.room.trace import Tracer

__all__ = ["Outbox"]

SEND_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = 30.0  # the SDK gives up after 26
AFTER_RECONNECT_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 2.0
_LOOK_AGAIN_SECONDS: Final = 0.05


@dataclass(frozen=True)
class _Outgoing:
    key: str
    id: str
    payload: object
    text: str
    to: str | None
    sent: asyncio.Future[bool]


class Outbox:
    """Sends in the order of the calls of :meth:`put`.

    Args:
        recipients: the identities of the clients that are there, all of them or the one named.
    """

    def __init__(
        self, room: rtc.Room, recipients: Callable[[str | None], list[str]], warnings: Warnings, tracer: Tracer
    ) -> None:
        self.undelivered: Counter[str] = Counter()
        self._room = room
        self._recipients = recipients
        self._warnings = warnings
        self._tracer = tracer
        self._queue: asyncio.Queue[_Outgoing] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._sending: asyncio.Future[Any] | None = None
        self._reconnects = 0
        self._closed = False

    def put(self, key: str, payload: object, to: str | None) -> asyncio.Future[bool]:
        """Queue a message; the future tells whether it was handed to LiveKit for at least one client.

        Raises:
            InvalidKeyError, InvalidPayloadError: at once, and nothing is queued.
        """
        message_id = str(uuid.uuid4())
        text = encode_message(key, message_id, payload)
        sent: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        message = _Outgoing(key, message_id, payload, text, to, sent)
        if self._closed:
            self._drop(message, "the call is over")
            return sent
        self._queue.put_nowait(message)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.ensure_future(self._send_all())
        return sent

    async def aclose(self) -> None:
        """Send what is queued, for at most two seconds; drop and count the rest."""
        self._closed = True
        try:
            if self._sender is not None:
                await asyncio.wait({self._sender}, timeout=FLUSH_SECONDS)
        finally:
            if self._sender is not None:
                self._sender.cancel()
            while not self._queue.empty():
                self._drop(self._queue.get_nowait(), "the call ended before it was sent")

    async def _send_all(self) -> None:
        while not self._queue.empty():
            message = self._queue.get_nowait()
            try:
                await self._send(message)
            finally:
                if not message.sent.done():
                    self._drop(message, "the call ended before it was sent")

    async def _send(self, message: _Outgoing) -> None:
        await self._connection()
        recipients = self._recipients(message.to)
        if not recipients or not self._room.isconnected():
            self._drop(message, f"{message.to!r} is not in the room" if message.to else "no client is in the room")
            return
        sending = self._sending = asyncio.ensure_future(
            self._room.local_participant.send_text(message.text, topic=MESSAGE, destination_identities=recipients)
        )
        try:
            await asyncio.wait({sending}, timeout=SEND_SECONDS)
        finally:
            if not sending.done():
                abandon(sending)
        if not sending.done() or sending.cancelled():
            self._drop(message, "LiveKit did not send it in time")
        elif error := sending.exception():
            self._drop(message, f"LiveKit did not send it ({type(error).__name__}: {error})")
        else:
            self._trace(message, ", ".join(recipients), None)
            if not message.sent.done():
                message.sent.set_result(True)

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

    def _drop(self, message: _Outgoing, reason: str) -> None:
        self.undelivered[message.key] += 1
        self._warnings.once(f"the message {message.key!r} to the client", reason, "dropped")
        self._trace(message, message.to or "", reason)
        if not message.sent.done():
            message.sent.set_result(False)

    def _trace(self, message: _Outgoing, recipients: str, reason: str | None) -> None:
        self._tracer.step(
            "send", key=message.key, id=message.id, payload=message.payload, peer=recipients, error=reason
        )
