"""The fixture ``curb_runner``: a call on a runner of any kind, and its host."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from curb_client.errors import ExpectationError, UsageError
from curb_client.host import AiohttpTransport, CallItem, Follower, ItemView, RunnerClient, RunnerProcess
from curb_client.room.arguments import check_timeout
from curb_client.testing.call import CurbCall
from curb_client.testing.checked_transport import CheckedTransport

__all__ = ["CurbRunner", "RunnerCall"]

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 2.0
_OUTPUT_LINES: Final = 30
_LOOK_EVERY: Final = 0.05


@dataclass(frozen=True)
class RunnerCall:
    """A call that a runner holds.

    Attributes:
        call: the call in its room: ``call.client`` is the caller's app, ``await call.expect(...)`` what it must get.
        session_id: the call's id.
        runner: the host's client. host: what it follows the runner with: ``host.on_ask(...)``.
        events: the call's records from its start.
        process: the runner's. checks: what it said so far, against the schema.
    """

    call: CurbCall
    session_id: str
    runner: RunnerClient
    host: Follower
    events: ItemView[CallItem]
    process: RunnerProcess
    checks: CheckedTransport


class CurbRunner:
    """Starts runners for a test; see :meth:`__call__`.

    Args:
        call: the test's call, into whose room the agents are sent.
        command: of ``--curb-runner``, as one would write it in a shell.
    """

    def __init__(self, call: CurbCall, command: str | None = None) -> None:
        self._call = call
        self._command = shlex.split(command or "")

    @contextlib.asynccontextmanager
    async def __call__(
        self,
        command: Sequence[str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        within: float = START_SECONDS,
        **start: Any,
    ) -> AsyncIterator[RunnerCall]:
        """A runner with one call, connected; at the end of the block the call is stopped and the runner drained.

        ::

            async with curb_runner(["node", "runner.mjs"]) as hosted:
                assert await hosted.call.client.ask("quote") == {"price": 12}
                await hosted.runner.send(hosted.session_id, "ops.notice", {"door": 4})

        Every answer and every line of the stream is checked against ``protocol.schema.json``.

        Args:
            command: any runner's, by default that of ``--curb-runner``.
            environment: more variables for it, see :class:`curb_client.host.RunnerProcess`.
            within: seconds for the runner to be ready, and again for the call to be connected.
            start: more of :meth:`curb_client.host.RunnerClient.start_call`, such as ``client_context``.

        Raises:
            UsageError: there is no command.
            RunnerProcessError: the runner does not start.
            RunnerError: it does not take the call.
            ExpectationError: the call does not get connected; or, at the end, something was not of the protocol.
        """
        wanted = list(command or self._command)
        if not wanted:
            raise UsageError("no runner: give curb_runner a command, or pytest the option --curb-runner='program ...'")
        seconds = check_timeout(within, default=START_SECONDS)
        process = RunnerProcess(wanted, environment=environment, ready_within=seconds, stop_within=STOP_SECONDS)
        is_started = False
        try:
            async with process:
                is_started = True
                async with self._hosted(process, seconds, start) as hosted:
                    yield hosted
        except BaseException:
            if is_started:  # now that it has ended, nothing of it is still on its way
                sys.stderr.write(f"the last output of {process}:\n{process.output_tail(_OUTPUT_LINES)}\n")
            raise
        if hosted.checks.violations:
            raise ExpectationError("not of the protocol:\n  " + "\n  ".join(hosted.checks.violations))

    @contextlib.asynccontextmanager
    async def _hosted(
        self, process: RunnerProcess, seconds: float, start: Mapping[str, Any]
    ) -> AsyncIterator[RunnerCall]:
        checks = CheckedTransport(AiohttpTransport(process.address))
        session_id = str(start.get("session_id", self._call.room_name))
        request = {
            "session_id": session_id,
            "realtime_url": self._call.url,
            "realtime_token": self._call.token("agent", kind="agent"),
            **start,
        }
        async with (
            RunnerClient(process.address, process.token, transport=checks) as runner,
            runner.follow() as host,
            host.call_events(session_id) as events,
        ):
            await runner.start_call(**request)
            await _until_connected(runner, session_id, seconds)
            yield RunnerCall(self._call, session_id, runner, host, events, process, checks)
            await runner.stop_call(session_id)


async def _until_connected(runner: RunnerClient, session_id: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (state := (await runner.call(session_id)).state) != "connected":
        if state in ("ending", "ended"):
            raise ExpectationError(f"the call {session_id} is {state} before it was connected: did its agent fail?")
        if time.monotonic() >= deadline:
            raise ExpectationError(f"the call {session_id} is still {state!r} after {seconds:g} s (within)")
        await asyncio.sleep(_LOOK_EVERY)
