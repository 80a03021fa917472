"""What agents say, as the text that LiveKit gives a room: the text stream topic ``lk.transcription``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from livekit import rtc

from curb_client.protocol.contract import TRANSCRIPTION_TOPIC
from curb_client.testing.expectations import difference

__all__ = ["Hearing"]

READ_SECONDS: Final = 60.0
"""An agent that speaks writes its words while it says them."""
_FINAL: Final = "lk.transcription_final"


class Hearing:
    """Collects the texts of the others in a room, each when it is whole, until it is closed.

    Args:
        heard: called with each.
    """

    def __init__(self, room: rtc.Room, heard: Callable[[str], None]) -> None:
        self.texts: list[str] = []
        """Those that no expectation took."""
        self._room = room
        self._heard = heard
        self._reading: set[asyncio.Task[None]] = set()
        room.register_text_stream_handler(TRANSCRIPTION_TOPIC, self._began)

    def take(self, text: object) -> str | None:
        """The first that fits, which is no more among them then."""
        found = next((each for each in self.texts if difference(text, each) is None), None)
        if found is not None:
            self.texts.remove(found)
        return found

    def close(self) -> None:
        """Drops what is not whole."""
        self._room.unregister_text_stream_handler(TRANSCRIPTION_TOPIC)
        for task in self._reading:
            task.cancel()

    def _began(self, reader: rtc.TextStreamReader, identity: str) -> None:
        if identity != self._room.local_participant.identity:  # else it is what an agent heard its caller say
            task = asyncio.ensure_future(self._read(reader))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _read(self, reader: rtc.TextStreamReader) -> None:
        try:
            text = await asyncio.wait_for(reader.read_all(), READ_SECONDS)
        except asyncio.TimeoutError:
            return
        if (reader.info.attributes or {}).get(_FINAL) == "false":  # at its end: what is spoken begins as not final
            return
        self.texts.append(text)
        self._heard(text)
