"""The agent's no, and what is no answer at all, as the client sees them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pydantic
import pytest
import pytest_asyncio
from livekit import rtc

from curb_client import AgentClient, AgentRefusedError, Issue, RequestMeta
from curb_client.errors import InvalidReplyError
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import SETTINGS, Pair, Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 15_360
CODES = (
    "no_handler",
    "invalid_payload",
    "handler_failed",
    "not_adjustable",
    "invalid_settings",
    "payload_too_large",
    "on_holiday",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(livekit: LiveKitServerHandle) -> AsyncIterator[Pair]:
    """One pair for all tests of this file: each uses keys of its own."""
    stage = Stage(livekit, f"refusals-{os.getpid()}")
    async with (
        stage.client() as call,
        stage.agent(settings=SETTINGS, adjustable={"client": ["tts.voice", "llm"]}) as agent,
    ):
        yield Pair(stage, call, agent)


class ForeignAgent:
    """An agent made without this library: ``answer`` is what its RPC methods do next."""

    def __init__(self, client: AgentClient) -> None:
        self.client = client
        self.answer: Callable[[], str] = str

    async def take(self, request: rtc.RpcInvocationData) -> str:
        return self.answer()

    def reply(self, text: str) -> None:
        self.answer = lambda: text

    def refuse(self, number: int, message: str, data: str | None = None) -> None:
        def answer() -> str:
            raise rtc.RpcError(number, message, data)

        self.answer = answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def foreign(livekit: LiveKitServerHandle) -> AsyncIterator[ForeignAgent]:
    stage = Stage(livekit, f"foreign-refusals-{os.getpid()}")
    async with stage.room("foreign", kind="agent") as room, stage.client() as call:
        agent = ForeignAgent(call.agent)
        room.local_participant.register_rpc_method("curb.message", agent.take)
        room.local_participant.register_rpc_method("curb.update", agent.take)
        yield agent


async def refusal(request: Awaitable[Any]) -> AgentRefusedError:
    with pytest.raises(AgentRefusedError) as refused:
        await request
    return refused.value


async def livekit_error(request: Awaitable[Any]) -> rtc.RpcError:
    with pytest.raises(rtc.RpcError) as failed:
        await request
    return failed.value


class Order(pydantic.BaseModel):
    plan: str
    seats: list[int]


# By an agent of ours


async def test_nobody_handles_the_key(pair: Pair) -> None:
    error = await refusal(pair.client.ask("nobody"))
    assert (error.code, error.issues, error.path, error.size) == ("no_handler", (), None, None)
    assert str(error) == "no_handler"
    assert (await refusal(pair.client.send("nobody"))).code == "no_handler"


async def test_a_payload_that_does_not_fit_the_schema_reaches_no_handler(pair: Pair) -> None:
    ran: list[Any] = []
    pair.agent.on_message("order", lambda payload, meta: ran.append(payload))
    pair.agent.on_message("order", lambda payload, meta: ran.append(payload), schema=Order)
    error = await refusal(pair.client.ask("order", {"seats": [1, "two"]}))
    assert error.code == "invalid_payload"
    assert {tuple(issue.path): issue.message for issue in error.issues} == {
        ("plan",): "Field required",
        ("seats", 1): "Input should be a valid integer, unable to parse string as an integer",
    }
    assert "plan: Field required" in str(error)
    assert "seats.1: Input should be" in str(error)
    assert ran == []
    await pair.client.ask("order", {"plan": "basic", "seats": [1]})
    assert len(ran) == 2


async def test_a_handler_that_raises_is_logged_and_the_others_still_run(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    def first(payload: Any, meta: RequestMeta) -> None:
        ran.append("first")
        raise LookupError("the shelf is empty")

    async def second(payload: Any, meta: RequestMeta) -> str:
        ran.append("second")
        return "fine"

    pair.agent.on_message("failing", first)
    pair.agent.on_message("failing", second)
    error = await refusal(pair.client.ask("failing"))
    assert (error.code, error.issues) == ("handler_failed", ())
    assert "shelf" not in str(error), "the agent's inner life is not for the client"
    assert ran == ["first", "second"]
    records = [record for record in caplog.records if record.name == "curb_client"]
    assert [(record.levelno, record.exc_info and record.exc_info[0]) for record in records] == [
        (logging.ERROR, LookupError)
    ]
    assert "'failing'" in records[0].getMessage()


async def test_settings_are_refused_with_the_path_or_the_issues(pair: Pair) -> None:
    error = await refusal(pair.client.update({"tts": {"voice": 3, "model": "v2"}, "stt": {"language": "de"}}))
    assert (error.code, error.path, error.issues) == ("not_adjustable", "tts.model", ())

    error = await refusal(pair.client.update({"tts": {"voice": 3, "speed": 2}, "video": {}}))
    assert (error.code, error.path) == ("invalid_settings", None)
    assert sorted(issue.path for issue in error.issues) == [["tts", "speed"], ["video"]]

    error = await refusal(
        pair.client.update({"llm": {"provider": "openai", "model": "large", "baseURL": "http://elsewhere/v1"}})
    )
    assert (error.code, [issue.path for issue in error.issues]) == ("invalid_settings", [["llm", "baseURL"]])

    error = await refusal(pair.client.update({"llm": {"provider": "unheard-of", "model": "large"}}))
    assert (error.code, [issue.path for issue in error.issues]) == ("invalid_settings", [["llm", "provider"]])
    assert (await pair.client.update({})).tts.voice == 1072


async def test_long_reasons_arrive_whole_and_huge_ones_shortened(pair: Pair) -> None:
    reason = "zu früh: " + "é" * 146
    assert len(reason.encode()) == 302

    class Refusing(pydantic.BaseModel):
        why: str

        @pydantic.field_validator("why")
        @classmethod
        def check(cls, value: str) -> str:
            raise ValueError(reason if value == "long" else "𝄞" * 5_000)

    pair.agent.on_message("reason", print, schema=Refusing)
    (issue,) = (await refusal(pair.client.ask("reason", {"why": "long"}))).issues
    assert issue == Issue(path=["why"], message=f"Value error, {reason}")

    (issue,) = (await refusal(pair.client.ask("reason", {"why": "huge"}))).issues
    assert issue.message.startswith("Value error, 𝄞𝄞𝄞")
    assert issue.message.endswith("𝄞…")


async def test_too_many_issues_are_cut_between_issues(pair: Pair) -> None:
    pair.agent.on_message("numbers", print, schema=list[int])
    error = await refusal(pair.client.ask("numbers", ["ü"] * 300))
    *kept, last = error.issues
    assert last.path == []
    assert last.message == f"{300 - len(kept)} more"
    assert 100 < len(kept) < 300
    assert [issue.path for issue in kept] == [[index] for index in range(len(kept))]
    assert len({issue.message for issue in kept}) == 1
    assert isinstance(error.__cause__, rtc.RpcError)
    data = error.__cause__.data or ""
    assert len(json.loads(data)["issues"]) == len(error.issues)
    assert LIMIT - 200 < len(data.encode()) <= LIMIT


def _filling(size: int, character: str) -> str:
    """The payload that makes a request with the key ``size`` that many bytes of UTF-8, ``character`` at its edge."""
    id_length = 36
    room = size - len('{"key":"size","id":"","payload":""}') - id_length
    width = len(character.encode())
    return "." * (room % width) + character * (room // width)


@pytest.mark.parametrize("character", ["a", "é", "€", "𝄞"])
async def test_the_size_limit_counts_bytes(pair: Pair, character: str) -> None:
    seen: list[str] = []
    remove = pair.agent.on_message("size", lambda payload, meta: seen.append(payload))
    for size in (LIMIT - 1, LIMIT):
        await pair.client.ask("size", _filling(size, character))
        assert seen.pop() == _filling(size, character)

    error = await refusal(pair.client.ask("size", _filling(LIMIT + 1, character)))
    assert (error.code, error.size, error.limit) == ("payload_too_large", LIMIT + 1, LIMIT)
    assert "'size' has 15361 bytes of JSON, 1 over the limit" in str(error)
    assert seen == [], "nothing was sent"
    remove()


async def test_the_size_limit_holds_for_updates(pair: Pair) -> None:
    fits = {"tts": {"model": "m" * (LIMIT - len('{"tts":{"model":""}}'))}}
    assert (await refusal(pair.client.update(fits))).code == "not_adjustable", "the agent saw it"
    fits["tts"]["model"] += "m"
    error = await refusal(pair.client.update(fits))
    assert (error.code, error.size, error.limit) == ("payload_too_large", LIMIT + 1, LIMIT)


async def test_a_reply_that_cannot_be_sent_is_the_handlers_failure(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    replies = {
        "fits": "r" * (LIMIT - len('{"reply":""}')),
        "large": "r" * (LIMIT - len('{"reply":""}') + 1),
        "object": {"deep": [object()]},
        "infinite": float("inf"),
    }
    pair.agent.on_message("reply", lambda payload, meta: replies[payload])
    assert await pair.client.ask("reply", "fits") == replies["fits"]
    for which in ("large", "object", "infinite"):
        assert (await refusal(pair.client.ask("reply", which))).code == "handler_failed"
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 3
    assert "the reply has 15361 bytes of JSON" in told[0]
    assert "deep[0] is of type object" in told[1]
    assert await pair.client.ask("reply", "fits") == replies["fits"]


# By an agent made without this library


@pytest.mark.parametrize("code", CODES)
async def test_every_code_keeps_its_issues_and_path(foreign: ForeignAgent, code: str) -> None:
    issues = [{"path": ["a", 0, "ü"], "message": "𝄞" * 75}, {"path": [], "message": ""}]
    foreign.refuse(7000, code, json.dumps({"issues": issues, "path": "tts.voice", "hint": 3}))
    for request in (foreign.client.ask("any"), foreign.client.update({})):
        error = await refusal(request)
        assert (error.code, error.path) == (code, "tts.voice")
        assert error.issues == tuple(Issue.model_validate(issue) for issue in issues)


@pytest.mark.parametrize(
    "data",
    [
        None,
        "",
        "no JSON",
        '{"issues":[{"path":[],"mess',
        "[1]",
        "null",
        '{"issues":3}',
        '{"issues":[{"path":"a","message":"b"}]}',
        '{"issues":[{"path":[1.5],"message":"b"}]}',
        "[" * 15_000,
    ],
)
async def test_data_that_cannot_be_read_counts_as_absent(foreign: ForeignAgent, data: str | None) -> None:
    foreign.refuse(4220, "invalid_payload", data)
    error = await refusal(foreign.client.ask("any"))
    assert (error.code, error.issues, error.path) == ("invalid_payload", (), None)


async def test_a_known_code_counts_whatever_its_number(foreign: ForeignAgent) -> None:
    for number in (0, 1, 1500, 1502, 2**32 - 1):
        foreign.refuse(number, "no_handler")
        assert (await refusal(foreign.client.ask("any"))).code == "no_handler"


async def test_what_is_no_refusal_stays_livekits_error(foreign: ForeignAgent) -> None:
    def broken() -> str:
        raise ValueError("inner")

    foreign.answer = broken
    assert (await livekit_error(foreign.client.ask("any"))).code == 1500

    for number, message, data in (
        (1504, "Response payload too large", ""),
        (1999, "on_holiday", '{"issues":[]}'),
        (7000, "On holiday", "until Monday"),
        (7000, "", ""),
    ):
        foreign.refuse(number, message, data)
        error = await livekit_error(foreign.client.send("any"))
        assert (error.code, error.message, error.data or "") == (number, message, data)


async def test_an_answer_that_is_no_reply(foreign: ForeignAgent) -> None:
    for text in ("thanks", "", "[1]", "3", '{"reply":NaN}', '{"reply":1'):
        foreign.reply(text)
        with pytest.raises(InvalidReplyError, match="the agent's answer is not") as invalid:
            await foreign.client.ask("any")
        assert invalid.value.reply in (text, [1], 3)

    for text in ("{}", '{"tts":3}', "thanks"):
        foreign.reply(text)
        with pytest.raises(InvalidReplyError, match="the answer to the update is no"):
            await foreign.client.update({})


async def test_replies_are_read_leniently(foreign: ForeignAgent) -> None:
    long = "ü" * 30_000
    for text, reply in (
        ("{}", None),
        ('{"reply":null}', None),
        (' {"reply" : [1.0, "\\ud834\\udd1e"], "took": 3}', [1, "𝄞"]),
        (f'{{"reply":"{long}"}}', long),
    ):
        foreign.reply(text)
        assert await foreign.client.ask("any") == reply
