"""What an agent sends: to its client, to its host, and questions to its host (host protocol, App messages)."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from curb_client.errors import HostTimeoutError, HostUnavailableError
from curb_client.protocol.contract import ASK_HOST_SECONDS
from curb_client.protocol.envelope import check_key, check_object
from curb_client.protocol.json_text import decode_json
from curb_client.room.arguments import NO_PAYLOAD, check_timeout
from curb_client.room.callbacks import Warnings
from curb_client.room.host_link import HostLink, HostRecord
from curb_client.room.outbox import Outbox
from curb_client.room.trace import Tracer

__all__ = ["AgentSends", "HostAsks"]


class HostAsks:
    """Messages to the host, and the questions that wait for its answer."""

    def __init__(self, host: HostLink | None, warnings: Warnings, tracer: Tracer) -> None:
        self._host = host
        self._warnings = warnings
        self._tracer = tracer
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._closed = False

    @property
    def _connected_host(self) -> HostLink | None:
        return self._host if self._host is not None and self._host.is_connected and not self._closed else None

    def tell(self, key: str, payload: object) -> None:
        message = self._message(key, payload, expects_reply=False)
        host = self._connected_host
        error = "no host is connected" if host is None else None
        self._tracer.step("to-host", key=key, id=message.id, payload=message.payload, peer="host", error=error)
        if host is None:
            self._warnings.once(f"the message {key!r} to the host", "no host is connected", "dropped")
        else:
            host.record(message)

    async def ask(self, key: str, payload: object, seconds: float) -> Any:
        message = self._message(key, payload, expects_reply=True)
        with self._tracer.exchange(
            "to-host", "reply", key=key, id=message.id, payload=message.payload, peer="host"
        ) as traced:
            traced.reply = await self._answer(message, seconds)
        return traced.reply

    async def _answer(self, message: HostRecord, seconds: float) -> Any:
        host, key = self._connected_host, message.name
        if host is None:
            raise HostUnavailableError(f"no host is connected to this call, so nobody can answer {key!r}")
        answer = self._waiting[message.id] = asyncio.get_running_loop().create_future()
        try:
            host.record(message)
            await asyncio.wait({answer}, timeout=seconds)
        finally:
            del self._waiting[message.id]
        if not answer.done():
            raise HostTimeoutError(f"the host did not answer {key!r} (id {message.id}) within {seconds:g} s")
        return answer.result()

    def is_waiting(self, ask_id: str) -> bool:
        """Whether an ask with this id waits for its answer."""
        answer = self._waiting.get(ask_id)
        return answer is not None and not answer.done()

    def answer(self, ask_id: str, payload: dict[str, Any]) -> bool:
        """Whether an ask with this id was waiting; it has its answer now."""
        answer = self._waiting.get(ask_id)
        if answer is None or answer.done():
            return False
        answer.set_result(payload)
        return True

    def close(self) -> None:
        """The call is over: whoever waits fails."""
        self._closed = True
        for ask_id, answer in self._waiting.items():
            if not answer.done():
                answer.set_exception(HostUnavailableError(f"the call ended while the ask {ask_id} waited for the host"))

    def _message(self, key: str, payload: object, *, expects_reply: bool) -> HostRecord:
        check_key(key)
        body = decode_json(check_object(payload))
        assert isinstance(body, dict)
        return HostRecord(f"a-{next(self._numbers)}", key, body, expects_reply)


class AgentSends:
    """``call.send``."""

    def __init__(self, outbox: Outbox, asks: HostAsks) -> None:
        self._outbox = outbox
        self._asks = asks

    def to_client(self, key: str, payload: object = NO_PAYLOAD, *, to: str | None = None) -> asyncio.Future[bool]:
        """Send to every client in the room, or to the one with the identity ``to``; in the order of the calls.

        Returns:
            whether LiveKit took it for somebody. Awaiting it is optional: a message that reaches nobody is counted in
            ``undelivered_to_client``, and warned of once for its key and reason.

        Raises:
            InvalidKeyError, InvalidPayloadError: the payload must be a JSON object.
        """
        return self._outbox.put(key, payload, to)

    def to_host(self, key: str, payload: object = NO_PAYLOAD) -> None:
        """Tell the host; without one the message is dropped, with one warning for its key.

        Raises:
            InvalidKeyError, InvalidPayloadError: the payload must be a JSON object.
        """
        self._asks.tell(key, payload)

    async def ask_host(self, key: str, payload: object = NO_PAYLOAD, *, timeout: float | None = None) -> Any:
        """Ask the host and return the payload of its reply.

        Args:
            timeout: seconds, 10 by default.

        Raises:
            InvalidKeyError, InvalidPayloadError, InvalidTimeoutError: nothing was asked.
            HostUnavailableError: no host is connected, or the call ended meanwhile.
            HostTimeoutError: no reply in time; a late one is handled like any other message of the host.
        """
        return await self._asks.ask(key, payload, check_timeout(timeout, default=ASK_HOST_SECONDS))
