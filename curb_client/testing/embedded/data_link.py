"""The data of one participant: the packets that it sends and is sent, as far as the way from and to the room."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from livekit.protocol import models

from curb_client.testing.embedded.context import Context
from curb_client.testing.embedded.fault_table import Who
from curb_client.testing.embedded.routing import LOSSY, RELIABLE, Routed, Sender, stamp
from curb_client.testing.embedded.transport import Transport

__all__ = ["DataLink"]

KEPT_FOR: Final = 2.0
"""Seconds that a packet waits for a participant whose data channels do not open."""
MOST_KEPT: Final = 10_000
MOST_KEPT_BYTES: Final = 16 * 1024 * 1024


class DataLink:
    """Between a participant's transport and its room.

    Args:
        who: the participant, for the faults. name: the same, for the journal.
        deliver: takes what it sends, to hand it to the others.
    """

    def __init__(
        self, context: Context, who: Who, name: str, transport: Transport, deliver: Callable[[Routed], None]
    ) -> None:
        self.last_sequence = 0
        """Of the reliable packets that came; those up to it are repeats."""
        self._context = context
        self._who = who
        self._name = name
        self._transport = transport
        self._deliver = deliver
        self._is_open = False
        self._kept: deque[tuple[float, Routed]] = deque()
        self._kept_bytes = 0
        self._sender = Sender("", "", is_agent=False, hidden=False)
        self._may_publish = False

    @property
    def has_open_channels(self) -> bool:
        """Whether the client has opened those that are needed."""
        return self._transport.has_open(RELIABLE) and self._transport.has_open(LOSSY)

    def identify(self, info: models.ParticipantInfo) -> None:
        """What is known of the participant now: it is written into its packets."""
        is_agent = info.kind == models.ParticipantInfo.AGENT
        self._sender = Sender(info.sid, info.identity, is_agent, info.permission.hidden)
        self._may_publish = info.permission.can_publish_data

    def open(self) -> None:
        """It can be sent data from now on: first what came while it was joining."""
        self._is_open = True
        self._forget_old()
        while self._kept:
            self.send(self._kept.popleft()[1])

    def take(self, packet: models.DataPacket, label: str) -> None:
        """Every data packet that it sends; ``label`` is the channel that it came on."""
        if not self._may_publish:
            self._context.journal.once(
                f"data of {self._name}, who may not publish any", f"{self._name} may not publish data"
            )
            return
        if label == RELIABLE and packet.sequence:
            if packet.sequence <= self.last_sequence:  # after a resume, a client repeats what it is not sure of
                return
            self.last_sequence = packet.sequence
        routed = stamp(packet, self._sender, label)
        if routed is None:
            return
        if self._context.faults.packets:
            self._context.faults.packet(routed, self._who, "from", self._deliver)
        else:
            self._deliver(routed)

    def send(self, routed: Routed) -> None:
        """Every data packet that it is sent."""
        if self._is_open:
            if self._context.faults.packets:
                self._context.faults.packet(routed, self._who, "to", self._send)
            else:
                self._send(routed)
        elif routed.is_kept_for_the_joining:
            self._kept.append((time.monotonic(), routed))
            self._kept_bytes += len(routed.data)
            self._forget_old()

    def _forget_old(self) -> None:
        """Drops what has waited for too long, and the oldest of what is too much."""
        since = time.monotonic() - KEPT_FOR
        while self._kept and (
            self._kept[0][0] < since or len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES
        ):
            self._kept_bytes -= len(self._kept.popleft()[1].data)

    def _send(self, routed: Routed) -> None:
        self._transport.send(routed.label, routed.data)
