"""SDP: what a client's offer says, and the answer to it. Text in, text out; no input, no output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_MESSAGE_BYTES", "LocalSide", "Offer", "SdpError", "Section", "answer", "parse_offer"]

MAX_MESSAGE_BYTES: Final = 65535
"""The largest message that we take on a data channel: livekit-server's."""
DEFAULT_SCTP_PORT: Final = 5000
DEFAULT_MAX_MESSAGE_BYTES: Final = 65536
"""What a client takes that does not tell (RFC 8841)."""

_MEDIA_LINE: Final = re.compile(r"(audio|video|application|text|message) (\d+) (\S+) (\S.*)")
_FINGERPRINT: Final = re.compile(r"([A-Za-z0-9-]+) ([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})+)")
_WORD: Final = re.compile(r"[\x21-\x7e]{1,256}")
_DIRECTIONS: Final = ("sendrecv", "sendonly", "recvonly", "inactive")
_HELPERS: Final = ("red", "rtx", "ulpfec", "flexfec-03", "telephone-event", "CN")
"""Formats that carry nothing alone."""

_Attributes = dict[str, list[str]]
"""The ``a=`` lines of a section: values by name, in order; "" for an attribute without one."""


class SdpError(ValueError):
    """An offer that cannot be answered."""


@dataclass(frozen=True)
class Section:
    """One ``m=`` section of an offer."""

    kind: str
    mid: str
    protocol: str
    formats: tuple[str, ...]
    sends: bool
    """Whether the client sends media in it."""
    rejected: bool
    """Whether it is out of use."""
    track_id: str
    """The track that is sent, as the client calls it; may be empty."""
    format_lines: tuple[str, ...]
    """The ``rtpmap`` and ``fmtp`` attributes, without ``a=``."""
    agreed_lines: tuple[str, ...] = ()
    """What a browser must find in the answer too: with the header extensions and the simulcast layers left out, its
    next offer contradicts itself. Without ``a=``, seen from us."""


@dataclass(frozen=True)
class Offer:
    """What a client offers."""

    ufrag: str
    """Changes where the client restarts ICE."""
    fingerprints: tuple[tuple[str, str], ...]
    """Of the client's certificate: hash function and value."""
    sctp_port: int
    max_message_bytes: int
    """The largest message that the client takes; 0 where any."""
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class LocalSide:
    """What our answers say about us."""

    session_id: int
    ufrag: str
    password: str
    fingerprint: tuple[str, str]
    address: tuple[str, int]


