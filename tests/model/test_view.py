"""What people see of a recording."""

from curb_client.model import ModelRequest, RecordedRequest
from curb_client.model.view.html import html_page
from curb_client.model.view.sections import Line, sections
from curb_client.model.view.terminal import shown
from tests.model.conversation import CONVERSATION, HELLO, request


class TestSections:
    def test_what_is_new_and_what_is_gone(self) -> None:
        made = {section.name: section for section in sections(CONVERSATION[2], CONVERSATION[1])}
        assert made["tools"].lines == (Line("find_order", "gone"), Line("read_skill"), Line("send_label", "new"))
        assert [line for line in made["context"].lines if line.mark != "same"] == [
            Line("instruction: Ask for the number.", "gone"),
            Line("content: No order\n  is known.", "gone"),
            Line("tool: find_order() [page]", "gone"),
            Line("instruction: Ask what broke.", "new"),
            Line("tool: send_label() [page]", "new"),
        ]
        assert not made["system"].has_changed
        assert made["system"].tokens > 0

    def test_nothing_is_marked_in_the_first(self) -> None:
        assert not any(section.has_changed for section in sections(CONVERSATION[0], None))

    def test_problems_are_a_section(self) -> None:
        made = sections(ModelRequest.parse("oops"), None)
        assert made[-1].name == "problems"
        assert "not JSON" in made[-1].lines[0].text


class TestTerminal:
    def test_whole(self) -> None:
        lines = [line.text for line in shown(CONVERSATION)]
        assert lines[0] == "=== 1. It came broken"
        assert "+ tool: send_label() [page]" in lines
        assert "- content: No order" in lines
        assert "    is known." in lines

    def test_changes_alone(self) -> None:
        first, _, rest = "\n".join(line.text for line in shown(CONVERSATION, only_changes=True)).partition("=== 3.")
        assert "You run a parcel desk." in first
        assert "You run a parcel desk." not in rest
        assert "read_skill" not in rest
        assert "+ send_label" in rest


def test_the_page_shows_text_as_text() -> None:
    script = '<script>alert("x")</script>'
    recorded = [
        RecordedRequest(0, request([HELLO, {"role": "user", "content": script}], [f"content: {script}"], []).body)
    ]
    page = html_page(recorded, "<title>")
    assert script not in page
    assert "&lt;script&gt;" in page
    assert "&lt;title&gt;" in page
    assert "http" not in page.replace("http-equiv", ""), "the page needs nothing else"
