"""The scripted agent's rules and its memory of what came, without a room."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from curb_client.errors import (
    InvalidKeyError,
    InvalidTimeoutError,
    MessageTimeoutError,
    UnexpectedRequestError,
    UsageError,
)
from curb_client.protocol.contract import RefusalCode
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.settings import Adjustable
from curb_client.protocol.types import EffectiveSettings, Issue
from curb_client.room.handlers import HandlerRefusal, HandlerTable, RequestMeta
from curb_client.room.trace import NOTHING, TraceEvent, TraceSide, TraceStep
from curb_client.testing._scripted_call import RuleTable
from curb_client.testing.script_file import Rule
from curb_client.testing.scripted import ReceivedRequest, ScriptedAgent, Send

SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure"},
    "llm": {"provider": "openai-compatible", "model": "large", "baseURL": "http://llm.internal/v1"},
}


def event(
    step: TraceStep, key: str = "quote", message_id: str = "m-1", side: TraceSide = "agent", **what: Any
) -> TraceEvent:
    return TraceEvent(0.0, side, "agent", step, key=key, id=message_id, peer=what.pop("peer", "caller"), **what)


def receive(agent: ScriptedAgent, key: str, payload: object, message_id: str, error: str | None = None) -> None:
    """A message of the app and its answer, as the agent's side reports them."""
    agent.record(event("request", key, message_id, payload=payload))
    agent.record(event("reply", key, message_id, error=error))


# The rules


def used(table: RuleTable, payload: object) -> object:
    rule = table.use("quote", payload)
    return NOTHING if rule is None else rule.reply


def table_of(*rules: dict[str, Any]) -> RuleTable:
    table = RuleTable()
    for rule in rules:
        table.add("quote", Rule.model_validate(rule))
    return table


def test_the_first_rule_that_takes_a_payload_answers() -> None:
    table = table_of({"when": {"plan": "gold"}, "reply": 20}, {"reply": 12})
    assert [used(table, {"plan": plan}) for plan in ("gold", "basic")] == [20, 12]
    assert table.use("offer", {}) is None


def test_a_rule_is_used_so_often_and_then_the_next() -> None:
    table = table_of({"reply": 1, "times": 1}, {"when": {"plan": "gold"}, "reply": 2, "times": 2}, {"reply": 3})
    assert [used(table, {"plan": "gold"}) for _ in range(5)] == [1, 2, 2, 3, 3]
    table = table_of({"when": 5, "reply": "five", "times": 1})
    assert [used(table, payload) for payload in (4, 5, 5)] == [NOTHING, "five", NOTHING]
    assert table.why_not("quote") == "none of its 1 rule(s) took it, 1 used up"
    assert table.why_not("offer") == "no rule has this key"


def test_a_rule_that_could_never_be_used_is_refused() -> None:
    agent = ScriptedAgent()
    agent.reply("quote", 12)
    with pytest.raises(UsageError) as hidden:
        agent.reply("quote", 20, when={"plan": "gold"})
    assert str(hidden.value) == (
        "the rules of 'quote': [1] would never be used: [0] comes first and takes all that it takes; "
        "put specific rules before general ones, or clear('quote') first"
    )
    agent.clear("quote")
    agent.reply("quote", 20, when={"plan": "gold"})
    agent.reply("quote", 12)
    agent.reply("offer", 1)
    agent.clear("nothing-there")


class Quote(pydantic.BaseModel):
    price: int


@dataclass
class Offer:
    price: int


def test_what_a_reply_may_be() -> None:
    agent = ScriptedAgent()
    for number, reply in enumerate([None, 1.5, "x", [1], {"a": None}, Quote(price=1), Offer(2), max, lambda p, m: 1]):
        agent.reply(f"key-{number}", reply)
    agent.reply("quote", "x" * 15_347)
    with pytest.raises(
        UsageError, match="the reply to 'offer': reply: the reply has 15361 bytes of JSON; the limit is"
    ):
        agent.reply("offer", "x" * 15_349)


def test_a_reply_is_what_it_was_when_it_was_added() -> None:
    reply = {"prices": [1]}
    rule = Rule.model_validate({"reply": reply})
    reply["prices"].append(2)
    assert rule.reply == {"prices": [1]}


