"""Each request and its answers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError, Message

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.testing.fake_daemon.listener import GoneError, Peer
from curb_client.testing.fake_daemon.runs import PROVIDER, Runs
from curb_client.testing.fake_daemon.schedules import Schedule
from curb_client.testing.fake_daemon.state import MODEL, RefusedError, Session, State, logger

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Dispatcher"]

LATE_REPLY_SECONDS: Final = 0.1
"""How long a daemon waits for a question that the answer may have overtaken."""
_REMOVAL: Final = ("removing manifest…", "reloading daemon…")  # of what is not there, too
_PONG: Final = pb.ServerMessage(pong=pb.Pong())

Handler = Callable[[Any, Peer], Awaitable[None]]


class Dispatcher:
    """Answers requests, each in a task of its own: to several on one connection the answers come mixed up.

    Args:
        packages: what installing each package does, step by step.
    """

    def __init__(self, state: State, runs: Runs, packages: Mapping[str, Sequence[str]]) -> None:
        self.state = state
        self.runs = runs
        self._packages = packages
        self._installed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, Handler] = {
            "send": self._send,
            "stream": self._stream,
            "reply_to_ask": self._reply_to_ask,
            "kill": self._kill,
            "install_package": self._install,
            "uninstall_package": self._install,
            "subscribe_events": self._subscribe,
        }

    async def serve(self, peer: Peer) -> None:
        """Until the client leaves, or sends what is no message."""
        while (frames := await peer.read()) is not None:
            for frame in frames:
                try:
                    message = pb.ClientMessage.FromString(frame)
                except DecodeError:
                    return
                self._spawn(self._answer(message, peer))

    def begin_crons(self) -> None:
        """Let jobs fire."""
        self._spawn(self._fire_crons())

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: pb.ClientMessage, peer: Peer) -> None:
        doing = message.WhichOneof("message")
        with contextlib.suppress(GoneError):
            try:
                if doing is None:
                    raise RefusedError(400, "empty client message")
                handler = self._handlers.get(doing)
                if handler is not None:
                    await handler(getattr(message, doing), peer)
                else:
                    answer = await self._plain(doing, getattr(message, doing))
                    await peer.send(answer)
            except RefusedError as refused:
                await peer.send(_refusal(refused.code, str(refused)))
            except GoneError:
                raise
            except Exception as error:
                logger.exception("a fake daemon failed at %s", doing)
                await peer.send(_refusal(500, f"the fake daemon failed: {type(error).__name__}: {error}"))

    # Runs

    async def _session_for(self, request: pb.SendMsg | pb.StreamMsg) -> Session | None:
        """The session of a request; None where it names one that is not."""
        if request.HasField("session"):
            return self.state.session(request.session)
        created_by = request.sender or "user"
        if request.HasField("resume_file"):
            stored = [one for one in self.state.disk if self.state.file_of(one) == request.resume_file]
            if not stored:
                raise RefusedError(500, "No such file or directory (os error 2)")
            return self.state.resumed(stored[0])
        if request.new_chat:
            return self.state.new_session(request.agent, created_by)
        return await self.state.chosen_session(request.agent, created_by)

    async def _send(self, request: pb.SendMsg, peer: Peer) -> None:
        session = await self._session_for(request)
        if session is None:
            raise RefusedError(500, f"session {request.session} not found")
        content = ""
        end = pb.StreamEnd()
        async for event in self.runs.run(session, request.content, agent=request.agent, can_ask=False):
            if event.HasField("chunk"):
                content += event.chunk.content
            elif event.HasField("tool_start"):
                content = ""  # the answer is what the model said last
            elif event.HasField("end"):
                end = event.end
        response = pb.SendResponse(
            agent=request.agent,
            content="" if end.error else content,
            session=session.id,
            provider=end.provider,
            model=end.model,
            usage=end.usage,
        )
        await peer.send(pb.ServerMessage(response=response))

    async def _stream(self, request: pb.StreamMsg, peer: Peer) -> None:
        session = await self._session_for(request)
        number = request.session if session is None else session.id
        start = pb.StreamStart(agent=request.agent, session=number)
        await _event(peer, pb.StreamEvent(start=start))
        if session is None:
            error = f"session {number} not found"
            end = pb.StreamEnd(agent=request.agent, error=error, usage=pb.TokenUsage())
            await _event(peer, pb.StreamEvent(end=end))
            return
        async with aclosing(self.runs.run(session, request.content, agent=request.agent, can_ask=True)) as events:
            async for event in events:
                await _event(peer, event)

    async def _reply_to_ask(self, request: pb.ReplyToAsk, peer: Peer) -> None:
        waiting = self.state.asks.pop(request.session, None)
        if waiting is None:
            await asyncio.sleep(LATE_REPLY_SECONDS)
            waiting = self.state.asks.pop(request.session, None)
        if waiting is None or waiting.done():
            raise RefusedError(404, f"no pending ask_user for session {request.session}")
        waiting.set_result(request.content)
        await peer.send(_PONG)

    async def _kill(self, request: pb.KillMsg, peer: Peer) -> None:
        waiting = self.state.asks.pop(request.session, None)
        if waiting is not None:
            waiting.cancel()
        if self.state.live.pop(request.session, None) is None:
            raise RefusedError(404, f"session {request.session} not found")
        await peer.send(_PONG)

    # Many answers

    async def _subscribe(self, request: pb.SubscribeEvents, peer: Peer) -> None:  # noqa: ARG002
        queue: asyncio.Queue[pb.AgentEventMsg] = asyncio.Queue()
        self.state.subscribers.add(queue)
        try:
            while True:
                await peer.send(pb.ServerMessage(agent_event=await queue.get()))
        finally:
            self.state.subscribers.discard(queue)

    async def _install(self, request: pb.InstallPackageMsg | pb.UninstallPackageMsg, peer: Peer) -> None:
        async def tell(**event: Message) -> None:
            await peer.send(pb.ServerMessage(hub_event=pb.HubEvent(**event)))  # type: ignore[arg-type]

        name = request.package
        if "/" not in name:
            raise RefusedError(500, f"package must be in `scope/name` format, got: {name}")
        is_removal = isinstance(request, pb.UninstallPackageMsg)
        if not is_removal and name not in self._packages:
            raise RefusedError(500, f"package '{name}' not found")
        for step in _REMOVAL if is_removal else self._packages[name]:
            await tell(step=pb.HubStep(message=step))
        (self._installed.discard if is_removal else self._installed.add)(name)
        await tell(done=pb.HubDone())

    # One answer

    async def _plain(self, doing: str, request: Any) -> pb.ServerMessage:
        state = self.state
        match doing:
            case "ping" | "reload":
                return _PONG
            case "get_stats":
                return pb.ServerMessage(stats=self._stats())
            case "get_config":
                raise RefusedError(410, "GetConfig is deprecated — use GetStats and granular APIs")
            case "sessions":
                return pb.ServerMessage(sessions=await self._sessions())
            case "compact":
                return pb.ServerMessage(compact=pb.CompactResponse(summary=await self._compact(request.session)))
            case "list_conversations":
                return pb.ServerMessage(conversation_list=self._conversations(request))
            case "list_agents":
                agents = [state.agent_info(name) for name in state.agent_names()]
                return pb.ServerMessage(agent_list=pb.AgentList(agents=agents))
            case "get_agent":
                return pb.ServerMessage(agent_info=state.agent_info(request.name))
            case "create_agent" | "update_agent":
                info = state.write_agent(request.name, request.config, is_new=doing == "create_agent")
                return pb.ServerMessage(agent_info=info)
            case "delete_agent":
                state.delete_agent(request.name)
                return _PONG
            case _:
                return self._others(doing, request)

    def _others(self, doing: str, request: Any) -> pb.ServerMessage:
        state = self.state
        match doing:
            case "create_cron":
                return pb.ServerMessage(cron_info=self._create_cron(request))
            case "list_crons":
                return pb.ServerMessage(cron_list=pb.CronList(crons=reversed(list(state.crons.values()))))
            case "delete_cron":
                if state.crons.pop(request.id, None) is None:
                    raise RefusedError(404, f"cron {request.id} not found")
                return _PONG
            case "list_models":
                model = pb.ModelInfo(name=MODEL, provider=PROVIDER, active=True, enabled=True, kind=pb.OPENAI)
                return pb.ServerMessage(model_list=pb.ModelList(models=[model]))
            case "list_providers":
                provider = pb.ProviderInfo(name=PROVIDER, active=True, enabled=True, config="{}")
                return pb.ServerMessage(provider_list=pb.ProviderList(providers=[provider]))
            case "list_skills":
                return pb.ServerMessage(skill_list=pb.SkillList())
            case "list_mcps":
                return pb.ServerMessage(mcp_list=pb.McpList(mcps=state.mcps))
            case "set_local_mcps":
                state.mcps = [_local(mcp) for mcp in request.mcps]
                return _PONG
            case "list_packages":
                packages = [pb.PackageInfo(name=name) for name in sorted(self._installed)]
                return pb.ServerMessage(package_list=pb.PackageList(packages=packages))
            case _:
                raise RefusedError(500, f"a fake daemon does not do {doing}")

    def _stats(self) -> pb.DaemonStats:
        state = self.state
        return pb.DaemonStats(
            uptime_secs=int(time.monotonic() - state.started),
            active_sessions=sum(session.is_active for session in state.live.values()),
            registered_agents=len(state.agent_names()),
            active_model=MODEL,
        )

    async def _sessions(self) -> pb.SessionList:
        infos = []
        for session in list(self.state.live.values()):
            async with session.running:
                infos.append(session.info())
        return pb.SessionList(sessions=infos)

    async def _compact(self, number: int) -> str:
        session = self.state.session(number)
        if session is not None and session.history:
            async with session.running:
                texts = [str(message["content"]) for message in session.history if message["role"] == "assistant"]
            if texts:
                return texts[-1]
        raise RefusedError(500, f"compact failed for session {number}")

    def _conversations(self, request: pb.ListConversationsMsg) -> pb.ConversationList:
        """The sender counts where an agent is named too."""
        found = [
            pb.ConversationInfo(
                agent=stored.agent,
                sender=stored.created_by,
                seq=number,
                file_path=self.state.file_of(stored),
                message_count=len(stored.history),
                date=dt.date.fromtimestamp(stored.created).isoformat(),
            )
            for number, stored in enumerate(self.state.disk, start=1)
            if request.agent in ("", stored.agent) and (not request.agent or request.sender in ("", stored.created_by))
        ]
        return pb.ConversationList(conversations=found)

    # Jobs

    def _create_cron(self, request: pb.CreateCronMsg) -> pb.CronInfo:
        if self.state.session(request.session) is None:
            raise RefusedError(500, f"session {request.session} not found")
        try:
            Schedule(request.schedule)
        except ValueError as error:
            raise RefusedError(500, f"invalid cron schedule '{request.schedule}': {error}") from None
        return self.state.add_cron(request)

    async def _fire_crons(self) -> None:
        last = int(time.time())
        while True:
            await asyncio.sleep(last + 1 - time.time())
            last += 1
            now = dt.datetime.fromtimestamp(last, dt.timezone.utc)
            for cron in list(self.state.crons.values()):
                session = self.state.session(cron.session)
                if not Schedule(cron.schedule).fires(now) or _is_quiet(cron):
                    continue
                if cron.once:
                    del self.state.crons[cron.id]
                if session is not None:
                    self._spawn(self._fire(session, cron))

    async def _fire(self, session: Session, cron: pb.CronInfo) -> None:
        async for _ in self.runs.run(session, f"/{cron.skill}", agent="", can_ask=False):
            pass


def _is_quiet(cron: pb.CronInfo) -> bool:
    """Whether now is in quiet hours: local time, and never where one of them is no time."""
    try:
        start, end = (dt.datetime.strptime(text, "%H:%M").time() for text in (cron.quiet_start, cron.quiet_end))
    except ValueError:
        return False
    now = dt.datetime.now().time()
    return start <= now < end if start <= end else now >= start or now < end


def _local(mcp: pb.McpInfo) -> pb.McpInfo:
    local = pb.McpInfo()
    local.CopyFrom(mcp)
    local.source, local.source_kind, local.enabled = "local", pb.LOCAL, True
    return local


def _refusal(code: int, reason: str) -> pb.ServerMessage:
    return pb.ServerMessage(error=pb.ErrorMsg(code=code, message=reason))


async def _event(peer: Peer, event: pb.StreamEvent) -> None:
    await peer.send(pb.ServerMessage(stream=event))
