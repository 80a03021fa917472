"""Offers and answers."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.testing.embedded.sdp import LocalSide, SdpError, answer, parse_offer

FINGERPRINT = "AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89"
OFFER = f"""v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1 2 3
a=extmap-allow-mixed
a=msid-semantic: WMS
m=audio 9 UDP/TLS/RTP/SAVPF 63 111 9
c=IN IP4 0.0.0.0
a=rtcp:9 IN IP4 0.0.0.0
a=ice-ufrag:us+r
a=ice-pwd:a-password-of-the-client
a=ice-options:trickle
a=fingerprint:sha-256 {FINGERPRINT.lower()}
a=setup:actpass
a=mid:0
a=recvonly
a=rtcp-mux
a=rtpmap:63 red/48000/2
a=fmtp:63 111/111
a=rtpmap:111 opus/48000/2
a=fmtp:111 minptime=10;useinbandfec=1
a=rtpmap:9 G722/8000
m=video 0 UDP/TLS/RTP/SAVPF 96 97
a=mid:1
a=inactive
a=rtpmap:96 VP8/90000
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=mid:2
a=sctp-port:5001
a=max-message-size:262144
m=audio 9 UDP/TLS/RTP/SAVPF 111
a=mid:3
a=msid:- the-track
a=sendonly
a=rtpmap:111 opus/48000/2
""".replace("\n", "\r\n")

LOCAL = LocalSide(7, "ours", "our-password", ("sha-256", FINGERPRINT), ("127.0.0.1", 5555))


def test_what_an_offer_says() -> None:
    offer = parse_offer(OFFER)
    assert (offer.ufrag, offer.sctp_port, offer.max_message_bytes) == ("us+r", 5001, 262144)
    assert offer.fingerprints == (("sha-256", FINGERPRINT),)
    assert [section.mid for section in offer.sections] == ["0", "1", "2", "3"]
    assert [section.sends for section in offer.sections] == [False, False, False, True]
    assert [section.rejected for section in offer.sections] == [False, True, False, False]
    assert [section.track_id for section in offer.sections] == ["", "", "", "the-track"]


def test_the_line_ends_do_not_matter() -> None:
    assert parse_offer(OFFER.replace("\r\n", "\n")) == parse_offer(OFFER)


def test_what_an_offer_does_not_say_is_as_the_standard_has_it() -> None:
    bare = OFFER.replace("a=sctp-port:5001\r\n", "").replace("a=max-message-size:262144\r\n", "")
    offer = parse_offer(bare)
    assert (offer.sctp_port, offer.max_message_bytes) == (5000, 65536)
    without_direction = parse_offer(OFFER.replace("a=recvonly\r\n", ""))
    assert without_direction.sections[0].sends


def test_the_answer_takes_data_and_what_is_sent() -> None:
    text = answer(parse_offer(OFFER), LOCAL)
    assert text.endswith("\r\n")
    assert "\n" not in text.replace("\r\n", "")
    head, *sections = text.split("m=")
    assert "a=ice-lite\r\n" in head
    assert f"a=fingerprint:sha-256 {FINGERPRINT}\r\n" in head
    assert "a=group:BUNDLE 0 2 3\r\n" in head, "without what is rejected"
    audio, video, data, sent = sections
    assert audio.startswith("audio 9 UDP/TLS/RTP/SAVPF 111\r\n"), "not the format that needs another one"
    assert "a=inactive\r\n" in audio
    assert "a=rtpmap:111 opus/48000/2\r\n" in audio
    assert "a=fmtp:111 minptime=10;useinbandfec=1\r\n" in audio
    assert "red" not in audio
    assert "a=candidate:1 1 udp 2130706431 127.0.0.1 5555 typ host\r\n" in audio
    assert video.startswith("video 0 ")
    assert data.startswith("application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n")
    assert "a=max-message-size:65535\r\n" in data
    assert "a=recvonly\r\n" in sent
    for section in (audio, data, sent):
        assert "a=setup:passive\r\na=ice-ufrag:ours\r\na=ice-pwd:our-password\r\n" in section
    assert text.count("a=candidate:") == 1


def test_the_candidate_is_in_the_first_section_that_is_in_use() -> None:
    offer = parse_offer(OFFER)
    first = dataclasses.replace(offer.sections[0], rejected=True)
    text = answer(dataclasses.replace(offer, sections=(first, *offer.sections[1:])), LOCAL)
    assert "a=candidate:" in text.split("m=application")[1]


@pytest.mark.parametrize(
    ("what", "instead", "message"),
    [
        ("m=application 9", "m=application 0", "no data channel"),
        (f"a=fingerprint:sha-256 {FINGERPRINT.lower()}\r\n", "", "no fingerprint"),
        (FINGERPRINT.lower(), "12:GG", "fingerprint is"),
        ("a=ice-ufrag:us+r\r\n", "", "no ICE user"),
        ("us+r", "us r", "no ICE user"),
        ("us+r", "u" * 300, "no ICE user"),
        ("a=mid:1\r\n", "", "makes no sense"),
        ("a=mid:1", "a=mid:0", "same mid"),
        ("a=mid:1", "a=mid:one two", "makes no sense"),
        ("m=video 0", "m=video x", "makes no sense"),
        ("sctp-port:5001", "sctp-port:-1", "sctp-port is"),
        ("sctp-port:5001", "sctp-port:65536", "sctp-port is"),
        ("max-message-size:262144", "max-message-size:" + "9" * 5000, "max-message-size is"),
        ("max-message-size:262144", "max-message-size:\u00b2", "max-message-size is"),
    ],
)
def test_an_offer_that_makes_no_sense(what: str, instead: str, message: str) -> None:
    assert what in OFFER
    with pytest.raises(SdpError, match=message):
        parse_offer(OFFER.replace(what, instead, 1))


def test_an_empty_offer() -> None:
    with pytest.raises(SdpError):
        parse_offer("")


@settings(deadline=None)
@given(st.text(max_size=60), st.integers(0, 60))
def test_a_line_that_is_put_in_is_answered_or_refused(line: str, place: int) -> None:
    lines = OFFER.split("\r\n")
    lines.insert(place % len(lines), line)
    try:
        offer = parse_offer("\r\n".join(lines))
    except SdpError:
        return
    for answered in answer(offer, LOCAL).split("\r\n")[:-1]:
        assert answered[1:2] == "="
        assert "\n" not in answered
