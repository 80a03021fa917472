"""DTLS, SCTP and the data channels of one participant: aiortc's, on our own ICE.

The only module that knows aiortc, whose parts it uses are partly private: ``pyproject.toml`` bounds its version.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from aiortc.rtcdatachannel import RTCDataChannel
from aiortc.rtcdtlstransport import (
    RTCCertificate,
    RTCDtlsFingerprint,
    RTCDtlsParameters,
    RTCDtlsTransport,
    SRTPProtectionProfile,
)
from aiortc.rtcsctptransport import (
    WEBRTC_BINARY,
    DataChunk,
    InboundStream,
    RTCSctpCapabilities,
    RTCSctpTransport,
)

from curb_client.testing.embedded.ice import IceSession, UdpSocket
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.sctp_check import check_packet
from curb_client.testing.embedded.sdp import LocalSide, Offer

if TYPE_CHECKING:
    from OpenSSL import SSL

__all__ = ["Receiver", "Transport", "certificate"]

RETRANSMIT_AFTER: Final = 0.4
"""Seconds until a packet without an answer is sent again, at least; aiortc's 1 is for the internet. More than the 0.2
that clients may wait before they acknowledge."""
WINDOW_BYTES: Final = 64 * 1024
"""What may be on its way to a client, at least. aiortc begins with 3 packets and falls back to 1 after a loss, and
clients acknowledge every second packet at once, but a single one after 0.2 s."""
DATAGRAMS_KEPT: Final = 4096
MOST_WAITING_BYTES: Final = 32 * 1024 * 1024
"""What may wait for a client that does not take it: some seconds of all that there is. livekit-server has no limit of
its own. A client that has a reliable message coming beyond it has lost its connection; a lossy one is dropped."""
BYTES_A_MESSAGE: Final = 256
"""Counted for each, whatever its size: what keeping it costs."""
MOST_PIECES: Final = 16 * 1024
"""Of messages that are not whole yet, or wait for one that was lost."""
WINDOW_EXCEEDED: Final = 1024 * 1024
"""Bytes of them beyond the window that clients are told of."""
MOST_STREAMS: Final = 128
"""Clients open three data channels."""
HASH: Final = "sha-256"


class _Certificate(RTCCertificate):
    """One that has its TLS context made once, since that takes as long as a handshake."""

    def _create_ssl_context(self, srtp_profiles: list[SRTPProtectionProfile]) -> SSL.Context:
        if not hasattr(self, "_context"):
            self._context = super()._create_ssl_context(srtp_profiles)
        return self._context


@functools.cache
def certificate() -> RTCCertificate:
    """Ours: one a process, since making it takes a while and nobody checks more than its fingerprint."""
    return _Certificate.generateCertificate()


class Receiver(Protocol):
    """Who uses a transport."""

    def channel_opened(self, label: str) -> None:
        """The client has opened a data channel."""

    def message_in(self, label: str, data: bytes) -> None:
        """A message has come on a data channel."""

    def transport_ended(self) -> None:
        """The client has closed the transport, or it could not be made secure."""


class Transport:
    """What a participant's data travels through; an ICE restart leaves all of it alone but the addresses."""

    def __init__(self, udp: UdpSocket, receiver: Receiver, journal: Journal) -> None:
        self._receiver = receiver
        self._journal = journal
        self._pipe = _DatagramPipe()
        self.ice = IceSession(udp, self._pipe.put)
        self._pipe.session = self.ice
        self._session_id = secrets.randbits(62)
        self._dtls = _Dtls(cast(Any, self._pipe), [certificate()])
        self._dtls._set_role("server")
        self._dtls.on("statechange", self._dtls_changed)
        self._sctp = _Sctp(self._dtls, receiver, journal)
        self._sctp.on("datachannel", self._channel_opened)
        self._channels: dict[str, RTCDataChannel] = {}
        self._remote_ufrag = ""
        self._remote_max_bytes = 0
        self._starting: asyncio.Task[None] | None = None
        self.has_ended = False

    @property
    def local(self) -> LocalSide:
        """What an answer says."""
        prints = {each.algorithm: each.value for each in certificate().getFingerprints()}
        return LocalSide(
            self._session_id, self.ice.ufrag, self.ice.password, (HASH, prints[HASH]), self.ice.server_address
        )

    def offered(self, offer: Offer) -> None:
        """Takes an offer: the first one starts the transport, one with a new user restarts ICE."""
        if self._remote_ufrag not in ("", offer.ufrag):
            self.ice.restart()
        self._remote_ufrag = offer.ufrag
        if self._starting is None:
            self._remote_max_bytes = offer.max_message_bytes
            self._starting = asyncio.ensure_future(self._start(offer))

    async def _start(self, offer: Offer) -> None:
        prints = [RTCDtlsFingerprint(*each) for each in offer.fingerprints]
        try:
            await self._dtls.start(RTCDtlsParameters(fingerprints=prints))
            if self._dtls.state == "connected":
                await self._sctp.start(RTCSctpCapabilities(maxMessageSize=offer.max_message_bytes), offer.sctp_port)
        except ConnectionError:
            self._end()
        except Exception as error:  # what a client sends must not be able to end more than its own transport
            self._journal.once("transports that failed", f"a client's transport failed: {error!r}")
            self._end()

    def _dtls_changed(self) -> None:
        if self._dtls.state in ("closed", "failed"):
            self._end()

    def _end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._sctp.give_up()
            self._receiver.transport_ended()

    # Data channels

    def _channel_opened(self, channel: RTCDataChannel) -> None:
        self._channels[channel.label] = channel
        channel.on("close", lambda: self._channel_closed(channel))
        self._receiver.channel_opened(channel.label)

    def _channel_closed(self, channel: RTCDataChannel) -> None:
        if self._channels.get(channel.label) is channel:
            del self._channels[channel.label]

    def has_open(self, label: str) -> bool:
        channel = self._channels.get(label)
        return channel is not None and channel.readyState == "open"

    def send(self, label: str, data: bytes) -> bool:
        """Sends a message; returns whether there was an open channel of this name to send it on."""
        channel = self._channels.get(label)
        if channel is None or channel.readyState != "open" or self.has_ended:
            return False
        if 0 < self._remote_max_bytes < len(data):
            self._journal.once("messages too large for a client", f"a message of {len(data)} bytes was not sent")
            return False
        waiting = self._sctp.waiting_bytes
        if waiting + len(data) > MOST_WAITING_BYTES:
            self._overflows(channel, waiting)
            return False
        try:
            self._sctp.send_binary(channel, data)
        except ConnectionError:  # the end of the transport is told elsewhere
            return False
        return True

    def _overflows(self, channel: RTCDataChannel, waiting: int) -> None:
        """Gives up a client that does not take what it is sent."""
        if channel.maxRetransmits is not None or channel.maxPacketLifeTime is not None:
            self._journal.once(
                "lossy messages dropped for slow clients", f"{self._receiver!r} takes its data too slowly"
            )
            return
        self._journal.write(
            f"{self._receiver!r} does not take its data: {waiting} bytes wait, of {MOST_WAITING_BYTES} at most; "
            "its transport is given up"
        )
        self._end()

    async def close(self) -> None:
        """Ends the transport and tells the client so."""
        self.has_ended = True
        tasks = [task for task in (self._starting, self._dtls._task) if task is not None]
        self._sctp.give_up()
        _finish(self._dtls.stop())
        self.ice.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _DatagramPipe:
    """What aiortc takes for its ICE transport: datagrams between it and ours."""

    role = "controlled"
    state = "completed"

    def __init__(self) -> None:
        self.session: IceSession | None = None
        self._inbox: deque[bytes] = deque(maxlen=DATAGRAMS_KEPT)
        self._waiter: asyncio.Future[None] | None = None

    def put(self, data: bytes) -> None:
        self._inbox.append(data)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _recv(self) -> bytes:
        while not self._inbox:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._inbox.popleft()

    async def _send(self, data: bytes) -> None:
        assert self.session is not None
        self.session.send(data)


