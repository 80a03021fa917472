"""What an event stream hands out (host protocol, Event stream)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from curb_client.protocol.cursor import Gap, LostRecords, Restarted
from curb_client.protocol.records import JournalRecord

__all__ = ["CallCut", "CallItem", "StreamItem", "concerns", "ends"]


@dataclass(frozen=True)
class CallCut:
    """A call's record broke off: its ``curb.ended`` will not come (host protocol, Truncation rule).

    Attributes:
        cause: ``runner_ended``, the runner ended its stream without it; ``restarted``, it is another runner now;
            ``gap``, it was in a gap; ``runner_lost``, the runner is taken for dead.
    """

    session_id: str
    cause: Literal["runner_ended", "restarted", "gap", "runner_lost"]


StreamItem: TypeAlias = JournalRecord | Gap | LostRecords | Restarted | CallCut
"""What a stream hands out. A :class:`Gap` or :class:`LostRecords` stands where what is missing should have come."""

CallItem: TypeAlias = JournalRecord | Gap | LostRecords | CallCut
"""What the view of one call hands out: its records, and every gap, which may have swallowed some of them."""


def concerns(item: StreamItem, session_id: str) -> bool:
    """Whether an item belongs into the view of this call: its own, or a gap, which may have swallowed its records."""
    if isinstance(item, (JournalRecord, LostRecords)):
        return item.producer == session_id
    return isinstance(item, Gap) or (isinstance(item, CallCut) and item.session_id == session_id)


def ends(item: StreamItem) -> bool:
    """Whether it is the last of its call."""
    return isinstance(item, CallCut) or (isinstance(item, JournalRecord) and item.ends_call)
