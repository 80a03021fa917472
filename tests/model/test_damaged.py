"""Requests and recordings that other programs wrote, as odd as they come: each is read, or refused in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from curb_client import UsageError
from curb_client.model import ModelRequest, ModelScript, RecordedRequest, diff, read_recording
from curb_client.model.view.html import html_page
from curb_client.model.view.sections import sections
from tests.model.conversation import HELLO, NUMBER, call, request, result


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class TestReader:
    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ('{"messages": [], "seed": ' + "9" * 5000 + "}", "the request cannot be read: Exceeds the limit"),
            ([], "the request is of type list; it must be an object"),
            (None, "the request is missing; it must be an object"),
            (17, "the request is of type int"),
            (bytearray(b"oops"), "the request is not JSON"),
        ],
    )
    def test_what_is_no_request(self, body: Any, problem: str) -> None:
        assert ModelRequest.parse(body).problems[0].message.startswith(problem)

    @pytest.mark.parametrize("levels", [900, 970, 3000])
    def test_items_that_are_nested_deeply(self, levels: int) -> None:
        request = ModelRequest.parse({"input": [{"type": "x", "a": nested(levels)}, {"type": nested(levels)}, HELLO]})
        assert request.last_user_text == HELLO["content"]
        assert isinstance(request.render(), str)
        assert ModelRequest.parse('{"input": [{"type": "x", "a": ' + "[" * levels + "]" * levels + "}]}").problems

    def test_parts_that_are_not_read_are_told_of(self) -> None:
        parts = [{"type": "text", "text": 5}, {"type": "image_url", "image_url": {"url": "a"}}, {"type": "text"}]
        body = {"messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "Hello"}]}]}
        request = ModelRequest.parse(body)
        assert request.last_user_text == "Hello"
        assert [str(problem) for problem in request.reading_problems] == [
            "messages[0].content[0], line 1: text is of type int; it must be text",
            'messages[0].content[1], line 1: is a part of type "image_url"; only text is read',
            "messages[0].content[2], line 1: text is missing; it must be text",
        ]

    def test_ids_that_every_answer_has_again(self) -> None:
        messages = [call("c", "one"), result("c"), call("c", "two"), result("c"), result("c")]
        request = ModelRequest.parse({"messages": messages})
        assert [each.name for each in request.results] == ["one", "two", ""]
        assert 'tool: result one: {"ok":true}\n' in request.render()

    def test_ids_that_the_calls_of_one_answer_share(self) -> None:
        both = call("", "one")
        both["tool_calls"] += call("", "two")["tool_calls"]
        request = ModelRequest.parse({"messages": [both, result(""), result("")]})
        assert [each.name for each in request.results] == ["one", "two"]


EVENT = {"role": "user", "content": "<context_event>\nThe post is on strike.\n</context_event>"}


class TestRules:
    def test_a_notice_behind_a_result_is_not_the_persons(self) -> None:
        script = ModelScript()
        script.on("17", text="again")
        script.on(after="find_order", text="found")
        after = request([NUMBER, call("c1", "find_order"), result("c1"), EVENT, EVENT], [], [])
        assert (answer := script.answer(after)) is not None
        assert answer.text == "found"
        said = request([call("c1", "find_order"), result("c1"), EVENT, NUMBER, EVENT], [], [])
        assert (answer := script.answer(said)) is not None
        assert answer.text == "again"


@pytest.mark.parametrize(
    "values",
    ['"at": Infinity', '"at": 1e999', '"at": 1e20', '"at": -1', '"at": NaN', '"status": 1e999', '"took": NaN'],
)
def test_numbers_that_no_recording_has(tmp_path: Path, values: str) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_text(f'{{{values}, "request": {{"messages": []}}}}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"line 1: no recorded request: at is .*; they must be milliseconds since"):
        list(read_recording(path))


def test_any_time_is_shown() -> None:
    assert ", " in html_page([RecordedRequest(10**30, {"model": "small", "messages": []})])
    assert "small, 09:05:01" in html_page([RecordedRequest(1_796_115_901_000, {"model": "small", "messages": []})])


def with_tool(description: str, required: list[str]) -> ModelRequest:
    parameters = {"type": "object", "properties": {"a": {"description": description}}, "required": required}
    function = {"name": "pay", "description": description, "parameters": parameters}
    return ModelRequest.parse({"messages": [], "tools": [{"type": "function", "function": function}]})


class TestDefinitionsOfTools:
    def test_they_count_and_are_compared(self) -> None:
        before, after = with_tool("x" * 4000, []), with_tool("y" * 4000, [])
        (tools,) = (section for section in sections(after, before) if section.name == "tools")
        assert tools.tokens > 2000
        assert [line.mark for line in tools.lines] == ["gone", "new"]
        assert tools.lines[1].text.startswith("pay: yyy")
        assert json.loads(tools.lines[1].text.split("\n")[1]) == after.tools[0].schema

    @pytest.mark.parametrize("after", [with_tool("y", []), with_tool("x", ["a"])])
    def test_a_tool_of_the_same_name_that_is_another_one(self, after: ModelRequest) -> None:
        changes = diff(with_tool("x", []), after)
        assert changes
        assert changes.render() == "~ the tool pay has another description or schema"
        assert not diff(after, after)
