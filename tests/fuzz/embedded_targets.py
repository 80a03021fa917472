"""The decoders of the embedded server: what its clients send before and after they are let in."""

from __future__ import annotations

import base64
import contextlib
import functools
import gzip
import struct
from typing import Any, Final

import jwt
from aiohttp import WSMsgType
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from google_crc32c import value as crc32c
from livekit.protocol import agent_dispatch, models, rtc
from livekit.protocol import room as api

from curb_client.protocol.json_text import decode_json
from curb_client.testing.embedded.joins import RefusedError, read_claims, read_join, sign
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.routing import LOSSY, RELIABLE, NonceMemory, Sender, is_for, stamp
from curb_client.testing.embedded.sdp import LocalSide, SdpError, answer, parse_offer
from curb_client.testing.embedded.signal_socket import SignalSocket
from curb_client.testing.embedded.stun import binding_response, parse_binding_request
from curb_client.testing.embedded.twirp import TwirpError
from tests.fuzz.server import KEY, VERIFICATION_TAG, Fuzzed
from tests.fuzz.target import Target, text_of

__all__ = ["TARGETS"]

_LOCAL: Final = LocalSide(7, "ours", "our-password", ("sha-256", "AB:CD"), ("127.0.0.1", 5555))
_SENDERS: Final = (
    Sender("PA_caller", "caller", is_agent=False, hidden=False),
    Sender("PA_agent", "agent", is_agent=True, hidden=False),
    Sender("PA_ghost", "ghost", is_agent=False, hidden=True),
)
_CHECK: Final = bytes.fromhex(
    "000100582112a442313233343536373839616263"  # a connectivity check, header
    "0006000d7365727665723a636c69656e74000000"  # USERNAME server:client
    "0024000400000001"  # PRIORITY
    "00250000"  # USE-CANDIDATE
    "802a00080000000000000001"  # ICE-CONTROLLING
    "00080014000102030405060708090a0b0c0d0e0f10111213"  # MESSAGE-INTEGRITY
    "80280004d1d1d1d1"  # FINGERPRINT
)
_OFFER: Final = """v=0
m=audio 9 UDP/TLS/RTP/SAVPF 63 111
a=ice-ufrag:user
a=fingerprint:sha-256 AB:CD:EF
a=mid:0
a=sendonly
a=msid:- track
a=rtpmap:63 red/48000/2
a=rtpmap:111 opus/48000/2
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
a=mid:1
a=sctp-port:5000
a=max-message-size:262144
"""


def stun(data: bytes) -> None:
    """A datagram of somebody whom nobody knows."""
    request = parse_binding_request(data)
    if request is not None:
        assert not request.is_signed_with("a password that it cannot know")
        assert len(binding_response(request, ("127.0.0.1", 5), "password")) % 4 == 0


def sdp(data: bytes) -> None:
    """An offer: refused, or answered with an answer whose every line is one."""
    try:
        offer = parse_offer(text_of(data))
    except SdpError:
        return
    for line in answer(offer, _LOCAL).split("\r\n")[:-1]:
        assert line[1:2] == "="
        assert "\n" not in line


def token(data: bytes) -> None:
    """A token, and one with any claims that is signed as it should be."""
    text = text_of(data)
    with contextlib.suppress(RefusedError):
        read_claims(text, KEY)
    with contextlib.suppress(RefusedError, TypeError, ValueError):  # of jwt, that writes it
        claims = read_claims(jwt.encode(_object(text), KEY.secret), KEY)
        assert claims.permission is not None
        assert read_claims(sign(claims, KEY), KEY).video == claims.video


def _object(text: str) -> dict[str, Any]:
    value = decode_json(text)
    return {"iss": KEY.name, **value} if isinstance(value, dict) else {}


