"""Faults of data packets: which they are for, and what happens to those."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from curb_client.testing.embedded.fault_table import Fault, Scope, Way

if TYPE_CHECKING:
    from livekit.protocol import models

    from curb_client.testing.embedded.routing import Routed

__all__ = ["Corrupt", "Delay", "Drop", "Duplicate", "PacketFault", "PacketFilter", "Reorder"]

# How the SDK marks an RPC that travels as text streams (its version 2): in the attributes of their headers.
RPC_METHOD: Final = "lk.rpc_request_method"
RPC_ID: Final = "lk.rpc_request_id"

_CONTENT: Final = {
    "user": ("payload",),
    "stream_header": ("inline_content",),
    "stream_chunk": ("content",),
    "rpc_request": ("payload", "compressed_payload"),
    "rpc_response": ("payload", "compressed_payload"),
    "chat_message": ("message",),
}


@dataclass
class PacketFilter:
    """Which packets a fault is for; see :class:`.faults.PacketOptions`."""

    scope: Scope
    topic: str | None = None
    method: str | None = None
    _streams: set[str] = field(default_factory=set)
    _requests: set[str] = field(default_factory=set)
    """The ids of those whose header or request fits: what follows names nothing else."""

    def __str__(self) -> str:
        topic = f" on topic {self.topic!r}" if self.topic is not None else ""
        method = f" of method {self.method!r}" if self.method is not None else ""
        return f"{self.scope}{topic}{method}"

    def fits(self, packet: models.DataPacket, way: Way) -> bool:
        # What it is about comes first: an answer is found by a request that went another way.
        return self._is_about(packet) and self._passes(packet, way)

    def _passes(self, packet: models.DataPacket, way: Way) -> bool:
        if self.scope.direction is None and self.scope.participant is None and way.direction == "to":
            # Once each, where it comes from; the server's own packets come from nobody.
            return not packet.participant_sid and self.scope.has(way.who)
        return self.scope.takes(way)

    def _is_about(self, packet: models.DataPacket) -> bool:
        if self.topic is None and self.method is None:
            return True
        kind = packet.WhichOneof("value")
        if kind == "stream_header":
            return self._is_header_about(packet.stream_header)
        if kind == "stream_chunk":
            return packet.stream_chunk.stream_id in self._streams
        if kind == "stream_trailer":
            return packet.stream_trailer.stream_id in self._streams
        if kind == "user":
            return self.method is None and packet.user.topic == self.topic
        return self.topic is None and self._is_rpc_about(packet, kind)

    def _is_header_about(self, header: models.DataStream.Header) -> bool:
        if self.method is not None:
            request = header.attributes.get(RPC_ID, "")
            if header.attributes.get(RPC_METHOD) == self.method:
                self._requests.add(request)
            elif request not in self._requests:
                return False
        if self.topic not in (None, header.topic):
            return False
        self._streams.add(header.stream_id)
        return True

    def _is_rpc_about(self, packet: models.DataPacket, kind: str | None) -> bool:
        if kind == "rpc_request" and packet.rpc_request.method == self.method:
            self._requests.add(packet.rpc_request.id)
            return True
        # Not its acknowledgement: the first packet back is meant to be the answer.
        return kind == "rpc_response" and packet.rpc_response.request_id in self._requests


class PacketFault(Fault):
    """A fault of the packets that fit a filter, of so many at most."""

    places = frozenset({"packets"})

    def __init__(self, what: str, packet_filter: PacketFilter, most: int | None) -> None:
        amount = "packets" if most is None else f"at most {most} packet{'s' if most > 1 else ''}"
        super().__init__(f"{what} {amount}{packet_filter}", packet_filter.scope)
        self._filter = packet_filter
        self._most = most

    def packet(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:
        if self._filter.fits(routed.packet, way):
            self._hit(routed, way, forward)
        else:
            forward(routed)

    def _hit(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:
        raise NotImplementedError

    def _takes_one(self) -> bool:
        """Whether it is still to happen; counts it then."""
        if self._most is not None and self.count >= self._most:
            return False
        self.count += 1
        return True


def _changed(routed: Routed, change: Callable[[models.DataPacket], object]) -> Routed:
    packet = type(routed.packet)()  # a copy: the others get the packet as it was
    packet.CopyFrom(routed.packet)
    change(packet)
    return replace(routed, packet=packet, data=packet.SerializeToString())


def _anew(routed: Routed) -> Routed:
    """The packet without its number and its nonce: with them, who has had it or a later one takes it for a repeat."""

    def forget(packet: models.DataPacket) -> None:
        packet.ClearField("sequence")
        if packet.HasField("user"):
            packet.user.ClearField("nonce")

    return _changed(routed, forget)


class Drop(PacketFault):
    def _hit(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:  # noqa: ARG002
        if not self._takes_one():
            forward(routed)


class Duplicate(PacketFault):
    def _hit(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:  # noqa: ARG002
        forward(routed)
        if self._takes_one():
            forward(_anew(routed))


class Delay(PacketFault):
    def __init__(self, what: str, packet_filter: PacketFilter, most: int | None, seconds: float) -> None:
        super().__init__(what, packet_filter, most)
        self._seconds = seconds
        self._held: deque[Callable[[], None]] = deque()

    def _hit(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:  # noqa: ARG002
        if not self._takes_one():
            forward(routed)
            return
        late = _anew(routed)  # others may overtake it
        self._held.append(lambda: forward(late))
        asyncio.get_running_loop().call_later(self._seconds, self._release)

    def _release(self) -> None:
        if self._held:  # by another timer's turn, or the end, it may be on its way
            self._held.popleft()()

    def end(self) -> None:
        while self._held:
            self._release()


class Reorder(PacketFault):
    def __init__(self, what: str, packet_filter: PacketFilter, most: int | None) -> None:
        super().__init__(what, packet_filter, most)
        self._held: dict[Way, Callable[[], None]] = {}

    def _hit(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:
        held = self._held.pop(way, None)
        if held is not None:
            forward(routed)
            held()
        elif self._takes_one():
            late = _anew(routed)
            self._held[way] = lambda: forward(late)
        else:
            forward(routed)

    def end(self) -> None:
        while self._held:
            self._held.popitem()[1]()


class Corrupt(PacketFault):
    def _hit(self, routed: Routed, way: Way, forward: Callable[[Routed], None]) -> None:  # noqa: ARG002
        kind = routed.packet.WhichOneof("value") or ""
        part = getattr(routed.packet, kind, None)
        name = next((name for name in _CONTENT.get(kind, ()) if getattr(part, name)), "")
        if not name or not self._takes_one():
            forward(routed)
            return
        forward(_changed(routed, lambda packet: _spoil(getattr(packet, kind), name)))


def _spoil(part: Any, name: str) -> None:
    """Overwrites the first character, also of what is compressed as a whole: a text arrives, and JSON is none."""
    content = getattr(part, name)
    if isinstance(content, str):
        spoilt: str | bytes = ("!" if content[0] == "?" else "?") + content[1:]
    elif (inflated := _inflated(part, name)) is not None:
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        spoilt = deflate.compress(_spoilt(inflated)) + deflate.flush()
    else:
        spoilt = _spoilt(content)
    setattr(part, name, spoilt)


def _spoilt(content: bytes) -> bytes:
    return (b"!" if content[:1] == b"?" else b"?") + content[1:]


def _inflated(part: Any, name: str) -> bytes | None:
    """What was compressed; None where nothing was."""
    if name == "inline_content" and not part.compression:
        return None
    if name not in ("inline_content", "compressed_payload"):
        return None
    try:
        return zlib.decompress(getattr(part, name), -zlib.MAX_WBITS)
    except zlib.error:
        return None
