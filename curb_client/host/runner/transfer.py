"""A call handed to somebody else, by a host that can dial (host protocol, Transfer on your own host)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Literal

from livekit import rtc
from pydantic import ValidationError

from curb_client.errors import HostTimeoutError, HostUnavailableError, UsageError
from curb_client.host.runner.absence import Absence
from curb_client.host.runner.agent_call import RunnerAgentCall
from curb_client.protocol.contract import (
    ASK_HOST_SECONDS,
    TRANSFER_CANCEL,
    TRANSFER_NO_REPLY,
    TRANSFER_SECONDS,
    TRANSFER_START,
)
from curb_client.protocol.host_types import TransferAnswer, TransferCancel, TransferStart
from curb_client.room.callbacks import call_safely

__all__ = ["TransferOutcome", "Transfers"]

TARGET_SECONDS: Final = 15.0  # LiveKit tells of a participant up to three seconds after it has joined
INVALID_REPLY: Final = "transfer_invalid_reply"

_logger = logging.getLogger("curb_client.host")


@dataclass(frozen=True)
class TransferOutcome:
    """What came of a transfer.

    Attributes:
        outcome: ``connected`` or ``failed``.
        identity: the target's participant, where the host said it.
        code: why it failed; ``transfer_no_reply`` where the host did not answer.
    """

    outcome: Literal["connected", "failed"]
    identity: str | None = None
    code: str | None = None


class Transfers:
    """The transfers of one call, one after the other, and who is in the room because of them."""

    def __init__(self, call: RunnerAgentCall) -> None:
        self._call = call
        self._target: str | None = None
        self._is_there = False
        self._giving_up: asyncio.TimerHandle | None = None
        self._absence = Absence(call.room, self._take_back)

    async def transfer(self, target: str, summary: str | None, timeout: float = TRANSFER_SECONDS) -> TransferOutcome:
        """Ask the host to dial; see :meth:`CallContext.transfer`."""
        try:
            start = TransferStart(target=target, summary=summary)
        except ValidationError:
            raise UsageError(f"the target of a transfer must be text that is not empty, not {target!r:.80}") from None
        there = set(self._call.room.remote_participants)
        try:
            reply = await self._call.send.ask_host(TRANSFER_START, start, timeout=timeout)
        except HostUnavailableError:
            return TransferOutcome("failed", code=TRANSFER_NO_REPLY)
        except HostTimeoutError:
            call_safely(self._cancel)
            return TransferOutcome("failed", code=TRANSFER_NO_REPLY)
        except asyncio.CancelledError:
            call_safely(self._cancel)
            raise
        try:
            answer = TransferAnswer.from_wire(reply)
        except ValidationError:
            _logger.warning("the host's reply to %s is no answer to a transfer; it counts as failed", TRANSFER_START)
            return TransferOutcome("failed", code=INVALID_REPLY)
        if answer.outcome == "connected":
            self._connected(answer.identity, there)
        return TransferOutcome(answer.outcome, answer.identity, answer.code)

    async def _cancel(self) -> None:
        """Nobody waits for the transfer any more; the host may still be dialing."""
        try:
            await self._call.send.ask_host(TRANSFER_CANCEL, TransferCancel(), timeout=ASK_HOST_SECONDS)
        except (HostTimeoutError, HostUnavailableError) as error:
            _logger.warning("the host did not say that it stopped the transfer: %s", error)

    def is_target(self, identity: str) -> bool:
        """Whether this participant is the one to whom the call was handed."""
        return self._call.on_hold and identity == self._target

    def joined(self, participant: rtc.RemoteParticipant) -> None:
        """Somebody came into the room."""
        if self._call.on_hold and not self._is_there and self._target in (None, participant.identity):
            self._came(participant.identity)

    def left(self, participant: rtc.RemoteParticipant) -> None:
        """Somebody left the room. For a target that lost its connection, and may come back, the agent stays on hold."""
        if self.is_target(participant.identity):
            self._is_there = False
            self._absence.begins(participant)

    def close(self) -> None:
        """Wait for nobody any more: the call is over, or somebody came."""
        self._absence.ends()
        if self._giving_up is not None:
            self._giving_up.cancel()

    def _connected(self, identity: str | None, there_before: set[str]) -> None:
        self.close()
        self._target, self._is_there = identity, False
        self._call.set_on_hold(True)
        there = self._call.room.remote_participants
        come = [other for other in there if other == identity or (identity is None and other not in there_before)]
        if come:
            self._came(come[0])
        else:
            self._giving_up = asyncio.get_running_loop().call_later(TARGET_SECONDS, self._not_seen)

    def _came(self, identity: str) -> None:
        self.close()
        self._target, self._is_there = identity, True

    def _not_seen(self) -> None:
        _logger.warning("the transfer's target did not come within %g s; the agent takes the call back", TARGET_SECONDS)
        self._take_back()

    def _take_back(self) -> None:
        self._target, self._is_there = None, False
        self._call.set_on_hold(False)
