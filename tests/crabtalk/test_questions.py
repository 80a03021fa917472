"""An agent's questions: which call they are of, when they are asked, and who leaves them."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

from curb_client.cli.commands import cli
from curb_client.crabtalk import (
    AskUser,
    CrabTalkClient,
    Question,
    QuestionOption,
    RunEvent,
    StreamEnd,
    ToolResult,
    ToolStart,
)
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.questions import questions_in
from curb_client.model import Call
from curb_client.testing.crab_daemon import CrabDaemon
from tests.crabtalk.conftest import asking
from tests.crabtalk.hostile import answering, event, served_by

SECONDS = 30.0


async def answered(client: CrabTalkClient, content: str) -> list[RunEvent]:
    """The events of tools, where every question is answered at once."""
    events: list[RunEvent] = []
    run = client.stream(content, new_chat=True)

    async def follow() -> None:
        async for one in run:
            if isinstance(one, AskUser):
                assert run.question is one
                await client.reply_to_ask(one.session, " ".join(each.question for each in one.questions) or "nothing")
            if isinstance(one, (AskUser, ToolResult)):
                events.append(one)

    await asyncio.wait_for(follow(), SECONDS)
    assert run.question is None
    return events


async def test_a_question_after_another_tool(client: CrabTalkClient) -> None:
    first, asked, result = await answered(client, "look first")
    assert isinstance(first, ToolResult)
    assert "seen" in first.output
    assert isinstance(asked, AskUser)
    assert isinstance(result, ToolResult)
    assert result.output == "Go on?"


async def test_each_call_has_its_own_questions(client: CrabTalkClient) -> None:
    events = await answered(client, "two questions")
    assert [type(one) for one in events] == [AskUser, ToolResult, AskUser, ToolResult]
    assert [one.output for one in events if isinstance(one, ToolResult)] == ["One?", "Two? Three?"]


async def test_a_call_that_the_daemon_does_not_take_asks_nobody(client: CrabTalkClient, daemon: CrabDaemon) -> None:
    daemon.script.on("half", calls=[Call("ask_user", {"questions": [{"question": "x"}]}), asking("Whole?")])
    failed, asked, result = await answered(client, "half")
    assert isinstance(failed, ToolResult)
    assert failed.output.startswith("invalid arguments: missing field `header`")
    assert isinstance(asked, AskUser)
    assert isinstance(result, ToolResult)
    assert result.output == "Whole?"


async def test_a_call_without_questions_waits_too(client: CrabTalkClient, daemon: CrabDaemon) -> None:
    daemon.script.on("silent", calls=[asking()])
    asked, result = await answered(client, "silent")
    assert isinstance(asked, AskUser)
    assert asked.questions == ()
    assert isinstance(result, ToolResult)
    assert result.output == "nothing"


async def test_questions_of_a_newer_daemon_are_asked_as_they_come() -> None:
    newer = event(ask_user=pb.AskUserEvent(questions=[pb.AskQuestion(question="How?")]))
    start = pb.ToolStartEvent(calls=[pb.ToolCallInfo(name="ask_user", arguments='{"question": "How?"}')])
    for messages in ((newer,), (event(tool_start=start), newer)):
        end = event(end=pb.StreamEnd())
        async with served_by(answering(event(start=pb.StreamStart(session=3)), *messages, end)) as client:
            events = [one async for one in client.stream("x") if not isinstance(one, ToolStart)]
        assert events[1] == AskUser((Question("How?", "", (), False),), 3)
        assert isinstance(events[2], StreamEnd)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "expected a map with the field `questions`"),
        ("{}", "missing field `questions`"),
        ('{"questions": {}}', "`questions` is {}, expected a sequence"),
        ('{"questions": [1]}', "expected a map with the field `question`"),
        ('{"questions": [{"question": "a", "header": "b"}]}', "missing field `options`"),
        ('{"questions": [{"question": 1, "header": "b", "options": []}]}', "`question` is 1, expected a string"),
        (
            '{"questions": [{"question": "a", "header": "b", "options": [{"label": "c"}]}]}',
            "missing field `description`",
        ),
        (
            '{"questions": [{"question": "a", "header": "b", "options": [], "multi_select": null}]}',
            "`multi_select` is null, expected a boolean",
        ),
        ('{"questions": [{"question": "\\ud800", "header": "b", "options": []}]}', "surrogates not allowed"),
        ("[" * 100_000, "recursion limit"),
    ],
)
def test_arguments_that_a_daemon_does_not_take(arguments: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        questions_in(arguments)


def test_arguments_that_a_daemon_takes() -> None:
    one = {"question": "a", "header": "b", "options": [{"label": "c", "description": "d"}], "more": 1}
    text = json.dumps({"questions": [one, {**one, "multi_select": True, "options": []}], "else": None})
    assert questions_in(text) == (
        Question("a", "b", (QuestionOption("c", "d"),), False),
        Question("a", "b", (), True),
    )


def test_a_command_that_ends_at_its_question_gives_it_up(daemon: CrabDaemon) -> None:
    def crab(*arguments: str, status: int, stdin: str = "") -> str:
        result = CliRunner().invoke(cli, ["crab", f"--address={daemon.address}", *arguments], input=stdin)
        assert result.exit_code == status, result.output
        return result.output

    for content, stdin in (("ask me", ""), ("two questions", "yes\n")):
        told = crab("stream", content, "--sender=me", stdin=stdin, status=1)
        assert "the question was given up; its session is on disk" in told
        assert crab("sessions", "--json", status=0) == ""  # at once: nothing runs any more
    crab("ask", "hello", "--sender=me", status=0)
    assert json.loads(crab("sessions", "--json", status=0))["message_count"] > 2


async def test_a_session_that_is_listed_waits_for_a_question_that_was_left(
    client: CrabTalkClient, daemon: CrabDaemon
) -> None:
    run = client.stream("ask me", new_chat=True)
    async for one in run:
        if isinstance(one, AskUser):
            break
    await asyncio.sleep(1)  # until the daemon waits with it: a run that is left before that ends at once
    await run.aclose()
    listing = asyncio.ensure_future(client.sessions())
    await asyncio.wait({listing}, timeout=0.3)
    assert not listing.done()
    assert run.question is not None
    await client.kill(run.question.session)
    assert await asyncio.wait_for(listing, SECONDS) is not None
