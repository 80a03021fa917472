"""Clients that send what makes no sense: nobody else notices."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from google.protobuf import json_format
from google_crc32c import value as crc32c
from livekit.protocol import models, rtc

from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.routing import RELIABLE
from curb_client.testing.hostile import HostilePeer
from curb_client.testing.raw_peer import RawPeer
from tests.testing.embedded.conftest import ROOM, Stage, ask, is_active, serve_echo, until


class Client:
    """A signalling connection by hand, without a transport."""

    def __init__(self, web_socket: Any) -> None:  # aiohttp made its type generic on the way
        self.web_socket = web_socket

    async def send(self, **request: Any) -> None:
        await self.web_socket.send_bytes(rtc.SignalRequest(**request).SerializeToString())

    async def receive(self, kind: str) -> Any:
        """The next message of this kind."""
        while True:
            data = await asyncio.wait_for(self.web_socket.receive_bytes(), 5)
            response = rtc.SignalResponse.FromString(data)
            if response.WhichOneof("message") == kind:
                return getattr(response, kind)

    async def is_closed(self) -> None:
        """Returns when the server has closed the connection."""
        while (await asyncio.wait_for(self.web_socket.receive(), 5)).type not in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.ERROR,
        ):
            pass


@contextlib.asynccontextmanager
async def by_hand(server: EmbeddedServer, identity: str = "odd", **query: str) -> AsyncIterator[Client]:
    url = f"{server.url}/rtc"
    token = server.token(identity, ROOM, can_publish=False, can_update_own_metadata=False)
    params = {"access_token": token, "protocol": "16", **query}
    async with aiohttp.ClientSession() as session, session.ws_connect(url, params=params) as web_socket:
        yield Client(web_socket)


@pytest.fixture
async def others(stage: Stage) -> AsyncIterator[None]:
    """Two whom nothing may disturb."""
    caller, agent = await stage.join("caller"), await stage.join("agent", kind="agent")
    serve_echo(agent)
    await until(lambda: is_active(caller, "agent"))
    yield
    assert await ask(caller, "agent") == "caller:hello"
    assert (caller.isconnected(), agent.isconnected()) == (True, True)


# Signalling


@pytest.mark.parametrize("message", [b"\xff\xff\xff", os.urandom(4000), "no JSON", "[" * 100_000, "\U0001f600"])
async def test_what_is_no_message_ends_the_connection(
    server: EmbeddedServer, others: None, message: bytes | str
) -> None:
    async with by_hand(server) as client:
        await client.receive("join")
        if isinstance(message, bytes):
            await client.web_socket.send_bytes(message)
        else:
            await client.web_socket.send_str(message)
        await client.is_closed()
    assert server.node.context.journal.counts["signalling messages that made no sense"] == 1


async def test_messages_may_come_as_json(server: EmbeddedServer) -> None:
    async with by_hand(server) as client:
        joined = await client.receive("join")
        assert joined.participant.identity == "odd"
        assert not joined.subscriber_primary
        await client.receive("room_update")
        ping = rtc.SignalRequest(ping_req=rtc.Ping(timestamp=7))
        await client.web_socket.send_str(json_format.MessageToJson(ping))
        text = await asyncio.wait_for(client.web_socket.receive_str(), 5)
        assert json_format.Parse(text, rtc.SignalResponse()).pong_resp.last_ping_timestamp == 7


async def test_what_it_does_not_know_is_ignored(server: EmbeddedServer, others: None) -> None:
    async with by_hand(server) as client:
        await client.receive("join")
        await client.send(answer=rtc.SessionDescription(type="answer", sdp="nonsense"))
        await client.send(offer=rtc.SessionDescription(type="offer", sdp="nonsense"))
        await client.send(trickle=rtc.TrickleRequest(candidateInit="nonsense"))
        await client.send(mute=rtc.MuteTrackRequest(sid="TR_none", muted=True))
        await client.send(subscription=rtc.UpdateSubscription(track_sids=["TR_none"], subscribe=True))
        await client.send(simulate=rtc.SimulateScenario(subscriber_bandwidth=7))
        await client.web_socket.send_bytes(b"")
        await client.web_socket.send_bytes(b"\xfa\x7f\x01x")  # a field of a protocol to come
        await client.send(ping=1)
        assert await client.receive("pong") > 1
        assert "the offer has no sections" in server.log_tail()


async def test_what_is_not_allowed_is_said(server: EmbeddedServer) -> None:
    async with by_hand(server) as client:
        await client.receive("join")
        await client.send(update_metadata=rtc.UpdateParticipantMetadata(name="n", request_id=7))
        refused = await client.receive("request_response")
        assert (refused.request_id, refused.reason) == (7, rtc.RequestResponse.NOT_ALLOWED)
        await client.send(add_track=rtc.AddTrackRequest(cid="c", type=models.TrackType.AUDIO))
        refused = await client.receive("request_response")
        assert (refused.add_track.cid, refused.reason) == ("c", rtc.RequestResponse.NOT_ALLOWED)
        await client.send(publish_data_track_request=rtc.PublishDataTrackRequest(name="d", pub_handle=1))
        refused = await client.receive("request_response")
        assert refused.reason == rtc.RequestResponse.UNSUPPORTED_TYPE


async def test_a_session_that_is_over_cannot_be_resumed(server: EmbeddedServer, others: None) -> None:
    for query in ({"sid": "PA_none"}, {"sid": ""}):
        async with by_hand(server, reconnect="1", **query) as client:
            leave = await client.receive("leave")
            assert (leave.reason, leave.action) == (models.STATE_MISMATCH, rtc.LeaveRequest.RECONNECT)
            assert leave.can_reconnect
            await client.is_closed()
    async with by_hand(server, "caller", reconnect="1", sid="PA_another") as client:
        assert (await client.receive("leave")).reason == models.STATE_MISMATCH
    assert "odd" not in {each.identity for each in server.node.rooms.all()[0].visible()}


async def test_tracks_that_are_not_known_mean_another_session(server: EmbeddedServer, others: None) -> None:
    async with by_hand(server) as client:
        await client.receive("join")
        published = rtc.TrackPublishedResponse(track=models.TrackInfo(sid="TR_none"))
        await client.send(sync_state=rtc.SyncState(publish_tracks=[published]))
        leave = await client.receive("leave")
        assert (leave.reason, leave.action) == (models.STATE_MISMATCH, rtc.LeaveRequest.RECONNECT)


async def test_a_connection_that_ends_before_the_data_channels_open_is_a_leave(
    server: EmbeddedServer, others: None
) -> None:
    async with by_hand(server) as client:
        await client.receive("join")
    await until(lambda: "left: SIGNAL_CLOSE" in server.log_tail(), within=2)


# Data


async def test_packets_that_make_no_sense_are_dropped(stage: Stage, others: None) -> None:
    agent = stage.participant("agent")
    for data in (b"", b"\xff", random.Random(1).randbytes(1000)):
        agent.message_in(RELIABLE, data)
        agent.message_in("some-other-channel", data)
    counts = stage.server.node.context.journal.counts
    assert counts["data packets that made no sense"] == 2, "an empty one is a packet, with nothing in it"


async def test_sctp_that_makes_no_sense_is_dropped(stage: Stage, others: None) -> None:
    sctp = stage.participant("agent").transport._sctp
    for data in (b"", os.urandom(100), bytes(100)):
        await sctp._handle_data(data)
    for stream, protocol, data in (
        (999, 50, b"\x02"),  # the acknowledgement of a channel that is not there
        (998, 50, b"\x03" + bytes(11) + b"\xff\xff"),
        (997, 51, b"\xff"),
        (996, 53, b"data for nobody"),
    ):
        with contextlib.suppress(AssertionError):
            await sctp._data_channel_receive(stream, protocol, data)


async def test_datagrams_that_make_no_sense_are_dropped(server: EmbeddedServer, others: None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for data in (b"", b"\x00", os.urandom(200), bytes(500), b"\x80" * 50, b"\x16" + os.urandom(100)):
            stranger.sendto(data, server.node.context.udp.address)
        await asyncio.sleep(0.1)
    counts = server.node.context.journal.counts
    assert counts["connectivity checks that fit nobody"] >= 3
    assert counts["datagrams of strangers"] >= 1
    assert counts["media datagrams, which are discarded"] >= 1


async def test_a_mistake_of_the_server_is_reported_and_ends_nothing(
    stage: Stage, others: None, problems: list[dict[str, Any]]
) -> None:
    agent = stage.participant("agent")

    def broken(packet: models.DataPacket, label: str) -> None:
        raise LookupError("a mistake")

    agent.packet_in = broken  # type: ignore[method-assign]
    await agent.transport._sctp._data_channel_receive(*_numbers_of(agent.transport._sctp), b"")
    assert isinstance(problems.pop()["exception"], LookupError)
    del agent.packet_in


def _numbers_of(sctp: Any) -> tuple[int, int]:
    stream = next(number for number, channel in sctp._data_channels.items() if channel.label == RELIABLE)
    return stream, 53


# Over a transport of its own


async def test_sctp_that_would_keep_the_server_busy_for_ever(stage: Stage, others: None) -> None:
    endless = (
        bytes.fromhex("0400000800010000"),  # HEARTBEAT with a parameter of no bytes
        bytes.fromhex("82000008000d0000"),  # RE-CONFIG
        struct.pack("!BBHLLHH", 3, 0, 16 + 4 * 250, 1, 1000, 250, 0) + struct.pack("!HH", 0, 0xFFFF) * 250,  # SACK
    )
    async with RawPeer.join(stage.server.url, stage.server.token("odd", ROOM)) as peer:
        sctp = peer.transport.sctp
        for chunk in endless:
            head = struct.pack("!HHL", 5000, 5000, sctp._remote_verification_tag)
            checksum = struct.pack("<L", crc32c(head + bytes(4) + chunk))
            await peer.transport.dtls._send_data(head + checksum + chunk)
        await until(lambda: stage.server.node.context.journal.counts["SCTP packets that made no sense"] == len(endless))


async def test_an_extension_that_a_data_track_packet_does_not_have(stage: Stage, others: None) -> None:
    """livekit-server 1.13.5 dies of it."""
    async with HostilePeer.join(stage.server.url, stage.server.token("odd", ROOM)) as peer:
        peer.send_bytes("_data_track", b"\x04" + bytes(11) + b"\xff\xff\x00")
        await peer.drained()
        await peer.signal(ping=1)
        assert await peer.signalled("pong") > 1


@pytest.mark.parametrize("attack", HostilePeer.ATTACKS)
async def test_every_attack_of_the_kit(stage: Stage, others: None, attack: str) -> None:
    async with HostilePeer.join(stage.server.url, stage.server.token("odd", ROOM, kind="agent")) as peer:
        await peer.attack(attack)
        await peer.signal(ping=1)
        assert await peer.signalled("pong") > 1


# Frames of a websocket

FRAMES = {
    "reserved bits": b"\xf2\x80" + bytes(4),
    "a type that there is not": b"\x83\x80" + bytes(4),
    "longer than anything": b"\x82\xff" + b"\x7f" + b"\xff" * 7 + bytes(4),
    "longer than it may be": b"\x82\xff" + (1 << 24).to_bytes(8, "big") + bytes(4) + bytes(5 << 20),
    "a ping in parts": b"\x09\x80" + bytes(4),
    "a ping too long": b"\x89\xfe" + (200).to_bytes(2, "big") + bytes(204),
    "a continuation of nothing": b"\x80\x80" + bytes(4),
    "text that is no UTF-8": b"\x81\x82" + bytes(4) + b"\xff\xfe",
    "a close with half a code": b"\x88\x81" + bytes(4) + b"\x03",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
async def test_frames_that_make_no_sense_end_the_connection(server: EmbeddedServer, others: None, frame: bytes) -> None:
    address = server.url.removeprefix("ws://").split(":")
    reader, writer = await asyncio.open_connection(address[0], int(address[1]))
    token = server.token("odd", ROOM)
    lines = [
        f"GET /rtc?access_token={token}&protocol=16 HTTP/1.1",
        f"Host: {':'.join(address)}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    assert (await asyncio.wait_for(reader.readline(), 10)).split()[1] == b"101"
    with contextlib.suppress(ConnectionError):
        writer.write(frame)
        await asyncio.wait_for(reader.read(-1), 20)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(writer.wait_closed(), 10)
    room = server.node.rooms.get(ROOM)
    assert room is not None
    await until(lambda: "odd" not in room.participants)