def join_request(data: bytes) -> None:
    """A join: the message itself, as gzip, as the text that is to be in the URL, and as parameters."""
    wrapped = [rtc.WrappedJoinRequest(join_request=data)]
    wrapped.append(rtc.WrappedJoinRequest(join_request=gzip.compress(data, 1), compression=rtc.WrappedJoinRequest.GZIP))
    texts = [base64.urlsafe_b64encode(each.SerializeToString()).decode() for each in wrapped]
    texts += [base64.urlsafe_b64encode(data).decode(), text_of(data)]
    for text in texts:
        with contextlib.suppress(RefusedError):
            join = read_join(_token(), {"join_request": text}, KEY, wrapped=True)
            assert join.claims.identity == "alice"
    text = data.decode("utf-8", "replace")  # a URL's parameters have no lone surrogates
    query = dict.fromkeys(("protocol", "client_protocol", "sdk", "attributes", "capabilities", "sid"), text)
    with contextlib.suppress(RefusedError):
        read_join(_token(), query, KEY, wrapped=False)


@functools.cache
def _token() -> str:
    video = {"roomJoin": True, "room": "a-room", "canUpdateOwnMetadata": True}
    return jwt.encode({"iss": KEY.name, "sub": "alice", "video": video}, KEY.secret)


def signal(data: bytes) -> None:
    """What comes over a signalling connection, binary and as text, and what a participant does about it."""
    socket = SignalSocket(Journal())
    requests = [socket._parse(WSMsgType.BINARY, data)]
    with contextlib.suppress(UnicodeDecodeError):  # aiohttp closes the connection
        requests.append(socket._parse(WSMsgType.TEXT, data.decode("utf-8")))
    for request in requests:
        if request is not None:
            Fuzzed.get().signal(request)


def packet(data: bytes) -> None:
    """A data packet: what the others get says whom it is from."""
    for sender in _SENDERS:
        try:
            parsed = models.DataPacket.FromString(data)
        except DecodeError:
            break
        routed = stamp(parsed, sender, RELIABLE)
        if routed is None:
            continue
        got = models.DataPacket.FromString(routed.data)
        seen_as = "" if sender.hidden else sender.identity
        assert got.participant_sid == sender.sid
        if got.WhichOneof("value") == "user":
            assert got.user.participant_identity == seen_as
        if not sender.is_agent:
            assert got.participant_identity == seen_as
        is_for(got, "caller", "PA_caller")
        NonceMemory().is_repeat(got)
    for label in (RELIABLE, LOSSY, ""):
        Fuzzed.get().message(label, data)


def sctp(data: bytes) -> None:
    """Chunks of an SCTP packet, in an association that is up, and the same as the first packet of one."""
    packets = []
    for tag in (VERIFICATION_TAG, 0):
        head = struct.pack("!HHL", 5000, 5000, tag)
        checksum = crc32c(head + bytes(4) + data)
        packets.append(head + struct.pack("<L", checksum) + data)
    Fuzzed.get().sctp(*packets)


def twirp(data: bytes) -> None:
    """A call of the server's API: the name of a method, a line, its body in protobuf or JSON."""
    name, _, body = data.partition(b"\n")
    for is_json in (False, True):
        with contextlib.suppress(TwirpError, RefusedError):
            Fuzzed.get().call(name.decode("ascii", "replace"), body, is_json=is_json)


def _joins() -> list[bytes]:
    request = rtc.JoinRequest(
        client_info=models.ClientInfo(protocol=16, version="1"),
        publisher_offer=rtc.SessionDescription(type="offer", sdp=_OFFER, id=1),
        participant_attributes={"k": "v"},
    )
    wrapped = rtc.WrappedJoinRequest(join_request=request.SerializeToString())
    text = base64.urlsafe_b64encode(wrapped.SerializeToString())
    return [request.SerializeToString(), gzip.compress(request.SerializeToString()), text]


