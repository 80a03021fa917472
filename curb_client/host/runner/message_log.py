"""The app messages of a call, as its record tells of them (host protocol, What a call's record contains).

One event for each message, put when its outcome is known: a repeat that was answered from memory is none, a retry
after a refusal is another.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from curb_client.errors import InvalidPayloadError
from curb_client.protocol.contract import (
    MAX_KEPT_BYTES,
    REMEMBERED_REQUESTS,
    MessageDirection,
    RefusalCode,
    Sender,
)
from curb_client.protocol.kept import Kept, keep
from curb_client.protocol.records import CallMessage
from curb_client.room.host_link import HostRecord
from curb_client.room.trace import NOTHING, TraceEvent

__all__ = ["MessageLog"]

_CODES: Final = frozenset(code.value for code in RefusalCode)
_NOTHING_SAID: Final = Kept(None, truncated=False)

_Request = tuple[Sender, str, str]


class MessageLog:
    """A :class:`curb_client.Trace` of the agent's side that makes events of its steps.

    Args:
        put: takes each event.
    """

    def __init__(self, put: Callable[[CallMessage], None]) -> None:
        self._put = put
        self._open: dict[_Request, tuple[str, Kept]] = {}
        self._answered: OrderedDict[_Request, None] = OrderedDict()
        self._asks: dict[str, tuple[str, Kept]] = {}

    def record(self, event: TraceEvent) -> None:
        """Take a step of the agent's side."""
        if event.step == "request" and event.sender is not None and event.id:
            request = (event.sender, event.peer, event.id)
            if request not in self._answered:
                self._open.setdefault(request, (event.key, _kept(event.payload)))
        elif event.step == "reply" and event.sender is not None:
            self._request_ended((event.sender, event.peer, event.id), event)
        elif event.step == "reply" and event.id in self._asks:
            self._ask_ended(event.id, _reply_of(event))
        elif event.step == "send" and event.error is None:
            self._message("toClient", event.id, (event.key, _kept(event.payload)))

    def to_host(self, message: HostRecord) -> None:
        """Take a message that went to the host; an ask is told when it is over."""
        sent = (message.name, keep(message.payload))
        if message.expects_reply:
            self._asks[message.id] = sent
        else:
            self._message("toHost", message.id, sent)

    def close(self) -> None:
        """The call is over: what is still open got no answer."""
        while self._open:
            request = next(iter(self._open))
            self._message(_direction(request[0]), request[2], self._open.pop(request))
        for ask_id in list(self._asks):
            self._ask_ended(ask_id, _NOTHING_SAID)

    def _request_ended(self, request: _Request, event: TraceEvent) -> None:
        sent = self._open.pop(request, None)
        if sent is None:
            return
        code = event.error if event.error in _CODES else None
        if code is None:  # taken, even where its sender gave up waiting for the answer
            self._answered[request] = None
            while len(self._answered) > REMEMBERED_REQUESTS:
                self._answered.popitem(last=False)
        self._message(_direction(request[0]), request[2], sent, _reply_of(event), code)

    def _ask_ended(self, ask_id: str, reply: Kept) -> None:
        self._message("toHost", ask_id, self._asks.pop(ask_id), reply)

    def _message(
        self,
        direction: MessageDirection,
        message_id: str,
        sent: tuple[str, Kept],
        reply: Kept = _NOTHING_SAID,
        code: str | None = None,
    ) -> None:
        key, payload = sent
        self._put(
            CallMessage(
                direction=direction,
                key=key,
                id=message_id,
                payload=payload.value,
                reply=reply.value,
                code=code,
                truncated=True if payload.truncated or reply.truncated else None,
            )
        )


def _direction(sender: Sender) -> MessageDirection:
    return "fromClient" if sender == "client" else "fromHost"


def _kept(payload: object) -> Kept:
    try:
        return keep(payload)
    except InvalidPayloadError:  # a client may send what this library would not, such as a number of 400 digits
        text = json.dumps(payload, separators=(",", ":"), default=str)  # of ASCII, so that a character is a byte
        return Kept(text[:MAX_KEPT_BYTES], truncated=len(text) > MAX_KEPT_BYTES)


def _reply_of(event: TraceEvent) -> Kept:
    return _NOTHING_SAID if event.payload is NOTHING or event.error is not None else _kept(event.payload)
