"""Placing one call on one of many runners, so that it runs once.

A runner's answer is the only account there is of who holds a call: several hosts may place different calls on the same
runners at once. Where a start got no answer, it is repeated at the same runner until there is one or the runner is
gone, and the call is placed nowhere else meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from curb_client.errors import (
    NoRunnerError,
    ProtocolVersionError,
    RunnerAnswerError,
    RunnerAtCapacityError,
    RunnerDrainingError,
    RunnerGenerationMismatchError,
    RunnerInternalError,
    RunnerRefusedError,
    RunnerSessionNotFoundError,
    RunnerTakesNoCallsError,
    RunnerUnauthorizedError,
    RunnerUnreachableError,
    UsageError,
)
from curb_client.host.backoff import Backoff
from curb_client.host.pool_members import Member
from curb_client.protocol.host_requests import StartCallRequest
from curb_client.protocol.host_types import StartCallAnswer

if TYPE_CHECKING:
    from curb_client.host.client import RunnerClient

__all__ = ["Elsewhere", "PlacedCall", "least_loaded", "none_took", "start_at"]

_ELSEWHERE = (RunnerAtCapacityError, RunnerGenerationMismatchError, RunnerDrainingError)
_UNUSABLE = (RunnerUnauthorizedError, RunnerTakesNoCallsError, ProtocolVersionError)
REFUSED_TIMES = 3
"""Connections refused in a row after which nothing listens any more."""


class Elsewhere(Exception):  # noqa: N818 - an outcome
    """The runner surely does not hold the call; the text says why."""


class PlacedCall:
    """Where a call was placed.

    Attributes:
        session_id: of the call.
        runner: its runner's name. client: the same, to talk to.
        accepted: false where the runner held the call already.
    """

    def __init__(self, session_id: str, runner: str, client: RunnerClient, accepted: bool) -> None:
        self.session_id = session_id
        self.runner = runner
        self.client = client
        self.accepted = accepted

    def __repr__(self) -> str:
        return f"PlacedCall({self.session_id!r}, runner={self.runner!r}, accepted={self.accepted})"


def least_loaded(members: Iterable[Member], rng: random.Random) -> Member | None:
    """The one with the largest free share; at random among equals."""
    return min(members, key=lambda member: (member.load, rng.random()), default=None)


async def start_at(member: Member, request: StartCallRequest, dead_after: float, backoff: Backoff) -> StartCallAnswer:
    """The runner's yes.

    Args:
        dead_after: seconds to go on without an answer.

    Raises:
        Elsewhere: place it on another runner.
        RunnerUnreachableError: no definite answer for ``dead_after`` seconds from a runner that is not dead: the call
            may run there.
        RunnerRefusedError: a refusal that every runner would give.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + dead_after
    member.pending += 1
    try:
        attempt = _Attempt(member, request)
        for delay in backoff.delays():
            answer = await attempt.once()
            if answer is not None:
                member.started(request.session_id)
                return answer
            if member.is_gone:
                raise Elsewhere(f"it died while the call was being started ({member.reason})")
            if clock() + delay >= deadline:
                raise attempt.failure
            await asyncio.sleep(delay)
        raise AssertionError("the delays have no end")
    finally:
        member.pending -= 1


class _Attempt:
    """Starting one call at one runner, over several tries."""

    def __init__(self, member: Member, request: StartCallRequest) -> None:
        self._member = member
        self._request = request
        self._maybe_taken = False
        self._refused = 0
        self.failure: Exception = AssertionError("nothing was tried")

    async def once(self) -> StartCallAnswer | None:
        """None where it must be tried again."""
        member = self._member
        try:
            return await member.client.start(self._request)
        except _ELSEWHERE as error:
            if isinstance(error, RunnerDrainingError):
                member.mark("draining", str(error))
            elif isinstance(error, RunnerAtCapacityError):
                member.used = max(member.used, member.most - member.pending + 1)  # until its next status
            return await self._unless_there(error)
        except _UNUSABLE as error:
            member.mark("unusable", str(error))
            return await self._unless_there(error)
        except (RunnerInternalError, RunnerAnswerError) as error:
            self._maybe_taken, self.failure = True, error
        except RunnerUnreachableError as error:
            self._unreachable(error)
        except UsageError as error:  # its client was closed meanwhile
            if self._maybe_taken:
                raise self.failure from error
            raise Elsewhere(str(error)) from error
        return None

    def _unreachable(self, error: RunnerUnreachableError) -> None:
        member = self._member
        self._maybe_taken = self._maybe_taken or error.maybe_taken
        self._refused = self._refused + 1 if error.refused else 0
        self.failure = error
        if member.takes_calls:
            member.mark("unreachable", str(error))
        if not self._maybe_taken:
            raise Elsewhere(str(error)) from error
        if self._refused >= REFUSED_TIMES:
            raise Elsewhere(f"nothing listens there any more: {error}") from error

    async def _unless_there(self, error: RunnerRefusedError) -> StartCallAnswer | None:
        """The refusal of a second try does not say that the first one was not taken."""
        if self._maybe_taken:
            try:
                await self._member.client.call(self._request.session_id)
            except RunnerSessionNotFoundError:
                pass
            except RunnerUnreachableError as unreachable:
                self._unreachable(unreachable)
                return None
            else:
                return StartCallAnswer(session_id=self._request.session_id, accepted=False)
        raise Elsewhere(str(error)) from error


def none_took(session_id: str, reasons: dict[str, str]) -> NoRunnerError:
    """The error, with each runner's reason by its name."""
    each = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "it has none; add() one"
    return NoRunnerError(f"no runner of the pool takes the call {session_id!r} ({each})", reasons=reasons)
