"""ICE-lite on one UDP socket: connectivity checks are told apart by user name, all else by where it comes from."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from typing import cast

from curb_client.testing.embedded.fault_table import NOBODY, FaultTable, Who
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.stun import binding_response, parse_binding_request

__all__ = ["Address", "IceSession", "UdpSocket"]

Address = tuple[str, int]
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
"""As much of it as the operating system gives: datagrams of a burst wait there."""


class UdpSocket(asyncio.DatagramProtocol):
    """The socket of all participants' transports."""

    def __init__(self, journal: Journal, faults: FaultTable | None = None) -> None:
        self._journal = journal
        self._faults = faults or FaultTable()
        self._transport: asyncio.DatagramTransport | None = None
        self._closed = asyncio.get_running_loop().create_future()
        self._by_ufrag: dict[str, tuple[IceSession, str]] = {}
        self._by_address: dict[Address, IceSession] = {}
        self.address: Address = ("", 0)

    @classmethod
    async def open(cls, host: str, journal: Journal, faults: FaultTable | None = None) -> UdpSocket:
        """A socket on a free port; OSError where the host is not this machine's."""
        loop = asyncio.get_running_loop()
        _, udp = await loop.create_datagram_endpoint(lambda: cls(journal, faults), local_addr=(host, 0))
        return udp

    async def close(self) -> None:
        """Returns when the port is free again."""
        if self._transport is not None:
            self._transport.close()
            await self._closed

    # Everything that comes and goes

    def datagram_in(self, data: bytes, address: Address) -> None:
        """Every datagram that arrives."""
        if self._faults.datagrams:
            owner = self._owner(data, address)
            self._faults.datagram(len(data), owner, "from", lambda: self._take(data, address))
        else:
            self._take(data, address)

    def _take(self, data: bytes, address: Address) -> None:
        first = data[0] if data else 0
        if first < 4:
            self._answer_check(data, address)
        elif 128 <= first < 192:
            self._journal.counts["media datagrams, which are discarded"] += 1
        elif (session := self._by_address.get(address)) is not None:
            session.datagram_in(data)
        else:
            self._journal.counts["datagrams of strangers"] += 1

    def datagram_out(self, data: bytes, address: Address) -> None:
        """Every datagram that leaves."""
        if self._faults.datagrams:
            owner = self._owner(b"", address)
            self._faults.datagram(len(data), owner, "to", lambda: self._send(data, address))
        else:
            self._send(data, address)

    def _send(self, data: bytes, address: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, address)

    def _owner(self, data: bytes, address: Address) -> Who:
        """Who is at the other end of a datagram, for the faults."""
        session = self._by_address.get(address)
        if session is None and data and data[0] < 4 and (request := parse_binding_request(data)):
            session, _ = self._by_ufrag.get(request.local_ufrag, (None, ""))
        return session.owner if session else NOBODY

    def _answer_check(self, data: bytes, address: Address) -> None:
        request = parse_binding_request(data)
        session, password = self._by_ufrag.get(request.local_ufrag, (None, "")) if request else (None, "")
        if request is None or session is None or not request.is_signed_with(password):
            self._journal.counts["connectivity checks that fit nobody"] += 1
            return
        self._by_address[address] = session
        session.checked(address, request.nominates)
        self.datagram_out(binding_response(request, address, password), address)

    # Sessions

    def add(self, session: IceSession, ufrag: str, password: str) -> None:
        self._by_ufrag[ufrag] = session, password

    def remove(self, ufrag: str) -> None:
        self._by_ufrag.pop(ufrag, None)

    def forget(self, session: IceSession) -> None:
        """Nothing that comes is for this session any more."""
        for ufrag in [ufrag for ufrag, (owner, _) in self._by_ufrag.items() if owner is session]:
            del self._by_ufrag[ufrag]
        for address in [address for address, owner in self._by_address.items() if owner is session]:
            del self._by_address[address]

    # asyncio.DatagramProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # asyncio's own is no subclass of it
        self.address = transport.get_extra_info("sockname")[:2]
        udp_socket = transport.get_extra_info("socket")
        for direction in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            udp_socket.setsockopt(socket.SOL_SOCKET, direction, SOCKET_BUFFER_BYTES)

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        self.datagram_in(data, cast(Address, addr))  # an IPv4 socket's

    def error_received(self, exc: Exception) -> None:
        """A client is gone; its own timers tell its participant."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self._closed.done():
            self._closed.set_result(None)


class IceSession:
    """One participant's side of ICE: its credentials and the address that it is reached at."""

    def __init__(self, udp: UdpSocket, receive: Callable[[bytes], None]) -> None:
        """Args:
        receive: takes each datagram that is not a connectivity check.
        """
        self.ufrag = ""
        self.password = ""
        self.owner = NOBODY
        """The participant, for the faults."""
        self.last_heard = time.monotonic()
        """When the last connectivity check came; clients send one every few seconds."""
        self._udp = udp
        self._receive = receive
        self._address: Address | None = None
        self._previous_ufrag = ""
        self.restart()

    @property
    def is_connected(self) -> bool:
        """Whether a check has passed yet."""
        return self._address is not None

    @property
    def server_address(self) -> Address:
        return self._udp.address

    def restart(self) -> None:
        """New credentials; those before them stay good, since the client learns of the new ones only later."""
        self._udp.remove(self._previous_ufrag)
        self._previous_ufrag = self.ufrag
        self.ufrag, self.password = secrets.token_hex(4), secrets.token_hex(16)
        self._udp.add(self, self.ufrag, self.password)

    def checked(self, address: Address, nominated: bool) -> None:
        self.last_heard = time.monotonic()
        if nominated or self._address is None:
            self._address = address

    def datagram_in(self, data: bytes) -> None:
        self._receive(data)

    def send(self, data: bytes) -> None:
        """Sends a datagram; it is lost where the client's address is not known, as it may be on its way."""
        if self._address is not None:
            self._udp.datagram_out(data, self._address)

    def close(self) -> None:
        self._address = None
        self._udp.forget(self)
