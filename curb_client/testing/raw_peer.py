"""A LiveKit participant by hand: aiohttp for the signalling, aiortc for the data, and no SDK.

It takes part in a room like any other client, on the embedded server and on livekit-server, as long as they are on
127.0.0.1; and each layer can be taken by hand, to stop reading or to send what makes no sense.
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import aiohttp
from aioice import stun
from aiortc.rtcdatachannel import RTCDataChannel, RTCDataChannelParameters
from aiortc.rtcdtlstransport import RTCCertificate, RTCDtlsFingerprint, RTCDtlsParameters, RTCDtlsTransport
from aiortc.rtcsctptransport import RTCSctpCapabilities, RTCSctpTransport
from livekit.protocol import models, rtc
from typing_extensions import Self

__all__ = ["LABELS", "LOSSY", "RELIABLE", "ClientTransport", "IceClient", "RawPeer"]

RELIABLE: Final = "_reliable"
LOSSY: Final = "_lossy"
LABELS: Final = (RELIABLE, LOSSY, "_data_track")
WITHIN: Final = 30.0
CHECK_FIRST_EVERY: Final = 0.05
CHECK_EVERY: Final = 2.0
PING_EVERY: Final = 5.0
"""Seconds."""

OFFER: Final = """v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=mid:0
a=setup:active
a=sctp-port:5000
a=max-message-size:262144
"""


class IceClient(asyncio.DatagramProtocol):
    """The side of ICE that asks; for aiortc it is an ICE transport."""

    role = "controlling"
    state = "completed"

    def __init__(self) -> None:
        self.ufrag, self.password = secrets.token_hex(4), secrets.token_hex(16)
        self.is_deaf = False
        """Whether it leaves datagrams where they are, as a client does that hangs; checks go on."""
        self._remote: tuple[str, str] = "", ""
        self._candidates: list[tuple[str, int]] = []
        self._address: tuple[str, int] | None = None
        self._connected = asyncio.Event()
        self._socket: asyncio.DatagramTransport | None = None
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._checking: asyncio.Task[None] | None = None

    async def connect(self, ufrag: str, password: str) -> None:
        """Returns when a candidate has answered; :meth:`add_candidate` may be called before and meanwhile."""
        self._remote = ufrag, password
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self._checking = asyncio.ensure_future(self._check())
        await self._connected.wait()

    def add_candidate(self, line: str) -> None:
        """A candidate of the server's; those that are not on 127.0.0.1 by UDP are left out."""
        found = re.search(r"candidate:\S+ 1 udp \d+ (127\.0\.0\.1) (\d+) typ", line, re.IGNORECASE)
        if found and (address := (found[1], int(found[2]))) not in self._candidates:
            self._candidates.append(address)

    async def _check(self) -> None:
        while True:
            for address in [self._address] if self._address else self._candidates:
                self.send_to(address, self._request())
            await asyncio.sleep(CHECK_EVERY if self._address else CHECK_FIRST_EVERY)

    def _request(self) -> bytes:
        request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
        request.attributes["USERNAME"] = f"{self._remote[0]}:{self.ufrag}"
        request.attributes["PRIORITY"] = 1
        request.attributes["ICE-CONTROLLING"] = 1
        request.attributes["USE-CANDIDATE"] = None
        return self._signed(request, self._remote[1])

    @staticmethod
    def _signed(message: stun.Message, password: str) -> bytes:
        message.add_message_integrity(password.encode())
        message.add_fingerprint()
        return bytes(message)

    def send_to(self, address: tuple[str, int], data: bytes) -> None:
        if self._socket is not None and not self._socket.is_closing():
            self._socket.sendto(data, address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        address = cast("tuple[str, int]", addr)
        if data and data[0] < 4:
            self._take_stun(data, address)
        elif not self.is_deaf:
            self._inbox.append(data)
            self._arrived.set()

    def _take_stun(self, data: bytes, address: tuple[str, int]) -> None:
        message = stun.parse_message(data)
        if message.message_class is stun.Class.RESPONSE:
            self._address = address
            self._connected.set()
        elif message.message_class is stun.Class.REQUEST:  # of a server that is not ICE-lite
            response = stun.Message(message.message_method, stun.Class.RESPONSE, message.transaction_id)
            response.attributes["XOR-MAPPED-ADDRESS"] = address
            self.send_to(address, self._signed(response, self.password))

    def error_received(self, exc: Exception) -> None:
        """The server is gone."""

    async def _recv(self) -> bytes:
        while not self._inbox:
            self._arrived.clear()
            await self._arrived.wait()
        return self._inbox.popleft()

    async def _send(self, data: bytes) -> None:
        if self._address is not None:
            self.send_to(self._address, data)

    async def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        if self._socket is not None:
            self._socket.close()


class ClientTransport:
    """DTLS, SCTP and data channels of a client, over whatever looks like an ICE transport to aiortc."""

    def __init__(self, wire: object) -> None:
        self.certificate = RTCCertificate.generateCertificate()
        self.dtls = RTCDtlsTransport(cast(Any, wire), [self.certificate])
        self.dtls._set_role("client")
        self.sctp = RTCSctpTransport(self.dtls)
        self.channels: dict[str, RTCDataChannel] = {}

    @property
    def fingerprints(self) -> tuple[tuple[str, str], ...]:
        """Hash functions and values."""
        return tuple((each.algorithm, each.value) for each in self.certificate.getFingerprints())

    @property
    def unacknowledged(self) -> int:
        """SCTP chunks that are on their way, or about to be."""
        return len(self.sctp._sent_queue) + len(self.sctp._outbound_queue)

    async def connect(self, fingerprint: tuple[str, str], max_message_bytes: int = 65535) -> None:
        """Returns when the handshake has come to an end, good or bad; ``dtls.state`` says which."""
        await self.dtls.start(RTCDtlsParameters(fingerprints=[RTCDtlsFingerprint(*fingerprint)]))
        if self.dtls.state == "connected":
            await self.sctp.start(RTCSctpCapabilities(maxMessageSize=max_message_bytes), 5000)

    def open(self, label: str, receive: Callable[[bytes], None]) -> RTCDataChannel:
        """A channel that opens soon; ``receive`` takes each of its messages."""
        options: dict[str, Any] = {"maxRetransmits": 0, "ordered": False} if label == LOSSY else {}
        channel = RTCDataChannel(self.sctp, RTCDataChannelParameters(label=label, **options))
        channel.on("message", receive)
        self.channels[label] = channel
        return channel

    async def close(self) -> None:
        await self.sctp.stop()
        await self.dtls.stop()


class RawPeer:
    """Somebody in a room, made by :meth:`join`.

    Attributes:
        joined: what the server answered to the join.
        others: the other participants by identity, as far as the server has told.
        ice, transport, web_socket: the layers, for who wants to take them by hand.
        is_reading_signals: unset, signalling messages stay in the socket, as with a client that hangs.
    """

    def __init__(self, web_socket: Any, ice: IceClient, transport: ClientTransport) -> None:
        self.web_socket = web_socket  # aiohttp made its type generic on the way
        self.ice = ice
        self.transport = transport
        self.joined = rtc.JoinResponse()
        self.others: dict[str, models.ParticipantInfo] = {}
        self.is_reading_signals = asyncio.Event()
        self.is_reading_signals.set()
        self._packets: asyncio.Queue[models.DataPacket] = asyncio.Queue()
        self._signals: dict[str, asyncio.Queue[Any]] = {}
        self._changed = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def join(cls, url: str, token: str, *, within: float = WITHIN) -> AsyncIterator[Self]:
        """Joins the token's room with open data channels, and leaves it at the end of the block.

        Raises:
            aiohttp.WSServerHandshakeError: the server does not let it in; has ``status``.
            ConnectionError: what the server answers makes no sense.
            asyncio.TimeoutError: it took longer than ``within`` seconds.
        """
        ice = IceClient()
        transport = ClientTransport(ice)
        wrapped = rtc.WrappedJoinRequest(join_request=_join_request(ice, transport).SerializeToString())
        params = {"join_request": base64.urlsafe_b64encode(wrapped.SerializeToString()).decode()}
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{url}/rtc/v1", params=params, headers=headers, max_msg_size=0) as web_socket,
        ):
            peer = cls(web_socket, ice, transport)
            tasks = [asyncio.ensure_future(work) for work in (peer._read_signals(), peer._ping())]
            try:
                await asyncio.wait_for(peer._connect(), within)
                yield peer
                if not web_socket.closed:
                    await peer.signal(leave=rtc.LeaveRequest(reason=models.CLIENT_INITIATED))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await transport.close()
                await ice.close()

    async def _connect(self) -> None:
        self.joined = await self.signalled("join")
        answer = (await self.signalled("answer")).sdp
        for line in answer.splitlines():
            self.ice.add_candidate(line)
        await self.ice.connect(_attribute(answer, "ice-ufrag"), _attribute(answer, "ice-pwd"))
        algorithm, _, value = _attribute(answer, "fingerprint").partition(" ")
        await self.transport.connect((algorithm, value))
        if self.transport.dtls.state != "connected":
            raise ConnectionError(f"DTLS has {self.transport.dtls.state}")
        await asyncio.gather(*(self._open(label) for label in LABELS))

    async def _open(self, label: str) -> None:
        opened = asyncio.Event()
        self.transport.open(label, self._take_packet).on("open", opened.set)
        await opened.wait()

    @property
    def identity(self) -> str:
        return self.joined.participant.identity

    # Data

    def send(self, packet: models.DataPacket, label: str = RELIABLE) -> None:
        """Sends a packet, soon."""
        self.send_bytes(label, packet.SerializeToString())

    def send_bytes(self, label: str, data: bytes) -> None:
        """Sends whatever it is on a data channel, soon."""
        self.transport.channels[label].send(data)

    def send_text(self, text: str, *to: str, topic: str = "t") -> None:
        """Sends a user packet, which is for everybody unless identities are given."""
        user = models.UserPacket(payload=text.encode(), topic=topic)
        self.send(models.DataPacket(user=user, destination_identities=to))

    async def receive(self, within: float = WITHIN) -> models.DataPacket:
        """The next packet that has come; asyncio.TimeoutError where none does."""
        return await asyncio.wait_for(self._packets.get(), within)

    def _take_packet(self, data: bytes) -> None:
        self._packets.put_nowait(models.DataPacket.FromString(data))

    # Signalling

    async def signal(self, **request: Any) -> None:
        """Sends a signalling message, such as ``signal(ping=1)``."""
        await self.web_socket.send_bytes(rtc.SignalRequest(**request).SerializeToString())

    async def signalled(self, kind: str, within: float = WITHIN) -> Any:
        """The next signalling message of a kind that has come; asyncio.TimeoutError where none does."""
        return await asyncio.wait_for(self._signals.setdefault(kind, asyncio.Queue()).get(), within)

    async def sees_active(self, *identities: str, within: float = WITHIN) -> None:
        """Returns when these are in the room, with open data channels."""

        async def wait() -> None:
            while any(
                identity not in self.others or self.others[identity].state != models.ParticipantInfo.ACTIVE
                for identity in identities
            ):
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), within)

    async def _read_signals(self) -> None:
        while True:
            await self.is_reading_signals.wait()
            message = await self.web_socket.receive()
            if message.type != aiohttp.WSMsgType.BINARY:
                return
            response = rtc.SignalResponse.FromString(message.data)
            kind = response.WhichOneof("message") or ""
            if kind == "join":
                self._note(response.join.other_participants)
            elif kind == "update":
                self._note(response.update.participants)
            elif kind == "trickle":
                self.ice.add_candidate(response.trickle.candidateInit)
            self._signals.setdefault(kind, asyncio.Queue()).put_nowait(getattr(response, kind, None))

    def _note(self, infos: Any) -> None:
        for info in infos:
            if info.state == models.ParticipantInfo.DISCONNECTED:
                self.others.pop(info.identity, None)
            else:
                self.others[info.identity] = info
        self._changed.set()

    async def _ping(self) -> None:
        while not self.web_socket.closed:
            await asyncio.sleep(PING_EVERY)
            await self.signal(ping=int(time.time() * 1000))


def _join_request(ice: IceClient, transport: ClientTransport) -> rtc.JoinRequest:
    own = [f"a=ice-ufrag:{ice.ufrag}", f"a=ice-pwd:{ice.password}"]
    own += [f"a=fingerprint:{name} {value}" for name, value in transport.fingerprints if name == "sha-256"]
    sdp = "\r\n".join([*OFFER.splitlines(), *own]) + "\r\n"
    return rtc.JoinRequest(
        client_info=models.ClientInfo(sdk=models.ClientInfo.UNKNOWN, protocol=16, version="1"),
        publisher_offer=rtc.SessionDescription(type="offer", sdp=sdp, id=1),
    )


def _attribute(sdp: str, name: str) -> str:
    found = re.search(rf"^a={name}:(.+?)\r?$", sdp, re.MULTILINE)
    if found is None:
        raise ConnectionError(f"the answer has no {name}:\n{sdp}")
    return found[1]