async def never(payload: object) -> bool:
    return False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reply": {1, 2}}, "reply: is of type set, which JSON has no form for"),
        ({"reply": {"a": math.nan}}, "reply: a is nan, which JSON has no form for; send null"),
        ({"reply": Quote}, "reply: is a class; give a value of it, or a function (payload, meta); it is <class"),
        ({"reply": lambda payload: 1}, "reply: must be a function that takes (payload, meta): too many positional"),
        ({"when": {1, 2}}, "when: is of type set"),
        ({"when": lambda: True}, "when: must be a function that takes (payload): too many positional"),
        ({"when": never}, "when: must be a plain function: a rule is chosen at once"),
        ({"after": -0.1}, "after: must be a number of seconds from 0 to 86400; it is -0.1"),
        ({"after": math.nan}, "after: must be a number of seconds from 0 to 86400; it is nan"),
        ({"after": 86_401}, "after: must be a number of seconds from 0 to 86400; it is 86401"),
        ({"after": "2"}, 'after: must be a number of seconds from 0 to 86400; it is "2"'),
        ({"times": 0}, "times: must be a whole number, 1 or more; it is 0"),
        ({"times": True}, "times: must be a whole number, 1 or more; it is true"),
        ({"then": "show-form"}, "then has 'show-form'; it must be Send(\"key\", {…}), or a list of them"),
        ({"then": [Send("a"), {"send": "b"}]}, "then has {'send': 'b'}; it must be Send("),
        ({"then": 3}, "then has 3; it must be Send("),
    ],
)
def test_a_wrong_rule_is_refused_when_it_is_added(arguments: dict[str, Any], message: str) -> None:
    agent = ScriptedAgent()
    with pytest.raises(UsageError) as wrong:
        agent.reply("quote", **{"reply": 1, **arguments})
    assert str(wrong.value).startswith(f"the reply to 'quote': {message}")
    agent.reply("quote", 1)
    agent.clear("quote")


@pytest.mark.parametrize(
    ("code", "issues", "message"),
    [
        ("not_adjustable", [], "refuse: Input should be 'invalid_payload', 'no_handler' or 'handler_failed'; it is "),
        (RefusalCode.INVALID_SETTINGS, [], "refuse: Input should be 'invalid_payload', 'no_handler' or "),
        ("no", [], "refuse: Input should be 'invalid_payload', 'no_handler' or 'handler_failed'; it is \"no\""),
        ("no_handler", [{"path": [], "message": "m"}], "has issues, which only `refuse: invalid_payload` carries"),
        ("invalid_payload", [{"path": ["a"]}], "issues[0].message: Field required"),
        ("invalid_payload", [{"path": "a", "message": "m"}], 'issues[0].path: Input should be a valid list; it is "a"'),
        ("invalid_payload", [{"path": [], "message": "m", "at": 1}], "issues[0].at: no such property; there are path,"),
        ("invalid_payload", "required", "issues: must have properties, of these: path, message"),
    ],
)
def test_a_wrong_refusal_is_refused_when_it_is_added(code: Any, issues: Any, message: str) -> None:
    with pytest.raises(UsageError) as wrong:
        ScriptedAgent().refuse("claim", code, issues=issues)
    assert str(wrong.value).startswith(f"the refusal to 'claim': {message}")


def test_issues_may_be_those_of_the_protocol() -> None:
    agent = ScriptedAgent()
    issue = Issue(path=["items", 0], message="too small")
    agent.refuse("claim", RefusalCode.INVALID_PAYLOAD, issues=(issue, {"path": [], "message": "m"}), times=1)
    agent.refuse("claim", "handler_failed", when=None)


def test_wrong_keys_and_messages() -> None:
    agent = ScriptedAgent()
    for add in (agent.reply, agent.clear, lambda key: agent.refuse(key, "no_handler")):
        with pytest.raises(InvalidKeyError, match="key has 257 UTF-16 units"):
            add("k" * 257)
    with pytest.raises(UsageError, match=r"^the message '': send: has 0 UTF-16 units; it must have 1 to 256"):
        Send("")
    with pytest.raises(UsageError, match=r"^the message 'form': payload: is of type list; what an agent sends must be"):
        agent.on_join_send("form", [1])
    with pytest.raises(UsageError, match=r"^the message 'form': after: must be a number of seconds from 0 to 86400"):
        agent.on_join_send("form", after=math.inf)


