"""Messages to a call that is still starting: held, and delivered in their order once it is connected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from curb_client.errors import ClosedError
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.protocol.contract import HELD_MESSAGES, ErrorCode
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.host_requests import HostMessage

__all__ = ["HeldMessages"]

DELIVERY_SECONDS: Final = 10.0

_logger = logging.getLogger("curb_client.host")


class HeldMessages:
    """Up to 32.

    Attributes:
        refused: how many the agent refused, or never heard because the call ended before.
    """

    def __init__(self, most: int = HELD_MESSAGES) -> None:
        self.refused = 0
        self._most = most
        self._messages: dict[str, HostMessage] = {}
        self._delivered = asyncio.Event()

    def hold(self, message: HostMessage) -> bool:
        """Hold a message; False where its id is held already.

        Raises:
            RunnerRefusal: 32 are held.
        """
        if message.id in self._messages:
            return False
        if len(self._messages) >= self._most:
            raise RunnerRefusal(
                ErrorCode.RUNNER_AT_CAPACITY,
                f"the call is still starting and {self._most} messages are held for it; retry once it is connected",
            )
        self._messages[message.id] = message
        return True

    async def deliver(self, take: Callable[[HostMessage], Awaitable[object]]) -> None:
        """Give what is held to the agent, one after the other, and then let the others pass.

        A handler that takes longer than ten seconds goes on, and the next message does not wait for it.
        """
        while self._messages:
            message = self._messages.pop(next(iter(self._messages)))
            await self._deliver_one(message, take)
        self._delivered.set()

    async def delivered(self) -> None:
        """Returns when nothing is held any more."""
        await self._delivered.wait()

    def drop(self) -> None:
        """The call is over: what is still held is lost, and counted."""
        if self._messages:
            _logger.warning("the call ended before %d held host messages could be delivered", len(self._messages))
        self.refused += len(self._messages)
        self._messages.clear()
        self._delivered.set()

    async def _deliver_one(self, message: HostMessage, take: Callable[[HostMessage], Awaitable[object]]) -> None:
        delivery = asyncio.ensure_future(take(message))
        delivery.add_done_callback(lambda done: self._ended(message, done))
        await asyncio.wait({delivery}, timeout=DELIVERY_SECONDS)
        if not delivery.done():
            _logger.warning("the handler of the held host message %r still runs; the next is delivered", message.name)

    def _ended(self, message: HostMessage, delivery: asyncio.Future[object]) -> None:
        error = None if delivery.cancelled() else delivery.exception()
        if delivery.cancelled() or isinstance(error, (Refusal, ClosedError)):
            self.refused += 1
            why = error.code.value if isinstance(error, Refusal) else "the call ended"
            _logger.warning(
                "the host message %r (id %s), held until now, was refused: %s", message.name, message.id, why
            )
        elif error is not None:
            _logger.error("a held host message could not be delivered", exc_info=error)
