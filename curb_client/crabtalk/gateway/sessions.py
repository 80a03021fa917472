"""Which session of the daemon is whose."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final

from curb_client.crabtalk.client import CrabTalkClient
from curb_client.crabtalk.connection import Connection
from curb_client.crabtalk.errors import CrabTalkError, DaemonNotFoundError
from curb_client.room.callbacks import logger

__all__ = ["KILLED", "Caller", "Callers"]

CONNECT_SECONDS: Final = 5.0
FREE_SECONDS: Final = 5.0
START_SECONDS: Final = 1.0
"""A daemon tells the session of a new chat at once; a run that ends before that would leave it behind."""

KILLED: Final = "the run was killed"
ENDING: Final = "the gateway ends"


@dataclass
class Caller:
    """A participant that talks to the daemon.

    Attributes:
        session: its own, once there was a run. started: set while it is known.
        run: the one that goes on. is_asked: it waits for an answer. end: why it was ended.
        has_left: nobody is there to be told anything. heard: when it last asked something, of the monotonic clock.
    """

    identity: str
    session: int | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    run: asyncio.Task[Any] | None = None
    is_asked: bool = False
    end: str = KILLED
    has_left: bool = False
    heard: float = 0.0

    @property
    def is_busy(self) -> bool:
        return self.run is not None and not self.run.done()

    def begin_session(self, session: int) -> None:
        self.session = session
        self.started.set()

    def forget_session(self) -> None:
        self.session = None
        self.started.clear()

    async def end_run(self, why: str) -> int | None:
        """End the run that goes on, if any, and return the session, which is forgotten here and lives on there."""
        if self.run is not None and self.is_busy and self.session is None:
            starting = asyncio.ensure_future(self.started.wait())
            await asyncio.wait({self.run, starting}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
        session = self.session
        self.forget_session()
        if self.run is not None:
            self.end = why
            self.run.cancel()
        return session


class Callers:
    """The callers of a gateway.

    A daemon that was started again counts its sessions from 1, and does not look whose session a message names: a
    remembered one may be somebody else's by then. So a connection is held open that nothing is sent on; once the
    daemon has closed it, all sessions are forgotten.
    """

    def __init__(self, client: CrabTalkClient) -> None:
        self._client = client
        self._callers: dict[str, Caller] = {}
        self._freeing: set[asyncio.Future[None]] = set()
        self._lifeline: Connection | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    def of(self, identity: str) -> Caller:
        """The caller of this identity, which has just asked something."""
        caller = self._callers.setdefault(identity, Caller(identity))
        caller.heard = time.monotonic()
        return caller

    def is_there(self, caller: Caller) -> bool:
        """Whether it has not left, nor the gateway ended, since it asked."""
        return self._callers.get(caller.identity) is caller and not self._is_closed

    def silent(self, seconds: float) -> list[str]:
        """The identities of those who asked nothing for so long."""
        before = time.monotonic() - seconds
        return [caller.identity for caller in self._callers.values() if caller.heard < before]

    async def check_daemon(self) -> None:
        """Forget the sessions of a daemon that is gone.

        Raises:
            CrabTalkError: none is there.
        """
        async with self._opening:
            if self._lifeline is not None and self._lifeline.is_idle:
                return
            for caller in self._callers.values():
                caller.forget_session()
            self._lifeline = await Connection.open(self._client.address, CONNECT_SECONDS)
            if self._is_closed:
                self._lifeline.close()

    async def free(self, identity: str) -> None:
        """The caller has left: end its run, and its session."""
        caller = self._callers.pop(identity, None)
        if caller is not None:
            caller.has_left = True
            await asyncio.shield(self._free(caller))

    def _free(self, caller: Caller) -> asyncio.Future[None]:
        freeing = asyncio.ensure_future(self._end(caller))
        self._freeing.add(freeing)
        freeing.add_done_callback(self._freeing.discard)
        return freeing

    async def _end(self, caller: Caller) -> None:
        session = await caller.end_run(ENDING)
        if caller.run is not None:
            await asyncio.wait({caller.run}, timeout=FREE_SECONDS)
        if session is not None and self._lifeline is not None and self._lifeline.is_idle:
            try:
                await self._client.kill(session, timeout=FREE_SECONDS)
            except DaemonNotFoundError:
                return  # killed by somebody else
            except CrabTalkError as error:
                logger.warning("the session %s of %r, who left: %s", session, caller.identity, error)

    async def aclose(self) -> None:
        """Free all; may be called more than once."""
        self._is_closed = True
        while self._callers:
            self._free(self._callers.popitem()[1])
        if self._freeing:
            await asyncio.wait(set(self._freeing))
        if self._lifeline is not None:
            self._lifeline.close()
