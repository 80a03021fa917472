"""Faults of the network and of joins, and participants that freeze."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from curb_client.testing.embedded.fault_table import Fault, Scope, Way, Who

__all__ = ["Freeze", "LimitBandwidth", "LoseDatagrams", "RefuseJoins", "SlowJoins"]

LINK_KEEPS_SECONDS: Final = 1.0
"""What a narrow link keeps, at most; more is lost, as in a router."""


class LoseDatagrams(Fault):
    places = frozenset({"datagrams"})

    def __init__(self, what: str, scope: Scope, rate: float, seed: int) -> None:
        super().__init__(what, scope)
        self._rate = rate
        self._seed = seed
        self._chances: dict[Way, random.Random] = {}

    def datagram(self, size: int, way: Way, forward: Callable[[], None]) -> None:  # noqa: ARG002
        if not self.scope.takes(way):
            forward()
            return
        # One for each way, so that it does not depend on which of two participants was quicker; not on the room's
        # name either, which is another one in each run of a test.
        chance = self._chances.setdefault(way, random.Random(f"{self._seed}/{way.who.identity}/{way.direction}"))
        if chance.random() < self._rate:
            self.count += 1
        else:
            forward()


class LimitBandwidth(Fault):
    places = frozenset({"datagrams"})

    def __init__(self, what: str, scope: Scope, bytes_per_second: float) -> None:
        super().__init__(what, scope)
        self._bytes_per_second = bytes_per_second
        self._free_at: dict[Way, float] = {}

    def datagram(self, size: int, way: Way, forward: Callable[[], None]) -> None:
        if not self.scope.takes(way):
            forward()
            return
        loop = asyncio.get_running_loop()
        begins = max(loop.time(), self._free_at.get(way, 0.0))
        if begins > loop.time():
            self.count += 1
            if begins - loop.time() > LINK_KEEPS_SECONDS:
                return
        self._free_at[way] = ends = begins + size / self._bytes_per_second
        loop.call_at(ends, forward)


# Participants


class Freeze(Fault):
    """Datagrams are lost, as in the network; signalling waits, as in a TCP connection, and so does who comes back."""

    places = frozenset({"datagrams", "signals", "joins"})

    def __init__(self, what: str, scope: Scope) -> None:
        super().__init__(what, scope)
        self._held: deque[Callable[[], None]] = deque()
        self._joins = _Waiting()

    def datagram(self, size: int, way: Way, forward: Callable[[], None]) -> None:  # noqa: ARG002
        if self.scope.takes(way):
            self.count += 1
        else:
            forward()

    def holds(self, who: Who, again: Callable[[], None]) -> bool:
        if not self.scope.has(who):
            return False
        self.count += 1
        self._held.append(again)
        return True

    async def join(self, who: Who) -> int:
        if self.scope.has(who):
            self.count += 1
            await self._joins.wait(None)
        return 0

    def end(self) -> None:
        while self._held:
            self._held.popleft()()
        self._joins.release()


class RefuseJoins(Fault):
    places = frozenset({"joins"})

    def __init__(self, what: str, scope: Scope, status: int, times: int | None) -> None:
        super().__init__(what, scope)
        self._status = status
        self._times = times

    async def join(self, who: Who) -> int:
        if not self.scope.has(who) or (self._times is not None and self.count >= self._times):
            return 0
        self.count += 1
        return self._status


class SlowJoins(Fault):
    places = frozenset({"joins"})

    def __init__(self, what: str, scope: Scope, seconds: float) -> None:
        super().__init__(what, scope)
        self._seconds = seconds
        self._joins = _Waiting()

    async def join(self, who: Who) -> int:
        if self.scope.has(who):
            self.count += 1
            await self._joins.wait(self._seconds)
        return 0

    def end(self) -> None:
        self._joins.release()


class _Waiting:
    """Tasks that wait; no event of asyncio's, which would belong to one loop, and a server may start again."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    async def wait(self, seconds: float | None) -> None:
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            self._futures.discard(future)

    def release(self) -> None:
        for future in self._futures:
            if not future.done():
                future.set_result(None)
