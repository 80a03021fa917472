"""What can be chosen about an embedded server."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from typing_extensions import TypedDict

from curb_client.errors import UsageError

__all__ = ["LIVEKIT_VERSION", "OptionValues", "Options"]

LIVEKIT_VERSION: Final = "1.13.5"
"""The livekit-server that an embedded one behaves like, and says it is: clients choose what they do by it."""


class OptionValues(TypedDict, total=False):
    """The fields of :class:`Options`; each may be left out."""

    state_batch: float
    resume_within: float
    transport_timeout: float
    join_timeout: float
    empty_timeout: float
    departure_timeout: float


@dataclass(frozen=True)
class Options:
    """Times of an embedded server, all in seconds; the defaults are livekit-server's where no other reason is given."""

    state_batch: float = 0.0
    """Joins and leaves of who publishes nothing are told this often: livekit-server's 3, here at once."""
    resume_within: float = 15.0
    """How long a participant without a signalling connection is kept; livekit-server waits for its transport to die,
    which takes 20."""
    transport_timeout: float = 15.0
    """How long a participant's transport may be silent before it is asked to resume."""
    join_timeout: float = 60.0
    """How long a participant may take from its join until its data channels are open."""
    empty_timeout: float = 300.0
    """How long a room is kept that nobody has joined yet."""
    departure_timeout: float = 20.0
    """How long a room is kept that everybody but agents has left."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise UsageError(f"{field.name} of an embedded server is {value!r}; give seconds, 0 or more")
