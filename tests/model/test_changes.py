"""What changed from one request to the next."""

from curb_client.model import Change, diff
from tests.model.conversation import CONVERSATION, HELLO, request


def test_what_joined_and_what_left() -> None:
    changes = diff(CONVERSATION[1], CONVERSATION[2])
    assert changes.instructions == Change(("Ask what broke.",), ("Ask for the number.",))
    assert changes.contents == Change((), ("No order\nis known.",))
    assert changes.tools == Change(("send_label() [page]",), ("find_order() [page]",))
    assert not changes.skills
    assert not changes.system_changed
    assert changes


def test_it_is_rendered_as_lines() -> None:
    assert diff(CONVERSATION[0], CONVERSATION[1]).render() == (
        "+ active_skill: Returns\n"
        "+ instruction: Ask for the number.\n"
        "+ content: No order\n  is known.\n"
        "+ tool: find_order() [page]"
    )


def test_another_system_text_and_unknown_lines() -> None:
    before, after = (request([HELLO], [line], [], system=system) for line, system in (("a b", "x"), ("c: d", "y")))
    assert diff(before, after).render() == "~ the system text changed\n- a b\n+ c: d"


def test_the_same_request_and_another_day_are_no_change() -> None:
    again = request([HELLO], ["available_skill: Returns — For parcels."], ["read_skill"])
    assert not diff(CONVERSATION[0], again)
    assert diff(CONVERSATION[0], again).render() == ""


def test_a_text_that_is_there_twice_is_two() -> None:
    assert Change.between(["a", "b", "a"], ["a", "c"]) == Change(("c",), ("b", "a"))
