"""Clients that stop reading: what waits for them has a bound, and nobody else notices."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import statistics
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from aiortc.rtcsctptransport import WEBRTC_BINARY
from livekit.protocol import models, rtc

from curb_client.testing.embedded import EmbeddedServer, data_link, signal_socket, transport
from curb_client.testing.embedded.participant import Participant
from curb_client.testing.raw_peer import LOSSY, RELIABLE, RawPeer
from tests.testing.embedded.conftest import ROOM, until

MEGABYTE = 1024 * 1024


@asynccontextmanager
async def three(server: EmbeddedServer) -> AsyncIterator[tuple[RawPeer, RawPeer, RawPeer]]:
    """One who sends, one who listens, and one who is going to be slow; the first two exchange a message at the end."""
    sender, listener, slow = (
        RawPeer.join(server.url, server.token(name, ROOM, can_update_own_metadata=True))
        for name in ("sender", "listener", "slow")
    )
    async with sender as one, listener as other, slow as third:
        await one.sees_active("listener", "slow")
        yield one, other, third
        one.send_text("still there", "listener")
        while (await other.receive()).user.payload != b"still there":
            pass


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """What Python holds at most, server and raw peers, over what it held before."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def packet(size: int, *to: str) -> models.DataPacket:
    return models.DataPacket(user=models.UserPacket(payload=os.urandom(size)), destination_identities=to)


async def flood(server: EmbeddedServer, sender: RawPeer, label: str, size: int, until_said: str) -> int:
    """Sends to the slow one until the journal says so; returns how many bytes it took."""
    data = packet(size, "slow")
    sent = 0
    while until_said not in server.log_tail():
        assert sent < 100 * transport.MOST_WAITING_BYTES, "nothing stopped it"  # a busy machine loses lossy data itself
        for _ in range(8):
            sender.send(data, label)
            sent += size
        await until(lambda: not sender.transport.sctp._data_channel_queue)
    return sent


async def test_who_does_not_take_reliable_data_has_to_leave(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MOST_WAITING_BYTES", 4 * MEGABYTE)
    async with three(server) as (sender, listener, slow):
        slow.ice.is_deaf = True
        with memory_below(16 * MEGABYTE):
            sent = await flood(server, sender, RELIABLE, 60_000, "does not take its data")
        assert sent > 4 * MEGABYTE
        await until(lambda: "slow" not in sender.others and "slow" not in listener.others)
        leave = await slow.signalled("leave")
        assert leave.reason == models.CONNECTION_TIMEOUT
    assert "of 4194304 at most; its transport is given up" in server.log_tail()


async def test_lossy_data_is_lost_on_who_does_not_take_it(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MOST_WAITING_BYTES", MEGABYTE)
    async with three(server) as (sender, _, slow):
        slow.ice.is_deaf = True
        with memory_below(8 * MEGABYTE):
            await flood(server, sender, LOSSY, 1000, "takes its data too slowly")
        slow.ice.is_deaf = False
        sender.send_text("reliable", "slow")
        while (await slow.receive()).user.payload != b"reliable":
            pass


async def tell_all(sender: RawPeer, listener: RawPeer, number: int) -> None:
    """Has everybody told something by their signalling, some 90 kB with the sender's new token."""
    metadata = f"{number} {'x' * 30_000}"
    await sender.signal(update_metadata={"metadata": metadata})
    await until(lambda: listener.others["sender"].metadata == metadata)


def participant(server: EmbeddedServer, identity: str) -> Participant:
    room = server.node.rooms.get(ROOM)
    assert room is not None
    return room.participants[identity]


async def test_who_does_not_read_its_signalling_is_cut_off(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal_socket, "MOST_WAITING_BYTES", 256 * 1024)
    async with three(server) as (sender, listener, slow):
        slow.is_reading_signals.clear()
        number = 0
        with memory_below(16 * MEGABYTE):
            while "does not read its signalling" not in server.log_tail():
                assert number < 1000, "nothing cut it off"
                await tell_all(sender, listener, number := number + 1)
        lost = re.compile(r"a-room/slow \(PA_\w+\) lost its connection, and may resume")
        await until(lambda: lost.search(server.log_tail()) is not None)


async def test_who_reads_nothing_is_cut_off_after_a_goodbye(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal_socket, "CUT_AFTER", 0.2)
    async with three(server) as (sender, listener, slow):
        slow.is_reading_signals.clear()
        leaving = participant(server, "slow")
        signalling = leaving._socket
        assert signalling is not None
        number = 0
        while signalling._queue.qsize() < 3:  # the system takes nothing more for it
            await tell_all(sender, listener, number := number + 1)
        leaving.room.remove(leaving, models.PARTICIPANT_REMOVED)
        await asyncio.wait_for(signalling._ended.wait(), 10)


async def test_a_message_without_an_end_ends_its_sender(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MOST_PIECES", 200)
    async with three(server) as (_, listener, slow):
        channel = slow.transport.channels[RELIABLE]
        assert channel.id is not None
        with memory_below(32 * MEGABYTE):
            await slow.transport.sctp._send(channel.id, WEBRTC_BINARY, bytes(MEGABYTE))
            await until(lambda: "sends messages without an end" in server.log_tail())
        await until(lambda: "slow" not in listener.others)


async def test_what_waits_for_who_is_joining_has_a_bound(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_link, "MOST_KEPT_BYTES", 150_000)
    async with three(server) as (sender, listener, _):
        token = server.token("joining", ROOM)
        async with RawPeer.join(server.url, token) as joining:  # the packets come as if its channels did not open yet
            link = participant(server, "joining")._data
            link._is_open = False
            for number in range(1, 11):
                sent = models.DataPacket(user=models.UserPacket(payload=bytes([number]) * 50_000), sequence=number)
                sender.send(sent)
            while (await listener.receive()).user.payload[:1] != bytes([10]):
                pass
            link.open()
            arrived = [(await joining.receive()).user.payload[0] for _ in range(2)]
            assert arrived == [9, 10]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets one acknowledge at once")
async def test_small_messages_do_not_wait_for_each_other(server: EmbeddedServer) -> None:
    """As of LiveKit's clients, which send without TCP_NODELAY: it took 40 ms instead of 1."""

    async def exchange(peer: RawPeer) -> float:
        started = time.perf_counter()
        for _ in range(2):
            await peer.signal(mute=rtc.MuteTrackRequest(sid="TR_none"))  # which nobody answers
        await peer.signal(ping=1)
        await peer.signalled("pong")
        return time.perf_counter() - started

    async with RawPeer.join(server.url, server.token("caller", ROOM)) as peer:
        tcp_socket = peer.web_socket.get_extra_info("socket")
        took: dict[int, list[float]] = {1: [], 0: []}
        for number in range(60):
            without_delay = number % 2
            tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, without_delay)
            took[without_delay].append(await exchange(peer))
        assert statistics.median(took[0]) < 12 * statistics.median(took[1]), took
