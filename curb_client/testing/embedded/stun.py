"""STUN as far as an ICE-lite server needs it: binding requests in, their answers out. No input, no output."""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import struct
from dataclasses import dataclass, field

__all__ = ["BindingRequest", "binding_response", "parse_binding_request"]

MAGIC_COOKIE = 0x2112A442
FINGERPRINT_XOR = 0x5354554E
HEADER = struct.Struct("!HHI12s")
ATTRIBUTE = struct.Struct("!HH")

BINDING_REQUEST = 0x0001
BINDING_SUCCESS = 0x0101

USERNAME = 0x0006
MESSAGE_INTEGRITY = 0x0008
XOR_MAPPED_ADDRESS = 0x0020
USE_CANDIDATE = 0x0025
FINGERPRINT = 0x8028

INTEGRITY_SIZE = 4 + 20
FINGERPRINT_SIZE = 4 + 4


@dataclass(frozen=True)
class BindingRequest:
    """A client's check whether a path works."""

    transaction: bytes
    local_ufrag: str
    """The first half of the user name: whom the check is for."""
    nominates: bool
    """Whether the client wants to use this path."""
    _signed: bytes = field(repr=False)
    _signature: bytes = field(repr=False)

    def is_signed_with(self, password: str) -> bool:
        return hmac.compare_digest(self._signature, hmac.digest(password.encode(), self._signed, "sha1"))


def parse_binding_request(data: bytes) -> BindingRequest | None:
    """The request in a datagram; None where it is none, is malformed or has no signature. Never raises."""
    if len(data) < HEADER.size or len(data) % 4:
        return None
    kind, length, cookie, transaction = HEADER.unpack_from(data)
    if kind != BINDING_REQUEST or cookie != MAGIC_COOKIE or length != len(data) - HEADER.size:
        return None
    ufrag = signed = signature = None
    nominates = False
    position = HEADER.size
    while position < len(data):  # both lengths are multiples of four, so a header of four bytes is there
        attribute, size = ATTRIBUTE.unpack_from(data, position)
        value = data[position + 4 : position + 4 + size]
        if len(value) != size:
            return None
        if attribute == FINGERPRINT:
            if size != 4 or _fingerprint(data[:position]) != int.from_bytes(value, "big"):
                return None
        elif signature is not None:
            pass  # what follows the signature is not covered by it
        elif attribute == USERNAME:
            ufrag = value.partition(b":")[0].decode("ascii", errors="replace")
        elif attribute == USE_CANDIDATE:
            nominates = True
        elif attribute == MESSAGE_INTEGRITY:
            signed, signature = _with_length_for(data[:position], INTEGRITY_SIZE), value
        position += 4 + (size + 3) // 4 * 4
    if ufrag is None or signed is None or signature is None:
        return None
    return BindingRequest(transaction, ufrag, nominates, signed, signature)


def binding_response(request: BindingRequest, address: tuple[str, int], password: str) -> bytes:
    """The answer to a request from ``address`` (IPv4), signed with the password it was signed with."""
    host, port = address
    xored_host = int(ipaddress.IPv4Address(host)) ^ MAGIC_COOKIE
    mapped = struct.pack("!HHBBHI", XOR_MAPPED_ADDRESS, 8, 0, 1, port ^ (MAGIC_COOKIE >> 16), xored_host)
    message = HEADER.pack(BINDING_SUCCESS, len(mapped), MAGIC_COOKIE, request.transaction) + mapped
    signature = hmac.digest(password.encode(), _with_length_for(message, INTEGRITY_SIZE), "sha1")
    message += ATTRIBUTE.pack(MESSAGE_INTEGRITY, len(signature)) + signature
    message = _with_length_for(message, FINGERPRINT_SIZE)
    return message + struct.pack("!HHI", FINGERPRINT, 4, _fingerprint(message))


def _with_length_for(message: bytes, size: int) -> bytes:
    """The message as if it ended after one more attribute of so many bytes."""
    return message[:2] + struct.pack("!H", len(message) - HEADER.size + size) + message[4:]


def _fingerprint(message: bytes) -> int:
    return binascii.crc32(_with_length_for(message, FINGERPRINT_SIZE)) ^ FINGERPRINT_XOR
