"""The ledger of a conversation."""

from curb_client.model import ledger, render_ledger
from tests.model.conversation import CONVERSATION, HELLO, request


def test_every_request_is_a_step() -> None:
    steps = ledger(CONVERSATION, [{"known": False}, {"known": False}, {"known": True, "name": "Zoë"}])
    assert render_ledger(steps) == (
        "=== It came broken\n"
        "state: known = false\n"
        "=== It came broken: read_skill\n"
        "state: known = false\n"
        "instruction: Ask for the number.\n"
        "content: No order\n  is known.\n"
        "tool: find_order() [page]\n"
        "=== It is 17: find_order\n"
        "state: known = true\n"
        'state: name = "Zoë"\n'
        "instruction: Ask what broke.\n"
        "tool: send_label() [page]"
    )


def test_without_states_there_are_none() -> None:
    assert "state:" not in render_ledger(ledger(CONVERSATION))


def test_a_conversation_that_begins_anew() -> None:
    steps = ledger([*CONVERSATION, request([HELLO], [], []), CONVERSATION[1]])
    assert [step.called for step in steps] == [(), ("read_skill",), ("find_order",), (), ("read_skill",)]