def _signals() -> list[bytes | str]:
    requests = [
        rtc.SignalRequest(offer=rtc.SessionDescription(type="offer", sdp=_OFFER, id=1)),
        rtc.SignalRequest(ping_req=rtc.Ping(timestamp=7)),
        rtc.SignalRequest(update_metadata=rtc.UpdateParticipantMetadata(name="n", attributes={"k": "v"}, request_id=1)),
        rtc.SignalRequest(add_track=rtc.AddTrackRequest(cid="c", type=models.TrackType.AUDIO, name="t")),
        rtc.SignalRequest(mute=rtc.MuteTrackRequest(sid="TR_1", muted=True)),
        rtc.SignalRequest(sync_state=rtc.SyncState(publish_tracks=[rtc.TrackPublishedResponse(cid="c")])),
        rtc.SignalRequest(simulate=rtc.SimulateScenario(node_failure=True)),
        rtc.SignalRequest(leave=rtc.LeaveRequest(reason=models.CLIENT_INITIATED)),
    ]
    return [*(each.SerializeToString() for each in requests), *(MessageToJson(each, indent=None) for each in requests)]


def _packets() -> list[bytes]:
    text_header = models.DataStream.Header(
        stream_id="s", topic="curb.message", text_header=models.DataStream.TextHeader(), total_length=3
    )
    packets = [
        models.DataPacket(user=models.UserPacket(payload=b"p", destination_identities=["x"], nonce=bytes(16))),
        models.DataPacket(stream_header=text_header, participant_identity="caller", sequence=1),
        models.DataPacket(stream_chunk=models.DataStream.Chunk(stream_id="s", content=b"abc"), sequence=2),
        models.DataPacket(rpc_request=models.RpcRequest(id="1", method="curb.message", payload="{}", version=1)),
        models.DataPacket(chat_message=models.ChatMessage(id="1", message="m"), participant_identity="x"),
    ]
    return [each.SerializeToString() for each in packets]


def _chunks() -> list[bytes]:
    return [
        bytes.fromhex("00030018000000010000000000000035" + "6162636400000000"),  # DATA
        bytes.fromhex("03000014000000010001000000010000" + "00010002"),  # SACK with a gap block
        bytes.fromhex("c000000c0000000200010001"),  # FORWARD TSN
        bytes.fromhex("04000010000100087878787800000000"),  # HEARTBEAT
        bytes.fromhex("82000018000d00120000000100000001000000010001" + "0000"),  # RE-CONFIG
        bytes.fromhex("0100001800000001000200000010001000000001" + "80080004"),  # INIT
        bytes.fromhex("0b00000400000000"),  # COOKIE ACK
    ]


def _calls() -> list[bytes]:
    calls: list[tuple[str, Any]] = [
        ("CreateRoom", api.CreateRoomRequest(name="r", metadata="m", empty_timeout=3)),
        ("ListRooms", api.ListRoomsRequest(names=["a-room"])),
        ("UpdateParticipant", api.UpdateParticipantRequest(room="a-room", identity="alice", name="n")),
        ("SendData", api.SendDataRequest(room="a-room", data=b"d", destination_identities=["alice"])),
        ("RemoveParticipant", api.RoomParticipantIdentity(room="a-room", identity="alice")),
        ("DeleteRoom", api.DeleteRoomRequest(room="r")),
        ("CreateDispatch", agent_dispatch.CreateAgentDispatchRequest(room="a-room", agent_name="a")),
    ]
    both = [(name, request.SerializeToString(), MessageToJson(request).encode()) for name, request in calls]
    return [name.encode() + b"\n" + body for name, *bodies in both for body in bodies]


TARGETS: Final = (
    Target.of(stun, [_CHECK]),
    Target.of(sdp, [_OFFER]),
    Target.of(
        token,
        ['{"sub":"alice","kind":"agent","video":{"roomJoin":true,"room":"a-room","canPublishSources":["camera"]}}'],
    ),
    Target.of(join_request, _joins()),
    Target.of(signal, _signals()),
    Target.of(packet, _packets()),
    Target.of(sctp, _chunks()),
    Target.of(twirp, _calls()),
)
