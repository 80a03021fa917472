"""What becomes of a data packet."""

from __future__ import annotations

from livekit.protocol import models

from curb_client.testing.embedded.routing import LOSSY, RELIABLE, NonceMemory, Sender, addressed, is_for, stamp

CALLER = Sender("PA_caller", "caller", is_agent=False, hidden=False)
AGENT = Sender("PA_agent", "agent", is_agent=True, hidden=False)
GHOST = Sender("PA_ghost", "ghost", is_agent=False, hidden=True)


def text_header(**options: object) -> models.DataPacket:
    header = models.DataStream.Header(stream_id="s", text_header=models.DataStream.TextHeader())
    return models.DataPacket(stream_header=header, **options)  # type: ignore[arg-type]


def test_a_packet_is_from_whom_the_server_knows_it_to_be() -> None:
    packet = models.DataPacket(
        participant_identity="somebody-else",
        participant_sid="PA_x",
        kind=models.DataPacket.LOSSY,
        rpc_request=models.RpcRequest(id="1"),
        sequence=7,
    )
    routed = stamp(packet, CALLER, RELIABLE)
    assert routed is not None
    sent = models.DataPacket.FromString(routed.data)
    assert (sent.participant_identity, sent.participant_sid) == ("caller", "PA_caller")
    assert (sent.kind, sent.sequence, sent.rpc_request.id) == (models.DataPacket.RELIABLE, 7, "1")
    assert routed.label == RELIABLE


def test_user_packets_are_stamped_in_both_places() -> None:
    user = models.UserPacket(participant_identity="x", participant_sid="y", payload=b"p", destination_identities=["b"])
    routed = stamp(models.DataPacket(user=user), CALLER, LOSSY)
    assert routed is not None
    assert (routed.packet.user.participant_identity, routed.packet.user.participant_sid) == ("caller", "PA_caller")
    assert list(routed.packet.destination_identities) == ["b"]
    assert routed.packet.kind == models.DataPacket.LOSSY

    both = models.DataPacket(user=user, destination_identities=["c"])
    routed = stamp(both, CALLER, LOSSY)
    assert routed is not None
    assert list(routed.packet.user.destination_identities) == ["c"]


def test_a_hidden_sender_stays_hidden() -> None:
    routed = stamp(models.DataPacket(user=models.UserPacket(payload=b"p")), GHOST, RELIABLE)
    assert routed is not None
    packet = routed.packet
    assert (packet.participant_identity, packet.user.participant_identity, packet.user.participant_sid) == ("", "", "")


def test_an_agent_may_name_another_sender_of_a_text_and_of_nothing_else() -> None:
    routed = stamp(text_header(participant_identity="caller"), AGENT, RELIABLE)
    assert routed is not None
    assert (routed.packet.participant_identity, routed.packet.participant_sid) == ("caller", "PA_agent")
    assert routed.packet.stream_header.text_header.generated

    chat = models.DataPacket(participant_identity="caller", chat_message=models.ChatMessage(message="hello"))
    routed = stamp(chat, AGENT, RELIABLE)
    assert routed is not None
    assert (routed.packet.participant_identity, routed.packet.chat_message.generated) == ("caller", True)

    bytes_header = models.DataStream.Header(stream_id="s", byte_header=models.DataStream.ByteHeader())
    for packet in (
        models.DataPacket(participant_identity="caller", stream_header=bytes_header),
        models.DataPacket(participant_identity="caller", stream_chunk=models.DataStream.Chunk()),
        models.DataPacket(participant_identity="caller", rpc_request=models.RpcRequest()),
        models.DataPacket(participant_identity="caller", user=models.UserPacket()),
    ):
        routed = stamp(packet, AGENT, RELIABLE)
        assert routed is not None
        assert routed.packet.participant_identity == "agent"
    routed = stamp(text_header(participant_identity="agent"), CALLER, RELIABLE)
    assert routed is not None
    assert routed.packet.participant_identity == "caller"
    routed = stamp(text_header(), AGENT, RELIABLE)
    assert routed is not None
    assert routed.packet.participant_identity == "agent"
    assert not routed.packet.stream_header.text_header.generated


def test_what_goes_to_nobody() -> None:
    assert stamp(models.DataPacket(metrics={}), CALLER, RELIABLE) is None
    transcription = models.DataPacket(transcription=models.Transcription())
    assert stamp(transcription, CALLER, RELIABLE) is None
    assert stamp(transcription, AGENT, RELIABLE) is not None


def test_destinations() -> None:
    everybody = models.DataPacket()
    assert is_for(everybody, "a", "PA_a")
    one = models.DataPacket(destination_identities=["a", "b"])
    assert is_for(one, "a", "PA_a")
    assert not is_for(one, "c", "PA_c")
    by_sid = models.DataPacket(user=models.UserPacket(destination_sids=["PA_a"]))
    assert is_for(by_sid, "a", "PA_a")
    assert not is_for(by_sid, "b", "PA_b")
    assert not by_sid.HasField("rpc_request")


def test_what_waits_for_who_is_joining() -> None:
    numbered = models.DataPacket(rpc_request=models.RpcRequest(), sequence=1)
    routed = stamp(numbered, CALLER, RELIABLE)
    assert routed is not None
    assert routed.is_kept_for_the_joining
    lossy = stamp(models.DataPacket(rpc_request=models.RpcRequest(), sequence=1), CALLER, LOSSY)
    assert lossy is not None
    assert not lossy.is_kept_for_the_joining
    unnumbered = stamp(models.DataPacket(rpc_request=models.RpcRequest()), CALLER, RELIABLE)
    assert unnumbered is not None
    assert not unnumbered.is_kept_for_the_joining
    assert not addressed(models.DataPacket(user=models.UserPacket()), RELIABLE).is_kept_for_the_joining


def test_a_nonce_is_good_once() -> None:
    memory = NonceMemory()
    first = models.DataPacket(user=models.UserPacket(nonce=bytes(16)))
    assert [memory.is_repeat(first), memory.is_repeat(first)] == [False, True]
    for number in range(1, 101):
        assert not memory.is_repeat(models.DataPacket(user=models.UserPacket(nonce=number.to_bytes(16, "big"))))
    assert not memory.is_repeat(first), "only the last hundred are remembered"
    without = models.DataPacket(user=models.UserPacket(payload=b"p"))
    assert [memory.is_repeat(without), memory.is_repeat(without)] == [False, False]
    rpc = models.DataPacket(rpc_request=models.RpcRequest())
    assert [memory.is_repeat(rpc), memory.is_repeat(rpc)] == [False, False]
