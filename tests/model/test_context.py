"""The context block: read, rendered again, and what does not fit in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curb_client.model import AvailableSkill, ContextLine, ContextTool, CurrentContext
from curb_client.model.context import ToolArgument, read_tool
from curb_client.model.contract import LABELS

TEXT = """<current_context skill="Return a parcel">
Today is Tuesday, 1 December 2026, 09:30 (UTC). The next days: Wednesday, 2 December
active_skill: Return a parcel
instruction: Ask for the order's number.
content: The shop is open.
content: Weather: rain.
available_skill: Return a parcel — For parcels — of any size.
available_skill: Small talk
tool: skip_turn() [runtime]
tool: find_order(number*, year) [page]
</current_context>"""


def lines_between_tags(*lines: str) -> str:
    return "\n".join(["<current_context>", "Today is some day", *lines, "</current_context>"])


class TestReading:
    def test_every_kind_of_line(self) -> None:
        context = CurrentContext.parse(TEXT)
        assert context.skill == "Return a parcel"
        assert (
            context.date_line == "Today is Tuesday, 1 December 2026, 09:30 (UTC). The next days: Wednesday, 2 December"
        )
        assert context.active_skills == ["Return a parcel"]
        assert context.instructions == ["Ask for the order's number."]
        assert context.contents == ["The shop is open.", "Weather: rain."]
        assert context.available_skills == [
            AvailableSkill("Return a parcel", "For parcels — of any size."),
            AvailableSkill("Small talk", ""),
        ]
        assert context.tools == [
            ContextTool("skip_turn", (), "runtime"),
            ContextTool("find_order", (ToolArgument("number", True), ToolArgument("year", False)), "page"),
        ]
        assert context.tool("find_order") == context.tools[1]
        assert context.tool("open_safe") is None
        assert context.problems == []
        assert context.render() == TEXT

    def test_a_line_without_a_label_continues_a_text(self) -> None:
        text = lines_between_tags("content: one", "two", "", "Three: 3", "instruction: four", "five")
        context = CurrentContext.parse(text)
        assert context.contents == ["one\ntwo\n\nThree: 3"]
        assert context.instructions == ["four\nfive"]
        assert context.render() == text

    def test_further_lines_that_are_indented_are_read_without_the_indent(self) -> None:
        text = lines_between_tags("content: one", "  tool: no_tool() [page]", "  ", "    deeper")
        context = CurrentContext.parse(text)
        assert context.contents == ["one\ntool: no_tool() [page]\n\n  deeper"]
        assert context.tools == []
        assert context.render() == text

    def test_unknown_lines_are_kept_and_named(self) -> None:
        text = lines_between_tags("content: one", "mood: cheerful", "whatever", "content: two")
        context = CurrentContext.parse(text)
        assert context.other_lines == ["mood: cheerful", "whatever"]
        assert context.contents == ["one", "two"]
        assert [str(problem) for problem in context.problems] == [
            "line 4: unknown line 'mood: cheerful'",
            "line 5: unknown line 'whatever'",
        ]

    def test_the_first_of_two_dates_is_the_date(self) -> None:
        context = CurrentContext.parse(lines_between_tags("tool: a() [page]", "Today is another day"))
        assert context.date_line == "Today is some day"

    @pytest.mark.parametrize("title", ['the "best" one', 'a">b', "", "<b>"])
    def test_the_skill_of_the_tag_is_taken_as_it_is(self, title: str) -> None:
        text = f'<current_context skill="{title}">\nToday is some day\n</current_context>'
        context = CurrentContext.parse(text)
        assert context.skill == title
        assert context.render() == text

    @pytest.mark.parametrize("inside", ["", "\n", "\n\n", "x\n"])
    def test_hardly_anything_inside(self, inside: str) -> None:
        text = f"<current_context>\n{inside}</current_context>"
        assert CurrentContext.parse(text).render() == text

    @pytest.mark.parametrize(
        "text",
        ["", "<current_context>", "<current_context></current_context>", "hello\n</current_context>", TEXT + "\n"],
    )
    def test_what_is_no_block_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="begins with <current_context> and ends with </current_context>"):
            CurrentContext.parse(text)


class TestProblems:
    def test_no_date(self) -> None:
        context = CurrentContext.parse("<current_context>\ncontent: a\n</current_context>")
        assert [str(problem) for problem in context.problems] == [
            "line 2: no line begins with 'Today is ', so the model knows no date"
        ]

    def test_a_tool_that_is_none_and_one_listed_twice(self) -> None:
        text = lines_between_tags("content: a", "  b", "tool: a()", "tool: a() [page]", "tool: a(b) [runtime]")
        assert [str(problem) for problem in CurrentContext.parse(text).problems] == [
            "line 5: no tool: 'a()'; one is written name(argument*) [page]",
            "line 7: the tool 'a' is listed a second time",
        ]

    def test_a_tag_inside(self) -> None:
        text = lines_between_tags("content: a </current_context> b")
        assert [problem.line for problem in CurrentContext.parse(text).problems] == [3]


@pytest.mark.parametrize(
    "value", ["a()", "a() ", "a [page]", "() [page]", "a(b [page]", "a() [page] ", "a() []", "a b() [page]", ""]
)
def test_what_is_no_tool(value: str) -> None:
    assert read_tool(value) is None


@given(st.text())
def test_any_text_inside_comes_back_character_for_character(inside: str) -> None:
    text = f"<current_context>\n{inside}\n</current_context>"
    context = CurrentContext.parse(text)
    assert context.render() == text
    assert all(1 < problem.line <= text.count("\n") + 1 for problem in context.problems)


@given(st.sampled_from(LABELS), st.text())
def test_a_text_of_any_number_of_lines_is_read_as_it_was_given(label: str, text: str) -> None:
    line = ContextLine.of_text(label, text)
    assert line.text == text
    context = CurrentContext(None, (ContextLine("", "Today is some day"), line))
    read = CurrentContext.parse(context.render())
    if label in ("instruction", "content") or "\n" not in text:
        assert read == context


def test_reading_takes_time_in_proportion_to_the_length() -> None:
    """Told by the work done, not by a clock: the lines handed out are as many as there are."""
    text = lines_between_tags(*(f"content: {number}\nmore of it" for number in range(2_000)))
    context = CurrentContext.parse(text)
    assert len(context.lines) == 2_001
    assert context.contents[-1] == "1999\nmore of it"
