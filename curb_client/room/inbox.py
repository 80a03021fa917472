"""The agent's messages, from LiveKit's text streams to whole messages in the order in which they were sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from livekit import rtc

from curb_client.errors import RoomInUseError
from curb_client.protocol.contract import MAX_MESSAGE_BYTES, MAX_OPEN_BYTES, MAX_OPEN_MESSAGES, MESSAGE
from curb_client.protocol.envelope import MalformedTextError, decode_message
from curb_client.protocol.ordering import Delivery, InOrder
from curb_client.protocol.types import AgentMessage
from curb_client.room.callbacks import Warnings
from curb_client.room.sdk import read_text

__all__ = ["Inbox", "MessageCounts"]

UNDECIDED_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 0.05


@dataclass
class MessageCounts:
    """What came from the room and was not handed out as it came.

    Attributes:
        malformed: not JSON, not UTF-8, or no message.
        incomplete: streams that broke or stopped before their end.
        over_limit: larger than 4 MiB, or begun while 1,024 messages or 16 MiB of them were not whole yet.
        foreign: from somebody who is not the agent.
        late: handed out after messages that were sent later.
        unhandled: whole messages that no handler took, by key; after 1,024 keys the others together, under ``""``.
    """

    malformed: int = 0
    incomplete: int = 0
    over_limit: int = 0
    foreign: int = 0
    late: int = 0
    unhandled: Counter[str] = field(default_factory=Counter)


class _OverLimitError(Exception):
    """A message takes more memory than it may have."""


class _Memory:
    """What the messages that are not whole yet take of it."""

    def __init__(self) -> None:
        self._bytes = 0

    @contextmanager
    def of_one_message(self) -> Iterator[Callable[[int], None]]:
        """Gives a function to be told of its bytes, which raises _OverLimitError; frees them in the end."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            taken += size
            self._bytes += size
            if taken > MAX_MESSAGE_BYTES:
                raise _OverLimitError(f"it has more than {MAX_MESSAGE_BYTES} bytes; the agent should send a reference")
            if self._bytes > MAX_OPEN_BYTES:
                raise _OverLimitError(f"all that are not whole yet have more than {MAX_OPEN_BYTES} bytes")

        try:
            yield take
        finally:
            self._bytes -= taken


class Inbox:
    """Takes the topic ``curb.message`` of one room after another.

    Args:
        is_agent: whether an identity is the agent's; None while the room does not know it.
        deliver: called with each whole message of the agent and its identity, in order.
    """

    def __init__(
        self,
        is_agent: Callable[[str], bool | None],
        deliver: Callable[[AgentMessage, str], None],
        counts: MessageCounts,
        warnings: Warnings,
    ) -> None:
        self._is_agent = is_agent
        self._deliver = deliver
        self._counts = counts
        self._warnings = warnings
        self._room: rtc.Room | None = None
        self._senders: dict[str, InOrder[AgentMessage]] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._memory = _Memory()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def attach(self, room: rtc.Room) -> None:
        """Raises:
        RoomInUseError: somebody else reads the topic.
        """
        self.detach()
        try:
            room.register_text_stream_handler(MESSAGE, self._opened)
        except ValueError as error:
            raise RoomInUseError(
                f"the room's text stream handler for {MESSAGE!r} is taken; unregister it before connect_agent(room)"
            ) from error
        self._room = room

    def detach(self) -> None:
        if self._room is not None:
            self._room.unregister_text_stream_handler(MESSAGE)
            self._room = None
        for task in self._reading:
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._senders.clear()

    # The SDK calls this one, and never a coroutine function.
    def _opened(self, reader: rtc.TextStreamReader, sender: str) -> None:
        if self._is_agent(sender) is False:
            self._foreign(sender)
            reader.close()
            return
        if len(self._reading) >= MAX_OPEN_MESSAGES:
            self._over_limit(sender, f"{MAX_OPEN_MESSAGES} others are not whole yet")
            reader.close()
            return
        queue = self._senders.setdefault(sender, InOrder())
        task = asyncio.ensure_future(self._read(reader, sender, queue, queue.start()))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        task.add_done_callback(lambda _: reader.close())  # also of one that is cancelled before it began

    async def _read(self, reader: rtc.TextStreamReader, sender: str, queue: InOrder[AgentMessage], number: int) -> None:
        message = await self._whole_message(reader, sender)
        loop = asyncio.get_running_loop()
        if message is None:
            self._hand_out(queue.fail(number), sender)
        else:
            self._hand_out(queue.complete(number, message, loop.time()), sender)
        self._set_timer(sender, queue)

    async def _whole_message(self, reader: rtc.TextStreamReader, sender: str) -> AgentMessage | None:
        try:
            with self._memory.of_one_message() as take:
                text = await read_text(reader, take)
        except _OverLimitError as error:
            self._over_limit(sender, str(error))
            return None
        except UnicodeError as error:
            self._malformed(sender, f"not UTF-8 ({error})")
            return None
        except (rtc.StreamError, TimeoutError) as error:
            self._counts.incomplete += 1
            self._warnings.once(f"a message from {sender!r}", f"incomplete ({error})", "dropped")
            return None
        if not await self._comes_from_agent(sender):
            self._foreign(sender)
            return None
        try:
            message = decode_message(text)
        except MalformedTextError as error:
            self._malformed(sender, str(error))
            return None
        return message if message.id else message.model_copy(update={"id": reader.info.stream_id})

    async def _comes_from_agent(self, sender: str) -> bool:
        """An agent may speak before the server has told us of it; wait until it has."""
        loop = asyncio.get_running_loop()
        given_up = loop.time() + UNDECIDED_SECONDS
        while (verdict := self._is_agent(sender)) is None and loop.time() < given_up:  # noqa: ASYNC110 - rare, and short
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return bool(verdict)

    def _malformed(self, sender: str, what: str) -> None:
        self._counts.malformed += 1
        self._warnings.once(f"a message from {sender!r}", f"malformed ({what})", "dropped")

    def _foreign(self, sender: str) -> None:
        self._counts.foreign += 1
        self._warnings.once(f"a message from {sender!r}", "its sender is not the agent", "dropped")

    def _over_limit(self, sender: str, reason: str) -> None:
        self._counts.over_limit += 1
        self._warnings.once(f"a message from {sender!r}", f"over a limit ({reason})", "dropped")

    def _hand_out(self, deliveries: list[Delivery[AgentMessage]], sender: str) -> None:
        for delivery in deliveries:
            if delivery.late:
                self._counts.late += 1
                key = delivery.message.key
                self._warnings.once(f"the agent's message {key!r}", "it completed late", "later ones came before it")
            self._deliver(delivery.message, sender)

    def _set_timer(self, sender: str, queue: InOrder[AgentMessage]) -> None:
        if timer := self._timers.pop(sender, None):
            timer.cancel()
        if queue.is_idle and self._senders.get(sender) is queue:
            del self._senders[sender]
        deadline = queue.next_deadline()
        if deadline is not None and self._room is not None:
            loop = asyncio.get_running_loop()
            self._timers[sender] = loop.call_at(deadline, self._overtake, sender, queue)

    def _overtake(self, sender: str, queue: InOrder[AgentMessage]) -> None:
        self._hand_out(queue.overtake(asyncio.get_running_loop().time()), sender)
        self._set_timer(sender, queue)
