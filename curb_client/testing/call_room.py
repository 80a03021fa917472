"""Who is in the room of a call under test: a client, agents of every kind, and others."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from livekit import rtc
from typing_extensions import Unpack

from curb_client.errors import ExpectationError, UsageError
from curb_client.room.agent import AgentCall
from curb_client.room.arguments import check_timeout
from curb_client.room.client import AgentClient
from curb_client.room.join import connect_room
from curb_client.room.sdk import connect, disconnect, finish_within
from curb_client.room.trace import Tracer
from curb_client.testing.agent_process import (
    AgentProcess,
    agent_environment,
    dispatch_worker,
    wait_until_agent_answers,
    worker_environment,
)
from curb_client.testing.expectations import Mailbox, WatchedClient
from curb_client.testing.hearing import Hearing
from curb_client.testing.recorder import Recorder, shortened
from curb_client.testing.scripted import ScriptedAgent
from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle, no_faults
from curb_client.testing.tokens import TokenOptions

if TYPE_CHECKING:
    from curb_client.testing.embedded.faults import Faults

__all__ = ["AGENT_IDENTITY", "CLIENT_IDENTITY", "CallRoom"]

CLIENT_IDENTITY: Final = "caller"
AGENT_IDENTITY: Final = "agent"
START_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 10.0

_numbers = itertools.count(1)


class CallRoom:
    """A room of its own on a LiveKit server, made by whoever joins first. Nobody is in it until asked for.

    Args:
        agent_identity: the agent that :attr:`client` talks to, by default the first of kind AGENT.
        agent_options: those of :attr:`agent`, see :class:`curb_client.AgentCall`.
    """

    def __init__(
        self,
        server: LiveKitServerHandle | LiveKitAddress,
        agent_identity: str | None,
        agent_options: Mapping[str, Any],
    ) -> None:
        self.server = server
        self.room_name = f"curb-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(3)}"
        self.recorder = Recorder()
        """What passed so far."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop in which somebody joined; None before."""
        self._mailbox = Mailbox()
        self._tracer = Tracer(self.recorder, "kit", lambda: "")
        self._agent_identity = agent_identity
        self._agent_options = agent_options
        self._client: WatchedClient | None = None
        self._client_room: rtc.Room | None = None
        self._hearing: Hearing | None = None
        self._agent: AgentCall | None = None
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._processes: list[AgentProcess] = []
        self._scripted: list[ScriptedAgent] = []
        self._scripted_rooms = contextlib.AsyncExitStack()
        self._keeper: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._faults: Faults | None = None

    @property
    def url(self) -> str:
        """The server's, for an app of yours: ``LIVEKIT_URL``."""
        return self.server.url

    def token(self, identity: str, **options: Unpack[TokenOptions]) -> str:
        """A token with which ``identity`` can join this room; options as in :class:`~.tokens.TokenOptions`."""
        return self.server.token(identity, self.room_name, **options)

    @property
    def faults(self) -> Faults:
        """What can be made to go wrong in this room, on the embedded server: ``with curb_call.faults.drop(1): ...``.

        Raises:
            UsageError: the server is another one.
        """
        if self._faults is None:
            server = self.server
            if not isinstance(server, LiveKitServerHandle):
                raise UsageError(no_faults(server.url))
            self._faults = server.faults.in_room(self.room_name, lambda line: self._tracer.step("note", detail=line))
        return self._faults

    @property
    def client(self) -> AgentClient:
        """A client in the room, as the participant ``caller``.

        Raises:
            UsageError: outside of a running asyncio loop.
        """
        if self._client is None:
            self._begin("client")
            self._client_room = rtc.Room()
            self._client = WatchedClient(
                self._mailbox, CLIENT_IDENTITY, agent_identity=self._agent_identity, trace=self.recorder
            )
            self._client.attach(self._client_room)
            self._hearing = Hearing(self._client_room, self._has_heard)
            self._start(CLIENT_IDENTITY, self._join_client(self._client, self._client_room))
        return self._client

    @property
    def agent(self) -> AgentCall:
        """An agent in the room, in this process: add its handlers. Requests reach it once it has joined.

        Raises:
            UsageError: outside of a running asyncio loop.
        """
        if self._agent is None:
            self._begin("agent")
            self._agent = AgentCall(rtc.Room(), trace=self.recorder, **self._agent_options)
            self._start(AGENT_IDENTITY, self._join_agent(self._agent))
        return self._agent

    async def start_agent_process(
        self,
        command: Sequence[str],
        *,
        worker: bool = False,
        agent_name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        within: float = START_SECONDS,
    ) -> AgentProcess:
        """An agent of any language, as a child process in this room; returns once it answers.

        It is told where to join by ``LIVEKIT_URL``, ``LIVEKIT_TOKEN`` and ``LIVEKIT_ROOM`` in its environment, and
        answers when a ``curb.message`` with the key ``curb.probe`` gets a reply or a refusal. It is ended, with all
        processes that it started, when the call ends.

        Args:
            worker: it is a worker (of livekit-agents, say): it gets ``LIVEKIT_URL``, ``LIVEKIT_API_KEY`` and
                ``LIVEKIT_API_SECRET``, and is dispatched to this room.
            agent_name: the name by which the worker is dispatched.
            env: more variables. cwd: the directory it runs in.
            within: seconds.

        Raises:
            UsageError: the command cannot be run.
            AgentProcessError: it ended, or does not answer in time; with its last output.
        """
        given = worker_environment(self.server) if worker else agent_environment(self.server, self.room_name)
        process = AgentProcess(command, environment={**given, **(env or {})}, cwd=cwd)
        await asyncio.to_thread(process.start)
        self._processes.append(process)
        self._tracer.step("note", detail=f"started {process}")
        client = self.client
        deadline = time.monotonic() + check_timeout(within, default=START_SECONDS)
        if worker:
            await dispatch_worker(self.server, self.room_name, agent_name, process, within)
        await wait_until_agent_answers(process, client, round(max(deadline - time.monotonic(), 0), 1))
        self._tracer.step("note", detail="the agent answers")
        return process

    async def start_scripted_agent(
        self, script: ScriptedAgent | str | os.PathLike[str] | Mapping[str, Any]
    ) -> ScriptedAgent:
        """A scripted agent in the room until the call ends, to test an app; a strict call checks it at the end.

        Args:
            script: the agent, or the path of its YAML file, or what that would say.

        Raises:
            UsageError: it is no script. ConnectFailedError: it could not join.
        """
        if isinstance(script, ScriptedAgent):
            agent = script
            agent.trace = agent.trace or self.recorder
        elif isinstance(script, Mapping):
            agent = ScriptedAgent.from_script(script, trace=self.recorder)
        else:
            agent = ScriptedAgent.from_file(script, trace=self.recorder)
        self._begin("start_scripted_agent()")
        await self._scripted_rooms.enter_async_context(agent.join(self.url, self.token(AGENT_IDENTITY, kind="agent")))
        self._scripted.append(agent)
        self._tracer.step("note", detail=f"{AGENT_IDENTITY} has joined, scripted")
        return agent

    def stop_agent_processes(self) -> None:
        """End those that were started here; :meth:`aclose` does it too."""
        for process in self._processes:
            process.stop()

    @contextlib.asynccontextmanager
    async def join(self, identity: str, **token: Unpack[TokenOptions]) -> AsyncIterator[rtc.Room]:
        """Another participant, without anything of ours: ``async with call.join("supervisor") as room``.

        Args:
            token: options of the token, such as ``kind="agent"``; see :class:`~.tokens.TokenOptions`.
        """
        self._tracer.step("note", detail=f"{identity} joins")
        async with connect_room(self.url, self.token(identity, **token)) as room:
            try:
                yield room
            finally:
                self._tracer.step("note", detail=f"{identity} leaves")

    async def joined(self) -> None:
        """Returns when whoever was asked for so far is in the room.

        Raises:
            ConnectFailedError: somebody could not join.
        """
        for task in list(self._joining.values()):
            await asyncio.shield(task)

    async def agent_is_there(self, within: float) -> str:
        """Returns the identity of the agent once the client could talk to it.

        Raises:
            ExpectationError: it was not there within so many seconds.
        """
        client = self.client
        there = asyncio.Event()
        stop = client.on_presence(lambda presence: there.set() if presence.is_there else None)
        try:
            if not client.presence.is_there:
                await finish_within(there.wait(), within)
            presence = client.presence
            if presence.is_there and presence.identity is not None:
                return presence.identity
        except TimeoutError:
            presence = client.presence
        finally:
            stop()
        raise ExpectationError(f"the agent was not in the room within {within:g} s: it is {presence.state.value!r}")

    def _begin(self, what: str) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                f"curb_call.{what} needs a running asyncio loop: use it inside an async test (LiveKit's SDK works with "
                "asyncio alone); a program without one joins with curb_client.blocking and curb_call.token()"
            ) from None
        if self.loop is not None and self.loop is not loop:
            raise UsageError("this call was begun in another event loop; use one loop in a test")
        self.loop = loop
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(self._keep())

    def _start(self, identity: str, joining: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(joining)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # asked for when it matters
        self._joining[identity] = task

    def _has_heard(self, text: str) -> None:
        self._tracer.step("note", detail=f"{CLIENT_IDENTITY} hears {shortened(text)}")
        self._mailbox.wake()

    async def _join_client(self, client: AgentClient, room: rtc.Room) -> None:
        try:
            await connect(self.url, self.token(CLIENT_IDENTITY), room=room)
        except Exception as error:
            self._tracer.step("note", detail=f"{CLIENT_IDENTITY} could not join: {error}")
            client.give_up(f", since it could not be joined at all: {error}")
            self._mailbox.wake()
            raise
        self._tracer.step("note", detail=f"{CLIENT_IDENTITY} has joined")

    async def _join_agent(self, agent: AgentCall) -> None:
        await connect(self.url, self.token(AGENT_IDENTITY, kind="agent"), room=agent.room)
        await agent.__aenter__()
        await agent.ready()
        self._tracer.step("note", detail=f"{AGENT_IDENTITY} has joined")

    # The end

    async def aclose(self) -> None:
        """Leave the room with everybody who joined through this object; nothing is checked."""
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._leave())
        await asyncio.wait({self._leaving}, timeout=_CLOSE_SECONDS)
        if self._keeper is not None:
            self._keeper.cancel()

    async def _keep(self) -> None:
        """Cancelled by a loop that is ended before :meth:`aclose` was called, it does that."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.aclose()

    async def _leave(self) -> None:
        for task in self._joining.values():
            task.cancel()
        if self._joining:
            await asyncio.wait(self._joining.values(), timeout=_CLOSE_SECONDS)
        leaving: list[Coroutine[Any, Any, None]] = []
        if self._client is not None and self._client_room is not None and self._hearing is not None:
            self._hearing.close()
            await self._client.aclose()
            leaving.append(disconnect(self._client_room))
        if self._agent is not None:
            leaving.append(self._leave_as_agent(self._agent))  # meanwhile: nobody is left to have its answers
        await asyncio.gather(*leaving)
        await self._scripted_rooms.aclose()
        if self._processes:
            await asyncio.to_thread(self.stop_agent_processes)

    async def _leave_as_agent(self, agent: AgentCall) -> None:
        await agent.aclose()
        await disconnect(agent.room)
