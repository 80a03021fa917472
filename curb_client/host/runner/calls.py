"""Which calls the runner holds, and whether it takes one more (host protocol, Shapes and Error codes)."""

from __future__ import annotations

import asyncio
from typing import Final, get_args

from curb_client.host.runner.call import HostedCall
from curb_client.host.runner.call_record import CallRecord
from curb_client.host.runner.counters import Counters
from curb_client.host.runner.hosted_agent import HostedAgent
from curb_client.host.runner.journal import Journal
from curb_client.host.runner.options import RunnerOptions
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.host.runner.secrets import Secrets
from curb_client.protocol.contract import RUNNER_PRODUCER, EndReason, ErrorCode
from curb_client.protocol.experiments import assign_experiments
from curb_client.protocol.host_requests import StartCallRequest
from curb_client.protocol.host_types import LiveCall
from curb_client.protocol.types import Issue

__all__ = ["Calls"]

_KNOWN_REASONS: Final = frozenset(get_args(EndReason))


class Calls:
    """The calls by session id. An ended one is held until its last record leaves the journal's window.

    Attributes:
        draining: whether no more calls are taken.
    """

    def __init__(
        self,
        agent: HostedAgent,
        options: RunnerOptions,
        journal: Journal | None,
        counters: Counters,
        secrets: Secrets,
    ) -> None:
        self.draining = False
        self._agent = agent
        self._options = options
        self._journal = journal
        self._counters = counters
        self._secrets = secrets
        self._calls: dict[str, HostedCall] = {}
        self._ended: dict[str, tuple[LiveCall, int | None]] = {}

    @property
    def active(self) -> list[HostedCall]:
        """Those that have not ended."""
        return list(self._calls.values())

    def start(self, request: StartCallRequest) -> bool:
        """Take a call; False where it is held already.

        Raises:
            RunnerRefusal: draining, another generation, or no room for one more.
        """
        self._forget()
        if request.session_id in self._calls or request.session_id in self._ended:
            return False
        if request.session_id == RUNNER_PRODUCER:
            issue = Issue(path=["sessionId"], message=f"{RUNNER_PRODUCER!r} names the runner's own records")
            raise RunnerRefusal.invalid([issue])
        if self.draining:
            raise RunnerRefusal(ErrorCode.RUNNER_DRAINING, "the runner takes no more calls; place it on another")
        self._check_generation(request)
        if len(self.active) >= self._options.max_sessions:
            raise RunnerRefusal(
                ErrorCode.RUNNER_AT_CAPACITY, f"all {self._options.max_sessions} calls of the runner are in use"
            )
        call = HostedCall(
            request,
            self._agent,
            CallRecord(request.session_id, self._journal, self._counters),
            experiments=self._experiments(request),
            secrets=self._secrets,
            ended=self._call_ended,
        )
        self._calls[request.session_id] = call
        self._counters.calls_started += 1
        call.begin()
        return True

    def find(self, session_id: str) -> HostedCall | None:
        """The call, if it goes on."""
        return self._calls.get(session_id)

    def live(self, session_id: str) -> LiveCall:
        """How far the call is, also when it has ended.

        Raises:
            RunnerRefusal: ``session_not_found``.
        """
        self._forget()
        call = self._calls.get(session_id)
        if call is None and session_id in self._ended:
            return self._ended[session_id][0]
        return self.going_on(session_id).live()

    def going_on(self, session_id: str) -> HostedCall:
        """The call, which has not ended.

        Raises:
            RunnerRefusal: ``session_not_found``.
        """
        call = self._calls.get(session_id)
        if call is None:
            what = "has ended" if session_id in self._ended else "is not known here"
            raise RunnerRefusal(ErrorCode.SESSION_NOT_FOUND, f"the call {session_id!r:.200} {what}")
        return call

    async def until_idle(self, seconds: float) -> bool:
        """Wait until no call goes on; False where one still does after so many seconds."""
        waiting = {asyncio.ensure_future(call.until_ended()) for call in self.active}
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()
        return not self.active

    def _check_generation(self, request: StartCallRequest) -> None:
        for name in ("deployment_id", "configuration_version"):
            wanted, here = getattr(request, name), getattr(self._options, name)
            if wanted is not None and here is not None and wanted != here:
                raise RunnerRefusal(
                    ErrorCode.GENERATION_MISMATCH, f"the runner's {name} is {here!r}, the call's {wanted!r:.200}"
                )

    def _experiments(self, request: StartCallRequest) -> dict[str, str]:
        """As the host assigned them; where no host starts calls, the protocol's own rule does."""
        if self._options.mode == "managed" or request.experiments:
            return request.experiments
        return assign_experiments(self._agent.experiments, request.session_id, request.client_context)

    def _call_ended(self, call: HostedCall, reason: str) -> None:
        self._counters.calls_ended[reason if reason in _KNOWN_REASONS else "other"] += 1
        del self._calls[call.session_id]
        self._ended[call.session_id] = (call.live(), call.record.end)
        self._forget()

    def _forget(self) -> None:
        while self._ended and self._is_gone(*next(iter(self._ended.values()))):
            del self._ended[next(iter(self._ended))]

    def _is_gone(self, _: LiveCall, end: int | None) -> bool:
        if self._journal is None or end is None:
            return len(self._ended) > self._options.retained_records
        return end < self._journal.oldest
