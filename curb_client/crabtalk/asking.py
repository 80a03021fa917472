"""A client's connections, and one request with its answer."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import Self

from curb_client.crabtalk.addresses import Address, as_address
from curb_client.crabtalk.connection import Connection
from curb_client.crabtalk.frames import encode_frame
from curb_client.crabtalk.operations import ANSWERED_BY_MANY, answer_of, answer_type, asked, operation_of
from curb_client.crabtalk.pool import Pool
from curb_client.errors import UsageError
from curb_client.room.arguments import check_timeout

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["REQUEST_SECONDS", "Asking"]

AnswerT = TypeVar("AnswerT", bound="Message")

REQUEST_SECONDS: Final = 15.0
MOST_RUNS: Final = 64
MOST_REQUESTS: Final = 8

_AT_ONCE: Final = (
    "ping", "get_stats", "kill", "reply_to_ask", "reload", "get_agent", "list_agents", "create_cron", "delete_cron",
    "list_crons", "get_config", "list_models", "list_skills",
)  # fmt: skip
"""What a daemon answers whatever its sessions do. It never waits here for runs, one of which may need it: an answer."""


class Asking:
    """What :class:`curb_client.crabtalk.CrabTalkClient` is made on."""

    def __init__(self, address: Address | str | os.PathLike[str] | None = None) -> None:
        self.address = as_address(address)
        idle: list[Connection] = []
        self._at_once = Pool(self.address, MOST_REQUESTS, idle)
        self._others = Pool(self.address, MOST_RUNS, idle)

    def __repr__(self) -> str:
        return f"CrabTalkClient({str(self.address)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; what is under way on them fails."""
        self._at_once.close()
        self._others.close()

    # Any request

    async def request(self, message: Message, answer: type[AnswerT], *, timeout: float | None = None) -> AnswerT:
        """Ask what a message asks: ``await client.request(pb.ListModelsMsg(), pb.ModelList)``.

        Args:
            message: any that a ClientMessage takes and that has one answer.
            answer: the type of the answer; ``pb.Pong`` where the daemon just says that it is done.
            timeout: 15 by default.

        Raises:
            UsageError: no such message, or not its answer.
        """
        doing = operation_of(message)
        if doing in ANSWERED_BY_MANY:
            raise UsageError(f"{doing} has many answers; use the client's method for it")
        if answer is not answer_type(doing):
            raise UsageError(f"{doing} is answered with a {answer_type(doing).__name__}, not a {answer.__name__}")
        return await self._ask(message, answer, timeout, REQUEST_SECONDS)

    async def _ask(
        self, message: Message, answer: type[AnswerT], timeout: float | None, default: float = REQUEST_SECONDS
    ) -> AnswerT:
        seconds = check_timeout(timeout, default=default)
        deadline = time.monotonic() + seconds
        doing, whole = asked(message)
        frame = encode_frame(whole)
        pool = self._at_once if doing in _AT_ONCE else self._others
        connection = await pool.take(doing, seconds)
        is_whole = False
        try:
            await connection.send(frame, max(deadline - time.monotonic(), 0.0))
            came = await connection.receive(max(deadline - time.monotonic(), 0.0), of=seconds)
            is_whole = True
        finally:
            pool.give_back(connection, reusable=is_whole)
        return answer_of(came, doing, answer)
