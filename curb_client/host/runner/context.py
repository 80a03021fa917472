"""What an agent's function knows of its call, and what it can do to it besides exchanging messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from curb_client.host.runner.call_record import CallRecord
from curb_client.host.runner.transfer import TransferOutcome, Transfers
from curb_client.protocol.contract import TRANSFER_SECONDS, CallDirection, TurnRole
from curb_client.protocol.host_requests import StartCallRequest
from curb_client.protocol.json_text import without_lone_surrogates

__all__ = ["CallContext", "EndCallback", "Ending"]

EndCallback = Callable[[str], Awaitable[Any] | Any]
CallbackT = TypeVar("CallbackT", bound=EndCallback)


class Ending:
    """Whether, why and how soon a call ends. The first reason counts; a shorter grace does too."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def decide(self, reason: str, grace: float = 0.0) -> None:
        """The call is to end, and the room to be left after at most ``grace`` seconds.

        A reason that UTF-8 cannot carry (an agent may take it from its client) is made such that it can be recorded.
        """
        loop = asyncio.get_running_loop()
        if self.reason is None:
            self.reason = without_lone_surrogates(str(reason))
            self._begun.set()
        at = loop.time() + grace
        if self._timer is None or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._over.set)

    async def begun(self) -> str:
        """The reason, once there is one."""
        await self._begun.wait()
        assert self.reason is not None
        return self.reason

    async def over(self) -> None:
        """Returns when the grace is used up."""
        await self._over.wait()


class CallContext:
    """A hosted call, as its agent's function sees it.

    Attributes:
        session_id: the host's name for the call.
        direction: ``inbound``, or ``outbound`` when the host dialed the caller.
        client_context: what the caller's page or app said, one text per key; never an identity or a permission.
        experiments: experiment name to variant name.
        deployment_id: as the host stated it.
        configuration_version: as the host stated it.
    """

    def __init__(
        self,
        request: StartCallRequest,
        experiments: Mapping[str, str],
        *,
        ending: Ending,
        record: CallRecord,
        transfers: Transfers,
        end_callbacks: dict[object, EndCallback],
    ) -> None:
        self.session_id = request.session_id
        self.direction: CallDirection = request.direction
        self.client_context: Mapping[str, str] = dict(request.client_context)
        self.experiments: Mapping[str, str] = dict(experiments)
        self.deployment_id = request.deployment_id
        self.configuration_version = request.configuration_version
        self._ending = ending
        self._record = record
        self._transfers = transfers
        self._end_callbacks = end_callbacks

    def variant(self, experiment: str) -> str | None:
        """The variant of this call; None where it has none."""
        return self.experiments.get(experiment)

    def record_turn(self, role: TurnRole, text: str) -> None:
        """Put what was said on the call's record, for the host to read.

        Args:
            role: ``user`` or ``assistant``.

        Raises:
            InvalidPayloadError: text with a lone surrogate.
        """
        self._record.turn(role, text)

    def on_end(self, callback: CallbackT) -> CallbackT:
        """``callback(reason)``, plain or async, when the call begins to end; as a decorator too.

        The agent is in the room until it has returned or the host's grace is used up (none by default); after that it
        has five more seconds, without the room.
        """
        self._end_callbacks[object()] = callback
        return callback

    def end(self, reason: str = "completed") -> None:
        """End the call. The answer of a handler that calls this is sent first."""
        self._ending.decide(reason)

    async def until_ended(self) -> str:
        """Returns the reason when the call begins to end."""
        return await self._ending.begun()

    async def transfer(
        self, target: str, *, summary: str | None = None, timeout: float = TRANSFER_SECONDS
    ) -> TransferOutcome:
        """Ask the host to dial ``target`` into the room. While it is there the agent is ``call.on_hold``.

        The agent takes the call back when the target leaves; the call ends when the caller does. Cancelling this, and
        a host that does not answer, calls the transfer off.

        Args:
            target: whatever the host can dial.
            summary: of the call so far, for the target.
            timeout: seconds.

        Raises:
            UsageError: no target.
        """
        return await self._transfers.transfer(target, summary, timeout)
