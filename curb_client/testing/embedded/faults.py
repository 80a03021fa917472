"""Faults on demand: what is to go wrong on an embedded server, for how long or how often."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import TypedDict, Unpack

from curb_client.errors import UsageError
from curb_client.testing.embedded.fault_links import Freeze, LimitBandwidth, LoseDatagrams, RefuseJoins, SlowJoins
from curb_client.testing.embedded.fault_packets import Corrupt, Delay, Drop, Duplicate, PacketFilter, Reorder
from curb_client.testing.embedded.fault_table import Direction, Fault, FaultTable

if TYPE_CHECKING:
    from curb_client.testing.embedded.participant import Participant
    from curb_client.testing.embedded.server import EmbeddedServer

__all__ = ["Fault", "Faults", "PacketOptions"]

T = TypeVar("T")


class PacketOptions(TypedDict, total=False):
    """Which packets a fault is for: those that fit all that is given.

    Without ``direction`` and ``participant``, all packets that participants send: each counts once, however many get
    it. Packets are LiveKit's: a short text or RPC is one, a long one a header, chunks and a trailer.
    """

    direction: Direction
    """``"from"`` or ``"to"``: what the participant sends, or what it is sent; both unless given."""
    participant: str
    """Its identity; anybody's unless given."""
    topic: str
    """Of a text or byte stream that began after the fault did, or of a user packet."""
    method: str
    """Of an RPC: the request and its answer, not its acknowledgement."""


