"""Data packets: what the server writes into them, and who gets them. No input, no output."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from livekit.protocol import models

__all__ = ["LOSSY", "RELIABLE", "NonceMemory", "Routed", "Sender", "addressed", "is_for", "stamp"]

RELIABLE: Final = "_reliable"
LOSSY: Final = "_lossy"
"""The data channels of a client, by their labels."""

NONCES_KEPT: Final = 100
_KINDS: Final = {RELIABLE: models.DataPacket.RELIABLE, LOSSY: models.DataPacket.LOSSY}


@dataclass(frozen=True)
class Sender:
    """Who sends a packet, as far as its way depends on it."""

    sid: str
    identity: str
    is_agent: bool
    hidden: bool


@dataclass(frozen=True)
class Routed:
    """A packet on its way to participants."""

    packet: models.DataPacket
    data: bytes
    """The packet, serialized once for all of them."""
    label: str
    """The data channel that it takes."""

    @property
    def is_kept_for_the_joining(self) -> bool:
        """Whether a participant whose data channels do not open yet gets it when they do."""
        return self.label == RELIABLE and self.packet.sequence > 0 and self.packet.participant_sid != ""


def stamp(packet: models.DataPacket, sender: Sender, label: str) -> Routed | None:
    """The packet with the server's word on whom it is from; None where it goes to nobody.

    A participant of kind AGENT may name another sender in a text stream's header or a chat message, nowhere else.
    """
    kind = packet.WhichOneof("value")
    if kind == "metrics" or (kind == "transcription" and not sender.is_agent):
        return None
    packet.participant_sid = sender.sid
    seen_as = "" if sender.hidden else sender.identity
    if kind == "user":
        packet.user.participant_sid = "" if sender.hidden else sender.sid
        packet.user.participant_identity = seen_as
    if not _on_behalf(packet, kind, sender):
        packet.participant_identity = seen_as
    return addressed(packet, label)


def _on_behalf(packet: models.DataPacket, kind: str | None, sender: Sender) -> bool:
    """Whether an agent speaks for somebody else; marks the text as generated, as livekit-server does."""
    if not sender.is_agent or packet.participant_identity in ("", sender.identity):
        return False
    if kind == "chat_message":
        packet.chat_message.generated = True
        return True
    if kind == "stream_header" and packet.stream_header.WhichOneof("content_header") == "text_header":
        packet.stream_header.text_header.generated = True
        return True
    return False


def addressed(packet: models.DataPacket, label: str) -> Routed:
    """The packet with its channel's kind, and with the same destinations in both of the places that they may be in."""
    packet.kind = _KINDS[label]
    if packet.HasField("user"):
        user = packet.user
        if packet.destination_identities:
            user.ClearField("destination_identities")
            user.destination_identities.extend(packet.destination_identities)
        else:
            packet.destination_identities.extend(user.destination_identities)
    return Routed(packet, packet.SerializeToString(), label)


def is_for(packet: models.DataPacket, identity: str, sid: str) -> bool:
    """Whether a participant who did not send the packet gets it."""
    destinations, sids = packet.destination_identities, packet.user.destination_sids
    return not (destinations or sids) or identity in destinations or sid in sids


class NonceMemory:
    """The last nonces of user packets: one that comes again is dropped."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def is_repeat(self, packet: models.DataPacket) -> bool:
        """Whether a packet with this nonce was asked about before; False without a nonce of 16 bytes."""
        nonce = packet.user.nonce
        if len(nonce) != 16:
            return False
        if nonce in self._seen:
            return True
        self._seen[nonce] = None
        if len(self._seen) > NONCES_KEPT:
            self._seen.popitem(last=False)
        return False
