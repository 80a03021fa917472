"""Where a gateway's runs, sessions, callers and room end in ways that nobody wished for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from curb_client import connect_room
from curb_client.crabtalk import (
    AgentRun,
    AgentRunError,
    CrabTalkError,
    CutFrameError,
    DaemonClosedError,
    DaemonNotFoundError,
    DaemonTimeoutError,
    DaemonUnreachableError,
    FrameTooLargeError,
    MalformedMessageError,
    RoomLostError,
    ToolCall,
    ask_crab,
)
from curb_client.crabtalk.gateway import payloads, sessions
from curb_client.crabtalk.gateway.gateway import CrabGateway
from curb_client.crabtalk.gateway.payloads import PART_BYTES, as_refusal, calls_json
from curb_client.crabtalk.gateway.sessions import Callers
from curb_client.model import Call
from curb_client.protocol.contract import MAX_MESSAGE_BYTES
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.crab_daemon import CrabDaemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from tests.crabtalk.conftest import script
from tests.crabtalk.test_gateway import SECONDS, Heard, refused, staged


async def until(happened: Callable[[], object]) -> None:
    async def look() -> None:
        while not happened():  # noqa: ASYNC110 - only the gateway knows
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), SECONDS)


def questions_of(heard: Heard) -> list[str]:
    asked = [payload["questions"] for key, payload in heard.messages if key == "crab.question"]
    return [" ".join(one["question"] for one in questions) for questions in asked]


# Questions


async def test_a_question_is_asked_when_it_can_be_answered(
    curb_livekit: LiveKitServerHandle, daemon: CrabDaemon
) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        for content, questions in (("look first", ["Go on?"]), ("two questions", ["One?", "Two? Three?"])):
            one.messages.clear()
            await one.call.agent.ask(payloads.STREAM, {"content": content})
            for number in range(len(questions)):
                await until(lambda number=number: len(questions_of(one)) > number)  # type: ignore[misc]
                await one.call.agent.ask(payloads.ANSWER, {"answer": f"{number}"})
            await one.until("end")
            assert questions_of(one) == questions
            results = [payload for key, payload in one.messages if key == "crab.result"]
            answers = [result["output"] for result in results if result["tool"] == "ask_user"]
            assert answers == [f"{number}" for number in range(len(questions))]
            assert (await refused(one, payloads.ANSWER, {"answer": "x"})).code == "no_question"


async def test_an_answer_that_is_taken_late_leaves_the_next_question_open(
    curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeDaemon(script()) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
            reply = stage.client.reply_to_ask

            async def told_late(*arguments: Any) -> None:
                await reply(*arguments)
                await until(lambda: len(questions_of(one)) == 2)

            monkeypatch.setattr(stage.client, "reply_to_ask", told_late)
            await one.call.agent.ask(payloads.STREAM, {"content": "two questions"})
            await one.until("question")
            await one.call.agent.ask(payloads.ANSWER, {"answer": "first"})
            await one.call.agent.ask(payloads.ANSWER, {"answer": "second"})
            await one.until("end")


async def test_a_question_that_could_not_be_answered_stays_open(
    curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise DaemonTimeoutError("no", doing="reply_to_ask", waited=1)

    with FakeDaemon(script()) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
            await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
            await one.until("question")
            with monkeypatch.context() as patched:
                patched.setattr(stage.client, "reply_to_ask", fails)
                assert (await refused(one, payloads.ANSWER, {"answer": "x"})).code == "daemon_timeout"
            await one.call.agent.ask(payloads.ANSWER, {"answer": "y"})
            assert (await one.until("result"))["output"] == "y"


# Sessions


async def test_a_session_that_somebody_else_killed(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        first = await ask_crab(one.call.agent, "hello")
        await stage.client.kill(first.session)
        second = await ask_crab(one.call.agent, "hello")
        assert (second.content, second.session == first.session) == ("Hello, world", False)
        await stage.client.kill(second.session)
        await one.call.agent.ask(payloads.STREAM, {"content": "hello"})
        end = await one.until("end")
        assert ("code" in end, end["session"] in (first.session, second.session)) == (False, False)
        started = [payload["session"] for key, payload in one.messages if key == "crab.started"]
        assert started == [second.session, end["session"]]
        await stage.client.kill(end["session"])
        assert await one.call.agent.ask(payloads.KILL) == {"session": end["session"]}
        assert (await refused(one, payloads.KILL, {})).code == "no_session"
        assert await stage.sessions_of("one") == []


def start_slowly(monkeypatch: pytest.MonkeyPatch, seconds: float) -> asyncio.Event:
    """A run asks, and hears of its start so much later; the event tells that it asked."""
    begin, asked = AgentRun._begin, asyncio.Event()

    async def slowly(self: AgentRun) -> Any:
        connection = await begin(self)
        asked.set()
        await asyncio.sleep(seconds)
        return connection

    monkeypatch.setattr(AgentRun, "_begin", slowly)
    return asked


async def test_a_run_that_is_killed_before_it_began_leaves_no_session(
    curb_livekit: LiveKitServerHandle, daemon: CrabDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "START_SECONDS", SECONDS)
    asked = start_slowly(monkeypatch, 0.3)
    async with staged(curb_livekit, daemon) as stage:
        async with stage.caller("one") as one:
            await one.call.agent.ask(payloads.STREAM, {"content": "slow"})
            assert (await one.call.agent.ask(payloads.KILL))["session"] is not None
            assert (await one.until("end"))["code"] == "run_failed"
            assert await stage.sessions_of("one") == []
            asked.clear()
            await one.call.agent.ask(payloads.STREAM, {"content": "slow"})
            await asked.wait()
        await until(lambda: not stage.gateway._callers._callers and not stage.gateway._callers._freeing)
        assert await stage.sessions_of("one") == []


async def test_a_run_that_does_not_begin_is_killed_without_a_session(
    curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "START_SECONDS", 0.1)
    asked = start_slowly(monkeypatch, 60)
    with FakeDaemon(script()) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
            await one.call.agent.ask(payloads.STREAM, {"content": "hello"})
            await asked.wait()
            assert await one.call.agent.ask(payloads.KILL) == {"session": None}
            await one.until("end")


# Callers, and the gateway itself


async def test_a_caller_who_leaves_while_the_daemon_is_looked_for_gets_no_run(
    curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    check, take = Callers.check_daemon, CrabGateway._free_caller
    codes: list[str] = []

    async def slowly(self: Callers) -> None:
        looks.set()
        await go_on.wait()
        await check(self)

    async def watched(self: CrabGateway, meta: Any) -> Any:
        try:
            return await take(self, meta)
        except payloads.GatewayRefusal as refusal:
            codes.append(refusal.code)
            raise
        finally:
            done.set()

    monkeypatch.setattr(Callers, "check_daemon", slowly)
    monkeypatch.setattr(CrabGateway, "_free_caller", watched)
    with FakeDaemon(script()) as daemon:
        async with staged(curb_livekit, daemon) as stage:
            async with stage.caller("one") as one:
                asking = asyncio.ensure_future(one.call.agent.ask(payloads.STREAM, {"content": "ask me"}))
                await asyncio.wait_for(looks.wait(), SECONDS)
                asking.cancel()
            await until(lambda: not stage.gateway._callers._callers)
            go_on.set()
            await asyncio.wait_for(done.wait(), SECONDS)
            await until(lambda: codes == ["run_failed"])
            assert not stage.client._others._used
            assert not daemon._state.live


async def test_a_gateway_that_is_closed_tells_its_callers(
    curb_livekit: LiveKitServerHandle, daemon: CrabDaemon
) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one, stage.caller("two") as two:
        await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
        asking = asyncio.ensure_future(refused(two, payloads.ASK, {"content": "ask me"}))
        await one.until("question")
        await two.until("question")
        await stage.gateway.aclose()
        end = await one.until("end")
        assert (end["code"], end["reason"]) == ("run_failed", "the gateway ends")
        told = await asking
        assert (told.code, told.issues[0].message) == ("run_failed", "the gateway ends")
        await asyncio.wait_for(stage.gateway.until_closed(), SECONDS)
        assert await stage.client.sessions() == []


async def test_a_gateway_whose_place_is_taken_frees_its_callers(
    curb_livekit: LiveKitServerHandle, daemon: CrabDaemon
) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
        await one.until("question")
        closed = asyncio.ensure_future(stage.gateway.until_closed())
        async with connect_room(stage.server.url, stage.server.token("gateway", stage.room, kind="agent")):
            with pytest.raises(RoomLostError, match="another participant joined with its identity") as lost:
                await asyncio.wait_for(closed, SECONDS)
        assert lost.value.reason == "DUPLICATE_IDENTITY"
        assert await stage.client.sessions() == []
        assert not stage.client._others._used


# Payloads


async def test_the_arguments_of_a_tool_come_whole(curb_livekit: LiveKitServerHandle) -> None:
    command = "echo " + "y" * 50_000
    own = script()
    own.on("much", calls=[Call("bash", {"command": command}), Call("bash", {"command": "echo"})])
    with FakeDaemon(own) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
            await one.call.agent.ask(payloads.STREAM, {"content": "much"})
            first, second = (await one.until("tools"))["calls"]
            await one.until("end")
    assert first == {"tool": "bash", "arguments": f'{{"command": "{command}"}}', "more": False}
    assert second == {"tool": "bash", "arguments": '{"command": "echo"}', "more": False}


def test_arguments_over_a_message_are_cut_and_marked() -> None:
    long, short = calls_json([ToolCall("bash", "x" * MAX_MESSAGE_BYTES), ToolCall("bash", "{}")])
    assert (long["more"], 1000 < len(long["arguments"]) <= PART_BYTES) == (True, True)
    assert short == {"tool": "bash", "arguments": "{}", "more": False}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DaemonUnreachableError("x"), "daemon_unavailable"),
        (DaemonClosedError("x", doing="send"), "daemon_unavailable"),
        (CutFrameError("x", received=1, expected=None), "daemon_unavailable"),
        (DaemonTimeoutError("x", doing="send", waited=1), "daemon_timeout"),
        (DaemonNotFoundError(404, "x", doing="kill"), "daemon_refused"),
        (FrameTooLargeError("x", size=2, limit=1), "daemon_refused"),
        (MalformedMessageError("x"), "daemon_refused"),
        (AgentRunError("x", reason="", agent="crab", session=1), "run_failed"),
        (CrabTalkError("x"), "run_failed"),
    ],
)
def test_what_a_caller_is_told_of_an_error(error: CrabTalkError, code: str) -> None:
    refusal = as_refusal(error)
    assert (refusal.code, refusal.reason) == (code, str(error))
