"""What one call puts on the record: host records and conversation events (host protocol, Record classes)."""

from __future__ import annotations

from collections.abc import Mapping

from curb_client.host.runner.counters import Counters
from curb_client.host.runner.journal import Journal, Producer
from curb_client.host.runner.message_log import MessageLog
from curb_client.host.runner.secrets import without_user_information
from curb_client.protocol.contract import (
    CONVERSATION_CLASS,
    EVENT_ENDED,
    EVENT_MESSAGE,
    EVENT_MESSAGES,
    EVENT_SETTINGS,
    EVENT_STARTED,
    HOST_CLASS,
    CallDirection,
    Sender,
)
from curb_client.protocol.records import CallMessage, EventBody, HostBody, TurnBody
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.host_link import HostRecord

__all__ = ["CallRecord"]


class CallRecord:
    """One call's records. Without a journal nothing is kept; what is counted is counted all the same.

    Attributes:
        messages: the trace to give to the call's agent.
        end: the envelope of its ``curb.ended``, once it is there.
    """

    def __init__(self, session_id: str, journal: Journal | None, counters: Counters) -> None:
        self._producer = None if journal is None else Producer(journal, session_id)
        self._counters = counters
        self.messages = MessageLog(self._message)
        self.end: int | None = None
        self._is_over = False

    @property
    def is_connected(self) -> bool:
        """Whether a host reads what the call puts on record."""
        return self._producer is not None

    def record(self, message: HostRecord) -> None:
        """Put the agent's message to its host on record; this makes the record the agent's host link."""
        if self._producer is not None and not self._is_over:
            self._producer.append(
                HOST_CLASS,
                lambda seq, at: HostBody(
                    type="host",
                    seq=seq,
                    at=at,
                    id=message.id,
                    name=message.name,
                    payload=message.payload,
                    expects_reply=message.expects_reply,
                ),
            )
            self.messages.to_host(message)

    def started(self, direction: CallDirection) -> None:
        """The agent is in the room."""
        self._event(EVENT_STARTED, {"direction": direction})

    def turn(self, role: str, text: str) -> None:
        """Somebody said something.

        Raises:
            InvalidPayloadError: text with a lone surrogate.
        """
        if self._producer is not None and not self._is_over:
            self._producer.append(
                CONVERSATION_CLASS, lambda seq, at: TurnBody(type="turn", seq=seq, at=at, role=role, text=text)
            )

    def settings(self, settings: EffectiveSettings, origin: Sender) -> None:
        """Settings were changed."""
        self._event(EVENT_SETTINGS, {"origin": origin, "settings": without_user_information(settings).to_wire()})

    def ended(self, reason: str, undelivered: Mapping[str, int], refused_queued: int) -> None:
        """The call is over: ``curb.messages``, then ``curb.ended``, and nothing after it."""
        self.messages.close()
        self._event(
            EVENT_MESSAGES,
            {"undeliveredToClient": dict(undelivered), "refusedQueuedHostMessages": refused_queued},
        )
        self.end = self._event(EVENT_ENDED, {"reason": reason})
        self._is_over = True

    def _message(self, message: CallMessage) -> None:
        if not self._is_over:
            self._counters.messages[message.direction, message.code or "ok"] += 1
            self._event(EVENT_MESSAGE, message.to_wire())

    def _event(self, name: str, payload: object) -> int | None:
        if self._producer is None or self._is_over:
            return None
        return self._producer.append(
            CONVERSATION_CLASS,
            lambda seq, at: EventBody(type="event", seq=seq, at=at, name=name, payload=payload),
        )
