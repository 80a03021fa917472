"""Faults on demand: what is to go wrong on an embedded server, for how long or how often."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from typing_extensions import TypedDict, Unpack

from curb_client.errors import LiveKitServerError, UsageError
from curb_client.testing.embedded import fault_arguments as given
from curb_client.testing.embedded.fault_links import Freeze, LimitBandwidth, LoseDatagrams, RefuseJoins, SlowJoins
from curb_client.testing.embedded.fault_packets import Corrupt, Delay, Drop, Duplicate, Reorder
from curb_client.testing.embedded.fault_table import Direction, Fault, FaultTable, Scope

if TYPE_CHECKING:
    from curb_client.testing.embedded.node import Node
    from curb_client.testing.embedded.participant import Participant
    from curb_client.testing.embedded.server import EmbeddedServer

__all__ = ["Fault", "Faults", "PacketOptions"]


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
    """What goes wrong on an embedded server, ``server.faults``, or in one room of it, ``curb_call.faults``.

    ::

        with curb_call.faults.drop(1, direction="to", participant="agent", method="curb.message") as fault:
            ...  # the next request is lost
        assert fault.count == 1

    What is a context manager goes wrong while its block lasts, and what it holds then goes on. All may be used from
    any thread, before the server is started too; faults outlast a restart. Those that are active at the same time
    happen one after the other, in the order in which they began.

    Every method raises UsageError, which names the argument, where one makes no sense.
    """

    def __init__(
        self,
        server: EmbeddedServer,
        table: FaultTable,
        tell: Callable[[str], None],
        room: str | None = None,
        begun: list[Fault] | None = None,
    ) -> None:
        self._server = server
        self._table = table
        self._tell = tell
        self._room = room
        self._begun: list[Fault] = [] if begun is None else begun

    def in_room(self, name: str, tell: Callable[[str], None] = lambda _: None) -> Faults:
        """The faults of one room: identities are looked up in it alone, and other rooms notice nothing.

        Args:
            tell: gets a line when a fault begins, and when it is over.
        """

        def tell_both(line: str) -> None:
            self._tell(f"in room {name!r}, {line}")
            tell(line)

        return Faults(self._server, self._table, tell_both, name, self._begun)

    def report(self) -> list[str]:
        """A line for each fault so far, of this room where it is one's: what, for whom, and how often it happened."""
        return [self._line(fault) for fault in list(self._begun) if self._room in (None, fault.scope.room)]

    def _line(self, fault: Fault) -> str:
        elsewhere = self._room is None and fault.scope.room is not None
        return f"in room {fault.scope.room!r}, {fault}" if elsewhere else str(fault)

    # Packets

    def drop(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Loses packets.

        Args:
            n: how many at most; all that fit unless given.
            only: which; see :class:`PacketOptions`.
        """
        return self._block(Drop("drop", given.packet_filter(self._room, only), given.at_most("n", n)))

    def delay(self, n: int | None, seconds: float, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Holds packets for so many seconds, or until the block ends; others overtake them. As :meth:`drop`."""
        which = given.packet_filter(self._room, only)
        return self._block(Delay(f"delay by {seconds} s", which, given.at_most("n", n), given.seconds(seconds)))

    def duplicate(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Sends packets twice, as another message each: the SDK does not know it for a repeat. As :meth:`drop`."""
        return self._block(Duplicate("duplicate", given.packet_filter(self._room, only), given.at_most("n", n)))

    def reorder(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Sends packets behind the next one that fits and goes the same way, or when the block ends. As :meth:`drop`,
        with ``n`` for how many are put back."""
        return self._block(Reorder("reorder", given.packet_filter(self._room, only), given.at_most("n", n)))

    def corrupt(self, n: int | None = None, **only: Unpack[PacketOptions]) -> AbstractContextManager[Fault]:
        """Overwrites the first character of packets' content: JSON is none any more. What is compressed in many packets
        cannot be read at all. As :meth:`drop`; packets without content pass, and do not count."""
        return self._block(Corrupt("corrupt", given.packet_filter(self._room, only), given.at_most("n", n)))

    # The network

    def lose_datagrams(
        self, rate: float, *, seed: int = 0, direction: Direction | None = None, participant: str | None = None
    ) -> AbstractContextManager[Fault]:
        """Loses datagrams by chance, below everything that makes them reliable; the same ones for the same seed.

        Args:
            rate: how many, from 0 to 1. seed: of the chance, which each way of each participant has for itself.
            direction: as in :class:`PacketOptions`. participant: its identity.
        """
        rate, seed = given.share(rate), given.integer("seed", seed)
        scope = given.scope(self._room, participant, direction)
        return self._block(LoseDatagrams(f"lose {rate:.0%} of the datagrams{scope} (seed {seed})", scope, rate, seed))

    def limit_bandwidth(
        self, bytes_per_second: float, *, participant: str | None = None
    ) -> AbstractContextManager[Fault]:
        """Makes the network narrow: datagrams wait, up to a second, and are lost where they would wait longer.

        Args:
            bytes_per_second: for each participant and direction. participant: its identity; everybody's unless given.
        """
        given.positive("bytes_per_second", bytes_per_second, "bytes per second")
        scope = given.scope(self._room, participant)
        what = f"let {bytes_per_second} bytes/s through{scope}, datagrams that waited"
        return self._block(LimitBandwidth(what, scope, bytes_per_second))

    # Joins

    def refuse_joins(
        self, status: int = 503, *, participant: str | None = None, times: int | None = None
    ) -> AbstractContextManager[Fault]:
        """Refuses joins and resumes.

        Args:
            status: of HTTP, 400 to 599. participant: whose, by identity; everybody's unless given.
            times: how many at most; a client tries one join several times.
        """
        status, times = given.http_status(status), given.at_most("times", times)
        scope = given.scope(self._room, participant)
        amount = "joins" if times is None else f"at most {times} join{'s' if times > 1 else ''}"
        return self._block(RefuseJoins(f"refuse {amount}{scope} with {status}", scope, status, times))

    def slow_joins(self, seconds: float, *, participant: str | None = None) -> AbstractContextManager[Fault]:
        """Answers joins and resumes so many seconds later, or when the block ends.

        Args:
            participant: whose, by identity; everybody's unless given.
        """
        scope = given.scope(self._room, participant)
        return self._block(SlowJoins(f"answer joins{scope} {seconds} s later", scope, given.seconds(seconds)))

    # Participants

    def freeze(self, participant: str) -> AbstractContextManager[Fault]:
        """Lets nothing in or out of a participant, as if its process were stopped: when the block ends, it goes on,
        and is sent what it missed. The server and the client both have their time-outs meanwhile.

        Args:
            participant: its identity; who joins with it waits.
        """
        return self._block(Freeze(f"freeze {participant!r}", self._one(participant)))

    def cut_signalling(self, participant: str) -> None:
        """Cuts a participant's signalling connection once, without a goodbye: the client resumes.

        Raises:
            UsageError: nobody of this identity is there. LiveKitServerError: the server does not run.
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

        def resume(each: Participant) -> None:
            from livekit.protocol import models, rtc  # the server runs, so it is installed

            # The client closes the connection: one that hears of both begins another session instead.
            each.tell_leave(models.CONNECTION_TIMEOUT, rtc.LeaveRequest.RESUME)

        self._once("force a resume", participant, resume)

    def force_full_reconnect(self, participant: str) -> None:
        """Ends a participant's session and asks its client for another. Raises as :meth:`cut_signalling`."""

        def start_anew(each: Participant) -> None:
            from livekit.protocol import models

            each.start_anew(models.STATE_MISMATCH)

        self._once("force a full reconnect", participant, start_anew)

    # The server

    async def restart(self, seconds: float = 0.0) -> None:
        """Ends the server like a killed process and starts it again, with all its rooms gone: clients come back.

        Args:
            seconds: for how long it is down.

        Raises:
            LiveKitServerError: it does not run, or does not start again.
        """
        if seconds:
            given.seconds(seconds)
        fault = Fault("restart the server", given.scope(self._room, None))
        await self._server.restart(seconds)
        self._has_happened(fault, 1)

    # In the server's loop

    @contextlib.contextmanager
    def _block(self, fault: Fault) -> Iterator[Fault]:
        self._begun.append(fault)
        self._tell(f"fault begins: {fault.what}")
        self._run(lambda: self._table.add(fault))
        try:
            yield fault
        finally:
            self._run(lambda: self._table.remove(fault))
            self._tell(f"fault is over: {fault}")

    def _run(self, function: Callable[[], object]) -> None:
        with contextlib.suppress(LiveKitServerError):
            self._server.call(lambda _: function())
            return
        function()  # it does not run: nothing passes

    def _one(self, participant: str) -> Scope:
        return Scope(self._room, given.identity(participant))

    def _once(self, what: str, participant: str, act: Callable[[Participant], object]) -> None:
        fault = Fault(f"{what} of {participant!r}", self._one(participant))

        def run(node: Node) -> tuple[int, list[str]]:
            rooms = [room for room in node.rooms.all() if self._room in (None, room.info.name)]
            found = [room.participants[participant] for room in rooms if participant in room.participants]
            for each in found:
                act(each)
            return len(found), sorted({identity for room in rooms for identity in room.participants})

        count, there = self._server.call(run)
        if not count:
            where = "on this server" if self._room is None else f"in room {self._room!r}"
            raise UsageError(f"participant is {participant!r}, who is not {where}; {', '.join(there) or 'nobody'} is")
        self._has_happened(fault, count)

    def _has_happened(self, fault: Fault, count: int) -> None:
        fault.count, fault.is_over = count, True
        self._begun.append(fault)
        self._tell(f"fault: {fault.what}")