class _Dtls(RTCDtlsTransport):
    """aiortc's, without the keys for media, which is discarded as it comes."""

    def _setup_srtp(self) -> None:
        """Nothing is left to do after the handshake."""


class _Sctp(RTCSctpTransport):
    """aiortc's, quicker on the two ways that every message takes, and safe from what a client may send."""

    def __init__(self, dtls: RTCDtlsTransport, receiver: Receiver, journal: Journal) -> None:
        super().__init__(dtls)
        self._receiver = receiver
        self._journal = journal
        self._rto = RETRANSMIT_AFTER

    def _update_rto(self, R: float) -> None:  # noqa: N803 - aiortc's name
        super()._update_rto(R)
        assert self._srtt is not None
        assert self._rttvar is not None
        self._rto = max(RETRANSMIT_AFTER, min(self._srtt + 4 * self._rttvar, self._rto))

    async def _transmit(self) -> None:
        self._cwnd = max(self._cwnd, WINDOW_BYTES)
        await super()._transmit()

    @property
    def waiting_bytes(self) -> int:
        """What is still to be sent, and what it costs to keep it."""
        waiting = sum(channel.bufferedAmount for channel in self._data_channels.values())
        return waiting + BYTES_A_MESSAGE * len(self._data_channel_queue)

    def give_up(self) -> None:
        """Ends the association, with its timers and all that waits."""
        _finish(self.stop())
        for queue in (self._data_channel_queue, self._outbound_queue, self._sent_queue):
            queue.clear()
        self._inbound_streams.clear()

    def send_binary(self, channel: RTCDataChannel, data: bytes) -> None:
        """``channel.send(data)``, done when it returns; ConnectionError where the transport has ended."""
        channel._addBufferedAmount(len(data))
        self._data_channel_queue.append((channel, WEBRTC_BINARY, data))
        _finish(self._data_channel_flush())

    async def _handle_data(self, data: bytes) -> None:
        try:
            check_packet(data)
            await super()._handle_data(data)
        except ConnectionError:
            raise
        except Exception as error:  # aiortc asserts what it expects of its peer
            self._journal.once("SCTP packets that made no sense", f"a client sent an SCTP packet: {error!r}")

    def _get_inbound_stream(self, stream_id: int) -> InboundStream:
        if stream_id >= MOST_STREAMS:
            raise ValueError(f"stream {stream_id}, of {MOST_STREAMS}")
        return super()._get_inbound_stream(stream_id)

    async def _receive_data_chunk(self, chunk: DataChunk) -> None:
        await super()._receive_data_chunk(chunk)
        pieces = sum(len(stream.reassembly) for stream in self._inbound_streams.values())
        if max(pieces, len(self._sack_misordered)) > MOST_PIECES or self._advertised_rwnd < -WINDOW_EXCEEDED:
            self._journal.write(
                f"{self._receiver!r} sends messages without an end: {pieces} pieces, and its window full"
            )
            raise ConnectionError

    async def _data_channel_receive(self, stream_id: int, pp_id: int, data: bytes) -> None:
        channel = self._data_channels.get(stream_id)
        if pp_id != WEBRTC_BINARY or channel is None:
            await super()._data_channel_receive(stream_id, pp_id, data)
            return
        try:
            self._receiver.message_in(channel.label, data)
        except Exception as error:  # ours, not the client's
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "a message could not be handled", "exception": error})


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine of aiortc's that never waits: all its awaits lead to our ``send``. Saves a task a message."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError("aiortc waited for something while it sent")
