"""Answers that come in many messages: a run's events, a subscription's, a package's progress."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from typing_extensions import Self

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.errors import DaemonTimeoutError, PackageError
from curb_client.crabtalk.events import AgentEvent, PackageEvent
from curb_client.crabtalk.frames import encode_frame
from curb_client.crabtalk.operations import answer_of, asked
from curb_client.errors import ClosedError, CurbError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from curb_client.crabtalk.connection import Connection
    from curb_client.crabtalk.pool import Pool

__all__ = ["AgentEvents", "PackageProgress", "Replies"]

ItemT = TypeVar("ItemT")

PING_SECONDS: Final = 30.0
"""After so long a silence a subscription asks whether the daemon is still there."""
_PING: Final = encode_frame(pb.ClientMessage(ping=pb.Ping()))


class Replies(Generic[ItemT]):
    """``async for`` it, or ``async with`` it to be sure that its connection is dropped at the end of the block.

    Nothing is asked before the first item is awaited. Whoever stops early drops the connection; that is how a daemon
    learns of it.
    """

    _reusable: ClassVar[bool] = True

    def __init__(self, pool: Pool, message: Message, seconds: float) -> None:
        self._pool = pool
        self._doing, self._message = asked(message)
        self._frame = encode_frame(self._message)
        self._seconds = seconds
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_done = False
        self._is_closed = False
        self._more: deque[ItemT] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ItemT:
        try:
            while not self._is_done:
                if self._more:
                    return self._more.popleft()
                connection = self._connection or await self._begin()
                message = self._next_message(connection)
                item = self._take(await self._receive(connection) if message is None else message)
                if item is not None:
                    return item
        except CurbError:
            self._drop()
            if not self._is_closed:  # else by aclose(): that is the end, and no failure
                raise
        except BaseException:
            self._drop()
            raise
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        await self._prepare()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop here; may be called more than once, and by another task than the one that reads: its loop then ends."""
        self._is_closed = True
        self._drop()

    def __del__(self) -> None:
        loop = self._loop
        if self._connection is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._pool.give_back_dropped, self._connection)

    async def _prepare(self) -> None:
        """What is done when a block is entered."""

    async def _begin(self) -> Connection:
        deadline = time.monotonic() + self._seconds
        self._loop = asyncio.get_running_loop()
        connection = self._connection = await self._pool.take(self._doing, self._seconds)
        if self._is_done:
            raise ClosedError(f"{self._doing}: it was closed")
        await connection.send(self._frame, max(deadline - time.monotonic(), 0.0))
        return connection

    def _next_message(self, connection: Connection) -> pb.ServerMessage | None:
        """The next message if it is here already: two coroutines less for most events."""
        return connection.take()

    async def _receive(self, connection: Connection) -> pb.ServerMessage:
        return await connection.receive(self._seconds)

    def _take(self, message: pb.ServerMessage) -> ItemT | None:
        """What a message brings, None for nothing; what else it brings is appended to ``_more``.

        The last one calls :meth:`_finish`.
        """
        raise NotImplementedError

    def _finish(self) -> None:
        """The last message came."""
        self._is_done = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection, reusable=self._reusable)

    def _drop(self) -> None:
        self._is_done = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection, reusable=False)


class AgentEvents(Replies[AgentEvent]):
    """What all agents do, until it is closed; see :meth:`curb_client.crabtalk.CrabTalkClient.events`.

    The daemon does not say that it took a subscription, nor that it is alive while nothing happens. So each
    subscription has a connection of its own (two on one would double the events), with pings between: entering the
    block returns when two of them were answered, and a silence of 30 s asks again.
    """

    _reusable = False

    async def _prepare(self) -> None:
        try:
            connection = await self._begin()
            self._early: list[pb.ServerMessage] = []
            for _ in range(2):  # the daemon begins with each request in the order sent, but not with what it does
                await connection.send(_PING, self._seconds)
                while not (message := await connection.receive(self._seconds)).HasField("pong"):
                    self._early.append(message)
        except BaseException:
            self._drop()
            raise

    async def _begin(self) -> Connection:
        connection = await super()._begin()
        self._early = []
        return connection

    def _next_message(self, connection: Connection) -> pb.ServerMessage | None:
        return self._early.pop(0) if self._early else connection.take()

    async def _receive(self, connection: Connection) -> pb.ServerMessage:
        try:
            return await connection.receive(PING_SECONDS)
        except DaemonTimeoutError:
            await connection.send(_PING, self._seconds)
            return await connection.receive(self._seconds)

    def _take(self, message: pb.ServerMessage) -> AgentEvent | None:
        if message.HasField("pong"):
            return None
        return AgentEvent.of(answer_of(message, self._doing, pb.AgentEventMsg))


class PackageProgress(Replies[PackageEvent]):
    """How installing or removing a package goes on, until it is done.

    Raises, besides what all requests do:
        PackageError: it failed.
    """

    def __init__(self, pool: Pool, message: pb.InstallPackageMsg | pb.UninstallPackageMsg, seconds: float) -> None:
        super().__init__(pool, message, seconds)
        self._package = message.package

    async def done(self) -> list[PackageEvent]:
        """All events, once it is done."""
        return [event async for event in self]

    def _take(self, message: pb.ServerMessage) -> PackageEvent | None:
        event = answer_of(message, self._doing, pb.HubEvent)
        match event.WhichOneof("event"):
            case "step":
                return PackageEvent("step", event.step.message)
            case "warning":
                return PackageEvent("warning", event.warning.message)
            case "setup_output":
                return PackageEvent("output", event.setup_output.content)
            case "done":
                self._finish()
                if event.done.error:
                    raise PackageError(self._package, event.done.error)
        return None
