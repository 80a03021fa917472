"""Joining a room, without asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType

from livekit import rtc
from typing_extensions import Self

import curb_client.room.join as room_join
from curb_client.blocking.callbacks import CallbackQueue
from curb_client.blocking.client import AgentClient
from curb_client.blocking.loop_thread import LoopThread
from curb_client.room.arguments import check_timeout
from curb_client.room.sdk import CONNECT_SECONDS
from curb_client.room.trace import Trace

__all__ = ["Call", "join"]


def join(
    url: str,
    token: room_join.Token,
    *,
    agent_identity: str | None = None,
    rejoin: bool = False,
    timeout: float | None = None,
    rejoin_timeout: float | None = None,
    options: rtc.RoomOptions | None = None,
    trace: Trace | None = None,
    wake: Callable[[], object] | None = None,
) -> Call:
    """Join a call: ``with blocking.join(url, token) as call: call.agent.ask(...)``.

    Takes and raises what :func:`curb_client.join` does; calls a token function and ``trace`` on the call's own thread.

    Args:
        timeout: seconds for each connection, 15 by default.
        rejoin_timeout: seconds after which rejoining is given up, 60 by default.
        wake: called whenever something waits for :meth:`Call.poll`, on the call's own thread: it must be safe there,
            return at once and wait for nothing. ``threading.Event.set`` and a byte written to a pipe are; Tkinter's
            ``event_generate`` is not, it waits for the main loop: use ``after`` instead.

    Raises:
        UsageError: also when ``wake`` is no plain function. When entered:
        ConnectFailedError: LiveKit's reason, or out of time.
    """
    call = room_join.join(
        url,
        token,
        agent_identity=agent_identity,
        rejoin=rejoin,
        timeout=timeout,
        rejoin_timeout=rejoin_timeout,
        options=options,
        trace=trace,
    )
    return Call(call, connect_seconds=check_timeout(timeout, default=CONNECT_SECONDS), wake=wake)


class Call:
    """A joined call, for any number of threads; made by :func:`join`.

    Attributes:
        agent: the client of the agent.
    """

    def __init__(
        self, call: room_join.Call, *, connect_seconds: float, wake: Callable[[], object] | None = None
    ) -> None:
        self._loop = LoopThread(self._joined(call))
        self._callbacks = CallbackQueue(self._loop, wake)
        self._connect_seconds = connect_seconds
        self.agent = AgentClient(call.agent, self._loop, self._callbacks)

    @asynccontextmanager
    async def _joined(self, call: room_join.Call) -> AsyncIterator[None]:
        try:
            async with call:
                yield
        finally:
            self._callbacks.end()

    def __enter__(self) -> Self:
        self._loop.start(2 * self._connect_seconds)  # the token's and the connection's
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.end()

    def poll(self, timeout: float = 0.0) -> int:
        """Run the callbacks that wait, of ``agent.on`` and ``agent.on_presence``, on this thread; returns how many.

        For a loop of yours: ``while True: call.poll(timeout=1)``, or every 50 ms from a window's timer. A callback may
        use ``call.agent``, and what it raises comes out here; those after it wait for the next poll.

        Args:
            timeout: seconds to wait for the first one.

        Raises:
            InvalidTimeoutError. UsageError: not joined, on the call's own thread, or a callback turned out to be async.
            ClosedError: the call is over. Whatever a callback raises.
        """
        seconds = check_timeout(timeout, default=0.0)
        self._loop.check()
        return self._callbacks.run(seconds)
