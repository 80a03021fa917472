"""The heart: send, ask, on, update between a client and an agent in a room."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pydantic
import pytest

from curb_client import (
    AgentRefusedError,
    EffectiveSettings,
    InvalidReplyError,
    MessageMeta,
    MessageTimeoutError,
    RequestMeta,
    SessionUpdate,
)
from tests.e2e.conftest import SETTINGS, Pair, Stage, until


class QuoteRequest(pydantic.BaseModel):
    plan: str


class Quote(pydantic.BaseModel):
    price: int
    plan: str


async def test_ask_returns_what_the_handler_returned(pair: Pair) -> None:
    seen: list[tuple[Any, RequestMeta]] = []

    @pair.agent.on_message("quote")
    async def quote(payload: Any, meta: RequestMeta) -> dict[str, Any]:
        seen.append((payload, meta))
        return {"price": 12, "plan": payload["plan"]}

    assert await pair.client.ask("quote", {"plan": "basic"}) == {"price": 12, "plan": "basic"}
    payload, meta = seen[0]
    assert payload == {"plan": "basic"}
    assert (meta.sender, meta.sender_identity) == ("client", "caller")
    assert len(meta.id) == 36


async def test_send_resolves_to_none_and_a_reply_of_none_is_none(pair: Pair) -> None:
    pair.agent.on_message("note", lambda payload, meta: None)
    pair.agent.on_message("told", lambda payload, meta: "taken")
    assert await pair.client.ask("note") is None
    await pair.client.send("told")


async def test_payloads_and_replies_have_types(pair: Pair) -> None:
    @dataclasses.dataclass
    class Order:
        plan: str

    @pair.agent.on_message("quote", schema=QuoteRequest)
    def quote(request: QuoteRequest, meta: RequestMeta) -> Quote:
        return Quote(price=7, plan=request.plan)

    assert await pair.client.ask("quote", QuoteRequest(plan="a"), reply_type=Quote) == Quote(price=7, plan="a")
    assert await pair.client.ask("quote", Order(plan="b"), reply_type=dict[str, Any]) == {"price": 7, "plan": "b"}
    with pytest.raises(InvalidReplyError, match=r"the reply to 'quote' does not fit int"):
        await pair.client.ask("quote", {"plan": "c"}, reply_type=int)


async def test_what_is_not_given_is_an_empty_object_and_none_is_null(pair: Pair) -> None:
    pair.agent.on_message("echo", lambda payload, meta: [payload])
    assert await pair.client.ask("echo") == [{}]
    assert await pair.client.ask("echo", None) == [None]
    for value in ("text", 3, 1.5, True, [1, {"a": None}], "ü𝄞\u2028"):
        assert await pair.client.ask("echo", value) == [value]


async def test_several_handlers_run_in_order_and_the_last_added_replies(pair: Pair) -> None:
    ran: list[str] = []

    async def first(payload: Any, meta: RequestMeta) -> str:
        await asyncio.sleep(0.05)
        ran.append("first")
        return "first"

    def second(payload: Any, meta: RequestMeta) -> str:
        ran.append("second")
        return "second"

    pair.agent.on_message("job", first)
    remove_second = pair.agent.on_message("job", second)
    assert await pair.client.ask("job") == "second"
    assert ran == ["first", "second"]
    remove_second()
    remove_second()
    assert await pair.client.ask("job") == "first"


async def test_the_agents_messages_reach_plain_and_async_handlers(pair: Pair) -> None:
    got: list[tuple[str, Any, MessageMeta]] = []

    @pair.client.on("show-form")
    def plain(payload: Any, meta: MessageMeta) -> None:
        got.append(("plain", payload, meta))

    async def slow(payload: Any, meta: MessageMeta) -> None:
        await asyncio.sleep(0.01)
        got.append(("async", payload, meta))

    remove = pair.client.on("show-form", slow)
    assert await pair.agent.send.to_client("show-form", {"fields": ["name"]})
    await until(lambda: len(got) == 2)
    assert [(kind, payload) for kind, payload, _ in got] == [
        ("plain", {"fields": ["name"]}),
        ("async", {"fields": ["name"]}),
    ]
    assert got[0][2].sender_identity == "agent"
    assert got[0][2].id == got[1][2].id != ""

    remove()
    await pair.agent.send.to_client("show-form")
    await until(lambda: len(got) == 3)
    assert got[2][:2] == ("plain", {})


async def test_wait_for_listens_from_the_call_on(pair: Pair) -> None:
    @pair.agent.on_message("open-form")
    async def open_form(payload: Any, meta: RequestMeta) -> None:
        await pair.agent.send.to_client("show-form", {"n": 1})

    form = pair.client.wait_for("show-form", timeout=5)
    await pair.client.send("open-form")
    assert await form == {"n": 1}

    with pytest.raises(MessageTimeoutError, match=r"no message 'quote' within 0.2 s; its state is 'ready'"):
        await pair.client.wait_for("quote", timeout=0.2)

    typed = pair.client.wait_for("quote", payload_type=Quote)
    wrong = pair.client.wait_for("quote", payload_type=int)
    await pair.agent.send.to_client("quote", {"price": 3, "plan": "x"})
    assert await typed == Quote(price=3, plan="x")
    with pytest.raises(InvalidReplyError, match="the message 'quote' does not fit int"):
        await wrong


async def test_messages_is_an_iterator_that_ends_when_the_client_closes(pair: Pair) -> None:
    stream = pair.client.messages("status")
    for number in range(3):
        await pair.agent.send.to_client("status", {"n": number})
    got = [await anext(stream) for _ in range(3)]
    assert [payload["n"] for payload, _ in got] == [0, 1, 2]
    await pair.client.aclose()
    assert [item async for item in stream] == []

    closed_early = pair.agent.send.to_client("status", {"n": 4})
    await closed_early


async def test_an_update_answers_with_the_settings_in_force(stage: Stage) -> None:
    changes: list[tuple[EffectiveSettings, str]] = []
    async with (
        stage.client() as call,
        stage.agent(settings=SETTINGS, adjustable={"client": ["tts.voice", "llm"]}) as agent,
    ):
        agent.on_settings(lambda settings, sender: changes.append((settings, sender)))
        in_force = await call.agent.update({"tts": {"voice": 17}})
        assert (in_force.tts.provider, in_force.tts.voice) == ("kugelaudio", 17)
        assert in_force.llm.base_url is None, "the endpoint is not for the client"
        assert agent.settings.tts.voice == 17
        assert agent.settings.llm.base_url == "http://llm.internal/v1"
        assert changes == [(agent.settings, "client")]

        assert (await call.agent.update({})).tts.voice == 17
        update = SessionUpdate.model_validate({"llm": {"provider": "anthropic", "model": "small"}})
        assert (await call.agent.update(update)).llm.model == "small"
        assert len(changes) == 2

        with pytest.raises(AgentRefusedError, match=r"not_adjustable: stt.language may not be changed") as refused:
            await call.agent.update({"tts": {"voice": 3}, "stt": {"language": "de"}})
        assert (refused.value.code, refused.value.path) == ("not_adjustable", "stt.language")
        with pytest.raises(AgentRefusedError) as invalid:
            await call.agent.update({"tts": {"voice": "calm"}})
        assert invalid.value.code == "invalid_settings"
        assert [issue.path for issue in invalid.value.issues] == [["tts", "voice"]]
        assert agent.settings.tts.voice == 17, "a refused update changes nothing"


async def test_own_settings_change_under_an_override(stage: Stage) -> None:
    async with (
        stage.client() as call,
        stage.agent(settings=SETTINGS, adjustable={"client": ["tts.voice"]}) as agent,
    ):
        await call.agent.update({"tts": {"voice": 17}})
        agent.set_own_settings({**SETTINGS, "tts": {"provider": "kugelaudio", "voice": 5, "model": "v2"}})
        assert (agent.settings.tts.voice, agent.settings.tts.model) == (17, "v2")
