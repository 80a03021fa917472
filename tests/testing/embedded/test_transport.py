"""DTLS and data channels against a client made of aiortc's parts, on a wire that loses what it is told to."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from aiortc.rtcdatachannel import RTCDataChannel

from curb_client.testing.embedded.ice import Address, UdpSocket
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.routing import LOSSY, RELIABLE
from curb_client.testing.embedded.sdp import Offer
from curb_client.testing.embedded.transport import RETRANSMIT_AFTER, Transport
from curb_client.testing.raw_peer import ClientTransport
from tests.testing.embedded.conftest import until

ADDRESS: Address = ("127.0.0.1", 4)


class Wire:
    """Stands in for the UDP socket, and is the client's ICE transport."""

    role = "controlling"
    state = "completed"
    address: Address = ("127.0.0.1", 5)

    def __init__(self) -> None:
        self.lose: Callable[[bytes], bool] = lambda data: False
        """Whether a datagram to the client is lost."""
        self.server: Transport | None = None
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()

    def add(self, *arguments: object) -> None: ...

    def remove(self, ufrag: str) -> None: ...

    def forget(self, session: object) -> None: ...

    def datagram_out(self, data: bytes, address: Address) -> None:
        if not self.lose(data):
            self._inbox.append(data)
            self._arrived.set()

    async def _recv(self) -> bytes:
        while not self._inbox:
            self._arrived.clear()
            await self._arrived.wait()
        return self._inbox.popleft()

    async def _send(self, data: bytes) -> None:
        assert self.server is not None
        self.server.ice.datagram_in(data)


class Seen:
    """What the server is told by its transport."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.messages: list[tuple[str, bytes]] = []
        self.ends = 0

    def channel_opened(self, label: str) -> None:
        self.opened.append(label)

    def message_in(self, label: str, data: bytes) -> None:
        self.messages.append((label, data))

    def transport_ended(self) -> None:
        self.ends += 1


def offer(fingerprints: tuple[tuple[str, str], ...], ufrag: str = "client", max_bytes: int = 65536) -> Offer:
    return Offer(ufrag, fingerprints, 5000, max_bytes, ())


class Ends:
    """Both ends of a wire, not connected yet."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.seen = Seen()
        self.journal = Journal()
        self.server = self.wire.server = Transport(cast(UdpSocket, self.wire), self.seen, self.journal)
        self.server.ice.checked(ADDRESS, True)
        self.client = ClientTransport(self.wire)
        self.received: list[bytes] = []
        """What the client has received."""


@asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    both = Ends()
    yield both
    await both.client.close()
    await both.server.close()
    await asyncio.sleep(0)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Ends, RTCDataChannel]]:
    async with ends() as both:
        both.server.offered(offer(both.client.fingerprints))
        await both.client.connect(both.server.local.fingerprint)
        channels = [both.client.open(label, both.received.append) for label in (RELIABLE, LOSSY)]
        await until(lambda: [channel.readyState for channel in channels] == ["open", "open"])
        yield both, channels[0]


async def test_channels_and_messages(problems: list[Any]) -> None:
    async with connected() as (both, channel):
        assert both.seen.opened == [RELIABLE, LOSSY]
        assert both.server.has_open(RELIABLE)
        assert not both.server.has_open("another")
        channel.send(b"hello")
        await until(lambda: both.seen.messages == [(RELIABLE, b"hello")])
        assert both.server.send(RELIABLE, b"answer")
        assert not both.server.send("another", b"nothing")
        await until(lambda: both.received == [b"answer"])


async def test_large_messages_come_whole_and_in_order(problems: list[Any]) -> None:
    async with connected() as (both, channel):
        sent = [bytes([number]) * 60_000 for number in range(10)]
        for data in sent:
            both.server.send(RELIABLE, data)
            channel.send(data)
        await until(lambda: len(both.received) == len(both.seen.messages) == 10)
        assert both.received == [data for _, data in both.seen.messages] == sent


async def test_what_is_lost_comes_soon(problems: list[Any]) -> None:
    async with connected() as (both, _):
        lost: list[bytes] = []

        def lose_first(data: bytes) -> bool:
            if not lost and len(data) > 200:
                lost.append(data)
                return True
            return False

        both.wire.lose = lose_first
        sent = time.monotonic()
        both.server.send(RELIABLE, b"x" * 300)
        await until(lambda: both.received == [b"x" * 300])
        assert lost
        assert time.monotonic() - sent >= RETRANSMIT_AFTER - 0.05


async def test_an_interruption_loses_nothing(problems: list[Any]) -> None:
    async with connected() as (both, _):
        both.wire.lose = lambda data: True
        for number in range(50):
            both.server.send(RELIABLE, bytes([number]) * 3000)
        await asyncio.sleep(0.6)
        both.wire.lose = lambda data: False
        await until(lambda: len(both.received) == 50)
        assert both.received == [bytes([number]) * 3000 for number in range(50)]


async def test_a_client_that_cannot_take_so_much_is_not_sent_it(problems: list[Any]) -> None:
    async with ends() as both:
        both.server.offered(offer(both.client.fingerprints, max_bytes=100))
        await both.client.connect(both.server.local.fingerprint)
        channel = both.client.open(RELIABLE, both.received.append)
        await until(lambda: channel.readyState == "open")
        assert both.server.send(RELIABLE, b"x" * 100)
        assert not both.server.send(RELIABLE, b"x" * 101)
        assert both.journal.counts["messages too large for a client"] == 1


async def test_another_certificate_than_the_offered_one_is_refused(problems: list[Any]) -> None:
    async with ends() as both:
        both.server.offered(offer((("sha-256", "AB:CD"),)))
        connecting = asyncio.ensure_future(both.client.connect(both.server.local.fingerprint))
        await until(lambda: both.seen.ends == 1)
        assert both.server.has_ended
        connecting.cancel()
        await asyncio.wait({connecting})


async def test_a_client_that_closes_has_ended_it(problems: list[Any]) -> None:
    async with connected() as (both, _):
        await both.client.close()
        await until(lambda: both.seen.ends == 1)
        assert not both.server.send(RELIABLE, b"too late")


async def test_it_ends_before_it_began(problems: list[Any]) -> None:
    async with ends() as both:
        await both.server.close()
    async with ends() as both:
        both.server.offered(offer(both.client.fingerprints))
        await asyncio.sleep(0.01)
        await both.server.close()
        assert both.seen.ends == 0


async def test_a_new_user_restarts_ice_and_nothing_else(problems: list[Any]) -> None:
    async with connected() as (both, channel):
        before = both.server.local
        both.server.offered(offer(both.client.fingerprints))
        assert both.server.local == before
        both.server.offered(offer(both.client.fingerprints, ufrag="another"))
        after = both.server.local
        assert (after.ufrag, after.password) != (before.ufrag, before.password)
        assert (after.fingerprint, after.session_id) == (before.fingerprint, before.session_id)
        channel.send(b"still there")
        await until(lambda: both.seen.messages == [(RELIABLE, b"still there")])
