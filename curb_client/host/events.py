"""Following a runner's event stream (host protocol, Event stream).

What must come out of which lines is decided in :mod:`curb_client.protocol.cursor`; here are the connections, the
deadlines and the storing of the cursor.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from typing_extensions import Self, Unpack

from curb_client.errors import EventStreamError, RunnerUnreachableError, UsageError
from curb_client.host.answers import error_body_of, refused
from curb_client.host.backoff import Backoff
from curb_client.host.cursors import MemoryCursorStore
from curb_client.host.stream_items import CallCut, CallItem, StreamItem, concerns, ends
from curb_client.host.transport import Answer, ByteStream, Request
from curb_client.protocol.contract import MAX_LINE_BYTES, ErrorCode
from curb_client.protocol.cursor import EventCursor, FollowPhase, Happening, Restarted
from curb_client.protocol.host_errors import known_code
from curb_client.protocol.ndjson import Line, LineDecoder, MalformedLine
from curb_client.room.callbacks import Warnings

if TYPE_CHECKING:
    from curb_client.host.cursors import CursorStore

__all__ = ["EventStream", "StreamCounts", "StreamOptions"]

READ_SECONDS: Final = 45.0  # three heartbeats
CONNECT_SECONDS: Final = 10.0
GIVE_UP_SECONDS: Final = 120.0
SAVE_SECONDS: Final = 1.0
_FINAL: Final = (ErrorCode.NO_JOURNAL, ErrorCode.RUNNER_TAKES_NO_CALLS)
_EVENTS: Final = Request("GET", "/v1/runner/events")

OpenStream: TypeAlias = Callable[[int | None, float], Awaitable[Answer | ByteStream]]
"""Connects after a cursor (None: from now on), within so many seconds."""


class StreamOptions(TypedDict, total=False):
    """How a stream is followed. Times are in seconds."""

    read_timeout: float  # without a byte before the connection is dropped; 45, three heartbeats
    connect_timeout: float  # until a stream begins; 10
    give_up_after: float | None  # without a line, over all tries, before it is an error; 120, None for never
    save_every: float  # at least between two savings of the cursor; 1
    backoff: Backoff  # the waits between connections
    max_line_bytes: int  # of a line; a longer one is dropped and counted; 16 MiB


@dataclass
class StreamCounts:
    """What came so far, over all connections.

    Attributes:
        connections: that began.
        records: of classes that are known. pings: heartbeats. malformed: lines that are no records.
        skipped: records of classes that are not known, by class; after 64 classes the others together, under ``""``.
    """

    connections: int = 0
    records: int = 0
    pings: int = 0
    malformed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def plus(self, decoder: LineDecoder | None) -> StreamCounts:
        """These and those of a connection."""
        if decoder is None:
            return self
        return StreamCounts(
            self.connections,
            self.records + decoder.records,
            self.pings + decoder.pings,
            self.malformed + decoder.malformed,
            self.skipped + decoder.skipped,
        )


class EventStream:
    """An async iterator over a runner's records, each once, and over what will never come; for one consumer.

    ::

        async with RunnerClient(address, token) as runner:
            async for item in runner.events(FileCursorStore("cursor.json")):
                match item:
                    case JournalRecord(): ...
                    case Gap(first=first, last=last): ...

    A broken or silent connection is replaced, after the last record processed. Asking for the next item says that the
    one before has been processed; the store gets to know at most ``save_every`` seconds later, and on :meth:`aclose`.
    After a crash a host is therefore handed the records of the last second again, and misses none. Nothing is read
    ahead but what fits into one buffer, so a slow consumer slows the runner down, not this process.

    It ends when the runner has ended its own record (``ended``), after a :class:`CallCut` for each call without its
    ``curb.ended``.

    Raises, when iterated:
        RunnerRefusedError: the runner does not let this be followed: a wrong token, no journal.
        EventStreamError: nothing was heard for ``give_up_after`` seconds; with the same store one can go on later.
        UsageError: what the store has is no cursor; or two consumers at once.
        OSError: the store cannot be read or written.
    """

    def __init__(
        self, open_stream: OpenStream, cursor: CursorStore | int | None = 0, **options: Unpack[StreamOptions]
    ) -> None:
        self._open = open_stream
        self._options = options
        self._backoff = options.get("backoff") or Backoff(first=0.2, most=5.0)
        is_number = cursor is None or isinstance(cursor, int)
        self._store: CursorStore = MemoryCursorStore() if is_number else cursor  # type: ignore[assignment]
        self._cursor = EventCursor(cursor if is_number else 0)  # type: ignore[arg-type]
        self._is_loaded = self._is_busy = False
        self._closed = asyncio.Event()
        self._saving = asyncio.Lock()
        self._over: Exception | None = None  # why nothing comes any more
        self._handed: deque[StreamItem] = deque()
        self._lines: deque[Line] = deque()
        self._connection: ByteStream | None = None
        self._decoder: LineDecoder | None = None
        self._reading: asyncio.Task[bytes] | None = None
        self._read_since = self._saved_at = 0.0
        self._failing_since: float | None = None
        self._given_up: EventStreamError | None = None
        self._saved: int | None = None
        self._delays: Iterator[float] | None = None
        self._counts = StreamCounts()
        self._warnings = Warnings()
        self.state_to_save: Callable[[EventCursor], dict[str, Any]] = EventCursor.to_json
        """What the store gets; whoever hands items on to others puts a state there that is behind them all."""

    @property
    def cursor(self) -> int | None:
        """The last envelope processed."""
        return self._cursor.cursor

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Calls whose ``curb.ended`` has not come."""
        return self._cursor.open_calls

    @property
    def is_waiting(self) -> bool:
        """Whether all that has come was handed out and processed, and it listens for more."""
        return self._reading is not None and not self._reading.done()

    @property
    def counts(self) -> StreamCounts:
        """What came so far."""
        return self._counts.plus(self._decoder)

    @property
    def repeated(self) -> int:
        """Records that came again and were dropped."""
        return self._cursor.repeated

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamItem:
        if self._is_busy:
            raise UsageError("somebody iterates over this stream already; RunnerClient.follow() has many consumers")
        self._is_busy = True
        try:
            if not self._is_loaded:
                await self._load()
            if not self._handed:
                self._cursor.commit()
            while not self._handed:
                await self._advance()
            if self._closed.is_set():  # the cursor that was stored meanwhile is before it
                raise self._over or StopAsyncIteration
            return self._handed.popleft()
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._over = self._over or error
            raise
        finally:
            self._is_busy = False

    async def call_events(self, session_id: str) -> AsyncIterator[CallItem]:
        """One call's records, until its ``curb.ended`` or a :class:`CallCut`, and every gap.

        The records of other calls are passed over: to watch several, open a stream for each, or use
        :meth:`RunnerClient.follow`.
        """
        async for item in self:
            if isinstance(item, Restarted) or not concerns(item, session_id):
                continue
            yield item
            if ends(item):
                return

    async def aclose(self) -> None:
        """Drop the connection and store the cursor. An item not followed by a demand for the next comes again."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._over = self._over or StopAsyncIteration()
        self._disconnect()
        if self._is_loaded:
            await self.save()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:  # of a consumer that left its loop
        with contextlib.suppress(AttributeError, RuntimeError):  # half made, or its event loop is gone
            self._disconnect()

    async def save(self) -> None:
        """Store the cursor now."""
        async with self._saving:
            self._saved, self._saved_at = self._cursor.cursor, _now()
            await self._store.save(self.state_to_save(self._cursor))

    def save_again(self) -> None:
        """Note that :attr:`state_to_save` gives something new, to be stored with the next line."""
        self._saved = -1

    # One step towards the next item

    async def _load(self) -> None:
        state = await self._store.load()
        if state is not None:
            self._cursor = EventCursor.from_json(state)
        self._saved = self._cursor.cursor
        self._saved_at = _now()
        self._is_loaded = True

    async def _advance(self) -> None:
        if self._over is not None:
            raise self._over
        if self._lines:
            await self._hand_out(self._cursor.handle(self._lines.popleft()))
        elif self._connection is not None:
            await self._read(self._connection)
        elif self._cursor.runner_ended:
            self._handed.extend(CallCut(call, "runner_ended") for call in self._cursor.open_calls)
            self._over = StopAsyncIteration()
            await self.save()
        else:
            await self._connect()

    async def _hand_out(self, happenings: Sequence[Happening]) -> None:
        for happening in happenings:
            self._handed.append(happening)
            if isinstance(happening, Restarted):
                self._handed.extend(CallCut(call, "restarted") for call in happening.cut)
        if self._cursor.phase is FollowPhase.RESTARTED:
            self._disconnect()
        if self._save_due() <= 0:
            await self.save()

    def _save_due(self) -> float:
        """In how many seconds the cursor is to be stored."""
        if self._cursor.cursor == self._saved:
            return math.inf
        return self._saved_at + self._options.get("save_every", SAVE_SECONDS) - _now()

    async def _read(self, connection: ByteStream) -> None:
        if self._reading is None:
            self._reading = asyncio.ensure_future(connection.read())
            self._read_since = _now()
        reading = self._reading  # kept when the consumer is cancelled, so that no bytes are lost
        deadline = self._read_since + self._options.get("read_timeout", READ_SECONDS)
        while not reading.done() and (left := deadline - _now()) > 0:
            if self._save_due() <= 0:
                await self.save()
            await asyncio.wait({reading}, timeout=min(left, max(self._save_due(), 0)))
        if self._over is not None:
            return
        if not reading.done():
            self._warnings.once("event stream", "the runner went silent", "connecting again")
            self._disconnect()
            self._failed("it went silent")
            return
        self._reading = None
        try:
            data = reading.result()
        except RunnerUnreachableError as error:
            self._disconnect()
            self._failed(error)
            return
        self._take(data)
        if not data:
            self._drop_connection()
            self._failed("it ended the stream without its last record")

    def _take(self, data: bytes) -> None:
        assert self._decoder is not None
        lines = self._decoder.feed(data) if data else self._decoder.end()
        for line in lines:
            if isinstance(line, MalformedLine):
                self._warnings.once("event stream", line.reason.value, f"a line was dropped: {line.error}")
        self._lines.extend(lines)
        if lines and data:
            self._failing_since = self._given_up = None
            self._delays = self._backoff.delays()

    # Connections

    async def _connect(self) -> None:
        if self._given_up is not None:
            self._over = self._given_up
            return
        await self._wait_before_connecting()
        if self._over is not None:
            return
        try:
            answer = await self._open(self._cursor.next_from, self._options.get("connect_timeout", CONNECT_SECONDS))
        except RunnerUnreachableError as error:
            self._failed(error)
            return
        if isinstance(answer, Answer):
            await self._refused(answer)
            return
        if self._closed.is_set():
            answer.close()
            return
        self._connection = answer
        self._decoder = LineDecoder(self._options.get("max_line_bytes", MAX_LINE_BYTES))
        self._counts.connections += 1
        await self._hand_out(self._cursor.connected())

    async def _refused(self, answer: Answer) -> None:
        body = error_body_of(answer)
        happenings = None if body is None else self._cursor.refused(body)
        if happenings is not None:
            self._delays = None
            await self._hand_out(happenings)
            return
        error = refused(_EVENTS, answer)
        if answer.status < 500 or (body is not None and known_code(body.error) in _FINAL):
            self._over = error
        else:
            self._failed(error)

    async def _wait_before_connecting(self) -> None:
        """Not before the first connection, nor after an answer about the cursor."""
        if self._delays is None:
            self._delays = self._backoff.delays()
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closed.wait(), next(self._delays))

    def _failed(self, why: Exception | str) -> None:
        """Connect again, if it is not to be given up once what has come is handed out."""
        if self._failing_since is None:
            self._failing_since = _now()
        seconds = self._options.get("give_up_after", GIVE_UP_SECONDS)
        if seconds is not None and _now() - self._failing_since >= seconds:
            self._given_up = EventStreamError(
                f"nothing was heard of the runner for {seconds:g} s (give_up_after): {why}. Its calls are not known "
                "to be over; go on later with the same store, or take it for dead",
                cut=self.open_calls,
            )
            self._given_up.__cause__ = why if isinstance(why, Exception) else None

    def _disconnect(self) -> None:
        self._lines.clear()
        if self._reading is not None:
            self._reading.cancel()
            self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._reading = None
        self._drop_connection()

    def _drop_connection(self) -> None:
        self._counts, self._decoder = self.counts, None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
