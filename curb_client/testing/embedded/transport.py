"""DTLS, SCTP and the data channels of one participant: aiortc's, on our own ICE.

The only module that knows aiortc, whose parts it uses are partly private: ``pyproject.toml`` bounds its version.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol, cast

from aiortc.rtcdatachannel import RTCDataChannel
from aiortc.rtcdtlstransport import RTCCertificate, RTCDtlsFingerprint, RTCDtlsParameters, RTCDtlsTransport
from aiortc.rtcsctptransport import WEBRTC_BINARY, RTCSctpCapabilities, RTCSctpTransport

from curb_client.testing.embedded.ice import IceSession, UdpSocket
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.sdp import LocalSide, Offer

__all__ = ["Receiver", "Transport", "certificate"]

RETRANSMIT_AFTER: Final = 0.4
"""Seconds until a packet without an answer is sent again, at least; aiortc's 1 is for the internet. More than the 0.2
that clients may wait before they acknowledge."""
WINDOW_BYTES: Final = 64 * 1024
"""What may be on its way to a client, at least. aiortc begins with 3 packets and falls back to 1 after a loss, and
clients acknowledge every second packet at once, but a single one after 0.2 s."""
DATAGRAMS_KEPT: Final = 4096
HASH: Final = "sha-256"


@functools.cache
def certificate() -> RTCCertificate:
    """Ours: one a process, since making it takes a while and nobody checks more than its fingerprint."""
    return RTCCertificate.generateCertificate()


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
        self._dtls = RTCDtlsTransport(cast(Any, self._pipe), [certificate()])
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
            _finish(self._sctp.stop())  # also its timers
            self._receiver.transport_ended()

    # Data channels

    def _channel_opened(self, channel: RTCDataChannel) -> None:
        self._channels[channel.label] = channel
        self._receiver.channel_opened(channel.label)

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
        try:
            self._sctp.send_binary(channel, data)
        except ConnectionError:  # the end of the transport is told elsewhere
            return False
        return True

    async def close(self) -> None:
        """Ends the transport and tells the client so."""
        self.has_ended = True
        tasks = [task for task in (self._starting, self._dtls._task) if task is not None]
        _finish(self._sctp.stop())
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

    def send_binary(self, channel: RTCDataChannel, data: bytes) -> None:
        """``channel.send(data)``, done when it returns; ConnectionError where the transport has ended."""
        self._data_channel_queue.append((channel, WEBRTC_BINARY, data))
        _finish(self._data_channel_flush())

    async def _handle_data(self, data: bytes) -> None:
        try:
            await super()._handle_data(data)
        except ConnectionError:
            raise
        except Exception as error:  # aiortc asserts what it expects of its peer
            self._journal.once("SCTP packets that made no sense", f"a client sent an SCTP packet: {error!r}")

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