def test_wrong_settings() -> None:
    with pytest.raises(UsageError, match=r"^ScriptedAgent has 2 mistakes:\n  settings.stt: Field required\n"):
        ScriptedAgent(settings={"tts": {"provider": "kugelaudio"}})
    with pytest.raises(UsageError, match=r"^ScriptedAgent: adjustable.client\[0\]: Input should be 'tts.voice'"):
        ScriptedAgent(adjustable={"client": ["tts.speed"]})  # type: ignore[list-item]
    adjustable: Adjustable = {"client": frozenset(["tts.voice", "llm"])}
    ScriptedAgent(settings=EffectiveSettings.model_validate(SETTINGS), adjustable=adjustable)
    with pytest.raises(UsageError, match=r"^script: on.quote.after: must be a number"):
        ScriptedAgent.from_script({"on": {"quote": {"after": -1}}})


# What came


async def test_what_came_is_kept_in_order() -> None:
    agent = ScriptedAgent()
    receive(agent, "quote", {"plan": "gold"}, "m-1")
    receive(agent, "claim", [1], "m-2", error="invalid_payload")
    receive(agent, "quote", None, "m-3")
    assert agent.received == [
        ReceivedRequest("quote", {"plan": "gold"}, "m-1", "caller"),
        ReceivedRequest("claim", [1], "m-2", "caller"),
        ReceivedRequest("quote", None, "m-3", "caller"),
    ]
    assert agent.received_payloads("quote") == [{"plan": "gold"}, None]
    assert agent.received_payloads("offer") == []


async def test_a_repeat_came_once_and_a_corrected_retry_twice() -> None:
    agent = ScriptedAgent()
    receive(agent, "quote", 1, "m-1")
    receive(agent, "quote", 1, "m-1")
    receive(agent, "claim", 1, "m-2", error="invalid_payload")
    receive(agent, "claim", 2, "m-2")
    agent.record(event("request", peer="other", payload=3))
    agent.record(event("reply", peer="other", error="CancelledError"))
    agent.record(event("request", peer="other", payload=3))
    assert [request.payload for request in agent.received] == [1, 1, 2, 3]


async def test_other_steps_are_nothing_that_came() -> None:
    agent = ScriptedAgent()
    agent.record(event("send", payload={}))
    agent.record(event("request", "curb.update", "", payload="{}"))
    agent.record(event("reply", "curb.update", "", error="not_adjustable"))
    agent.record(event("reply", "", "", error="invalid_payload"))
    agent.record(event("reply", "quote", "unheard", error="no_handler"))
    assert agent.received == []
    agent.check()


async def test_what_no_rule_answers_is_told() -> None:
    agent = ScriptedAgent()
    agent.reply("quote", 1, when={"plan": "gold"})
    agent.reply("claim")
    receive(agent, "claim", {}, "m-0")
    agent.check()
    receive(agent, "qoute", {"text": "x" * 500}, "m-1", error="no_handler")
    receive(agent, "quote", {"plan": "basic"}, "m-2", error="no_handler")
    receive(agent, "claim", {}, "m-3", error="handler_failed")
    with pytest.raises(UnexpectedRequestError) as unexpected:
        agent.check()
    assert isinstance(unexpected.value, AssertionError)
    assert str(unexpected.value).splitlines() == [
        "the app sent 2 message(s) that the script does not answer:",
        f"  'qoute' {{\"text\":\"{'x' * 191}… (511 characters) from 'caller': no rule has this key",
        "  'quote' {\"plan\":\"basic\"} from 'caller': none of its 1 rule(s) took it",
        "the script answers 'claim', 'quote'",
    ]
    assert [request.id for request in unexpected.value.requests] == ["m-1", "m-2"]
    assert list(unexpected.value.requests) == agent.unexpected


async def test_very_much_that_no_rule_answers_is_told_in_short() -> None:
    agent = ScriptedAgent()
    for number in range(30):
        receive(agent, "quote", number, f"m-{number}", error="no_handler")
    with pytest.raises(UnexpectedRequestError) as unexpected:
        agent.check()
    assert str(unexpected.value).splitlines()[-2:] == ["  … 10 more", "the script answers nothing"]
    assert len(unexpected.value.requests) == 30


