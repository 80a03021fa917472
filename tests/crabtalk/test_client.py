"""Everything that a client does, on the fake daemon and on the real one."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from curb_client import ClosedError, UsageError
from curb_client.crabtalk import (
    AgentRunError,
    AskUser,
    CrabTalkClient,
    DaemonNotFoundError,
    DaemonRefusedError,
    InvalidCronError,
    PackageEvent,
    StreamChunk,
    StreamEnd,
    StreamStart,
    StreamThinking,
    ToolResult,
    ToolsAnnounced,
    ToolsComplete,
    ToolStart,
)
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.model import Call
from curb_client.testing.crab_daemon import CrabDaemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from tests.crabtalk.conftest import QUESTION, asking, script

SECONDS = 30.0


async def until(happened: asyncio.Future[object] | asyncio.Task[object]) -> None:
    await asyncio.wait_for(asyncio.shield(happened), SECONDS)


@pytest.mark.parametrize("transport", ["socket", "port"])
async def test_both_transports(daemon: CrabDaemon, transport: str) -> None:
    address = daemon.address if transport == "socket" else daemon.port_file
    async with CrabTalkClient(str(address.path)) as client:
        await client.ping()
        assert (await client.send("hello")).content == "Hello, world"


async def test_send_and_its_sessions(client: CrabTalkClient) -> None:
    first = await client.send("hello", sender="me")
    assert (first.agent, first.content, first.provider, first.model) == ("crab", "Hello, world", "fake", "fake-model")
    second = await client.send("hello", sender="me", new_chat=True)
    assert second.session != first.session
    assert (await client.send("hello", sender="me")).session == first.session  # the lowest id, not the latest
    assert (await client.send("hello", sender="you")).session not in (first.session, second.session)
    listed = {one.id: one for one in await client.sessions()}
    assert {one.created_by for one in listed.values()} == {"me", "you"}
    assert not any(one.active for one in listed.values())


async def test_a_stream_and_the_connection_after_it(client: CrabTalkClient) -> None:
    run = client.stream("hello", new_chat=True)
    events = [event async for event in run]
    assert isinstance(events[0], StreamStart)
    assert isinstance(events[-1], StreamEnd)
    assert "".join(event.content for event in events if isinstance(event, StreamChunk)) == "Hello, world"
    assert run.session == events[0].session
    assert run.end is events[-1]
    assert await client.stream("hello", session=run.session).text() == "Hello, world"
    assert len(client._others._idle) == 1


async def test_what_the_model_thinks(client: CrabTalkClient) -> None:
    events = [event async for event in client.stream("think", new_chat=True)]
    assert [event.content for event in events if isinstance(event, StreamThinking)] == ["hmm, i", "s it?"]
    assert [event.content for event in events if isinstance(event, StreamChunk)] == ["Yes."]


async def test_tools_and_their_results(client: CrabTalkClient) -> None:
    events = [event async for event in client.stream("two tools", new_chat=True)]
    kinds = [type(event) for event in events if not isinstance(event, StreamChunk)]
    assert kinds == [StreamStart, ToolsAnnounced, ToolStart, ToolResult, ToolResult, ToolsComplete, StreamEnd]
    (start,) = (event for event in events if isinstance(event, ToolStart))
    results = [event for event in events if isinstance(event, ToolResult)]
    assert [call.name for call in start.calls] == ["bash", "bash"]
    assert [result.call for result in results] == list(start.calls)
    assert [word in result.output for word, result in zip(("one", "two"), results, strict=True)] == [True, True]
    assert results[1].duration_ms >= 150


async def test_a_question_is_answered_once(client: CrabTalkClient) -> None:
    results = []
    async for event in client.stream("ask me", new_chat=True):
        if isinstance(event, AskUser):
            first, second = event.questions
            assert (first.question, [option.label for option in first.options]) == (QUESTION, ["SQLite", "Postgres"])
            assert (first.is_multiple, second.is_multiple) == (False, True)
            with pytest.raises(DaemonNotFoundError):
                await client.reply_to_ask(event.session + 1000, "x")
            await client.reply_to_ask(event.session, {QUESTION: "SQLite"})
            with pytest.raises(DaemonNotFoundError):
                await client.reply_to_ask(event.session, "again")
        elif isinstance(event, ToolResult):
            results.append(event.output)
    assert results == ['{"Which database?": "SQLite"}']


async def test_a_question_is_answered_verbatim_and_sessions_do_not_hold_it_up(client: CrabTalkClient) -> None:
    async with client.stream("ask me", new_chat=True) as run:
        async for event in run:
            if isinstance(event, AskUser):
                waiting = [asyncio.ensure_future(client.sessions()) for _ in range(12)]
                await asyncio.sleep(0)
                await client.reply_to_ask(event.session, 'just "so"')
            elif isinstance(event, ToolResult):
                assert event.output == 'just "so"'
    for listed in await asyncio.gather(*waiting):
        assert len(listed) == 1


async def test_a_question_is_given_up_with_its_session(client: CrabTalkClient) -> None:
    results = []
    async for event in client.stream("ask me", new_chat=True):
        if isinstance(event, AskUser):
            await client.kill(event.session)
        elif isinstance(event, ToolResult):
            results.append(event.output)
    assert results == ["ask_user cancelled: reply channel closed"]


async def test_a_question_that_the_daemon_does_not_wait_with_yet_is_given_up_too() -> None:
    async def until_killed(_: object) -> str:
        while daemon._state.live:  # noqa: ASYNC110 - the test's own poll
            await asyncio.sleep(0.005)
        return "the session is gone, and the question comes"

    own = script()
    own.on("wait first", calls=[Call("wait", {}), asking("Go on?")])
    with FakeDaemon(own, tools={"wait": until_killed}) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            results = []
            run = client.stream("wait first", new_chat=True)
            async for event in run:
                if isinstance(event, ToolStart):
                    assert run.session is not None
                    await client.kill(run.session)
                elif isinstance(event, ToolResult):
                    results.append(event.output)
    assert results[1:] == ["ask_user cancelled: reply channel closed"]


async def test_without_a_stream_nothing_can_be_asked(client: CrabTalkClient, daemon: CrabDaemon) -> None:
    assert (await client.send("ask me", new_chat=True)).content == "thank you"


async def test_failures_of_the_provider(client: CrabTalkClient) -> None:
    with pytest.raises(AgentRunError, match="its provider 'fake' failed, or answered with nothing") as hidden:
        await client.send("bad request", new_chat=True)
    assert hidden.value.session
    with pytest.raises(AgentRunError, match="no such thing") as told:
        await client.stream("bad request", new_chat=True).text()
    assert (told.value.reason, told.value.provider) == ("provider error (HTTP 400): no such thing", "fake")
    run = client.stream("cut", new_chat=True)
    assert isinstance(await run.__anext__(), StreamStart)
    assert [await run.__anext__(), await run.__anext__()] == [StreamChunk("one "), StreamChunk("two ")]
    with pytest.raises(AgentRunError, match="stream error"):
        await run.__anext__()
    await client.ping()


async def test_what_the_daemon_refuses(client: CrabTalkClient) -> None:
    with pytest.raises(DaemonRefusedError, match="agent 'nope' not registered") as unknown:
        await client.stream("x", agent="nope").text()
    assert (unknown.value.code, unknown.value.doing) == (500, "stream")
    with pytest.raises(AgentRunError, match="session 4242 not found"):
        await client.stream("x", session=4242).text()
    with pytest.raises(DaemonRefusedError, match="session 4242 not found"):
        await client.send("x", session=4242)
    with pytest.raises(DaemonNotFoundError, match="404"):
        await client.kill(4242)
    with pytest.raises(DaemonRefusedError, match="compact failed"):
        await client.compact(4242)
    with pytest.raises(DaemonRefusedError, match="410"):
        await client.request(pb.GetConfig(), pb.ConfigMsg)
    with pytest.raises(DaemonRefusedError, match="No such file"):
        await client.send("x", resume_file="/nonexistent.jsonl")


async def test_compact_kill_and_what_is_on_disk(client: CrabTalkClient) -> None:
    first = await client.send("hello", sender="keeper")
    assert await client.compact(first.session)
    await client.kill(first.session)
    assert first.session not in [one.id for one in await client.sessions()]
    (stored,) = await client.conversations(agent="crab", sender="keeper")
    assert stored.message_count >= 2
    again = await client.send("hello", sender="keeper")
    assert again.session not in (0, first.session)
    assert {one.message_count for one in await client.sessions() if one.id == again.session} != {2}
    with pytest.raises(UsageError, match="name the agent"):
        await client.conversations(sender="keeper")


async def test_agents(client: CrabTalkClient, daemon: CrabDaemon) -> None:
    prompts = daemon.home / ".crabtalk" / "local" / "agents"
    with pytest.raises(DaemonRefusedError, match=r"local/agents/scout\.md first"):
        await client.create_agent("scout", {})
    (prompts / "scout.md").write_text("You scout.")
    made = await client.create_agent("scout", {"description": "A scout", "max_iterations": 3, "thinking": True})
    assert (made.description, made.max_iterations, made.thinking) == ("A scout", 3, True)
    assert (await client.update_agent("scout", '{"max_iterations": 2}')).max_iterations == 2
    assert sorted(agent.name for agent in await client.agents()) == ["crab", "scout"]
    assert (await client.send("hello", agent="scout")).agent == "scout"
    await client.delete_agent("scout")
    assert (await client.agent("scout")).max_iterations == 16
    with pytest.raises(DaemonNotFoundError):
        await client.delete_agent("scout")
    with pytest.raises(DaemonNotFoundError):
        await client.agent("nobody")
    with pytest.raises(DaemonRefusedError, match="invalid AgentConfig JSON"):
        await client.create_agent("bad", "not json")
    await client.reload()


async def test_cron(client: CrabTalkClient) -> None:
    session = (await client.send("hello", sender="clock")).session
    job = await client.create_cron("*/5 9-17 * * 1-5", "greet", session=session, quiet=("23:00", "07:00"))
    assert job.schedule == "0 */5 9-17 * * MON,TUE,WED,THU,FRI"
    daily = await client.create_cron("@daily", "greet", session=session)
    assert [one.id for one in await client.crons()] == [job.id, daily.id]
    for one in (job, daily):
        await client.delete_cron(one.id)
    assert await client.crons() == []
    with pytest.raises(DaemonNotFoundError):
        await client.delete_cron(job.id)
    with pytest.raises(DaemonRefusedError, match="invalid cron schedule"):
        await client.create_cron("x x x x x x", "greet", session=session)
    with pytest.raises(DaemonRefusedError, match="session 999 not found"):
        await client.create_cron("@daily", "greet", session=999)
    with pytest.raises(InvalidCronError, match="quiet_end"):
        await client.create_cron("@daily", "greet", session=session, quiet=("23:00", "24:00"))
    for wrong in (("25:00", None), ("23:00",), "23", ("23:00", "07:00", "08:00"), ("23:00", "23:00")):
        with pytest.raises(InvalidCronError, match="quiet"):
            await client.create_cron("@daily", "greet", session=session, quiet=wrong)  # type: ignore[arg-type]
    for beyond in ("0 */60 * * * *", "0 0 */24 * * *", "0 0 0 */32 * *", "0 0 0 1 */13 *", "0 \u0663 * * * *"):
        with pytest.raises(DaemonRefusedError, match="invalid cron schedule"):
            await client.create_cron(beyond, "greet", session=session)
    assert await client.crons() == []


async def test_a_job_fires_once(client: CrabTalkClient) -> None:
    session = (await client.send("hello", sender="clock")).session
    async with client.events() as events:
        await client.create_cron("* * * * * *", "greet", session=session, once=True)
        async for event in events:
            if event.kind == "done":
                break
    assert event.session == session

    async def gone() -> None:
        while await client.crons():  # noqa: ASYNC110 - only the daemon knows
            await asyncio.sleep(0.05)

    await asyncio.wait_for(gone(), SECONDS)


async def test_events_of_all_sessions(client: CrabTalkClient) -> None:
    seen = []
    async with client.events() as events:
        run = client.stream("two tools", new_chat=True)
        await run.text()
        async for event in events:
            seen.append(event)
            if event.kind == "done":
                break
        await client.send("hello", session=run.session)
        after = await events.__anext__()
    assert {event.session for event in seen} == {run.session}
    kinds = list(dict.fromkeys(event.kind for event in seen))
    assert kinds == ["text_delta", "tool_start", "tool_result", "tools_complete", "done"]
    (tools,) = (event for event in seen if event.kind == "tool_start")
    assert tools.content == "bash(echo one), bash(sleep 0.2; echo two)"
    assert tools.at is not None
    assert abs(tools.at - dt.datetime.now(dt.timezone.utc)) < dt.timedelta(minutes=5)
    assert (after.kind, after.content) == ("text_delta", "")


async def test_stats_and_any_other_request(client: CrabTalkClient) -> None:
    stats = await client.stats()
    assert (stats.active_sessions, stats.registered_agents, stats.active_model) == (0, 1, "fake-model")
    models = await client.request(pb.ListModelsMsg(), pb.ModelList)
    assert [(model.name, model.kind) for model in models.models] == [("fake-model", pb.OPENAI)]
    assert [one.name for one in (await client.request(pb.ListProvidersMsg(), pb.ProviderList)).providers] == ["fake"]
    mcps = [pb.McpInfo(name="clock", command="/bin/true", env={"TZ": "UTC"}, enabled=True)]
    await client.request(pb.SetLocalMcpsMsg(mcps=mcps), pb.Pong)
    (mcp,) = (await client.request(pb.ListMcpsMsg(), pb.McpList)).mcps
    assert (mcp.name, dict(mcp.env), mcp.source_kind) == ("clock", {"TZ": "UTC"}, pb.LOCAL)


async def test_requests_that_are_none(client: CrabTalkClient) -> None:
    with pytest.raises(UsageError, match="Pong asks nothing"):
        await client.request(pb.Pong(), pb.Pong)
    with pytest.raises(UsageError, match="answered with a ModelList, not a Pong"):
        await client.request(pb.ListModelsMsg(), pb.Pong)
    with pytest.raises(UsageError, match="stream has many answers"):
        await client.request(pb.StreamMsg(content="x"), pb.StreamEvent)
    for session in (0, -1, 2**64, True, 1.5, "x"):
        with pytest.raises(UsageError, match=f"session is .*; it must be a whole number from 1 to {2**64 - 1}"):
            await client.kill(session)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="session is 0"):
        await client.send("x", session=0)
    with pytest.raises(UsageError, match="name three sessions"):
        client.stream("x", session=1, new_chat=True)
    with pytest.raises(UsageError, match="content is 'a"):
        await client.send("a\ud800")
    with pytest.raises(UsageError, match="id is -1"):
        await client.delete_cron(-1)


async def test_removing_packages(client: CrabTalkClient) -> None:
    steps = ["removing manifest…", "reloading daemon…"]
    assert await client.uninstall_package("some/thing").done() == [PackageEvent("step", step) for step in steps]
    with pytest.raises(DaemonRefusedError, match="scope/name"):
        await client.uninstall_package("thing").done()
    await client.ping()


async def test_many_at_once_each_get_their_own(client: CrabTalkClient) -> None:
    async def one(number: int) -> bool:
        answer = await client.send("hello", sender=f"many-{number}", new_chat=True)
        text = await client.stream("two tools" if number % 10 == 0 else "hello", session=answer.session).text()
        return text == ("let me look. tool said it" if number % 10 == 0 else "Hello, world")

    assert all(await asyncio.gather(*(one(number) for number in range(40))))
    assert len(client._others._idle) <= 4


async def test_early_breaks_and_cancellations(client: CrabTalkClient) -> None:
    async for event in client.stream("long", new_chat=True):
        if isinstance(event, StreamChunk):
            break
    async with client.stream("sleepy", new_chat=True) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                break
    task = asyncio.ensure_future(client.stream("slow", new_chat=True).text())
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asking = asyncio.ensure_future(client.send("slow", new_chat=True))
    await asyncio.sleep(0.2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await client.stream("hello", new_chat=True).text() == "Hello, world"
    assert not client._others._used
    assert not client._at_once._used


async def test_what_another_task_closes_has_ended(client: CrabTalkClient) -> None:
    events = client.events()
    run = client.stream("ask me", new_chat=True)

    async def read() -> list[object]:
        return [event async for event in events]

    reading = asyncio.ensure_future(read())
    texts = asyncio.ensure_future(run.text())
    while run.question is None or events._connection is None:  # noqa: ASYNC110 - only the run knows
        await asyncio.sleep(0.01)
    await asyncio.gather(events.aclose(), run.aclose())
    assert await asyncio.wait_for(texts, SECONDS) == ""
    await asyncio.wait_for(reading, SECONDS)
    await client.kill(run.question.session)


async def test_after_its_end_a_client_takes_nothing(client: CrabTalkClient) -> None:
    run = client.stream("long", new_chat=True)
    await run.__anext__()
    await client.aclose()
    with pytest.raises(ClosedError):
        await client.ping()
    with pytest.raises(ClosedError):
        await client.stream("hello").text()
