"""The runner itself: start, calls, drain, end (host protocol, The ready line and Event stream)."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from typing_extensions import Self

from curb_client.errors import RunnerStartError, UsageError
from curb_client.host.runner.call import HostedCall
from curb_client.host.runner.calls import Calls
from curb_client.host.runner.counters import Counters
from curb_client.host.runner.hosted_agent import AgentFunction, HostedAgent, as_hosted
from curb_client.host.runner.journal import Journal, Producer
from curb_client.host.runner.listener import Listener
from curb_client.host.runner.options import RunnerOptions
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.host.runner.routes import Routes
from curb_client.host.runner.secrets import Secrets
from curb_client.protocol.contract import LIFECYCLE_CLASS, RUNNER_PRODUCER
from curb_client.protocol.host_requests import StartCallRequest
from curb_client.protocol.ready_line import write_lifecycle_line
from curb_client.protocol.records import LifecycleBody, LifecycleDraining, LifecycleEnded, LifecycleReady
from curb_client.room.callbacks import call_safely
from curb_client.room.sdk import finish_within

__all__ = ["Runner"]

LAST_CALLS_SECONDS: Final = 20.0
LAST_READERS_SECONDS: Final = 10.0
SHUTDOWN_REASON: Final = "runner_shutdown"

_logger = logging.getLogger("curb_client.host")


class Runner:
    """Takes calls for an agent from a host, over the host protocol.

    ::

        async with Runner(agent, RunnerOptions.from_environment()) as runner:
            await runner.until_ended()

    Entered, it has warmed up and takes calls; left, its calls have ended with ``runner_shutdown``. Each lifecycle
    record is written on stdout too.

    Args:
        agent: as its author declares it, or its function alone.
        options: see :class:`RunnerOptions`.
        print_line: takes the lifecycle lines instead of stdout.
    """

    def __init__(
        self,
        agent: HostedAgent | AgentFunction,
        options: RunnerOptions,
        *,
        print_line: Callable[[str], None] | None = None,
    ) -> None:
        self.options = options
        self.counters = Counters()
        self.secrets = Secrets(options.token)
        self._agent = as_hosted(agent)
        self._print = print_line or _print_line
        self._journal: Journal | None = None
        self._lifecycle: Producer | None = None
        self._calls: Calls | None = None
        self._listener: Listener | None = None
        self._metrics: Listener | None = None
        self._draining = asyncio.Event()
        self._finishing: asyncio.Task[None] | None = None
        self._is_started = False
        self._has_failed = False

    @property
    def address(self) -> str:
        """``host:port`` that it listens on.

        Raises:
            UsageError: not started.
        """
        if self._listener is None:
            raise UsageError("the runner is not started; use it inside `async with Runner(...) as runner:`")
        return self._listener.address

    @property
    def metrics_address(self) -> str | None:
        """``host:port`` of the metrics; None where there are none."""
        return None if self._metrics is None else self._metrics.address

    @property
    def url(self) -> str:
        """``http://`` and the address."""
        return f"http://{self.address}"

    @property
    def calls(self) -> Calls:
        """The calls that it holds; UsageError before it is started."""
        if self._calls is None:
            raise UsageError("the runner is not started; use it inside `async with Runner(...) as runner:`")
        return self._calls

    @property
    def is_started(self) -> bool:
        """Whether it said that it is ready, perhaps some time ago."""
        return self._is_started

    @property
    def newest_envelope(self) -> int:
        """Of the last record; 0 where there is none."""
        return 0 if self._journal is None else self._journal.newest

    @property
    def has_failed(self) -> bool:
        """Whether the one call of the mode ``direct-join`` could not be joined."""
        return self._has_failed

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Warm up, listen and say that it is ready.

        Raises:
            RunnerStartError: the address is taken, or warming up failed or took too long.
        """
        listener = Listener(self.options.address)
        try:
            await self._open_metrics()
            warm_up_ms = await self._warm_up()
            await self._listen(listener)
        except BaseException:
            self._calls = self._listener = None
            await listener.close()
            if self._metrics is not None:
                await self._metrics.close()
            raise
        max_sessions = self.options.max_sessions
        self._tell(
            LifecycleReady(event="ready", address=listener.address, max_sessions=max_sessions, warmup_ms=warm_up_ms)
        )
        self._is_started = True
        if self.options.mode == "direct-join":
            self._join_directly()

    def take_call(self, request: StartCallRequest) -> HostedCall:
        """A call from the program that the runner is in, in any mode; an id that is held already gives that call.

        Raises:
            UsageError: not started, or the runner cannot take it, or it has ended already.
        """
        try:
            self.calls.start(request)
            return self.calls.going_on(request.session_id)
        except RunnerRefusal as refused:
            raise UsageError(f"{refused.body.error}: {refused.body.detail}") from None

    def drain(self, signal: str | None = None) -> None:
        """Take no more calls, finish those there are, then end; does nothing the second time.

        Args:
            signal: that asked for it, such as ``SIGTERM``.
        """
        calls = self.calls
        if calls.draining:
            return
        calls.draining = True
        self._tell(LifecycleDraining(event="draining", signal=signal))
        self._finishing = asyncio.ensure_future(self._finish())
        self._draining.set()

    async def until_ended(self) -> None:
        """Returns when it was drained and has ended."""
        await self._draining.wait()
        assert self._finishing is not None
        await asyncio.shield(self._finishing)

    async def stop(self) -> None:
        """End the calls now, with the reason ``runner_shutdown``, and then itself."""
        if self._calls is None:
            return
        self.drain()
        for call in self._calls.active:
            call.stop(SHUTDOWN_REASON)
        await self.until_ended()

    async def _open_metrics(self) -> None:
        if self.options.metrics_address is not None:
            from curb_client.host.runner.metrics import metrics_handler

            self._metrics = Listener(self.options.metrics_address)
            await self._metrics.open(metrics_handler(self))

    async def _listen(self, listener: Listener) -> None:
        options = self.options
        if options.journal:
            self._journal = Journal(options.retained_records)
            self._lifecycle = Producer(self._journal, RUNNER_PRODUCER)
        self._calls = Calls(self._agent, options, self._journal, self.counters, self.secrets)
        self._listener = listener
        await listener.open(Routes(options, self._calls, self._journal, self.counters, self.drain).handle)

    async def _warm_up(self) -> float:
        started = time.monotonic()
        try:
            await finish_within(self._agent.warm_up(), self.options.warm_up_seconds)
        except TimeoutError as error:
            raise RunnerStartError(f"warming up: {error}") from error
        except Exception as error:
            raise RunnerStartError(f"warming up failed: {type(error).__name__}: {error}") from error
        return round((time.monotonic() - started) * 1000)

    def _join_directly(self) -> None:
        options = self.options
        assert options.session_id is not None
        assert options.realtime_url is not None
        assert options.realtime_token is not None
        call = self.take_call(
            StartCallRequest(
                session_id=options.session_id,
                realtime_url=options.realtime_url,
                realtime_token=options.realtime_token,
            )
        )
        call_safely(self._follow, call)

    async def _follow(self, call: HostedCall) -> None:
        """The one call is what a runner of this mode is there for."""
        await call.until_ended()
        self._has_failed = call.end_reason == "join_failed"
        self.drain()

    async def _finish(self) -> None:
        calls, listener = self.calls, self._listener
        assert listener is not None
        if not await calls.until_idle(self.options.drain_seconds):
            _logger.warning("draining took %g s; the last calls are ended", self.options.drain_seconds)
            for call in calls.active:
                call.stop(SHUTDOWN_REASON)
            if not await calls.until_idle(LAST_CALLS_SECONDS):
                _logger.error("%d calls do not end; the runner ends without them", len(calls.active))
        self._tell(LifecycleEnded(event="ended"))
        if self._journal is not None:
            self._journal.close()
        given_up = time.monotonic() + LAST_READERS_SECONDS
        while self.counters.readers and time.monotonic() < given_up:  # noqa: ASYNC110 - short, and once
            await asyncio.sleep(0.02)
        await listener.close()
        if self._metrics is not None:
            await self._metrics.close()

    def _tell(self, body: LifecycleBody) -> None:
        if self._lifecycle is not None:
            self._lifecycle.append(LIFECYCLE_CLASS, lambda _seq, _at: body)
        try:
            self._print(write_lifecycle_line(body))
        except (OSError, ValueError) as error:  # whoever started it no longer reads
            _logger.warning("the lifecycle line %r could not be written: %s", body.event, error)


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
