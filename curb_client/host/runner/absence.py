"""Somebody who is not in the room any more, for good or only for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from livekit import rtc

__all__ = ["Absence"]

RETURN_SECONDS: Final = 10.0
MEANT_TO_LEAVE: Final = (rtc.DisconnectReason.CLIENT_INITIATED, rtc.DisconnectReason.PARTICIPANT_REMOVED)


class Absence:
    """Decides when somebody who left is gone.

    At once where it was meant; after a lost connection, ten seconds later. The agent's own connection that is made
    anew looks the same: LiveKit then tells of all as of people who left, and as of new ones.

    Args:
        room: that of the call.
        gone: called once it is certain; not after :meth:`ends`.
    """

    def __init__(self, room: rtc.Room, gone: Callable[[], None]) -> None:
        self._room = room
        self._gone = gone
        self._timer: asyncio.TimerHandle | None = None

    def begins(self, participant: rtc.RemoteParticipant) -> None:
        """This participant was disconnected."""
        self.ends()
        if participant.disconnect_reason in MEANT_TO_LEAVE:
            self._gone()
        else:
            self._wait()

    def ends(self) -> None:
        """They are there again, or it does not matter any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(RETURN_SECONDS, self._is_over)

    def _is_over(self) -> None:
        if self._room.connection_state == rtc.ConnectionState.CONN_RECONNECTING:  # nobody can be seen, and it may fail
            self._wait()
        else:
            self._timer = None
            self._gone()
