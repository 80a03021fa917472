"""What the participants of a room are told of each other, and when."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from livekit.protocol import models, rtc

if TYPE_CHECKING:
    from curb_client.testing.embedded.participant import Participant
    from curb_client.testing.embedded.rooms import Room

__all__ = ["Updates"]

DEPARTED_KEPT: Final = 256
KNOWS_SESSIONS_BY_SID: Final = 12
"""From this protocol on, a client that sees another sid for an identity knows itself that the old session is over."""


@dataclass(frozen=True)
class _Update:
    info: models.ParticipantInfo
    is_replaced: bool
    """Whether the same identity is back, in another session."""


class Updates:
    """Tells a room's participants what changed, at once or like livekit-server.

    livekit-server tells the joins and leaves of who publishes nothing when a clock ticks that began with the room;
    what changes in between is told once. Attributes, metadata, permissions and publishers are told at once.
    """

    def __init__(self, room: Room, period: float) -> None:
        self._room = room
        self._period = period
        self._began = time.monotonic()
        self._waiting: dict[str, _Update] = {}
        self._room_changed = False
        self._clock: asyncio.TimerHandle | None = None
        self._departed: deque[tuple[float, models.ParticipantInfo]] = deque(maxlen=DEPARTED_KEPT)

    def changed(self, who: Participant, *, immediate: bool = False, to_self: bool = False) -> None:
        """Tells of a participant's new state; of a hidden one, only itself."""
        who.info.version += 1
        if to_self:
            who.tell([who.info])
        if who.info.permission.hidden:
            return
        info = models.ParticipantInfo()
        info.CopyFrom(who.info)
        update = _Update(info, info.disconnect_reason == models.DUPLICATE_IDENTITY)
        batch = [update]
        before = self._waiting.pop(info.identity, None)
        if before is not None and before.info.sid != info.sid:  # the others shall see that these are two
            before.info.state = models.ParticipantInfo.DISCONNECTED
            batch.insert(0, _Update(before.info, is_replaced=True))
            immediate = True
        if self._period and not immediate and not info.is_publisher:
            self._waiting[info.identity] = update
            self._wait_for_tick()
            return
        self._tell(batch, but=who)

    def room_changed(self, *, immediate: bool = False) -> None:
        """Tells everybody about the room, with the next tick or at once."""
        self._room_changed = True
        if immediate or not self._period:
            self._tell_of_room()
        else:
            self._wait_for_tick()

    def departed_since(self, when: float) -> list[models.ParticipantInfo]:
        """Who has left since then, by ``time.monotonic()``, for a client that was cut off meanwhile."""
        return [info for left, info in self._departed if left >= when]

    def close(self) -> None:
        """Tells nothing more by itself."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _wait_for_tick(self) -> None:
        if self._clock is None:
            seconds = self._period - (time.monotonic() - self._began) % self._period
            self._clock = asyncio.get_running_loop().call_later(seconds, self.tick)

    def tick(self) -> None:
        """Tells what is still to be told."""
        self.close()
        batch, self._waiting = list(self._waiting.values()), {}
        self._tell(batch)
        self._tell_of_room()

    def _tell_of_room(self) -> None:
        if self._room_changed:
            self._room_changed = False
            for participant in list(self._room.participants.values()):
                participant.signal_out(rtc.SignalResponse(room_update=rtc.RoomUpdate(room=self._room.info)))

    def _tell(self, batch: Iterable[_Update], but: Participant | None = None) -> None:
        now = time.monotonic()
        left = [update.info for update in batch if update.info.state == models.ParticipantInfo.DISCONNECTED]
        self._departed.extend((now, info) for info in left)
        every = [update.info for update in batch]
        new = [update.info for update in batch if not update.is_replaced]
        for participant in list(self._room.participants.values()):
            if participant is not but:
                participant.tell(new if participant.protocol >= KNOWS_SESSIONS_BY_SID else every)
