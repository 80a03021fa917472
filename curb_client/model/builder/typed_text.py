"""Typed text in a room: what a client writes is a turn, the reply goes to the room (LiveKit's text topics)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any, Final

from livekit import rtc
from typing_extensions import Self

from curb_client.errors import TurnError
from curb_client.model.builder.harmless import made_harmless
from curb_client.model.builder.turn import Turns
from curb_client.protocol.contract import CHAT_TOPIC, TRANSCRIPTION_TOPIC
from curb_client.room.agent import AgentCall
from curb_client.room.sdk import STANDARD_KIND, finish_within

__all__ = ["TypedText"]

_READ_SECONDS: Final = 10.0
_SEND_SECONDS: Final = 10.0
_WAITING: Final = 100

logger: Final = logging.getLogger("curb_client.model")


class TypedText:
    """An agent that answers what clients type, in the order in which they began to; ``async with`` it.

    While the call is on hold, and for participants that are no clients, nothing is answered.

    Args:
        call: entered already; its room has no other handler of ``lk.chat``.
        turns: what answers.
        on_turn: called after each turn with the text, the reply or None, and the error where there was one.
    """

    def __init__(
        self,
        call: AgentCall,
        turns: Turns,
        *,
        on_turn: Callable[[str, str | None, TurnError | None], Any] = lambda *_: None,
    ) -> None:
        self._call = call
        self._turns = turns
        self._on_turn = on_turn
        self._texts: asyncio.Queue[asyncio.Task[str]] = asyncio.Queue(_WAITING)
        self._worker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._call.room.register_text_stream_handler(CHAT_TOPIC, self._text_began)
        self._worker = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._call.room.unregister_text_stream_handler(CHAT_TOPIC)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker}, timeout=_SEND_SECONDS)
        while not self._texts.empty():
            self._texts.get_nowait().cancel()

    def _text_began(self, reader: rtc.TextStreamReader, identity: str) -> None:
        sender = self._call.room.remote_participants.get(identity)
        if self._call.on_hold or (sender is not None and sender.kind != STANDARD_KIND):
            return
        reading = asyncio.get_running_loop().create_task(reader.read_all())
        try:
            self._texts.put_nowait(reading)
        except asyncio.QueueFull:
            reading.cancel()
            logger.warning("%d typed texts wait for an answer; another one of %r is dropped", _WAITING, identity)

    async def _work(self) -> None:
        while True:
            reading = await self._texts.get()
            try:
                text = await asyncio.wait_for(reading, _READ_SECONDS)
            except Exception as error:
                logger.warning("a typed text did not arrive whole: %s", str(error) or type(error).__name__)
                continue
            if not self._call.on_hold:
                await self._answer(text)

    async def _answer(self, text: str) -> None:
        reply: str | None = None
        failure: TurnError | None = None
        try:
            reply = await self._turns.run(text)
            if reply:
                await self._say(reply)
        except TurnError as error:
            failure = error
            logger.error("no answer to %r: %s", made_harmless(text)[:80], error)
        except Exception:
            logger.exception("the reply to %r could not be sent", made_harmless(text)[:80])
        self._on_turn(text, reply, failure)

    async def _say(self, reply: str) -> None:
        attributes = {"lk.transcription_final": "true", "lk.segment_id": f"SG_{uuid.uuid4().hex[:12]}"}
        participant = self._call.room.local_participant
        await finish_within(
            participant.send_text(reply, topic=TRANSCRIPTION_TOPIC, attributes=attributes), _SEND_SECONDS
        )