class Faults:
    """What goes wrong on an embedded server: ``server.faults``.

    ::

        with server.faults.drop(1, direction="to", participant="agent", method="curb.message") as fault:
            ...  # the next request is lost
        assert fault.count == 1

    What is a context manager goes wrong while its block lasts, and what it holds then goes on. All may be used from
    any thread, before the server is started too; faults outlast a restart. Those that are active at the same time
    happen one after the other, in the order in which they began.

    Every method raises UsageError, which names the argument, where one makes no sense.
    """

    def __init__(self, server: EmbeddedServer, table: FaultTable, write: Callable[[str], None]) -> None:
        self._server = server
        self._table = table
        self._write = write
        self._all: list[Fault] = []

    def report(self) -> list[str]:
        """A line for each fault so far: what, for whom, and how often it has happened."""
        return [str(fault) for fault in list(self._all)]

    # Packets

    def drop(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Loses packets.

        Args:
            n: how many at most; all that fit unless given.
            only: which; see :class:`PacketOptions`.
        """
        return self._block(Drop("drop", _filter(only), _amount("n", n)))

    def delay(self, n: int | None, seconds: float, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Holds packets for so many seconds, or until the block ends; others overtake them. As :meth:`drop`."""
        return self._block(Delay(f"delay by {seconds} s", _filter(only), _amount("n", n), _seconds(seconds)))

    def duplicate(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Sends packets twice, as another message each: the SDK does not know it for a repeat. As :meth:`drop`."""
        return self._block(Duplicate("duplicate", _filter(only), _amount("n", n)))

    def reorder(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Sends packets behind the next one that fits and goes the same way, or when the block ends. As :meth:`drop`,
        with ``n`` for how many are put back."""
        return self._block(Reorder("reorder", _filter(only), _amount("n", n)))

    def corrupt(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Overwrites the first character of packets' content: JSON is none any more. As :meth:`drop`; packets without
        content pass, and do not count."""
        return self._block(Corrupt("corrupt", _filter(only), _amount("n", n)))

    # The network

    def lose_datagrams(
        self, rate: float, *, seed: int = 0, direction: Direction | None = None, participant: str | None = None
    ) -> AbstractContextManager[Fault]:
        """Loses datagrams by chance, below everything that makes them reliable; the same ones for the same seed.

        Args:
            rate: how many, from 0 to 1. seed: of the chance, which each way of each participant has for itself.
            direction: as in :class:`PacketOptions`. participant: its identity.
        """
        if not _is_number(rate) or not 0 <= rate <= 1:
            raise UsageError(f"rate is {rate!r}; give a share of the datagrams, from 0 to 1")
        if not _is_integer(seed):
            raise UsageError(f"seed is {seed!r}; give an integer")
        _check_direction(direction)
        which = PacketFilter(direction, _text("participant", participant))
        what = f"lose {rate:.0%} of the datagrams{which} (seed {seed})"
        return self._block(LoseDatagrams(what, rate, seed, direction, participant))

    def limit_bandwidth(
        self, bytes_per_second: float, *, participant: str | None = None
    ) -> AbstractContextManager[Fault]:
        """Makes the network narrow: datagrams wait, up to a second, and are lost where they would wait longer.

        Args:
            bytes_per_second: for each participant and direction. participant: its identity; everybody's unless given.
        """
        _positive("bytes_per_second", bytes_per_second, "bytes per second")
        which = PacketFilter(participant=_text("participant", participant))
        what = f"let {bytes_per_second} bytes/s through{which}, datagrams that waited"
        return self._block(LimitBandwidth(what, bytes_per_second, participant))

    # Joins

    def refuse_joins(
        self, status: int = 503, *, participant: str | None = None, times: int | None = None
    ) -> AbstractContextManager[Fault]:
        """Refuses joins and resumes.

        Args:
            status: of HTTP, 400 to 599. participant: whose, by identity; everybody's unless given.
            times: how many at most; a client tries one join several times.
        """
        if not _is_integer(status) or not 400 <= status <= 599:
            raise UsageError(f"status is {status!r}; give an HTTP status from 400 to 599")
        amount = "joins" if _amount("times", times) is None else f"at most {times} joins"
        which = PacketFilter(participant=_text("participant", participant))
        return self._block(RefuseJoins(f"refuse {amount}{which} with {status}", status, participant, times))

    def slow_joins(self, seconds: float, *, participant: str | None = None) -> AbstractContextManager[Fault]:
        """Answers joins and resumes so many seconds later, or when the block ends.

        Args:
            participant: whose, by identity; everybody's unless given.
        """
        which = PacketFilter(participant=_text("participant", participant))
        return self._block(SlowJoins(f"answer joins{which} {seconds} s later", _seconds(seconds), participant))

    # Participants

    def freeze(self, participant: str) -> AbstractContextManager[Fault]:
        """Lets nothing in or out of a participant, as if its process were stopped: when the block ends, it goes on,
        and is sent what it missed. The server and the client both have their time-outs meanwhile.

        Args:
            participant: its identity; who joins with it waits.
        """
        return self._block(Freeze(f"freeze {participant!r}", _identity(participant)))

    def cut_signalling(self, participant: str) -> None:
        """Cuts a participant's signalling connection once, without a goodbye: the client resumes.

        Raises:
            UsageError: nobody of this identity is in a room. LiveKitServerError: the server does not run.
        """
        self._once("cut the signalling", participant, lambda each: each.abort_socket())

    def cut_transport(self, participant: str) -> None:
        """Cuts what a participant's data travel through once, without a goodbye: it takes seconds until the client
        takes note and resumes. Raises as :meth:`cut_signalling`."""
        self._once("cut the transport", participant, lambda each: each.transport.ice.close())

    def kill(self, participant: str) -> None:
        """Ends a participant as if its process had been killed: its client is disconnected and stays away, and the
        others see it leave when it has not resumed in time (``resume_within``). Raises as :meth:`cut_signalling`."""
        self._once("kill", participant, lambda each: each.die())

    def force_resume(self, participant: str) -> None:
        """Asks a participant's client to resume its session. Raises as :meth:`cut_signalling`."""
        self._once("force a resume", participant, lambda each: each.ask_to_resume("is to resume by a fault"))

    def force_full_reconnect(self, participant: str) -> None:
        """Ends a participant's session and asks its client for another. Raises as :meth:`cut_signalling`."""

        def start_anew(each: Participant) -> None:
            from livekit.protocol import models  # the server runs, so it is installed

            each.start_anew(models.STATE_MISMATCH)

        self._once("force a full reconnect", participant, start_anew)

    # In the server's loop

    @contextlib.contextmanager
    def _block(self, fault: Fault) -> Iterator[Fault]:
        self._all.append(fault)
        self._write(f"fault begins: {fault.what}")
        self._run(lambda: self._table.add(fault))
        try:
            yield fault
        finally:
            self._run(lambda: self._table.remove(fault))
            self._write(f"fault is over: {fault}")

    def _run(self, function: Callable[[], object]) -> None:
        if self._server.is_running:
            self._server.call(lambda _: function())
        else:
            function()

    def _once(self, what: str, participant: str, act: Callable[[Participant], object]) -> None:
        fault = Fault(f"{what} of {_identity(participant)!r}")
        fault.is_over = True

        def run(node: Any) -> None:
            found = [room.participants[participant] for room in node.rooms.all() if participant in room.participants]
            for each in found:
                fault.count += 1
                act(each)

        self._server.call(run)
        if not fault.count:
            raise UsageError(f"participant is {participant!r}, who is in no room of this server")
        self._all.append(fault)
        self._write(f"fault: {fault.what}")


def _filter(only: PacketOptions) -> PacketFilter:
    for name in ("participant", "topic", "method"):
        _text(name, only.get(name))
    if unknown := only.keys() - PacketOptions.__annotations__.keys():
        known = ", ".join(PacketOptions.__annotations__)
        raise UsageError(f"{min(unknown)} is no filter of packets; there are {known}")
    _check_direction(only.get("direction"))
    return PacketFilter(**only)


def _check_direction(direction: object) -> None:
    if direction not in (None, "from", "to"):
        raise UsageError(f"direction is {direction!r}; give 'from' or 'to', as the participant sees it")


def _text(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}; give text, or leave it out for any")
    return value


def _identity(participant: str) -> str:
    if not _text("participant", participant):
        raise UsageError(f"participant is {participant!r}; give the identity of one")
    return participant


def _amount(name: str, value: int | None) -> int | None:
    if value is not None and (not _is_integer(value) or value < 1):
        raise UsageError(f"{name} is {value!r}; give how many at most, or None for all")
    return value


def _positive(name: str, value: float, unit: str) -> float:
    if not _is_number(value) or not 0 < value < math.inf:
        raise UsageError(f"{name} is {value!r}; give {unit}, more than 0")
    return value


def _seconds(value: float) -> float:
    return _positive("seconds", value, "seconds")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
