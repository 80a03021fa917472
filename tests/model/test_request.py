"""Requests of both forms, whole and damaged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curb_client.model import ModelRequest, OfferedTool, SystemText

NOTE = "## What the app adds\nA block `<current_context>` ends the newest message.\n"
SYSTEM = f"You run a parcel desk.\n\n## Manners\nBe brief.\n\n{NOTE}"
CONTEXT = """<current_context skill="Returns">
Today is some day
active_skill: Returns
tool: read_skill(skill*) [runtime]
tool: find_order(number*) [page]
</current_context>"""
CHANGED = '{"ok":true,"contextChanged":["tool: find_order(number*) [page]"]}'
SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}

CHAT: dict[str, Any] = {
    "model": "small-1",
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "It came broken"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read_skill", "arguments": '{"skill":"/returns"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": CHANGED},
        {"role": "user", "content": CONTEXT},
    ],
    "tools": [
        {"type": "function", "function": {"name": "read_skill", "description": "Reads.", "parameters": {}}},
        {"type": "function", "function": {"name": "find_order", "parameters": SCHEMA}},
    ],
}

RESPONSES: dict[str, Any] = {
    "model": "small-1",
    "instructions": SYSTEM,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "It came broken"}]},
        {"type": "function_call", "call_id": "c1", "name": "read_skill", "arguments": '{"skill":"/returns"}'},
        {"type": "function_call_output", "call_id": "c1", "output": CHANGED},
        {"role": "user", "content": CONTEXT},
    ],
    "tools": [
        {"type": "function", "name": "read_skill", "description": "Reads.", "parameters": {}},
        {"type": "function", "name": "find_order", "parameters": SCHEMA},
    ],
}


@pytest.mark.parametrize("body", [CHAT, RESPONSES, json.dumps(CHAT), json.dumps(RESPONSES).encode()])
class TestBothForms:
    def test_all_of_it_is_read(self, body: Any) -> None:
        request = ModelRequest.parse(body)
        assert request.model == "small-1"
        assert request.system == SystemText("You run a parcel desk.\n\n## Manners\nBe brief.\n\n", NOTE, "")
        assert request.system.prompt == "You run a parcel desk.\n\n## Manners\nBe brief."
        assert request.tools == (OfferedTool("read_skill", "Reads."), OfferedTool("find_order", "", SCHEMA))
        assert request.tools[1].required == ["number"]
        assert request.tool("find_order") == request.tools[1]
        assert [message.role for message in request.transcript] == ["user", "assistant", "tool"]
        assert request.last_user_text == "It came broken"
        assert [(call.name, call.value) for call in request.calls] == [("read_skill", {"skill": "/returns"})]
        assert [(result.name, len(result.context_changed)) for result in request.results] == [("read_skill", 1)]
        assert request.context is not None
        assert request.context.render() == CONTEXT
        assert request.problems == []

    def test_it_is_rendered_for_people(self, body: Any) -> None:
        expected = (
            f"=== system ===\n{SYSTEM}\n=== tools ===\nread_skill, find_order\n=== messages ===\n"
            'user: It came broken\nassistant: call read_skill({"skill":"/returns"})\n'
            f"tool: result read_skill: {CHANGED}\nuser: {CONTEXT}"
        )
        assert ModelRequest.parse(body).render() == expected


def test_a_context_at_the_end_of_the_newest_user_message() -> None:
    body = {"messages": [{"role": "user", "content": f"Hello\n{CONTEXT}"}]}
    request = ModelRequest.parse(body)
    assert request.context is not None
    assert [message.render() for message in request.transcript] == ["Hello\n"]
    assert request.last_user_text == "Hello"


def test_a_context_left_in_the_transcript_is_a_problem() -> None:
    body = {"messages": [{"role": "user", "content": CONTEXT}, {"role": "user", "content": f"Hello\n{CONTEXT}"}]}
    problems = [str(problem) for problem in ModelRequest.parse(body).problems if "stored" in problem.message]
    assert problems == ["transcript[0], line 1: a <current_context> is stored in the transcript"]


def test_tools_that_are_offered_and_not_listed_and_the_reverse() -> None:
    body = {**CHAT, "tools": [{"type": "function", "function": {"name": "open_safe"}}, {"type": "web_search"}]}
    assert [str(problem) for problem in ModelRequest.parse(body).problems] == [
        "tools, line 1: the context lists the tool 'find_order', which the request does not offer",
        "tools, line 1: the context lists the tool 'read_skill', which the request does not offer",
        "tools, line 1: the tool 'open_safe' is offered, and the context does not list it",
    ]


def test_problems_in_the_context_have_their_line() -> None:
    body = {"messages": [{"role": "user", "content": "<current_context>\nToday is x\nmood: b\n</current_context>"}]}
    assert [str(problem) for problem in ModelRequest.parse(body).problems] == [
        "current_context, line 3: unknown line 'mood: b'"
    ]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\xff", "line 1: the request is not UTF-8"),
        ("{\n  oops", "line 2: the request is not JSON: Expecting property name"),
        ("[" * 200_000, "line 1: the request is nested too deeply"),
        ("[]", "line 1: the request is of type list; it must be an object"),
        ("{}", "line 1: messages is missing; it must be a list"),
        ({"messages": {}}, "line 1: messages is of type dict; it must be a list"),
        ({"messages": [1]}, "line 1: messages[0] is of type int; it must be an object"),
        ({"messages": [{}]}, "messages[0], line 1: role is missing; it must be text"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0], line 1: content is of type int"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0], line 1: is of type int"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
            "messages[0].tool_calls[0], line 1: function is missing",
        ),
        ({"messages": [], "tools": [{"function": 3}]}, "tools[0], line 1: function is of type int"),
        ({"input": [{"type": "function_call"}]}, "input[0], line 1: call_id is missing; it must be text"),
        ({"messages": []}, "messages, line 1: no <current_context> ends the newest user message"),
    ],
)
def test_damaged_requests_are_read_as_far_as_they_go(body: Any, problem: str) -> None:
    assert any(str(each).startswith(problem) for each in ModelRequest.parse(body).problems)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "text", "type", "tool_calls", "function", "name", "arguments", "input", "messages"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.fixed_dictionaries({}, optional={"messages": JSON, "input": JSON, "tools": JSON, "instructions": JSON}))
def test_no_request_whatsoever_breaks_the_reader(body: dict[str, Any]) -> None:
    request = ModelRequest.parse(body)
    assert isinstance(request.render(), str)
    assert request.problems is not None


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text()), min_size=1))
def test_texts_come_back_character_for_character(said: list[tuple[str, str]]) -> None:
    body = {"messages": [{"role": "user", "content": "x"}, *({"role": role, "content": text} for role, text in said)]}
    request = ModelRequest.parse(body)
    assert [message.render() for message in request.transcript[1:]] == [text for _, text in said]


@given(st.text())
def test_the_system_text_comes_back_character_for_character(text: str) -> None:
    assert SystemText.parse(text).render() == text
    assert SystemText.parse(f"{text}\n{NOTE}").render() == f"{text}\n{NOTE}"
