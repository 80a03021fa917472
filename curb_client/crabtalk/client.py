"""A daemon's client: one method for each thing that it does (CrabTalk, Protocol)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.asking import REQUEST_SECONDS, Asking
from curb_client.crabtalk.cron import daemon_schedule, quiet_hours
from curb_client.crabtalk.errors import (
    AgentRunError,
    CrabTalkError,
    DaemonRefusedError,
)
from curb_client.crabtalk.operations import as_json_text, made
from curb_client.crabtalk.replies import AgentEvents, PackageProgress
from curb_client.crabtalk.run_stream import AgentRun
from curb_client.errors import ClosedError, UsageError
from curb_client.room.arguments import check_timeout

__all__ = ["CrabTalkClient"]

RunT = TypeVar("RunT", pb.SendMsg, pb.StreamMsg)

DEFAULT_AGENT: Final = "crab"
WAITING_SECONDS: Final = 120.0
"""For what a daemon does once no other session runs, and what a model does meanwhile."""
RUN_SECONDS: Final = 600.0
SILENCE_SECONDS: Final = 330.0
"""Between two events of a run: a question waits five minutes for its answer."""
MOST_SESSION: Final = 2**64 - 1
LATE_QUESTION_SECONDS: Final = 0.1
"""A daemon tells of a tool first, and can give up its question only when it has begun to wait."""


class CrabTalkClient(Asking):
    """Talks to a CrabTalk daemon; ``async with`` it, or ``await client.aclose()``.

    ::

        async with CrabTalkClient() as client:
            async for event in client.stream("What is in this folder?", sender="me"):
                print(event)

    Connections are opened when they are needed, each has one request under way, and some are kept for the next. Nothing
    is repeated: a request that got no answer may have run an agent's tools.

    Args:
        address: the path of the daemon's socket, by default ``~/.crabtalk/run/crabtalk.sock``; the path of its port
            file (``….port``), or ``tcp://127.0.0.1:6688``.

    Raises:
        UsageError: no address.

    All methods raise, besides what they name:

    - DaemonRefusedError, as DaemonNotFoundError for its code 404, where the daemon says no;
    - DaemonUnreachableError, without a connection; DaemonTimeoutError, out of time;
    - DaemonClosedError, where the daemon closed the connection instead of answering;
    - FrameTooLargeError, for more than 16 MiB; MalformedMessageError, for an answer that is none.

    ``timeout`` is in seconds, for the whole request; of what gives several answers, for each. Answers are the
    protocol's own messages, as generated classes (:mod:`curb_client.crabtalk.crabtalk_pb2`), with what newer daemons
    add kept in them.
    """

    # Runs

    async def send(
        self,
        content: str,
        *,
        agent: str = DEFAULT_AGENT,
        session: int | None = None,
        sender: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        new_chat: bool = False,
        resume_file: str | None = None,
        timeout: float | None = None,
    ) -> pb.SendResponse:
        """Say something to an agent and return its whole answer. An agent cannot ask the person anything meanwhile.

        Args:
            session: one that lives; the agent's name is not looked at then. Without it the daemon takes the living
                session of this agent and sender with the lowest id (not the latest), or the newest on disk, or a new
                one, and waits with that until no session runs.
            sender: who says it, ``telegram-12345`` for example.
            cwd: the directory that the agent's tools work in; with a session it is not looked at.
            new_chat: begin a new session. resume_file: go on with the session in this file of the daemon's.
            timeout: 600 by default.

        Raises:
            AgentRunError: the run failed. A daemon hides a provider's error here, behind an empty answer that cost no
                token; :meth:`stream` tells it. A provider that counts no tokens and answers with nothing looks so, too.
        """
        message = _run(
            pb.SendMsg, content=content, agent=agent, session=session, sender=sender, cwd=cwd, new_chat=new_chat,
            resume_file=resume_file,
        )  # fmt: skip
        answer = await self._ask(message, pb.SendResponse, timeout, RUN_SECONDS)
        if not answer.content and not answer.usage.total_tokens:
            raise AgentRunError(
                f"the run of {answer.agent!r} in session {answer.session} gave nothing and used no token: its provider "
                f"{answer.provider!r} failed, or answered with nothing. Use stream() to be told which",
                reason="",
                agent=answer.agent,
                session=answer.session,
                provider=answer.provider,
                model=answer.model,
            )
        return answer

    def stream(
        self,
        content: str,
        *,
        agent: str = DEFAULT_AGENT,
        session: int | None = None,
        sender: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        new_chat: bool = False,
        resume_file: str | None = None,
        timeout: float | None = None,
    ) -> AgentRun:
        """Say something to an agent and follow its run, event by event. Arguments as of :meth:`send`.

        Args:
            timeout: seconds without any event, 330 by default: a question of the agent's waits 300.
        """
        message = _run(
            pb.StreamMsg, content=content, agent=agent, session=session, sender=sender, cwd=cwd, new_chat=new_chat,
            resume_file=resume_file,
        )  # fmt: skip
        return AgentRun(self._others, message, check_timeout(timeout, default=SILENCE_SECONDS))

    async def reply_to_ask(
        self, session: int, answer: Mapping[str, Any] | str, *, timeout: float | None = None
    ) -> None:
        """Answer what an agent asks in a session, see :class:`curb_client.crabtalk.AskUser`.

        Args:
            answer: by the question's text, the chosen label or labels: ``{"Which database?": "SQLite"}``. Text is
                given to the agent as it is.

        Raises:
            DaemonNotFoundError: nothing is asked in that session, or no longer.
        """
        text = as_json_text(answer, "the answer")
        await self._ask(made(pb.ReplyToAsk, session=_session(session), content=text), pb.Pong, timeout)

    # Sessions

    async def sessions(self, *, timeout: float | None = None) -> list[pb.SessionInfo]:
        """The living sessions. The daemon answers once no session runs.

        Args:
            timeout: 120 by default.
        """
        return list((await self._ask(pb.Sessions(), pb.SessionList, timeout, WAITING_SECONDS)).sessions)

    async def kill(self, session: int, *, timeout: float | None = None) -> None:
        """Forget a session, which stays on disk. A run in it goes on; a question of it is given up.

        Raises:
            DaemonNotFoundError: there is no such session.
        """
        message = made(pb.KillMsg, session=_session(session))
        deadline = time.monotonic() + check_timeout(timeout, default=REQUEST_SECONDS)
        await self._ask(message, pb.Pong, timeout)
        left = deadline - time.monotonic() - LATE_QUESTION_SECONDS
        if left > 0:
            await asyncio.sleep(LATE_QUESTION_SECONDS)
            with contextlib.suppress(CrabTalkError, ClosedError):  # it is killed already
                await self._ask(message, pb.Pong, left)

    async def compact(self, session: int, *, timeout: float | None = None) -> str:
        """A summary of a session, by its model; the session keeps its messages.

        Args:
            timeout: 120 by default.
        """
        message = made(pb.CompactMsg, session=_session(session))
        return (await self._ask(message, pb.CompactResponse, timeout, WAITING_SECONDS)).summary

    async def conversations(
        self, *, agent: str = "", sender: str = "", timeout: float | None = None
    ) -> list[pb.ConversationInfo]:
        """The sessions on disk: all of them, those of an agent, or those of an agent and a sender.

        Raises:
            UsageError: a sender without an agent, which a daemon would not look at.
        """
        if sender and not agent:
            raise UsageError(f"conversations of the sender {sender!r} with any agent: name the agent too")
        message = made(pb.ListConversationsMsg, agent=agent, sender=sender)
        return list((await self._ask(message, pb.ConversationList, timeout)).conversations)

    # Agents

    async def agents(self, *, timeout: float | None = None) -> list[pb.AgentInfo]:
        """All agents."""
        return list((await self._ask(pb.ListAgentsMsg(), pb.AgentList, timeout)).agents)

    async def agent(self, name: str, *, timeout: float | None = None) -> pb.AgentInfo:
        """An agent. One that was deleted is there still, with default settings, as long as its prompt's file is.

        Raises:
            DaemonNotFoundError: there is none of this name.
        """
        return await self._ask(made(pb.GetAgentMsg, name=name), pb.AgentInfo, timeout)

    async def create_agent(
        self, name: str, config: Mapping[str, Any] | str, *, timeout: float | None = None
    ) -> pb.AgentInfo:
        """Add an agent, whose prompt is the file ``local/agents/<name>.md`` in the daemon's directory.

        Args:
            config: ``description``, ``model``, ``max_iterations``, ``thinking``, ``members``, ``skills``, ``mcps``,
                ``compact_threshold``; an object, or its JSON text. ``{}`` for the defaults.

        Raises:
            DaemonRefusedError: there is such an agent, or no such file. In that case a daemon leaves half an agent
                behind, which is deleted here.
        """
        message = made(pb.CreateAgentMsg, name=name, config=as_json_text(config, "the agent's config"))
        try:
            return await self._ask(message, pb.AgentInfo, timeout)
        except DaemonRefusedError as refused:
            if refused.reason != f"agent '{name}' not found":
                raise
            left = refused
        try:
            await self.delete_agent(name, timeout=timeout)
        except CrabTalkError as error:
            raise error from left
        reason = f"{left.reason}: write its prompt to the daemon's local/agents/{name}.md first"
        raise DaemonRefusedError(left.code, reason, doing=left.doing)

    async def update_agent(
        self, name: str, config: Mapping[str, Any] | str, *, timeout: float | None = None
    ) -> pb.AgentInfo:
        """Give an agent another config, as of :meth:`create_agent`; what it leaves out is at its default again."""
        message = made(pb.UpdateAgentMsg, name=name, config=as_json_text(config, "the agent's config"))
        return await self._ask(message, pb.AgentInfo, timeout)

    async def delete_agent(self, name: str, *, timeout: float | None = None) -> None:
        """Delete an agent's config; see :meth:`agent`.

        Raises:
            DaemonNotFoundError: there is none, or none that was created by a client.
        """
        await self._ask(made(pb.DeleteAgentMsg, name=name), pb.Pong, timeout)

    # Cron

    async def create_cron(
        self,
        schedule: str,
        skill: str,
        *,
        session: int,
        quiet: tuple[str, str] | None = None,
        once: bool = False,
        timeout: float | None = None,
    ) -> pb.CronInfo:
        """Have a skill said to a session, as ``/skill``, at the times of a schedule, whoever is connected.

        Args:
            schedule: five fields as of cron, ``*/5 9-17 * * MON-FRI``, in UTC; or a daemon's own six, with seconds.
            skill: its name; a daemon does not look whether there is one.
            session: one that lives.
            quiet: from when to when to keep quiet, ``("23:00", "07:00")``, in the daemon's local time.
            once: the first time only; the job is then gone.

        Raises:
            InvalidCronError: the daemon would refuse it, or not do what it says.
        """
        start, end = (None, None) if quiet is None else quiet_hours(quiet)
        message = made(
            pb.CreateCronMsg,
            schedule=daemon_schedule(schedule),
            skill=skill,
            session=_session(session),
            quiet_start=start,
            quiet_end=end,
            once=once,
        )
        return await self._ask(message, pb.CronInfo, timeout)

    async def crons(self, *, timeout: float | None = None) -> list[pb.CronInfo]:
        """All jobs, by their ids."""
        listed = await self._ask(pb.ListCronsMsg(), pb.CronList, timeout)
        return sorted(listed.crons, key=lambda cron: cron.id)

    async def delete_cron(self, id: int, *, timeout: float | None = None) -> None:  # noqa: A002 - the protocol's name
        """Delete a job.

        Raises:
            DaemonNotFoundError: there is none with this id.
        """
        await self._ask(made(pb.DeleteCronMsg, id=id), pb.Pong, timeout)

    # The daemon

    def events(self, *, timeout: float | None = None) -> AgentEvents:
        """What all agents do from now on: ``async with client.events() as events: async for event in events: ...``.

        Args:
            timeout: seconds for the daemon to show that it is there, 15 by default; events may be far apart.
        """
        return AgentEvents(self._others, pb.SubscribeEvents(), check_timeout(timeout, default=REQUEST_SECONDS))

    async def ping(self, *, timeout: float | None = None) -> None:
        """Returns if the daemon is there."""
        await self._ask(pb.Ping(), pb.Pong, timeout)

    async def reload(self, *, timeout: float | None = None) -> None:
        """Have the daemon read its configuration again."""
        await self._ask(pb.ReloadMsg(), pb.Pong, timeout)

    async def stats(self, *, timeout: float | None = None) -> pb.DaemonStats:
        """How long the daemon has been up, its sessions that run, its agents, and its model."""
        return await self._ask(pb.GetStats(), pb.DaemonStats, timeout)

    # Packages

    def install_package(
        self, package: str, *, branch: str = "", path: str = "", force: bool = False, timeout: float | None = None
    ) -> PackageProgress:
        """Install a package: ``async for event in client.install_package(…)``, or ``await ….done()``.

        Args:
            package: its name. branch: of its repository. path: a directory to take it from. force: over another.
            timeout: seconds without any event, 600 by default.
        """
        message = made(pb.InstallPackageMsg, package=package, branch=branch, path=path, force=force)
        return PackageProgress(self._others, message, check_timeout(timeout, default=RUN_SECONDS))

    def uninstall_package(self, package: str, *, timeout: float | None = None) -> PackageProgress:
        """Remove a package; as of :meth:`install_package`."""
        message = made(pb.UninstallPackageMsg, package=package)
        return PackageProgress(self._others, message, check_timeout(timeout, default=RUN_SECONDS))


def _session(session: object) -> int:
    if not isinstance(session, int) or isinstance(session, bool) or not 1 <= session <= MOST_SESSION:
        raise UsageError(f"session is {session!r:.40}; it must be a whole number from 1 to {MOST_SESSION}")
    return session


def _run(kind: type[RunT], *, session: int | None, cwd: str | os.PathLike[str] | None, **fields: Any) -> RunT:
    if session is not None and (fields["new_chat"] or fields["resume_file"] is not None):
        raise UsageError("session, new_chat and resume_file name three sessions; give one of them")
    directory = None if cwd is None else os.fspath(cwd)
    return made(kind, session=None if session is None else _session(session), cwd=directory, **fields)
