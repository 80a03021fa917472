"""The steps of ``curb-client crab-demo``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from curb_client import AgentCall, AgentRefusedError, Call, CurbError, connect_room, join
from curb_client.cli.demo import Report, Step, try_steps
from curb_client.crabtalk import (
    AgentRunError,
    AskUser,
    CrabGateway,
    CrabTalkClient,
    DaemonNotFoundError,
    InvalidCronError,
    StreamChunk,
    StreamEnd,
    ToolResult,
    ask_crab,
)
from curb_client.crabtalk.gateway.payloads import (
    ANSWER,
    CHUNK,
    END,
    KILL,
    QUESTION,
    RESULT,
    SESSIONS,
    STARTED,
    STREAM,
    TOOLS,
)
from curb_client.model import Call as ToolUse
from curb_client.model import ModelScript
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.crab_daemon import CrabDaemon

__all__ = ["NAMES", "STEPS", "conversation", "run"]

STEP_SECONDS: Final = 20.0
ROOM: Final = "crab-demo"
LONG: Final = "All there is to say. " * 2000
QUESTION_TEXT: Final = "Which database?"
_ASKING: Final = {
    "questions": [
        {
            "question": QUESTION_TEXT,
            "header": "Database",
            "options": [
                {"label": "SQLite", "description": "one file"},
                {"label": "Postgres", "description": "a server"},
            ],
        }
    ]
}


def conversation(script: ModelScript) -> None:
    """What the model does."""
    script.on("good morning", text="Good morning. What can I do?")
    script.on("look around", text="Let me look. ", calls=[ToolUse("bash", {"command": "echo one file"})])
    script.on(after="bash", text="There is one file.")
    script.on("build it", calls=[ToolUse("ask_user", _ASKING)])
    script.on(after="ask_user", text="I take the one that you chose.")
    script.on("break down", status=500, error="the model is on holiday")
    script.on("everything", text=LONG, chunk=4096)


@dataclass
class Stage:
    """Everybody in the demo.

    Attributes:
        caller: a participant who talks to the gateway. heard: what it was told, by key.
    """

    daemon: CrabDaemon
    client: CrabTalkClient
    server: LiveKitServerHandle
    caller: Call
    heard: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def told(self, key: str) -> dict[str, Any]:
        """The next message with this key that was not looked at."""
        while not self.heard.get(key):
            self.news.clear()
            await self.news.wait()
        return self.heard[key].pop(0)


async def ping(stage: Stage) -> str:
    await stage.client.ping()
    return f"pong, {(await stage.client.stats()).registered_agents} agent"


async def ask(stage: Stage) -> str:
    first = await stage.client.send("Good morning!", sender="demo", new_chat=True)
    again = await stage.client.send("Good morning again", session=first.session)
    return f"{first.content} The session goes on: {again.session == first.session}"


async def tool_call(stage: Stage) -> str:
    output, text = "", ""
    async for event in stage.client.stream("Look around, please", new_chat=True):
        if isinstance(event, ToolResult) and event.call is not None:
            output += f"{event.call.name}, {'one file' in event.output}: "
        elif isinstance(event, StreamChunk):
            text += event.content
        elif isinstance(event, StreamEnd):
            text += f", by {event.model}"
    return output + text


async def question(stage: Stage) -> str:
    results: list[str] = []
    async for event in stage.client.stream("Build it", new_chat=True):
        if isinstance(event, AskUser):
            results.append(", ".join(option.label for option in event.questions[0].options))
            await stage.client.reply_to_ask(event.session, {QUESTION_TEXT: "SQLite"})
        elif isinstance(event, ToolResult):
            results.append(event.output)
    return "; ".join(results)


async def failures(stage: Stage) -> str:
    told: list[str] = []
    try:
        told.append((await stage.client.send("Break down", new_chat=True)).content)
    except AgentRunError as error:
        told.append(error.reason or "failed")
    try:
        told.append(await stage.client.stream("Break down", new_chat=True).text())
    except AgentRunError as error:
        told.append(error.reason)
    return "; ".join(told)


async def agents(stage: Stage) -> str:
    prompts = stage.daemon.home / ".crabtalk" / "local" / "agents"
    (prompts / "scout.md").write_text("You are a scout.", encoding="utf-8")
    made = await stage.client.create_agent("scout", {"description": "A scout", "max_iterations": 3})
    changed = await stage.client.update_agent("scout", {"max_iterations": 2})
    names = [agent.name for agent in await stage.client.agents()]
    await stage.client.delete_agent("scout")
    (prompts / "scout.md").unlink()
    await stage.client.reload()
    try:
        gone = (await stage.client.agent("scout")).name
    except DaemonNotFoundError as error:
        gone = str(error.code)
    return f"{made.description}, {made.max_iterations} to {changed.max_iterations}, {', '.join(sorted(names))}; {gone}"


async def cron(stage: Stage) -> str:
    session = (await stage.client.send("Good morning", sender="clock", new_chat=True)).session
    job = await stage.client.create_cron("*/5 * * * MON-FRI", "greet", session=session, quiet=("23:00", "07:00"))
    listed = [one.schedule for one in await stage.client.crons()]
    await stage.client.delete_cron(job.id)
    left = len(await stage.client.crons())
    try:
        await stage.client.create_cron("@daily", "greet", session=session, quiet=("25:00", "07:00"))
        refused = "taken"
    except InvalidCronError as error:
        refused = error.field
    return f"{', '.join(listed)}; {left} left; {refused}"


async def events(stage: Stage) -> str:
    kinds: list[str] = []
    async with stage.client.events() as subscription:
        async with stage.client.stream("Look around", new_chat=True) as run:
            await run.text()
        async for event in subscription:
            if event.session == run.session:
                kinds.append(f"tool_start {event.content}" if event.kind == "tool_start" else event.kind)
            if event.kind == "done" and event.session == run.session:
                break
    return ", ".join(dict.fromkeys(kinds))


async def gateway_ask(stage: Stage) -> str:
    answer = await ask_crab(stage.caller.agent, "Good morning!")
    again = await ask_crab(stage.caller.agent, "Good morning again")
    return f"{answer.content} One session: {answer.session == again.session}"


async def gateway_stream(stage: Stage) -> str:
    await stage.caller.agent.ask(STREAM, {"content": "Look around"})
    result, end = await stage.told(RESULT), await stage.told(END)
    said = "".join(message["content"] for message in stage.heard.pop(CHUNK, []))
    return f"{result['tool']}, {'one file' in result['output']}: {said} {end.get('code', 'ended')}"


async def gateway_question(stage: Stage) -> str:
    await stage.caller.agent.ask(STREAM, {"content": "Build it"})
    asked = await stage.told(QUESTION)
    await stage.caller.agent.ask(ANSWER, {"answer": {QUESTION_TEXT: "Postgres"}})
    result, _ = await stage.told(RESULT), await stage.told(END)
    stage.heard.pop(CHUNK, None)
    return f"{asked['questions'][0]['question']} {result['output']}"


async def gateway_long(stage: Stage) -> str:
    answer = await ask_crab(stage.caller.agent, "Tell me everything")
    return f"whole: {answer.content == LONG}, {len(answer.content)} characters"


async def gateway_refusals(stage: Stage) -> str:
    codes: list[str] = []
    for key, payload in ((STREAM, {"text": "hello"}), (ANSWER, {"answer": "yes"}), (STREAM, {"content": ""})):
        try:
            codes.append(str(await stage.caller.agent.ask(key, payload)))
        except AgentRefusedError as refused:
            codes.append(refused.code)
    return ", ".join(codes)


async def gateway_sessions(stage: Stage) -> str:
    before = await stage.caller.agent.ask(SESSIONS)
    killed = await stage.caller.agent.ask(KILL)
    after = await stage.caller.agent.ask(SESSIONS)
    return f"{len(before['sessions'])}, {killed['session'] == before['current']}, {len(after['sessions'])}"


async def daemon_restarts(stage: Stage) -> str:
    await asyncio.to_thread(stage.daemon.stop)
    try:
        away = (await ask_crab(stage.caller.agent, "Good morning")).content
    except AgentRefusedError as refused:
        away = refused.code
    await asyncio.to_thread(stage.daemon.start)
    return f"{away}; {(await ask_crab(stage.caller.agent, 'Good morning')).content}"


async def caller_leaves(stage: Stage) -> str:
    async with join(stage.server.url, stage.server.token("second", ROOM)) as second:
        await ask_crab(second.agent, "Good morning")
        there = len(await _sessions_of(stage, "curb-second"))
    while await _sessions_of(stage, "curb-second"):  # noqa: ASYNC110 - only the daemon knows
        await asyncio.sleep(0.1)
    return f"{there}, then 0; the other's stays: {len(await _sessions_of(stage, 'curb-first'))}"


async def _sessions_of(stage: Stage, sender: str) -> list[int]:
    return [session.id for session in await stage.client.sessions() if session.created_by == sender]


StepRun = Callable[[Stage], Awaitable[str]]

STEPS: Final[tuple[tuple[str, str, StepRun], ...]] = (
    ("ping", "pong, 1 agent", ping),
    ("ask", "Good morning. What can I do? The session goes on: True", ask),
    ("a tool call", "bash, True: Let me look. There is one file., by fake-model", tool_call),
    ("a question", 'SQLite, Postgres; {"Which database?": "SQLite"}', question),
    ("a provider fails", "failed; provider error (HTTP 500): the model is on holiday", failures),
    ("agents", "A scout, 3 to 2, crab, scout; 404", agents),
    ("cron", "0 */5 * * * MON,TUE,WED,THU,FRI; 0 left; quiet_start", cron),
    (
        "events",
        "text_delta, tool_start bash(echo one file), tool_result, tools_complete, done",
        events,
    ),
    ("a caller asks", "Good morning. What can I do? One session: True", gateway_ask),
    ("a caller's stream", "bash, True: Let me look. There is one file. ended", gateway_stream),
    ("a caller is asked", 'Which database? {"Which database?": "Postgres"}', gateway_question),
    ("a long answer", f"whole: True, {len(LONG)} characters", gateway_long),
    ("bad requests", "invalid_payload, no_question, invalid_payload", gateway_refusals),
    ("a caller's sessions", "1, True, 0", gateway_sessions),
    ("the daemon restarts", "daemon_unavailable; Good morning. What can I do?", daemon_restarts),
    ("a caller leaves", "1, then 0; the other's stays: 1", caller_leaves),
)
NAMES: Final = tuple(name for name, _, _ in STEPS)


def run(
    server: LiveKitServerHandle,
    daemon: CrabDaemon,
    script: Callable[[ModelScript], None] = conversation,
) -> Report:
    """Go through the steps.

    Args:
        script: adds to the daemon's script what the model does.
    """
    report = Report(planned=len(STEPS), scene="A CrabTalk daemon, its client, and callers of a gateway in a room")
    try:
        script(daemon.script)
        with server, daemon:
            report.server = server.title
            asyncio.run(_go_through(server, daemon, report))
    except CurbError as error:
        report.steps.append(Step("the run", "no error", f"{type(error).__name__}: {error}", 0.0))
    return report


async def _go_through(server: LiveKitServerHandle, daemon: CrabDaemon, report: Report) -> None:
    async with _stage(server, daemon) as stage:
        await try_steps(report, stage, STEPS, STEP_SECONDS)


@contextlib.asynccontextmanager
async def _stage(server: LiveKitServerHandle, daemon: CrabDaemon) -> AsyncIterator[Stage]:
    async with (
        CrabTalkClient(daemon.address) as client,
        CrabTalkClient(daemon.port_file) as behind,
        connect_room(server.url, server.token("gateway", ROOM, kind="agent")) as room,
        AgentCall(room) as call,
        CrabGateway(call, behind),
        join(server.url, server.token("first", ROOM)) as caller,
    ):
        await call.ready()
        stage = Stage(daemon, client, server, caller)
        for key in (STARTED, CHUNK, TOOLS, RESULT, QUESTION, END):
            caller.agent.on(key, _keeper(stage, key))
        yield stage


def _keeper(stage: Stage, key: str) -> Callable[[Any, Any], None]:
    def keep(payload: dict[str, Any], _: Any) -> None:
        stage.heard.setdefault(key, []).append(payload)
        stage.news.set()

    return keep
