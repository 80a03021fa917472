"""Connectivity checks, judged by aioice, and what is no check."""

from __future__ import annotations

import os

from aioice import stun
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.testing.embedded.stun import binding_response, parse_binding_request

PASSWORD = "the-password-of-the-session"


def check(**attributes: object) -> stun.Message:
    message = stun.Message(stun.Method.BINDING, stun.Class.REQUEST, transaction_id=b"123456789abc")
    message.attributes["USERNAME"] = "server:client"
    message.attributes.update(attributes)
    message.add_message_integrity(PASSWORD.encode())
    return message


def test_a_check_says_whom_it_is_for_and_whether_it_nominates() -> None:
    request = parse_binding_request(bytes(check(PRIORITY=1)))
    assert request is not None
    assert (request.local_ufrag, request.nominates, request.transaction) == ("server", False, b"123456789abc")
    nominating = parse_binding_request(bytes(check(**{"USE-CANDIDATE": None})))
    assert nominating is not None
    assert nominating.nominates


def test_only_the_password_of_the_session_signs() -> None:
    request = parse_binding_request(bytes(check()))
    assert request is not None
    assert request.is_signed_with(PASSWORD)
    assert not request.is_signed_with("another")
    assert not request.is_signed_with("")


def test_the_answer_is_one_that_aioice_takes() -> None:
    request = parse_binding_request(bytes(check()))
    assert request is not None
    data = binding_response(request, ("127.0.0.1", 54321), PASSWORD)
    answer = stun.parse_message(data)
    assert (answer.message_class, answer.message_method) == (stun.Class.RESPONSE, stun.Method.BINDING)
    assert answer.transaction_id == b"123456789abc"
    assert answer.attributes["XOR-MAPPED-ADDRESS"] == ("127.0.0.1", 54321)
    signed = data[: -8 - 24]
    assert answer.attributes["MESSAGE-INTEGRITY"] == stun.message_integrity(signed, PASSWORD.encode())


def test_what_follows_the_signature_is_not_believed() -> None:
    message = bytes(check())
    without_fingerprint = bytearray(message[:-8])
    without_fingerprint += (0x0025).to_bytes(2, "big") + b"\x00\x00"
    without_fingerprint[2:4] = (len(without_fingerprint) - 20).to_bytes(2, "big")
    request = parse_binding_request(bytes(without_fingerprint))
    assert request is not None
    assert not request.nominates
    assert request.is_signed_with(PASSWORD)


def test_what_is_no_check_is_none() -> None:
    good = bytes(check())
    response = bytes(check())
    for bad in (
        b"",
        good[:19],
        good[:-4],
        good + b"\x00\x00\x00\x00",
        b"\x01\x01" + response[2:],  # an answer
        good[:4] + b"\x00\x00\x00\x00" + good[8:],  # another cookie
        good[:-1] + bytes([good[-1] ^ 1]),  # another fingerprint
        good[:20] + b"\x00\x06\xff\xff" + good[24:],  # an attribute longer than the message
    ):
        assert parse_binding_request(bad) is None

    unsigned = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
    unsigned.attributes["USERNAME"] = "server:client"
    assert parse_binding_request(bytes(unsigned)) is None
    nameless = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
    nameless.add_message_integrity(PASSWORD.encode())
    assert parse_binding_request(bytes(nameless)) is None


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_nothing_that_comes_raises(data: bytes) -> None:
    parse_binding_request(data)
    parse_binding_request(bytes(check())[:20] + data)
    parse_binding_request(b"\x00\x01" + len(data).to_bytes(2, "big") + b"\x21\x12\xa4\x42" + os.urandom(12) + data)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_never_passes(position: int, change: int) -> None:
    data = bytearray(bytes(check()))
    data[position % (len(data) - 8)] ^= change  # the fingerprint comes after what is signed
    request = parse_binding_request(bytes(data))
    assert request is None or not request.is_signed_with(PASSWORD)
