"""Which rule answers a request."""

import re
from typing import Any

import pytest

from curb_client import UsageError
from curb_client.model import ModelRequest
from curb_client.model.endpoint.script import Answer, ModelScript, Rule
from curb_client.model.endpoint.script_file import read_script
from tests.model.conversation import CONVERSATION, HELLO, NUMBER, request

FIRST, READ, FOUND = CONVERSATION


def rule(**options: Any) -> Rule:
    return Rule(Answer("x"), **options)


@pytest.mark.parametrize(
    ("options", "fitting"),
    [
        ({}, [FIRST]),
        ({"said": "CAME broken"}, [FIRST]),
        ({"said": re.compile("^It came")}, [FIRST]),
        ({"said": "17"}, []),
        ({"said": "17", "after": "find_order"}, [FOUND]),
        ({"after": "read_skill"}, [READ]),
        ({"after": "*"}, [READ, FOUND]),
        ({"after": "*", "turn": 2}, [FOUND]),
        ({"turn": 1}, [FIRST]),
        ({"turn": 1, "lacks": ["read_skill"]}, []),
        ({"after": "*", "offers": ["read_skill", "send_label"]}, [FOUND]),
        ({"after": "*", "lacks": ["send_label"]}, [READ]),
        ({"when": lambda request: request.tool("read_skill") is None}, []),
    ],
)
def test_what_fits(options: dict[str, Any], fitting: list[ModelRequest]) -> None:
    assert [request for request in CONVERSATION if rule(**options).fits(request)] == fitting


def test_the_first_rule_that_fits_answers_and_may_be_used_up() -> None:
    script = ModelScript()
    script.on("broken", text="once", times=1)
    script.on(text="again")
    script.rules.append(Rule(lambda request: Answer(request.last_user_text.upper()), after="*"))
    answers = [script.answer(request) for request in (FIRST, FIRST, READ)]
    assert [answer and answer.text for answer in answers] == ["once", "again", "IT CAME BROKEN"]


def test_a_request_that_fits_no_rule() -> None:
    assert ModelScript().answer(FIRST) is None
    assert ModelScript(is_strict=False).answer(FIRST) == Answer()
    assert ModelScript([rule()]).answer(ModelRequest.parse({"messages": []})) == Answer("x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"status": 302}, "status is 302"),
        ({"chunk": 0}, "chunk=0"),
        ({"delay": -1}, "delay=-1"),
        ({"foo": 1}, "foo is no"),
    ],
)
def test_what_makes_no_answer(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ModelScript().on("x", **options)


class TestFiles:
    def test_all_of_it(self) -> None:
        script = read_script(
            """
            strict: false
            rules:
              - when: {said: broken, offers: [read_skill], lacks: [send_label], turn: 1, times: 1}
                then: {text: Reading., calls: [{tool: read_skill, arguments: {skill: /returns}}], delay: 0.5, chunk: 3}
              - when: {said: {matches: "^It is [0-9]+$"}}
                then: {status: 429, error: too fast, retry_after: 2}
              - when: {after: read_skill}
                then: {text: "Which order?", cut_after: 2}
            """
        )
        first, second, third = (script.answer(each) for each in (FIRST, request([HELLO, NUMBER], [], []), READ))
        assert first is not None
        assert (first.text, first.delay, first.pieces()) == ("Reading.", 0.5, ["Rea", "din", "g."])
        assert [(call.tool, call.arguments) for call in first.calls] == [("read_skill", {"skill": "/returns"})]
        assert second == Answer(status=429, error="too fast", retry_after=2, calls=[])
        assert third == Answer("Which order?", cut_after=2, calls=[])
        assert script.answer(FOUND) == Answer()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("rules: [", "not YAML"),
            ("hello", "the script: Input should be"),
            ("rules: [{}]", r"rules\[0\]\.then: Field required"),
            ("rules: [{then: {txt: a}}]", r"rules\[0\]\.then\.txt: Extra inputs"),
            ("rules: [{then: {status: 100}}]", r"rules\[0\]\.then: status is 100"),
            ("rules: [{when: {said: {matches: '('}}, then: {}}]", r"rules\[0\]\.when\.said\.matches is no pattern"),
            ("rules: [{when: {turn: 0}, then: {}}]", r"rules\[0\]\.when\.turn: Input should be greater"),
        ],
    )
    def test_what_does_not_fit_is_named(self, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            read_script(text)
