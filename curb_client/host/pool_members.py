"""A runner of a pool, as the pool knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from curb_client.protocol.host_types import RunnerStatus

if TYPE_CHECKING:
    from curb_client.host.client import RunnerClient
    from curb_client.host.cursors import CursorStore
    from curb_client.host.follower import StreamPump

__all__ = ["Member", "MemberState", "RunnerLost"]

MemberState: TypeAlias = Literal["new", "open", "draining", "unreachable", "unusable", "dead", "ended"]
"""``new``: it has not answered yet. ``unusable``: it cannot take calls of this host (a wrong token, another version).
``dead``: its calls are lost. ``ended``: it drained and ended."""


@dataclass(frozen=True)
class RunnerLost:
    """A runner of a pool is taken for dead, or ended without ending its calls.

    Attributes:
        runner: its name.
        calls: those that were lost with it; a :class:`CallCut` follows for each.
        reason: for people.
    """

    runner: str
    calls: tuple[str, ...]
    reason: str


@dataclass
class Member:
    """What is known of a runner. ``used`` counts its calls as of its last status and what was heard since."""

    name: str
    client: RunnerClient
    store: CursorStore
    is_alive: Callable[[], bool] | None
    state: MemberState = "new"
    reason: str = ""
    most: int = 1
    used: int = 0
    pending: int = 0
    calls: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    unlisted: dict[str, float] = field(default_factory=dict)  # calls that its status leaves out, since when
    pump: StreamPump | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def takes_calls(self) -> bool:
        """Whether it is worth asking."""
        return self.state in ("new", "open")

    @property
    def is_gone(self) -> bool:
        """Whether what was started there is surely not running."""
        return self.state in ("dead", "ended")

    @property
    def is_full(self) -> bool:
        """By what is known here; other hosts place calls too."""
        return self.used + self.pending >= self.most

    @property
    def load(self) -> float:
        """How much of it is taken: 1 is all."""
        return (self.used + self.pending) / max(self.most, 1)

    def mark(self, state: MemberState, reason: str = "") -> None:
        """Note what it is now; one that drains does so until it is another."""
        if self.state == "draining" and state in ("open", "unreachable"):
            return
        self.state, self.reason = state, reason

    def take_status(self, status: RunnerStatus) -> None:
        """Note its own account."""
        # It may be older than the last start that was answered.
        self.most, self.used = status.max_sessions, max(status.active_sessions, len(self.calls))
        if status.draining:
            self.mark("draining", "it drains")
        elif self.state in ("new", "unreachable"):
            self.mark("open")

    def long_unlisted(self, calls: Iterable[str], status: RunnerStatus, now: float, seconds: float) -> list[str]:
        """Those of ``calls`` that its account has left out for so long: it is another runner than took them."""
        live = {call.session_id for call in status.sessions if call.state != "ended"}
        self.unlisted = {call: self.unlisted.get(call, now) for call in calls if call not in live}
        return [call for call, since in self.unlisted.items() if now - since >= seconds]

    def started(self, session_id: str) -> None:
        """Note a call that it runs."""
        if session_id not in self.calls:
            self.calls.add(session_id)
            self.used += 1

    def ended(self, session_id: str) -> None:
        """Note the end of a call."""
        if session_id in self.calls:
            self.calls.remove(session_id)
            self.used = max(self.used - 1, 0)
