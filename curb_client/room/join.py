"""Joining a room safely: for kiosks and bots that have no room of their own yet."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final

from livekit import rtc
from typing_extensions import Self

from curb_client.errors import ConnectFailedError, UsageError
from curb_client.room.arguments import check_timeout
from curb_client.room.callbacks import logger
from curb_client.room.client import AgentClient
from curb_client.room.sdk import CONNECT_SECONDS, connect, disconnect, finish_within
from curb_client.room.trace import Trace

__all__ = ["Call", "Token", "connect_room", "join"]

Token = str | Callable[[], str | Awaitable[str]]
"""A LiveKit access token, or a plain or async function that makes one; it is asked again for each connection."""

REJOIN_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 5.0

# Somebody decided that this participant should not be there: coming back would be against their will.
_FINAL_REASONS: Final = frozenset(
    {
        rtc.DisconnectReason.CLIENT_INITIATED,
        rtc.DisconnectReason.DUPLICATE_IDENTITY,
        rtc.DisconnectReason.PARTICIPANT_REMOVED,
        rtc.DisconnectReason.ROOM_DELETED,
        rtc.DisconnectReason.ROOM_CLOSED,
    }
)


@asynccontextmanager
async def connect_room(
    url: str, token: Token, *, timeout: float | None = None, options: rtc.RoomOptions | None = None
) -> AsyncIterator[rtc.Room]:
    """A connected room, left at the end of the block. For an agent: ``async with connect_room(...) as room``.

    Args:
        timeout: seconds to connect in, 15 by default.

    Raises:
        ConnectFailedError: LiveKit's reason, or out of time.
    """
    seconds = check_timeout(timeout, default=CONNECT_SECONDS)
    room = await connect(url, await _make(token, seconds), timeout=seconds, options=options)
    try:
        yield room
    finally:
        await disconnect(room)


def join(
    url: str,
    token: Token,
    *,
    agent_identity: str | None = None,
    rejoin: bool = False,
    timeout: float | None = None,
    rejoin_timeout: float | None = None,
    options: rtc.RoomOptions | None = None,
    trace: Trace | None = None,
) -> Call:
    """Join a call: ``async with curb_client.join(url, token) as call: await call.agent.ask(...)``.

    Args:
        url: LiveKit's, ``ws://`` or ``wss://``.
        token: with the grant to join the room; see :data:`Token`.
        agent_identity: see :func:`curb_client.connect_agent`.
        rejoin: join again, with a new token, when the room is lost for good (not when somebody removed this
            participant, took its identity or ended the room). Handlers and waiting requests survive; a request that was
            on its way fails with LiveKit's RpcError.
        timeout: seconds for each connection, 15 by default.
        rejoin_timeout: seconds after which rejoining is given up, 60 by default.
        trace: told of every step; see :mod:`curb_client.room.trace`.

    Raises:
        UsageError: ``rejoin`` with a fixed token, which may have expired by then.
        ConnectFailedError: when entered.
    """
    if rejoin and isinstance(token, str):
        raise UsageError("rejoin=True needs a function that makes tokens: a fixed one may expire; pass token=lambda: …")
    return Call(
        url,
        token,
        agent_identity=agent_identity,
        rejoin_seconds=check_timeout(rejoin_timeout, default=REJOIN_SECONDS) if rejoin else None,
        connect_seconds=check_timeout(timeout, default=CONNECT_SECONDS),
        options=options,
        trace=trace,
    )


class Call:
    """A joined call; made by :func:`join`.

    Attributes:
        agent: the client of the agent.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        agent_identity: str | None,
        rejoin_seconds: float | None,
        connect_seconds: float,
        options: rtc.RoomOptions | None,
        trace: Trace | None,
    ) -> None:
        self.agent = AgentClient(agent_identity=agent_identity, will_rejoin=self._will_rejoin, trace=trace)
        self._url = url
        self._token = token
        self._rejoin_seconds = rejoin_seconds
        self._connect_seconds = connect_seconds
        self._options = options
        self._room: rtc.Room | None = None
        self._rejoining: asyncio.Task[None] | None = None

    @property
    def room(self) -> rtc.Room:
        """The room as it is now; another one after each rejoining.

        Raises:
            UsageError: not entered yet.
        """
        if self._room is None:
            raise UsageError("the call is not joined; use it inside `async with curb_client.join(...) as call:`")
        return self._room

    async def __aenter__(self) -> Self:
        try:
            await self._connect()
        except BaseException:
            self._room = None
            await self.agent.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._rejoining is not None:
            self._rejoining.cancel()
        try:
            await self.agent.aclose()
        finally:  # also when cancelled
            if self._room is not None:
                await disconnect(self._room)

    async def _connect(self) -> None:
        token = await _make(self._token, self._connect_seconds)
        room = rtc.Room()
        self.agent.attach(room)
        self._room = room  # before it is connected: whoever is told of the agent in it may ask for it
        await connect(self._url, token, timeout=self._connect_seconds, options=self._options, room=room)

    def _will_rejoin(self, reason: rtc.DisconnectReason.ValueType) -> bool:
        if self._rejoin_seconds is None or reason in _FINAL_REASONS:
            return False
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = asyncio.ensure_future(self._rejoin(self._rejoin_seconds))
        return True

    async def _rejoin(self, seconds: float) -> None:
        given_up = time.monotonic() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._connect()
            except Exception as error:
                if time.monotonic() + pause >= given_up:
                    logger.error("gave up joining the room again after %g s: %s", seconds, error)
                    self.agent.give_up(f", and joining it again failed for {seconds:g} s: {error}")
                    return
                logger.warning("joining the room again failed, next try in %g s: %s", pause, error)
            else:
                logger.info("joined the room again")
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


async def _make(token: Token, seconds: float) -> str:
    made = token if isinstance(token, str) else token()
    if inspect.isawaitable(made):
        try:
            made = await finish_within(_result(made), seconds)
        except TimeoutError as error:
            raise ConnectFailedError(f"what makes the token was not done within {seconds:g} s ({error})") from error
    if not made:
        raise ConnectFailedError("the token is empty; what makes it must return a LiveKit access token")
    return made


async def _result(awaitable: Awaitable[str]) -> str:
    return await awaitable
