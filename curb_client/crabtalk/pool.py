"""Connections to one daemon, each with one exchange at a time.

The daemon's answers carry nothing that says what they answer, and those to several requests on one connection come
mixed up: so a connection has one request under way. It is used again once the last answer came, and dropped otherwise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from curb_client.crabtalk.connection import Connection
from curb_client.crabtalk.errors import DaemonTimeoutError
from curb_client.errors import ClosedError

if TYPE_CHECKING:
    from curb_client.crabtalk.addresses import Address

__all__ = ["Pool"]

MOST_IDLE: Final = 4


class Pool:
    """At most ``most`` exchanges at once; more of them wait their turn.

    Args:
        address: the daemon's.
        idle: connections to be used again, which pools may share.
    """

    def __init__(self, address: Address, most: int, idle: list[Connection] | None = None) -> None:
        self.address = address
        self._most = most
        self._free = most
        self._turns: deque[asyncio.Future[None]] = deque()
        self._idle = [] if idle is None else idle
        self._used: set[Connection] = set()
        self._closed = False

    async def take(self, doing: str, seconds: float) -> Connection:
        """A connection for one exchange; give it back.

        Raises:
            DaemonUnreachableError: none can be had.
            DaemonTimeoutError: none within so many seconds.
            ClosedError: the client was closed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        await self._turn(doing, seconds)
        try:
            if self._closed:
                raise ClosedError(f"{doing}: the client was closed; make a new one")
            connection = self._take_idle() or await Connection.open(self.address, max(deadline - loop.time(), 0.0))
        except BaseException:
            self._next()
            raise
        connection.doing = doing
        self._used.add(connection)
        if self._closed:
            self.give_back(connection, reusable=False)
            raise ClosedError(f"{doing}: the client was closed; make a new one")
        return connection

    def give_back(self, connection: Connection, *, reusable: bool) -> None:
        """The exchange is over.

        Args:
            reusable: its last answer came.
        """
        if connection not in self._used:
            return
        self._used.discard(connection)
        if reusable and connection.is_idle and len(self._idle) < MOST_IDLE and not self._closed:
            connection.doing = "nothing"
            self._idle.append(connection)
        else:
            connection.close()
        self._next()

    def give_back_dropped(self, connection: Connection) -> None:
        """The exchange was given up by whoever forgot it."""
        self.give_back(connection, reusable=False)

    def close(self) -> None:
        """Drop all connections; the exchanges on them fail."""
        self._closed = True
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> Connection | None:
        """One that the daemon has not closed meanwhile, the latest used first."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle:
                return connection
            connection.close()
        return None

    async def _turn(self, doing: str, seconds: float) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await asyncio.wait({turn}, timeout=seconds)
        except BaseException:
            if turn.done():
                self._next()
            raise
        finally:
            if not turn.done():
                self._turns.remove(turn)
        if not turn.done():
            raise DaemonTimeoutError(
                f"{doing}: not begun within {seconds:g} s, because {self._most} exchanges are under way",
                doing=doing,
                waited=seconds,
            )

    def _next(self) -> None:
        """The turn of whoever waits longest."""
        if self._turns:
            self._turns.popleft().set_result(None)
        else:
            self._free += 1
