"""Which session of the daemon is whose."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from curb_client.crabtalk.client import CrabTalkClient
from curb_client.crabtalk.connection import Connection
from curb_client.crabtalk.errors import CrabTalkError
from curb_client.room.callbacks import logger

__all__ = ["Caller", "Callers"]

CONNECT_SECONDS: Final = 5.0
FREE_SECONDS: Final = 5.0


@dataclass
class Caller:
    """A participant that talks to the daemon.

    Attributes:
        session: its own, once there was a run. run: the one that goes on. is_asked: the run waits for an answer.
        has_left: nobody is there to be told anything. heard: when it last asked something, of the monotonic clock.
    """

    identity: str
    session: int | None = None
    run: asyncio.Task[Any] | None = None
    is_asked: bool = False
    has_left: bool = False
    heard: float = 0.0

    @property
    def is_busy(self) -> bool:
        return self.run is not None and not self.run.done()


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

    def of(self, identity: str) -> Caller:
        """The caller of this identity, which has just asked something."""
        caller = self._callers.setdefault(identity, Caller(identity))
        caller.heard = time.monotonic()
        return caller

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
                caller.session = None
            self._lifeline = await Connection.open(self._client.address, CONNECT_SECONDS)

    async def free(self, identity: str) -> None:
        """The caller has left: end its run, and its session."""
        caller = self._callers.pop(identity, None)
        if caller is not None:
            freeing = asyncio.ensure_future(self._free(caller))
            self._freeing.add(freeing)
            freeing.add_done_callback(self._freeing.discard)
            await asyncio.shield(freeing)

    async def _free(self, caller: Caller) -> None:
        caller.has_left = True
        if caller.run is not None:
            caller.run.cancel()
            await asyncio.wait({caller.run}, timeout=FREE_SECONDS)
        if caller.session is not None and self._lifeline is not None and self._lifeline.is_idle:
            try:
                await self._client.kill(caller.session, timeout=FREE_SECONDS)
            except CrabTalkError as error:
                logger.warning("the session %s of %r, who left: %s", caller.session, caller.identity, error)

    async def aclose(self) -> None:
        """Free all."""
        await asyncio.gather(*(self.free(identity) for identity in list(self._callers)), *self._freeing)
        if self._lifeline is not None:
            self._lifeline.close()
