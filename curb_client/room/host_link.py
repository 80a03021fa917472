"""The agent's way to its host; what runs the call plugs one in (host protocol, App messages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["HostLink", "HostRecord"]


@dataclass(frozen=True)
class HostRecord:
    """A message from the agent to its host: the variable part of a record of class ``host``.

    Attributes:
        id: unique in the call (``a-1``, ``a-2``, …); a reply names it in ``inReplyTo``.
        name: the message's key.
        payload: a JSON object.
        expects_reply: whether the agent waits (``ask_host``).
    """

    id: str
    name: str
    payload: dict[str, Any]
    expects_reply: bool


class HostLink(Protocol):
    """A host, as an agent sees it."""

    @property
    def is_connected(self) -> bool:
        """Whether the call keeps a record that a host reads; not whether somebody reads it right now."""

    def record(self, message: HostRecord) -> None:
        """Put the message on record; returns at once."""
