"""Turns against the scripted endpoint, with the official client in between."""

import asyncio
from typing import Any

import pytest
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall, ChoiceDeltaToolCallFunction

from curb_client.model import (
    AgentCore,
    Answer,
    Call,
    Llm,
    ModelEndpoint,
    Rule,
    Skill,
    Tool,
    ToolCall,
    TurnError,
    Turns,
    assert_prefix_stable,
)
from curb_client.model.builder.turn import MAX_REQUESTS, with_delta
from curb_client.protocol.types import LlmSettings


def core_with(*tools: Tool) -> AgentCore[None]:
    return AgentCore("You run a parcel desk.", None, [Skill("/hours", "Hours", "For the hours.", lambda _: tools)])


def turns(core: AgentCore[Any], curb_model: ModelEndpoint, **options: Any) -> Turns:
    return Turns(core, Llm("m", curb_model.url), **options)


async def test_tools_are_run_until_there_is_a_reply(curb_model: ModelEndpoint) -> None:
    ran: list[Any] = []
    core = core_with(Tool("look", "Looks.", ran.append))
    curb_model.script.on("hours", text="Let me see.", calls=[Call("read_skill", {"skill": "/hours"})])
    curb_model.script.on(after="read_skill", calls=[Call("look"), Call("look")])
    curb_model.script.on(after="look", text="All day, and 24 hours on Mondays.")
    pieces: list[str] = []
    async with turns(core, curb_model) as running:
        reply = await running.run("Your hours?", on_text=pieces.append)
    assert reply == "Let me see.\nAll day, and 24 hours on Mondays."
    assert "".join(pieces) == reply.replace("\n", "")
    assert ran == [{}, {}]
    assert len(curb_model.requests) == 3
    assert [request.problems for request in curb_model.requests] == [[], [], []]
    assert_prefix_stable(curb_model.requests)


async def test_a_turn_that_is_skipped(curb_model: ModelEndpoint) -> None:
    curb_model.script.on("hm", calls=[Call("skip_turn")])
    async with turns(core_with(), curb_model) as running:
        assert await running.run("hm") is None
    assert len(curb_model.requests) == 1


async def test_a_call_that_is_ended(curb_model: ModelEndpoint) -> None:
    curb_model.script.on("bye", text="Goodbye.", calls=[Call("end_call")])
    core = AgentCore("x", None, is_voice=True)
    async with turns(core, curb_model) as running:
        assert await running.run("bye") == "Goodbye."
    assert core.is_over


async def test_turns_wait_for_each_other(curb_model: ModelEndpoint) -> None:
    curb_model.script.on("one", text="first", delay=0.2)
    curb_model.script.on("two", text="second")
    core = core_with()
    async with turns(core, curb_model) as running:
        replies = await asyncio.gather(running.run("one"), running.run("two"))
    assert list(replies) == ["first", "second"]
    assert [message["content"] for message in core.transcript] == ["one", "first", "two", "second"]


class TestTrouble:
    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (Answer(status=400, error="no such model"), "gave no answer: .*no such model"),
            (Answer("Once upon a time", chunk=4, cut_after=3), "gave no answer|was cut off|Connection"),
            (Answer("late", delay=30), "did not finish its answer within 1 s"),
        ],
    )
    async def test_the_model_gives_no_answer(self, answer: Answer, message: str, curb_model: ModelEndpoint) -> None:
        curb_model.script.rules.append(Rule(answer, said="hello"))
        curb_model.script.on("again", text="Yes?")
        core = core_with()
        async with turns(core, curb_model, timeout=1) as running:
            with pytest.raises(TurnError, match=message):
                await running.run("hello")
            assert await running.run("again") == "Yes?"
        assert [entry["content"] for entry in core.transcript] == ["hello", "again", "Yes?"]

    async def test_a_model_that_calls_tools_without_an_end(self, curb_model: ModelEndpoint) -> None:
        curb_model.script.on("hello", calls=[Call("nothing")])
        curb_model.script.on(after="*", calls=[Call("nothing")])
        async with turns(core_with(), curb_model) as running:
            with pytest.raises(TurnError, match=f"called tools in {MAX_REQUESTS} requests"):
                await running.run("hello")

    async def test_nobody_listens(self) -> None:
        async with Turns(core_with(), Llm("m", "http://127.0.0.1:9/v1"), timeout=20) as running:
            with pytest.raises(TurnError, match="'m' gave no answer"):
                await running.run("hello")


def test_a_call_whose_id_comes_before_its_function() -> None:
    call = with_delta(None, ChoiceDeltaToolCall(index=0, id="c1"))
    function = ChoiceDeltaToolCallFunction(name="look", arguments="{")
    call = with_delta(call, ChoiceDeltaToolCall(index=0, function=function))
    call = with_delta(call, ChoiceDeltaToolCall(index=0, function=ChoiceDeltaToolCallFunction(arguments="}")))
    assert call == ToolCall("c1", "look", "{}")


def test_the_model_that_settings_name() -> None:
    own = Llm("small", "http://127.0.0.1:1/v1", "secret")
    assert own.with_settings(LlmSettings(provider="none", model="none")) == own
    assert own.with_settings(LlmSettings(provider="openai", model="big")) == Llm("big", own.base_url, "secret")
    other = own.with_settings(LlmSettings.from_wire({"provider": "openai", "model": "b", "baseURL": "http://x/v1"}))
    assert other.base_url == "http://x/v1"
    assert "secret" not in repr(own)