def parse_offer(text: str) -> Offer:
    """What an offer says.

    Raises:
        SdpError: it has no data channel, no ICE user, no fingerprint, or lines that make no sense.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    starts = [number for number, line in enumerate(lines) if line.startswith("m=")]
    if not starts:
        raise SdpError("the offer has no sections")
    parts = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    head, *attributes = map(_attributes, [lines[: starts[0]], *parts])
    sections = tuple(_section(part[0][2:], values) for part, values in zip(parts, attributes, strict=True))
    mids = [section.mid for section in sections]
    if len(set(mids)) != len(mids):
        raise SdpError("two sections of the offer have the same mid")
    if not any(section.kind == "application" and not section.rejected for section in sections):
        raise SdpError("the offer has no data channel")
    data = next(values for section, values in zip(sections, attributes, strict=True) if section.kind == "application")
    prints = {_fingerprint(value) for values in (head, *attributes) for value in values.get("fingerprint", ())}
    if not prints:
        raise SdpError("the offer has no fingerprint")
    ufrag = next((values["ice-ufrag"][0] for values in (head, *attributes) if "ice-ufrag" in values), "")
    if not _WORD.fullmatch(ufrag):
        raise SdpError("the offer has no ICE user")
    return Offer(
        ufrag,
        tuple(sorted(prints)),
        _number(data, "sctp-port", DEFAULT_SCTP_PORT, 65535),
        _number(data, "max-message-size", DEFAULT_MAX_MESSAGE_BYTES, 2**53),
        sections,
    )


def _attributes(lines: list[str]) -> _Attributes:
    found: _Attributes = {}
    for line in lines:
        if line.startswith("a="):
            name, _, value = line[2:].partition(":")
            found.setdefault(name, []).append(value)
    return found


def _section(line: str, attributes: _Attributes) -> Section:
    """Args:
    line: what follows ``m=``.
    """
    media = _MEDIA_LINE.fullmatch(line)
    mid = attributes.get("mid", [""])[0]
    if media is None or not _WORD.fullmatch(mid):
        raise SdpError(f"a section of the offer makes no sense: {'m=' + line[:98]!r}, mid {mid[:100]!r}")
    kind, port, protocol, formats = media.groups()
    direction = next((name for name in attributes if name in _DIRECTIONS), "sendrecv")
    return Section(
        kind=kind,
        mid=mid,
        protocol=protocol,
        formats=tuple(formats.split()),
        sends=kind != "application" and port != "0" and direction in ("sendrecv", "sendonly"),
        rejected=port == "0",
        track_id=attributes.get("msid", [""])[0].partition(" ")[2],
        format_lines=tuple(f"{name}:{value}" for name in ("rtpmap", "fmtp") for value in attributes.get(name, ())),
        agreed_lines=tuple(_agreed(attributes)),
    )


def _agreed(attributes: _Attributes) -> Iterator[str]:
    yield from (f"extmap:{value}" for value in attributes.get("extmap", ()))
    for name in ("rid", "simulcast"):
        for value in attributes.get(name, ()):
            words = value.split(" ")
            if "send" in words and "recv" not in words:
                yield f"{name}:{' '.join('recv' if word == 'send' else word for word in words)}"


def _number(attributes: _Attributes, attribute: str, default: int, largest: int) -> int:
    for value in attributes.get(attribute, ()):
        if not (value.isascii() and value.isdecimal() and len(value) < 20 and int(value) <= largest):
            raise SdpError(f"the offer's {attribute} is {value[:100]!r}")
        return int(value)
    return default


def _fingerprint(value: str) -> tuple[str, str]:
    found = _FINGERPRINT.fullmatch(value)
    if found is None:
        raise SdpError(f"the offer's fingerprint is {value[:100]!r}")
    return found[1].lower(), found[2].upper()


def answer(offer: Offer, local: LocalSide) -> str:
    """The answer: data channels, and media taken where it is sent, which nobody gets.

    Sections without media stay in use as ``inactive``: a client in a browser fails where they are rejected.
    """
    accepted = [section for section in offer.sections if not section.rejected]
    lines = [
        "v=0",
        f"o=- {local.session_id} 2 IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        "a=ice-lite",
        f"a=fingerprint:{local.fingerprint[0]} {local.fingerprint[1]}",
        "a=group:BUNDLE " + " ".join(section.mid for section in accepted),
        "a=msid-semantic: WMS *",
    ]
    for section in offer.sections:
        if section.rejected:
            lines += [f"m={section.kind} 0 {section.protocol} {' '.join(section.formats)}", "c=IN IP4 0.0.0.0"]
            lines += [f"a=mid:{section.mid}", "a=inactive"]
            continue
        lines += _application(section) if section.kind == "application" else _media(section)
        lines += ["a=setup:passive", f"a=ice-ufrag:{local.ufrag}", f"a=ice-pwd:{local.password}"]
        if section is accepted[0]:  # the others share its transport
            host, port = local.address
            lines += [f"a=candidate:1 1 udp 2130706431 {host} {port} typ host", "a=end-of-candidates"]
    return "\r\n".join(lines) + "\r\n"


def _application(section: Section) -> list[str]:
    return [
        f"m=application 9 {section.protocol} {' '.join(section.formats)}",
        "c=IN IP4 0.0.0.0",
        f"a=mid:{section.mid}",
        "a=sendrecv",
        f"a=sctp-port:{DEFAULT_SCTP_PORT}",
        f"a=max-message-size:{MAX_MESSAGE_BYTES}",
    ]


def _media(section: Section) -> list[str]:
    chosen = _plain_format(section)
    return [
        f"m={section.kind} 9 {section.protocol} {chosen}",
        "c=IN IP4 0.0.0.0",
        f"a=mid:{section.mid}",
        "a=recvonly" if section.sends else "a=inactive",
        "a=rtcp-mux",
        "a=rtcp-rsize",
        *(f"a={line}" for line in section.format_lines if line.partition(":")[2].split(" ")[0] == chosen),
        *(f"a={line}" for line in section.agreed_lines),
    ]


def _plain_format(section: Section) -> str:
    """The first format that needs no other, by its number."""
    names = {}
    for line in section.format_lines:
        if line.startswith("rtpmap:"):
            number, _, name = line.removeprefix("rtpmap:").partition(" ")
            names[number] = name.partition("/")[0]
    return next((number for number in section.formats if names.get(number, "") not in _HELPERS), section.formats[0])
