"""The faults of one server, in its loop: where everything passes asks them. How to make some: :mod:`.faults`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

if TYPE_CHECKING:  # a server that does not run yet loads nothing that only a running one needs
    from curb_client.testing.embedded.routing import Routed

__all__ = ["NOBODY", "Direction", "Fault", "FaultTable", "Scope", "Way", "Who"]

Direction = Literal["from", "to"]
Place = Literal["packets", "datagrams", "signals", "joins"]


class Who(NamedTuple):
    """A participant: identities are unique in a room, not on a server."""

    identity: str
    room: str


NOBODY: Final = Who("", "")
"""Whom a datagram is of that fits no participant."""


class Way(NamedTuple):
    """Where something passes: whom, and whether it comes from it or goes to it."""

    who: Who
    direction: Direction


@dataclass(frozen=True)
class Scope:
    """Whom a fault is for; everybody, where nothing is given."""

    room: str | None = None
    participant: str | None = None
    direction: Direction | None = None

    def __str__(self) -> str:
        """Without the room, which :meth:`.Faults.report` adds where it says anything."""
        way = f" {self.direction}" if self.direction else ""
        if self.participant is None:
            return f"{way} anybody" if way else ""
        return f"{way or ' of'} {self.participant!r}"

    def has(self, who: Who) -> bool:
        return self.participant in (None, who.identity) and self.room in (None, who.room)

    def takes(self, way: Way) -> bool:
        return self.direction in (None, way.direction) and self.has(way.who)


class Fault:
    """Something that goes wrong on purpose.

    Attributes:
        what: what it does and to what, for people.
        scope: for whom it does so.
        count: how often it has happened so far: packets, datagrams, signalling messages or joins hit.
        is_over: whether its block has ended.
    """

    places: ClassVar[frozenset[Place]] = frozenset()
    """Which of the methods below have something to do."""

    def __init__(self, what: str, scope: Scope) -> None:
        self.what = what
        self.scope = scope
        self.count = 0
        self.is_over = False

    def __str__(self) -> str:
        return f"{self.what}: {self.count}{' so far' if not self.is_over else ''}"

    def packet(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:  # noqa: ARG002
        """A data packet passes; ``forward`` lets one through."""
        forward(routed)

    def datagram(self, size: int, way: Way, forward: Callable[[], None]) -> None:  # noqa: ARG002
        """A datagram of so many bytes passes."""
        forward()

    def holds(self, who: Who, again: Callable[[], None]) -> bool:  # noqa: ARG002
        """Whether it keeps a signalling message, of either direction; ``again`` is for when it is over."""
        return False

    async def join(self, who: Who) -> int:  # noqa: ARG002
        """Somebody joins or resumes: returns the HTTP status to refuse it with, or 0, now or later."""
        return 0

    def end(self) -> None:
        """Its block has ended: what it holds goes on."""


class FaultTable:
    """The faults of one server, in the order in which they began; outlives its restarts."""

    def __init__(self) -> None:
        self._active: tuple[Fault, ...] = ()
        self.packets: tuple[Fault, ...] = ()
        self.datagrams: tuple[Fault, ...] = ()
        self.signals: tuple[Fault, ...] = ()
        self.joins: tuple[Fault, ...] = ()
        """Those with something to do at each place; empty where nothing is to go wrong."""

    def add(self, fault: Fault) -> None:
        self._set((*self._active, fault))

    def remove(self, fault: Fault) -> None:
        self._set(tuple(each for each in self._active if each is not fault))
        fault.is_over = True
        fault.end()

    def _set(self, active: tuple[Fault, ...]) -> None:
        def at(place: Place) -> tuple[Fault, ...]:
            return tuple(fault for fault in active if place in fault.places)

        self._active = active
        self.packets, self.datagrams = at("packets"), at("datagrams")
        self.signals, self.joins = at("signals"), at("joins")

    def packet(self, routed: Routed, who: Who, direction: Direction, forward: Callable[[Routed], None]) -> None:
        """Sends a packet through all faults, and what they leave of it on its way."""
        _packet_through(self.packets, routed, Way(who, direction), forward)

    def datagram(self, size: int, who: Who, direction: Direction, forward: Callable[[], None]) -> None:
        """As :meth:`packet`."""
        way = Way(who, direction)
        for fault in reversed(self.datagrams):
            forward = _before(fault, size, way, forward)
        forward()

    def signal(self, who: Who, forward: Callable[[], None]) -> None:
        """As :meth:`packet`, for signalling in both directions."""
        for fault in self.signals:
            if fault.holds(who, lambda: self.signal(who, forward)):
                return
        forward()

    async def join(self, who: Who) -> int:
        """Returns, when nothing holds the join any more, the HTTP status to refuse it with, or 0."""
        for fault in self.joins:
            status = 0 if fault.is_over else await fault.join(who)
            if status:
                return status
        return 0


def _packet_through(faults: tuple[Fault, ...], routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:
    for index, fault in enumerate(faults):
        if not fault.is_over:  # a packet that was held may outlast it
            fault.packet(routed, way, _after(faults[index + 1 :], way, forward))
            return
    forward(routed)


def _after(faults: tuple[Fault, ...], way: Way, forward: Callable[[Routed], None]) -> Callable[[Routed], None]:
    return lambda left: _packet_through(faults, left, way, forward)


def _before(fault: Fault, size: int, way: Way, forward: Callable[[], None]) -> Callable[[], None]:
    return lambda: forward() if fault.is_over else fault.datagram(size, way, forward)
