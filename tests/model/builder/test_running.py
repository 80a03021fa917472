"""Tools that the model calls: which of them run, and what is left of those that do not end well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from curb_client import UsageError
from curb_client.cli.insurance_desk import Desk, insurance_desk
from curb_client.model import AgentCore, Call, Llm, ModelEndpoint, ModelRequest, Prose, Tool, ToolCall, Turns


def call(name: str, call_number: int = 1, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{call_number}", name, json.dumps(arguments))


def results_of(core: AgentCore[Any]) -> list[dict[str, Any]]:
    return [json.loads(message["content"]) for message in core.transcript if message["role"] == "tool"]


class TestOnlyWhatWasOffered:
    async def test_a_tool_that_another_call_of_the_answer_brings(self) -> None:
        core = insurance_desk(desk := Desk())
        core.request()
        await core.run_tools("", [call("read_skill", skill="/claims")])
        core.request()
        await core.run_tools("", [call("check_policy", 2, number="4711"), call("open_claim", 3, what="x")])
        assert desk == Desk(policy="4711")
        refused = results_of(core)[-1]
        assert refused["error"] == "not_offered"
        assert "is offered from now on" in refused["message"]
        core.request()
        await core.run_tools("", [call("open_claim", 4, what="x")])
        assert desk.claim == "x"

    async def test_a_tool_that_comes_while_the_model_answers(self) -> None:
        core = insurance_desk(desk := Desk())
        await core.run_tools("", [call("read_skill", skill="/claims")])
        core.request()
        desk.policy = "4711"
        await core.run_tools("", [call("open_claim", 2, what="x")])
        assert desk.claim is None
        assert results_of(core)[-1]["error"] == "not_offered"

    async def test_a_tool_that_went_while_the_model_answered(self) -> None:
        core = insurance_desk(desk := Desk(policy="4711"))
        await core.run_tools("", [call("read_skill", skill="/claims")])
        core.request()
        desk.policy = None
        await core.run_tools("", [call("open_claim", 2, what="x")])
        assert desk.claim is None
        assert "There is no tool 'open_claim', only skip_turn, read_skill." in results_of(core)[-1]["message"]

    async def test_in_a_turn(self, curb_model: ModelEndpoint) -> None:
        curb_model.script.on("pipe", calls=[Call("read_skill", {"skill": "/claims"})])
        calls = [Call("check_policy", {"number": "4711"}), Call("open_claim", {"what": "x"})]
        curb_model.script.on(after="read_skill", calls=calls)
        curb_model.script.on(after="open_claim", text="What was damaged?")
        desk = Desk()
        async with Turns(insurance_desk(desk), Llm("m", curb_model.url)) as turns:
            assert await turns.run("A pipe") == "What was damaged?"
        assert desk == Desk(policy="4711")


class Strange(BaseModel):
    number: str

    @field_validator("number")
    @classmethod
    def known(cls, number: str) -> str:
        return {"a": "b"}[number]


@dataclass
class Counter:
    claims: int = 0
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, _: Any) -> None:
        self.claims += 1

    async def wait(self, _: Any) -> None:
        self.waits.set()
        await asyncio.sleep(600)

    def render(self) -> Iterator[Any]:
        if self.claims == 13:
            raise ZeroDivisionError
        yield f"claims: {self.claims}"
        yield Tool("open", "Opens a claim.", self.open)
        yield Tool("wait", "Waits.", self.wait)
        yield Tool("check", "Checks.", lambda given: given.number, Strange)


def counting() -> AgentCore[Counter]:
    return AgentCore("x", Counter(), render=Counter.render)


class TestWhatGoesWrong:
    async def test_what_ran_is_told_where_the_rest_is_cancelled(self) -> None:
        core = counting()
        core.request()
        calls = [call("open"), call("wait", 2), call("open", 3)]
        running = asyncio.create_task(core.run_tools("One moment.", calls))
        await asyncio.wait_for(core.state.waits.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert core.state.claims == 1
        interrupted = {"ok": False, "error": "interrupted"}
        assert results_of(core) == [{"ok": True, "contextChanged": ["content: claims: 1"]}, interrupted, interrupted]
        request = ModelRequest.parse(core.request())
        assert [made.id for made in request.calls] == [result.call_id for result in request.results]
        assert request.events == []

    async def test_what_ran_is_told_where_the_render_fails(self) -> None:
        core = counting()
        core.state.claims = 12
        core.request()
        with pytest.raises(ZeroDivisionError):
            await core.run_tools("", [call("open"), call("open", 2)])
        assert results_of(core) == [{"ok": True}, {"ok": False, "error": "interrupted"}]

    async def test_arguments_that_break_their_own_check(self, caplog: pytest.LogCaptureFixture) -> None:
        core = counting()
        await core.run_tools("", [call("check", number="q"), call("open", 2)])
        assert [result.get("error") for result in results_of(core)] == ["tool_failed", None]
        assert "the tool 'check' failed" in caplog.text
        assert "KeyError" in caplog.text

    @pytest.mark.parametrize("number", [float("nan"), float("inf")])
    async def test_a_result_that_is_no_json(self, number: float) -> None:
        core = AgentCore("x", None, render=lambda _: [Tool("look", "Looks.", lambda _: {"a": number})])
        await core.run_tools("", [call("look")])
        assert results_of(core) == [{"ok": False, "error": "tool_failed"}]

    async def test_a_tool_without_a_schema_gets_nothing(self) -> None:
        given: list[Any] = []
        core = AgentCore("x", None, render=lambda _: [Tool("look", "Looks.", given.append)])
        await core.run_tools("", [call("look", number="17")])
        assert given == [{}]


def test_a_change_that_only_takes_away_says_so() -> None:
    core: AgentCore[list[str]] = AgentCore("x", ["a note"], render=lambda notes: notes)
    core.request()
    core.state.clear()
    (event,) = ModelRequest.parse(core.request()).events
    assert event.text == Prose().state_left


async def test_after_the_end_the_model_is_not_asked(curb_model: ModelEndpoint) -> None:
    curb_model.script.on("bye", text="Goodbye.", calls=[Call("end_call")])
    async with Turns(AgentCore("x", None, is_voice=True), Llm("m", curb_model.url)) as turns:
        assert await turns.run("bye") == "Goodbye."
        assert await turns.run("Hello?") is None
    assert len(curb_model.requests) == 1


class Node(BaseModel):
    name: str
    below: list[Node] = []


class TestSchemas:
    def test_a_model_that_contains_itself(self) -> None:
        tool = Tool("grow", "Grows.", print, Node)
        assert tool.in_context.render() == "grow(name*, below) [page]"
        assert tool.json_schema["type"] == "object"
        assert tool.json_schema["properties"]["below"]["items"] == {"$ref": "#/$defs/Node"}
        assert "Node" in tool.json_schema["$defs"]

    @pytest.mark.parametrize("definitions", [{}, {"A": {"$ref": "#/$defs/A"}}])
    def test_a_reference_that_leads_nowhere(self, definitions: dict[str, Any]) -> None:
        tool = Tool("grow", "Grows.", print, {"$ref": "#/$defs/A", "$defs": definitions})
        assert tool.in_context.render() == "grow() [page]"

    @pytest.mark.parametrize("name", ["a)", "a*", "a,b", "(", " a", "", "a\nb", "a\u2028b"])
    def test_a_name_that_a_context_cannot_list(self, name: str) -> None:
        with pytest.raises(UsageError, match=r"the tool 'grow' takes .* which a context cannot list"):
            Tool("grow", "Grows.", print, {"properties": {name: {}}})
