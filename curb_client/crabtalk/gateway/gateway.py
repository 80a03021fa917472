"""An agent that hands what callers say on to a CrabTalk daemon, and its answers back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final

from livekit import rtc
from typing_extensions import Self

from curb_client.crabtalk.client import DEFAULT_AGENT, CrabTalkClient
from curb_client.crabtalk.errors import AgentRunError, CrabTalkError, DaemonNotFoundError, RoomLostError
from curb_client.crabtalk.events import (
    AskUser,
    RunEvent,
    StreamChunk,
    StreamEnd,
    StreamStart,
    StreamThinking,
    ToolResult,
    ToolStart,
)
from curb_client.crabtalk.gateway import payloads as kinds
from curb_client.crabtalk.gateway.payloads import (
    AnswerRequest,
    GatewayCode,
    GatewayRefusal,
    NoRequest,
    SayRequest,
    as_refusal,
    calls_json,
    pieces,
    question_json,
    usage_json,
)
from curb_client.crabtalk.gateway.sessions import KILLED, Caller, Callers
from curb_client.errors import CurbError
from curb_client.room.agent import AgentCall
from curb_client.room.callbacks import call_safely, logger
from curb_client.room.handlers import RequestMeta
from curb_client.room.sdk import on_disconnected

__all__ = ["CrabGateway"]

LIST_SECONDS: Final = 8.0
"""A daemon lists its sessions once none of them runs; a caller waits 15 s for any answer."""

LOOK_SECONDS: Final = 1.0
UNANNOUNCED_SECONDS: Final = 5.0
"""A caller who is not in the room, as far as LiveKit told, may ask; after so long a silence it has left."""

_LOST: Final = {
    "DUPLICATE_IDENTITY": "another participant joined with its identity: give each gateway a token with its own",
    "PARTICIPANT_REMOVED": "somebody removed it",
    "ROOM_DELETED": "the room was ended",
    "ROOM_CLOSED": "the room was ended",
}


class CrabGateway:
    """Takes callers' messages, each caller in a session of its own; ``async with`` it, before ``call.ready()``.

    ::

        async with (
            connect_room(url, token) as room,
            AgentCall(room) as call,
            CrabTalkClient() as client,
            CrabGateway(call, client) as gateway,
        ):
            await call.ready()
            await gateway.until_closed()

    ===================  ================================  ===========================================================
    a caller's message   payload                           reply
    ===================  ================================  ===========================================================
    ``crab.ask``         ``{content}``                     ``{content, parts, session, usage}``, once the run ended
    ``crab.stream``      ``{content}``                     ``{stream}``, at once; messages follow
    ``crab.answer``      ``{answer}``                      ``{}``; to the question that the caller's run waits with
    ``crab.sessions``    ``{}``                            ``{sessions, current}``: the caller's own
    ``crab.kill``        ``{}``                            ``{session}``: ends the caller's run, forgets its session,
                                                           which is null where the run had none yet
    ===================  ================================  ===========================================================

    Messages, to that caller alone and in order: ``crab.started`` ``{stream, session}``, ``crab.chunk`` and
    ``crab.thinking`` ``{stream, content}``, ``crab.tools`` ``{stream, calls}``, ``crab.result``
    ``{stream, tool, output, ms, more}``, ``crab.question`` ``{stream, session, questions}``, and at last ``crab.end``
    ``{stream, session, usage}``, or with ``code`` and ``reason`` where the run failed, was killed, or the gateway ends.
    Texts over 12 KiB of JSON come in several messages; a long answer to ``crab.ask`` as ``{stream, part, content}`` in
    ``parts`` messages ``crab.part`` before the reply, whose ``content`` is then empty. A call of ``crab.tools`` is
    ``{tool, arguments, more}``: whole, unless all calls of a batch together have more than a message takes, 4 MiB; then
    only the first 12 KiB of each call's arguments come, and ``more`` is true where there were more.
    A session that somebody else killed is noticed by the next run in it, which begins again in a new session, with a
    second ``crab.started``.

    Refused are, with the code: payloads that do not fit (``invalid_payload``), a second run of a caller
    (``caller_busy``), an answer without a question (``no_question``), a kill without a session (``no_session``), and
    what the daemon does not do: ``daemon_unavailable`` (it is away, or closed the connection), ``daemon_timeout``,
    ``daemon_refused`` (it says no, or what it says is no message of the protocol), ``run_failed``.

    Who is who comes from the room: a caller's session has the sender ``curb-<identity>``, and a caller who leaves frees
    it. A caller that stops waiting for ``crab.ask`` does not end its run.

    Args:
        call: entered, not ready yet.
        client: the daemon's; it is not closed here.
        agent: the daemon's agent.
    """

    def __init__(self, call: AgentCall, client: CrabTalkClient, *, agent: str = DEFAULT_AGENT) -> None:
        self._call = call
        self._client = client
        self._agent = agent
        self._callers = Callers(client)
        self._numbers = itertools.count(1)
        self._removals: list[Any] = []
        self._looking: asyncio.Future[Any] | None = None
        self._closed = asyncio.Event()
        self._lost: RoomLostError | None = None

    async def __aenter__(self) -> Self:
        for key, handler, schema in (
            (kinds.ASK, self._ask, SayRequest),
            (kinds.STREAM, self._stream, SayRequest),
            (kinds.ANSWER, self._answer, AnswerRequest),
            (kinds.SESSIONS, self._sessions, NoRequest),
            (kinds.KILL, self._kill, NoRequest),
        ):
            self._removals.append(self._call.on_message(key, handler, schema=schema))
        self._call.room.on("participant_disconnected", self._left)
        self._removals.append(on_disconnected(self._call.room, self._room_lost))
        self._looking = call_safely(self._look_for_callers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Take no more messages; end all runs, and free the callers' sessions."""
        self._call.room.off("participant_disconnected", self._left)
        if self._looking is not None:
            self._looking.cancel()
        while self._removals:
            self._removals.pop()()
        try:
            await self._callers.aclose()
        finally:
            self._closed.set()

    async def until_closed(self) -> None:
        """Returns once it was closed.

        Raises:
            RoomLostError: it is no longer in the room. It has then closed itself; make a new one in a new room.
        """
        await self._closed.wait()
        if self._lost is not None:
            raise self._lost

    def _room_lost(self, reason: rtc.DisconnectReason.ValueType) -> None:
        name = rtc.DisconnectReason.Name(reason)
        how = _LOST.get(name, "start it again")
        self._lost = RoomLostError(f"the gateway is no longer in its room ({name}): {how}", reason=name)
        call_safely(self.aclose)

    def _left(self, participant: rtc.RemoteParticipant) -> None:
        call_safely(self._callers.free, participant.identity)

    async def _look_for_callers(self) -> None:
        """LiveKit tells of participants up to three seconds late, and of those who were not there so long never."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._call.room.connection_state != rtc.ConnectionState.CONN_CONNECTED:
                continue  # who is there is not known
            for identity in self._callers.silent(UNANNOUNCED_SECONDS):
                if identity not in self._call.room.remote_participants:
                    await self._callers.free(identity)

    # Requests

    async def _ask(self, request: SayRequest, meta: RequestMeta) -> dict[str, Any]:
        caller, stream = await self._free_caller(meta), self._new_name()
        texts: list[str] = []

        async def run() -> StreamEnd:
            end = None
            async with aclosing(self._events(caller, request.content)) as events:
                async for event in events:
                    if isinstance(event, StreamChunk):
                        texts.append(event.content)
                    elif isinstance(event, AskUser):
                        await self._tell(caller, kinds.QUESTION, stream, **question_json(event))
                    elif isinstance(event, StreamEnd):
                        end = event
            assert end is not None
            return end

        end = await self._run(caller, run())
        answer = {"session": caller.session, "usage": usage_json(end.usage)}
        parts = list(pieces("".join(texts)))
        if len(parts) == 1:
            return {"content": parts[0], "parts": 0, **answer}
        for number, part in enumerate(parts):
            await self._tell(caller, kinds.PART, stream, part=number, content=part)
        return {"content": "", "stream": stream, "parts": len(parts), **answer}

    async def _stream(self, request: SayRequest, meta: RequestMeta) -> dict[str, Any]:
        caller, stream = await self._free_caller(meta), self._new_name()

        async def run() -> None:
            try:
                async with aclosing(self._events(caller, request.content)) as events:
                    async for event in events:
                        await self._tell_of(caller, stream, event)
            except CurbError as error:
                await self._end_badly(caller, stream, as_refusal(error))
            except asyncio.CancelledError:
                if not caller.has_left:
                    self._end_badly(caller, stream, GatewayRefusal(GatewayCode.RUN_FAILED, caller.end))
                raise

        caller.run = asyncio.ensure_future(run())
        caller.run.add_done_callback(_log_failure)
        return {"stream": stream}

    async def _answer(self, request: AnswerRequest, meta: RequestMeta) -> dict[str, Any]:
        caller = self._callers.of(_identity(meta))
        if not caller.is_asked or caller.session is None:
            raise GatewayRefusal(GatewayCode.NO_QUESTION, "the agent asked nothing, or was answered")
        caller.is_asked = False  # before the next question can come
        try:
            await self._client.reply_to_ask(caller.session, request.answer)
        except DaemonNotFoundError as error:
            raise GatewayRefusal(GatewayCode.NO_QUESTION, error.reason) from None
        except CrabTalkError as error:
            caller.is_asked = caller.is_busy
            raise as_refusal(error) from None
        return {}

    async def _sessions(self, _: NoRequest, meta: RequestMeta) -> dict[str, Any]:
        caller = self._callers.of(_identity(meta))
        try:
            await self._callers.check_daemon()
            listed = await self._client.sessions(timeout=LIST_SECONDS)
        except CrabTalkError as error:
            raise as_refusal(error) from None
        own = [one for one in listed if one.created_by == _sender(caller)]
        sessions = [
            {"id": one.id, "messages": one.message_count, "active": one.active, "title": one.title} for one in own
        ]
        return {"sessions": sessions, "current": caller.session}

    async def _kill(self, _: NoRequest, meta: RequestMeta) -> dict[str, Any]:
        caller = self._callers.of(_identity(meta))
        try:
            await self._callers.check_daemon()
            was_busy = caller.is_busy
            session = await caller.end_run(KILLED)
            if session is None and not was_busy:
                raise GatewayRefusal(GatewayCode.NO_SESSION, "you have no session: nothing was said yet")
            if session is not None:
                await self._client.kill(session)
        except DaemonNotFoundError:
            pass  # somebody else did
        except CrabTalkError as error:
            raise as_refusal(error) from None
        return {"session": session}

    # Runs

    async def _free_caller(self, meta: RequestMeta) -> Caller:
        """The caller, who has no run, and a daemon that is there."""
        caller = self._callers.of(_identity(meta))
        try:
            await self._callers.check_daemon()
        except CrabTalkError as error:
            raise as_refusal(error) from None
        if not self._callers.is_there(caller):
            raise GatewayRefusal(GatewayCode.RUN_FAILED, "you left meanwhile, or the gateway ends")
        if caller.is_busy:
            raise GatewayRefusal(GatewayCode.CALLER_BUSY, "your last message is still being answered; wait or kill it")
        return caller

    async def _run(self, caller: Caller, work: Any) -> StreamEnd:
        run = caller.run = asyncio.ensure_future(work)
        try:
            end: StreamEnd = await asyncio.shield(run)
        except CrabTalkError as error:
            raise as_refusal(error) from None
        except asyncio.CancelledError:
            if not run.cancelled():
                run.cancel()
                raise
            raise GatewayRefusal(GatewayCode.RUN_FAILED, caller.end) from None
        return end

    async def _events(self, caller: Caller, content: str) -> AsyncGenerator[RunEvent, None]:
        session = caller.session
        try:
            async with aclosing(self._run_in(caller, content)) as events:
                async for event in events:
                    yield event
        except AgentRunError as error:
            if session is None or error.reason != f"session {session} not found":
                raise
        else:
            return
        caller.forget_session()  # somebody else killed it: nothing was run
        async with aclosing(self._run_in(caller, content)) as events:
            async for event in events:
                yield event

    async def _run_in(self, caller: Caller, content: str) -> AsyncGenerator[RunEvent, None]:
        """A run in the caller's session, or in a new one."""
        run = self._client.stream(
            content,
            agent=self._agent,
            session=caller.session,
            sender=_sender(caller),
            new_chat=caller.session is None,
        )
        try:
            async with run:
                async for event in run:
                    if isinstance(event, StreamStart):
                        caller.begin_session(event.session)
                    elif isinstance(event, (AskUser, ToolResult)):
                        caller.is_asked = isinstance(event, AskUser)
                    yield event
        finally:
            caller.is_asked = False

    # Messages

    async def _tell_of(self, caller: Caller, stream: str, event: RunEvent) -> None:
        match event:
            case StreamStart():
                await self._tell(caller, kinds.STARTED, stream, session=event.session)
            case StreamChunk():
                for piece in pieces(event.content):
                    await self._tell(caller, kinds.CHUNK, stream, content=piece)
            case StreamThinking():
                for piece in pieces(event.content):
                    await self._tell(caller, kinds.THINKING, stream, content=piece)
            case ToolStart():
                await self._tell(caller, kinds.TOOLS, stream, calls=calls_json(event.calls))
            case ToolResult():
                await self._tell_result(caller, stream, event)
            case AskUser():
                await self._tell(caller, kinds.QUESTION, stream, **question_json(event))
            case StreamEnd():
                usage = usage_json(event.usage)
                await self._tell(caller, kinds.END, stream, session=caller.session, usage=usage)

    async def _tell_result(self, caller: Caller, stream: str, event: ToolResult) -> None:
        tool = event.call.name if event.call is not None else ""
        parts = list(pieces(event.output))
        for number, part in enumerate(parts, start=1):
            more = number < len(parts)
            await self._tell(caller, kinds.RESULT, stream, tool=tool, output=part, ms=event.duration_ms, more=more)

    async def _tell(self, caller: Caller, key: str, stream: str, **payload: Any) -> None:
        """Once it is sent: a run is no faster than its caller."""
        await self._call.send.to_client(key, {"stream": stream, **payload}, to=caller.identity)

    def _end_badly(self, caller: Caller, stream: str, refusal: GatewayRefusal) -> asyncio.Future[bool]:
        end = {"stream": stream, "session": caller.session, "code": refusal.code.value, "reason": refusal.reason}
        return self._call.send.to_client(kinds.END, end, to=caller.identity)

    def _new_name(self) -> str:
        return f"s-{next(self._numbers)}"


def _identity(meta: RequestMeta) -> str:
    assert meta.sender_identity is not None  # these are messages of clients
    return meta.sender_identity


def _sender(caller: Caller) -> str:
    return f"curb-{caller.identity}"


def _log_failure(run: asyncio.Task[Any]) -> None:
    if not run.cancelled() and (error := run.exception()) is not None:
        logger.error("a caller's run failed", exc_info=error)
