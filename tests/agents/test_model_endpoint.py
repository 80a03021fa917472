"""A livekit-agents session, unchanged, with the scripted model behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from livekit.agents import Agent, AgentSession, function_tool, inference

from curb_client.model import Answer, Call, ModelEndpoint, Rule


class Desk(Agent):
    def __init__(self) -> None:
        super().__init__(instructions="You run a parcel desk.")
        self.looked_for: list[str] = []

    @function_tool
    async def find_order(self, number: str) -> str:
        """Finds an order."""
        self.looked_for.append(number)
        return "found"


@pytest.fixture
async def session(curb_model: ModelEndpoint) -> AsyncIterator[tuple[Any, Desk]]:
    desk = Desk()
    model: Any = inference.LLM("small-1", base_url=curb_model.url, api_key="key", api_secret="secret" * 8)
    session: Any = AgentSession(llm=model, vad=None)
    await session.start(desk)
    yield session, desk
    await session.aclose()
    await model.aclose()  # the session leaves its connections to the garbage collector


async def test_text_and_tools(session: tuple[Any, Desk], curb_model: ModelEndpoint) -> None:
    curb_model.script.on("order", calls=[Call("find_order", {"number": "17"})])
    curb_model.script.on(after="find_order", text="It is on its way.")
    running, desk = session
    result = await running.run(user_input="Where is my order?")
    assert desk.looked_for == ["17"]
    result.expect.contains_message(role="assistant")
    first, second = curb_model.requests
    assert first.tool("find_order") is not None
    assert first.system.prompt == "You run a parcel desk."
    assert second.results[0].name == "find_order"
    curb_model.check()


async def test_a_rate_limit_is_tried_again(session: tuple[Any, Desk], curb_model: ModelEndpoint) -> None:
    curb_model.script.rules.append(Rule(Answer(status=429), said="hello", times=1))
    curb_model.script.on("hello", text="Good morning.", delay=0.1)
    running, _ = session
    await running.run(user_input="hello")
    assert [recorded.status for recorded in curb_model.recorded] == [429, 200]
