"""The answers that an agent has given and that may not have left it yet."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from livekit import rtc

from curb_client.protocol.envelope import Refusal
from curb_client.room.callbacks import logger
from curb_client.room.sdk import finish_within

__all__ = ["AnswersUnderWay"]

_UNDER_WAY_SECONDS: Final = 1.0
_LOOK_EVERY_SECONDS: Final = 0.005
_NOTES: Final = 2  # behind one note, 5 of 90 answers were still lost on a machine with three times too much to do
_NOTE_TOPIC: Final = "curb.leaving"


class _Asked(NamedTuple):
    """Who has asked, and whether the server had told of it then."""

    identity: str
    was_there: bool


class AnswersUnderWay:
    """LiveKit does not say when it has sent the answer to an RPC, and one who leaves the room cuts it off.

    Of the answers given just before leaving, livekit 1.2.1 loses all where the token lets the agent say nothing more,
    and one in eight on livekit-server where it does. But it does say when a text is sent, and sends in turn: so a text
    to oneself, which no server carries to anybody, tells that the answers before it are out.
    """

    def __init__(self, room: rtc.Room) -> None:
        self._room = room
        self._handled: list[_Asked] = []
        self._given: dict[_Asked, float] = {}

    @contextlib.contextmanager
    def answering(self, identity: str) -> Iterator[None]:
        """Around the handling of a request: what it returns, or its refusal, is then under way."""
        asked = _Asked(identity, identity in self._room.remote_participants)
        self._handled.append(asked)
        try:
            yield
            self._is_given(asked)
        except Refusal:
            self._is_given(asked)
            raise
        finally:
            self._handled.remove(asked)

    async def sent(self) -> None:
        """Returns when the answers are sent, or those who asked have left; after a second at most."""
        if not self._has_some():
            return
        try:
            await finish_within(self._notes_to_oneself(), _UNDER_WAY_SECONDS)
        except TimeoutError:
            pass  # they had the time that they need
        except Exception:
            logger.debug("the room was lost before the last answers were sent", exc_info=True)

    async def _notes_to_oneself(self) -> None:
        while self._handled:  # noqa: ASYNC110 - short
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
        me = self._room.local_participant
        for _ in range(_NOTES):
            if self._has_some():
                await me.send_text("-", topic=_NOTE_TOPIC, destination_identities=[me.identity])

    def _is_given(self, asked: _Asked) -> None:
        self._forget_old()
        self._given[asked] = time.monotonic()

    def _has_some(self) -> bool:
        self._forget_old()
        there = self._room.remote_participants
        return any(not asked.was_there or asked.identity in there for asked in [*self._handled, *self._given])

    def _forget_old(self) -> None:
        oldest = time.monotonic() - _UNDER_WAY_SECONDS
        self._given = {asked: given for asked, given in self._given.items() if given > oldest}