# Waiting for it


async def test_what_came_before_is_found_and_each_message_only_once() -> None:
    agent = ScriptedAgent()
    receive(agent, "quote", 1, "m-1")
    receive(agent, "quote", 2, "m-2")
    assert [await agent.wait_for("quote", timeout=0), await agent.wait_for("quote", timeout=0)] == [1, 2]
    with pytest.raises(MessageTimeoutError) as missing:
        await agent.wait_for("quote", timeout=0)
    assert str(missing.value) == "the app sent no message 'quote' within 0 s; it sent 'quote' (2)"


async def test_what_comes_later_is_waited_for() -> None:
    agent = ScriptedAgent()
    waiting = [asyncio.ensure_future(agent.wait_for(key, timeout=10)) for key in ("quote", "quote", "claim")]
    await asyncio.sleep(0)
    for number, key in enumerate(("other", "claim", "quote", "quote")):
        receive(agent, key, number, f"m-{number}")
        await asyncio.sleep(0)
    assert sorted(await asyncio.gather(*waiting)) == [1, 2, 3]


async def test_whoever_stops_waiting_takes_nothing() -> None:
    agent = ScriptedAgent()
    waiting = asyncio.ensure_future(agent.wait_for("quote", timeout=10))
    await asyncio.sleep(0)
    receive(agent, "quote", 1, "m-1")
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=10)
    assert waiting.cancelled()
    assert await agent.wait_for("quote", timeout=0) == 1


async def test_waiting_has_an_end() -> None:
    agent = ScriptedAgent()
    with pytest.raises(MessageTimeoutError, match=r"no message 'quote' within 0.05 s; it sent nothing"):
        await agent.wait_for("quote", timeout=0.05)
    with pytest.raises(InvalidTimeoutError):
        await agent.wait_for("quote", timeout=-1)
    with pytest.raises(InvalidKeyError):
        await agent.wait_for("")


async def test_outside_of_a_room() -> None:
    agent = ScriptedAgent()
    with pytest.raises(UsageError, match=r"the scripted agent is in no room; use it inside `async with agent.join"):
        _ = agent.call
    with pytest.raises(UsageError, match="is in no room"):
        agent.send("show-form")


async def test_steps_are_passed_on_to_another_trace() -> None:
    class Steps:
        def __init__(self) -> None:
            self.events: list[TraceEvent] = []

        def record(self, event: TraceEvent) -> None:
            self.events.append(event)

    steps = Steps()
    for agent in (ScriptedAgent(trace=steps), ScriptedAgent.from_script({}, trace=steps)):
        receive(agent, "quote", 1, "m-1")
    assert [event.step for event in steps.events] == ["request", "reply"] * 2


# The hook in the agent's handlers


async def test_a_handlers_refusal_is_the_answer_once_all_have_run() -> None:
    table = HandlerTable()
    ran: list[str] = []
    issue = Issue(path=["name"], message="required")

    def refuse(payload: Any, meta: RequestMeta) -> None:
        raise HandlerRefusal(RefusalCode.INVALID_PAYLOAD, issues=[issue])

    def fail(payload: Any, meta: RequestMeta) -> None:
        raise LookupError("no such plan")

    table.add("claim", "client", None, refuse)
    table.add("claim", "client", None, lambda payload, meta: ran.append("other"))
    with pytest.raises(HandlerRefusal) as refused:
        await table.handle("claim", {}, RequestMeta("m-1", "client", "caller"))
    assert (refused.value.code.value, refused.value.issues, ran) == ("invalid_payload", (issue,), ["other"])
    table.add("claim", "client", None, fail)
    with pytest.raises(Refusal, match="handler_failed"):
        await table.handle("claim", {}, RequestMeta("m-2", "client", "caller"))


async def test_an_agents_handler_that_lets_a_refusal_through_has_failed() -> None:
    table = HandlerTable()

    def refuse(payload: Any, meta: RequestMeta) -> None:
        raise Refusal(RefusalCode.NOT_ADJUSTABLE, path="tts.voice")

    table.add("claim", "client", None, refuse)
    with pytest.raises(Refusal, match="handler_failed"):
        await table.handle("claim", {}, RequestMeta("m-1", "client", "caller"))
