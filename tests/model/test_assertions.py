"""Assertions on requests: what passes, and what a failure shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from curb_client.model import (
    ModelRequest,
    assert_instruction,
    assert_not_offered,
    assert_prefix_stable,
    assert_snapshot,
    assert_tool_offered,
    estimate_tokens,
)
from tests.model.conversation import CONVERSATION, HELLO, NUMBER, SYSTEM, call, request, result


class TestTools:
    def test_offered(self) -> None:
        assert_tool_offered(CONVERSATION[1], "find_order")
        with pytest.raises(AssertionError, match="'send_label' is not offered; there are read_skill, find_order"):
            assert_tool_offered(CONVERSATION[1], "send_label")
        with pytest.raises(AssertionError, match="'send_label' is not offered; there are none"):
            assert_tool_offered(ModelRequest.parse({"messages": []}), "send_label")

    def test_not_offered(self) -> None:
        assert_not_offered(CONVERSATION[1], "send_label")
        with pytest.raises(AssertionError, match=r"'find_order' is offered; the context is\n<current_context>"):
            assert_not_offered(CONVERSATION[1], "find_order")

    def test_offered_and_listed_are_two_things(self) -> None:
        listed = request([HELLO], ["tool: send_label() [page]"], [])
        with pytest.raises(AssertionError, match="not offered, and the context lists it"):
            assert_not_offered(listed, "send_label")
        messages = [{"role": "user", "content": "<current_context>\nToday is x\n</current_context>"}]
        offered = ModelRequest.parse({"messages": messages, "tools": [{"function": {"name": "send_label"}}]})
        with pytest.raises(AssertionError, match="offered, and the context does not list it"):
            assert_tool_offered(offered, "send_label")


def test_instructions() -> None:
    assert_instruction(CONVERSATION[1], "Ask for the number.")
    with pytest.raises(AssertionError, match=r"no instruction is 'Ask'; there are\n  Ask for the number\."):
        assert_instruction(CONVERSATION[1], "Ask")
    with pytest.raises(AssertionError, match=r"there are\n  none"):
        assert_instruction(CONVERSATION[0], "Ask")


class TestPrefix:
    def test_a_growing_transcript_is_stable(self) -> None:
        steps = assert_prefix_stable(CONVERSATION)
        assert [step.tools_changed for step in steps] == [True, True]
        assert [step.cached_tokens for step in steps] == [0, 0], "other tools break a provider's cache"

    def test_what_a_cache_gives_where_the_tools_stay(self) -> None:
        (step,) = assert_prefix_stable(
            [request([HELLO], ["content: a"], []), request([HELLO, NUMBER], ["content: b"], [])]
        )
        assert not step.tools_changed
        assert step.cached_tokens == estimate_tokens(f"{SYSTEM}\nuser \n{HELLO['content']}")
        assert 0 < step.cached_share < 1

    def test_a_context_that_ended_a_message(self) -> None:
        block = "<current_context>\nToday is x\n</current_context>"
        bodies = [
            [{"role": "user", "content": f"one\n{block}"}],
            [{"role": "user", "content": "one"}, {"role": "user", "content": f"two\n{block}"}],
        ]
        assert_prefix_stable(ModelRequest.parse({"messages": messages}) for messages in bodies)

    @pytest.mark.parametrize(
        ("second", "where"),
        [
            (request([HELLO], [], [], system="You"), "request 2 .*: the system text, at character 4"),
            (request([], [], []), r"message 1 \(user\), which is gone"),
            (request([NUMBER, HELLO], [], []), r"message 1 \(user\), at character 10"),
            (request([call("c1", "read_skill"), result("c1")], [], []), r"message 1 \(assistant|message 1 \(user\)"),
        ],
    )
    def test_what_breaks_it(self, second: ModelRequest, where: str) -> None:
        with pytest.raises(AssertionError, match=where):
            assert_prefix_stable([request([HELLO], [], []), second])


BLOCK = {"role": "user", "content": "<current_context>\nToday is x\n</current_context>"}


def said(content: Any, **others: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **others}


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


class TestPrefixOfOtherThanText:
    @pytest.mark.parametrize(
        ("before", "after", "key"),
        [
            (said([image("a"), part("x")]), said([image("b"), part("x")]), "content"),
            (said([part("a"), part("b")]), said("a\nb"), "content"),
            (said("a", name="z"), said("a", name="y"), "name"),
            (
                {"role": "assistant", "content": "a", "reasoning_content": "1"},
                {"role": "assistant", "content": "a"},
                "reasoning_content",
            ),
        ],
    )
    @pytest.mark.parametrize("behind", [[BLOCK], [NUMBER, BLOCK]])
    def test_what_breaks_it(
        self, before: dict[str, Any], after: dict[str, Any], key: str, behind: list[dict[str, Any]]
    ) -> None:
        requests = [ModelRequest.parse({"messages": [HELLO, message, *behind]}) for message in (before, after)]
        with pytest.raises(AssertionError, match=rf"request 2 .*: message 2 \(\w+\), in {key}$"):
            assert_prefix_stable(requests)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (said("a", name=None), {"content": "a", "role": "user"}),
            (said(f"one\n{BLOCK['content']}"), said("one")),
            (said([part("one"), part(BLOCK["content"])]), said([part("one")])),
            (said([part(f"one\n{BLOCK['content']}")]), said([part("one")])),
            (said([image("a"), part(f"one\n{BLOCK['content']}")]), said([image("a"), part("one")])),
        ],
    )
    def test_what_does_not(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        bodies = [[HELLO, before], [HELLO, after, NUMBER, BLOCK]]
        assert_prefix_stable(ModelRequest.parse({"messages": messages}) for messages in bodies)

    def test_items_of_the_other_form(self) -> None:
        bodies = [[HELLO, {"type": "reasoning", "summary": [{"text": text}]}, BLOCK] for text in ("a", "b")]
        with pytest.raises(AssertionError, match=r"message 2 \(reasoning\)"):
            assert_prefix_stable(ModelRequest.parse({"input": items}) for items in bodies)


class TestSnapshots:
    @pytest.mark.parametrize("text", ["a\r\nb\rc", "half \ud83d"])
    def test_text_as_it_is(self, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        odd = request([{"role": "user", "content": text}], [], [])
        monkeypatch.setenv("CURB_WRITE_SNAPSHOTS", "1")
        assert_snapshot(odd, tmp_path / "odd.txt")
        monkeypatch.delenv("CURB_WRITE_SNAPSHOTS")
        assert_snapshot(odd, tmp_path / "odd.txt")

    def test_only_the_contexts_date_may_differ(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = ["content: a\n  Today is closed"]
        first = request([HELLO], lines, [], system="Hi.\nToday is a holiday.")
        monkeypatch.setenv("CURB_WRITE_SNAPSHOTS", "1")
        assert_snapshot(first, tmp_path / "first.txt")
        monkeypatch.delenv("CURB_WRITE_SNAPSHOTS")
        for other in (
            request([HELLO], lines, [], system="Hi.\nToday is normal."),
            request([HELLO], ["content: a\n  Today is open"], [], system="Hi.\nToday is a holiday."),
        ):
            with pytest.raises(AssertionError, match="is not as in"):
                assert_snapshot(other, tmp_path / "first.txt")
        text = json.dumps(first.body).replace("Today is some day", "Today is another one")
        assert_snapshot(ModelRequest.parse(text), tmp_path / "first.txt")

    def test_written_compared_and_different(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "snapshots" / "first.txt"
        with pytest.raises(AssertionError, match=r"no snapshot .* set CURB_WRITE_SNAPSHOTS=1"):
            assert_snapshot(CONVERSATION[0], path)
        monkeypatch.setenv("CURB_WRITE_SNAPSHOTS", "1")
        assert_snapshot(CONVERSATION[0], path)
        monkeypatch.delenv("CURB_WRITE_SNAPSHOTS")
        assert_snapshot(CONVERSATION[0], path)
        assert "Today is …" in path.read_text(encoding="utf-8")
        with pytest.raises(AssertionError, match="is not as in"):
            assert_snapshot(CONVERSATION[1], path)
