"""What a test expects of the agent's messages, and in what a message differs from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from curb_client.protocol.types import AgentMessage
from curb_client.room.client import AgentClient
from curb_client.room.trace import Trace, Tracer
from curb_client.testing.recorder import shortened

__all__ = ["ANYTHING", "Mailbox", "ReceivedMessage", "WatchedClient", "difference"]


class _Anything:
    def __repr__(self) -> str:
        return "anything"


ANYTHING: Final = _Anything()


@dataclass
class ReceivedMessage:
    """A message of the agent.

    Attributes:
        handled: a handler took it, or a ``wait_for``.
        expected: an expectation took it.
    """

    key: str
    payload: Any
    sender_identity: str
    handled: bool
    expected: bool = False

    def __str__(self) -> str:
        return f"{self.key} {shortened(self.payload)}"


@dataclass
class Mailbox:
    """The agent's messages, in the order in which they were handed out."""

    messages: list[ReceivedMessage] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: ReceivedMessage) -> None:
        self.messages.append(message)
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look at what is there, and at what else may have happened."""
        self._arrived.set()

    def take(self, key: str, payload: object) -> ReceivedMessage | None:
        """The first message that no expectation took yet and that fits."""
        for message in self.messages:
            if message.key == key and not message.expected and difference(payload, message.payload) is None:
                message.expected = True
                return message
        return None

    def untaken(self, key: str | None = None) -> list[ReceivedMessage]:
        """What neither a handler nor an expectation took."""
        return [
            message
            for message in self.messages
            if not message.handled and not message.expected and key in (None, message.key)
        ]

    async def wait(self, seconds: float) -> bool:
        """Whether a message arrived, or something else happened, within that time."""
        self._arrived.clear()
        waiting = asyncio.ensure_future(self._arrived.wait())
        try:
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
        finally:
            waiting.cancel()
        return bool(done)


class WatchedClient(AgentClient):
    """A client whose messages go into a mailbox too; one without a handler is no cause for a warning then."""

    def __init__(self, mailbox: Mailbox, identity: str, *, agent_identity: str | None, trace: Trace) -> None:
        super().__init__(agent_identity=agent_identity, trace=trace)
        self._mailbox = mailbox
        self._tracer = Tracer(trace, "client", lambda: identity)  # known before it has joined

    def _deliver(self, message: AgentMessage, sender_identity: str) -> None:
        handled = bool(self._handlers.get(message.key))
        self._mailbox.put(ReceivedMessage(message.key, message.payload, sender_identity, handled))
        super()._deliver(message, sender_identity)

    def _unhandled(self, message: AgentMessage) -> None:
        self.counts.unhandled[message.key] += 1


def difference(expected: object, came: object, path: str = "") -> str | None:
    """Where a payload first differs from what was expected, in words; None where it fits.

    Args:
        expected: ``ANYTHING``, a JSON value, a function that says whether a payload fits, or any object that compares
            itself with ``==``.
    """
    if expected is ANYTHING:
        return None
    if isinstance(expected, Mapping) and isinstance(came, Mapping):
        return _mapping_difference(expected, came, path)
    if isinstance(expected, (list, tuple)) and isinstance(came, list):
        return _list_difference(expected, came, path)
    at = f" at {path}" if path else ""
    if callable(expected) and not isinstance(expected, type):
        return None if _fits(expected, came) else f"{shortened(came)}{at} does not satisfy {_name(expected)}"
    is_number = isinstance(expected, (bool, int, float))
    if expected == came and not (is_number and isinstance(expected, bool) is not isinstance(came, bool)):
        return None  # in JSON true is not 1
    return f"expected {shortened(expected)}{at}, came {shortened(came)}"


def _mapping_difference(expected: Mapping[Any, object], came: Mapping[Any, object], path: str) -> str | None:
    at = f" at {path}" if path else ""
    if missing := [str(name) for name in expected if name not in came]:
        return f"{', '.join(missing)} is missing{at}"
    if unexpected := [str(name) for name in came if name not in expected]:
        return f"{', '.join(unexpected)} was not expected{at}"
    found = (difference(value, came[name], f"{path}.{name}" if path else str(name)) for name, value in expected.items())
    return next((text for text in found if text is not None), None)


def _list_difference(expected: Sequence[object], came: Sequence[object], path: str) -> str | None:
    found = (
        difference(wanted, value, f"{path}[{index}]")
        for index, (wanted, value) in enumerate(zip(expected, came, strict=False))
    )
    text = next((text for text in found if text is not None), None)
    if text is None and len(expected) != len(came):
        at = f" at {path}" if path else ""
        return f"expected {len(expected)} items{at}, came {len(came)}"
    return text


def _fits(predicate: Callable[[object], object], came: object) -> bool:
    return bool(predicate(came))


def _name(predicate: Callable[..., object]) -> str:
    return getattr(predicate, "__qualname__", repr(predicate))
