"""What the embedded server reads is what was written, whichever way it was written."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import jwt
from aiohttp import WSMsgType
from google.protobuf.json_format import MessageToJson
from hypothesis import given, settings
from hypothesis import strategies as st
from livekit.protocol import models, rtc
from livekit.protocol import room as api

from curb_client.testing.embedded.joins import ApiKey, Claims, read_join
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.routing import LOSSY, RELIABLE, Sender, is_for, stamp
from curb_client.testing.embedded.sdp import LocalSide, answer, parse_offer
from curb_client.testing.embedded.signal_socket import SignalSocket
from curb_client.testing.embedded.twirp import Method, Service

KEY = ApiKey("key", "s" * 40)
LOCAL = LocalSide(7, "ours", "our-password", ("sha-256", "AB:CD"), ("127.0.0.1", 5555))
CLAIMS = Claims("alice", "", models.ParticipantInfo.STANDARD, "", {}, {})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = st.text("abcXYZ019+/-", min_size=1, max_size=12)
identities = st.lists(texts, max_size=3)
senders = st.builds(Sender, st.just("PA_sender"), words, is_agent=st.booleans(), hidden=st.booleans())


@st.composite
def values(draw: st.DrawFn) -> dict[str, Any]:
    """What a data packet may hold, as a peer has written it."""
    kind = draw(st.sampled_from(["user", "rpc_request", "rpc_ack", "rpc_response", "chat_message", "stream"]))
    if kind == "user":
        to = draw(identities)
        return {"user": models.UserPacket(payload=draw(st.binary(max_size=20)), destination_identities=to)}
    if kind == "rpc_request":
        return {"rpc_request": models.RpcRequest(id=draw(texts), method=draw(texts), payload=draw(texts))}
    if kind == "rpc_ack":
        return {"rpc_ack": models.RpcAck(request_id=draw(texts))}
    if kind == "rpc_response":
        return {"rpc_response": models.RpcResponse(request_id=draw(texts), payload=draw(texts))}
    if kind == "chat_message":
        return {"chat_message": models.ChatMessage(id=draw(texts), message=draw(texts))}
    chunk = models.DataStream.Chunk(stream_id=draw(texts), chunk_index=draw(st.integers(0, 2**64 - 1)))
    return {"stream_chunk": chunk}


@given(values(), senders, texts, identities, st.sampled_from([RELIABLE, LOSSY]))
def test_a_packet_says_whom_it_is_from_and_goes_where_it_should(
    value: dict[str, Any], sender: Sender, claimed: str, to: list[str], label: str
) -> None:
    packet = models.DataPacket(
        **value, participant_identity=claimed, participant_sid=claimed, destination_identities=to, sequence=7
    )
    wanted = set(to or packet.user.destination_identities)
    routed = stamp(packet, sender, label)
    assert routed is not None
    got = models.DataPacket.FromString(routed.data)
    seen_as = "" if sender.hidden else sender.identity
    may_claim = sender.is_agent and "chat_message" in value and claimed not in ("", sender.identity)
    assert got.participant_identity == (claimed if may_claim else seen_as)
    assert (got.participant_sid, got.sequence) == ("PA_sender", 7)
    assert set(got.destination_identities) == wanted
    assert all(is_for(got, identity, "PA_x") for identity in wanted)
    assert is_for(got, "nobody of this name", "PA_x") == (not wanted)
    (name,) = value
    if name not in ("user", "chat_message"):
        assert getattr(got, name) == value[name], "what it carries stays as it is"
    assert got.user.payload == (value["user"].payload if name == "user" else b"")


@settings(deadline=None)
@given(texts, st.dictionaries(words, texts.filter(bool), max_size=4), words, st.booleans())
def test_a_join_request_is_read_as_it_was_written(
    metadata: str, attributes: dict[str, str], sid: str, compressed: bool
) -> None:
    request = rtc.JoinRequest(
        metadata=metadata,
        participant_attributes=attributes,
        participant_sid=sid,
        publisher_offer=rtc.SessionDescription(type="offer", sdp=metadata, id=3),
    )
    data = request.SerializeToString()
    wrapped = rtc.WrappedJoinRequest(join_request=data)
    if compressed:
        gzipped = gzip.compress(data, 1)
        wrapped = rtc.WrappedJoinRequest(join_request=gzipped, compression=rtc.WrappedJoinRequest.GZIP)
    text = base64.urlsafe_b64encode(wrapped.SerializeToString()).decode()
    video = {"roomJoin": True, "room": "a-room", "canUpdateOwnMetadata": True}
    token = jwt.encode({"iss": KEY.name, "sub": "alice", "video": video}, KEY.secret)
    for written in (text, text.rstrip("=")):
        join = read_join(token, {"join_request": written}, KEY, wrapped=True)
        assert (join.claims.metadata, dict(join.claims.attributes), join.sid) == (metadata, attributes, sid)
        assert join.offer == request.publisher_offer


signals = st.one_of(
    st.builds(lambda text: rtc.SignalRequest(offer=rtc.SessionDescription(type="offer", sdp=text)), texts),
    st.builds(lambda at: rtc.SignalRequest(ping_req=rtc.Ping(timestamp=at)), st.integers(-(2**63), 2**63 - 1)),
    st.builds(
        lambda name, values: rtc.SignalRequest(
            update_metadata=rtc.UpdateParticipantMetadata(name=name, attributes=values)
        ),
        texts,
        st.dictionaries(texts, texts, max_size=3),
    ),
    st.builds(
        lambda sid, muted: rtc.SignalRequest(mute=rtc.MuteTrackRequest(sid=sid, muted=muted)), texts, st.booleans()
    ),
)


@given(signals)
async def test_a_signalling_message_is_the_same_in_protobuf_and_json(request: rtc.SignalRequest) -> None:
    socket = SignalSocket(Journal())
    assert socket._parse(WSMsgType.BINARY, request.SerializeToString()) == request
    assert socket._parse(WSMsgType.TEXT, MessageToJson(request)) == request


@given(texts, texts, st.integers(0, 2**32 - 1))
def test_a_call_of_the_api_is_the_same_in_protobuf_and_json(name: str, metadata: str, seconds: int) -> None:
    request = api.CreateRoomRequest(name=name, metadata=metadata, empty_timeout=seconds)
    echo = Service(None, "livekit.Echo", {"Echo": Method(api.CreateRoomRequest, lambda _, got: got)})  # type: ignore[arg-type]
    assert echo._call("Echo", CLAIMS, request.SerializeToString(), is_json=False) == request
    assert echo._call("Echo", CLAIMS, MessageToJson(request).encode(), is_json=True) == request


@st.composite
def offers(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, bool]]]:
    """An offer, and the kind, mid and direction of each of its sections."""
    mids = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    sections = [(draw(st.sampled_from(["audio", "video"])), mid, draw(st.booleans())) for mid in mids[1:]]
    sections.insert(draw(st.integers(0, len(sections))), ("application", mids[0], False))
    lines = ["v=0", f"a=ice-ufrag:{draw(words)}", "a=fingerprint:sha-256 AB:CD"]
    for kind, mid, sends in sections:
        protocol = "UDP/DTLS/SCTP webrtc-datachannel" if kind == "application" else "UDP/TLS/RTP/SAVPF 96"
        lines += [f"m={kind} 9 {protocol}", f"a=mid:{mid}", "a=sendonly" if sends else "a=recvonly"]
    return draw(st.sampled_from(["\n", "\r\n"])).join([*lines, ""]), sections


@given(offers())
def test_an_answer_has_the_sections_of_the_offer(made: tuple[str, list[tuple[str, str, bool]]]) -> None:
    text, sections = made
    offer = parse_offer(text)
    assert [(section.kind, section.mid, section.sends) for section in offer.sections] == sections
    lines = answer(offer, LOCAL).split("\r\n")
    assert [line[2:].partition(" ")[0] for line in lines if line.startswith("m=")] == [kind for kind, _, _ in sections]
    assert [line[6:] for line in lines if line.startswith("a=mid:")] == [mid for _, mid, _ in sections]
    assert sum(line == "a=recvonly" for line in lines) == sum(sends for _, _, sends in sections)
