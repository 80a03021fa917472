"""Transfers, for a host that can dial (host protocol, Transfer on your own host)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError

from curb_client.host.asks import Ask, AskDesk
from curb_client.host.failures import report
from curb_client.protocol.contract import TRANSFER_CANCEL, TRANSFER_SECONDS, TRANSFER_START
from curb_client.protocol.host_types import TransferAnswer, TransferStart

__all__ = ["Dial", "HangUp", "Transfer", "TransferFailedError", "add_transfer_handlers"]


@dataclass(frozen=True)
class Transfer:
    """What an agent wants: the target in the room of its call.

    Attributes:
        session_id: of the call.
        target: whom to dial, as your agent and you have agreed.
        summary: for the target, of the call so far.
    """

    session_id: str
    target: str
    summary: str | None


class TransferFailedError(Exception):
    """For the dialling function to raise: the agent is answered ``failed`` with this code (``busy``, ``no_answer``)."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


Dial: TypeAlias = Callable[[Transfer], Awaitable[str]]
"""Dials, and returns the identity of the target's participant once it is in the room."""

HangUp: TypeAlias = Callable[[Transfer], Awaitable[None] | None]
"""Ends what was dialled, when the agent calls the transfer off after the target was connected."""


def add_transfer_handlers(
    desk: AskDesk, dial: Dial, hang_up: HangUp | None, timeout: float | None, start: str | None, cancel: str | None
) -> Callable[[], None]:
    """See :meth:`.Follower.on_transfer`."""
    transfers = _Transfers(dial, hang_up)
    seconds = TRANSFER_SECONDS if timeout is None else timeout
    removals = [
        desk.add(start or TRANSFER_START, transfers.start, seconds),
        desk.add(cancel or TRANSFER_CANCEL, transfers.cancel, None),
        desk.on_call_over(transfers.call_over),
    ]

    def remove() -> None:
        for each in removals:
            each()

    return remove


class _Transfers:
    def __init__(self, dial: Dial, hang_up: HangUp | None) -> None:
        self._dial = dial
        self._hang_up = hang_up
        self._dialling: dict[str, asyncio.Task[str]] = {}  # by call
        self._connected: dict[str, Transfer] = {}

    async def start(self, ask: Ask) -> TransferAnswer:
        try:
            wanted = TransferStart.from_wire(dict(ask.payload))
        except ValidationError:
            return TransferAnswer(outcome="failed", code="invalid_transfer")
        if ask.session_id in self._dialling:
            return TransferAnswer(outcome="failed", code="transfer_in_progress")
        self.call_over(ask.session_id)
        transfer = Transfer(ask.session_id, wanted.target, wanted.summary)
        dialling = asyncio.ensure_future(self._dialled(transfer))
        self._dialling[ask.session_id] = dialling
        try:
            await asyncio.wait({dialling})
        finally:
            dialling.cancel()  # the call is over, or the time
            del self._dialling[ask.session_id]
        if dialling.cancelled():
            return TransferAnswer(outcome="failed", code="transfer_cancelled")
        error = dialling.exception()
        if isinstance(error, TransferFailedError):
            return TransferAnswer(outcome="failed", code=error.code)
        if error is not None:
            report(f"dialling {transfer.target!r} for call {transfer.session_id} failed", error)
            return TransferAnswer(outcome="failed", code="transfer_failed")
        self._connected[ask.session_id] = transfer
        return TransferAnswer(outcome="connected", identity=dialling.result())

    def call_over(self, session_id: str) -> None:
        """What was dialled for it is not to be hung up any more: the call is over, or another target is dialled."""
        self._connected.pop(session_id, None)

    async def _dialled(self, transfer: Transfer) -> str:
        return str(await _awaited(self._dial(transfer)))

    async def cancel(self, ask: Ask) -> None:
        dialling = self._dialling.get(ask.session_id)
        transfer = self._connected.pop(ask.session_id, None)
        if dialling is not None:
            dialling.cancel()
        elif transfer is not None and self._hang_up is not None:
            await _awaited(self._hang_up(transfer))


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result
