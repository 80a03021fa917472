"""Tests that fail, each for a reason that its report must make plain."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

AGENT = [sys.executable, str(Path(__file__).with_name("agent.py"))]


async def test_wrong_reply(curb_call: Any, curb_agent_process: Any) -> None:
    await curb_agent_process(AGENT)
    assert await curb_call.client.ask("quote", {"plan": "basic"}) == {"plan": "basic", "price": 12}


async def test_missing_message(curb_call: Any, curb_agent_process: Any) -> None:
    await curb_agent_process(AGENT)
    await curb_call.client.send("open-form")
    await curb_call.expect("show-form", {"fields": ["name", "policy"]}, within=1)


async def test_silent_agent(curb_call: Any, curb_agent_process: Any) -> None:
    await curb_agent_process(AGENT)
    await curb_call.client.ask("approve", {"claim": "C-17"}, timeout=1)


async def test_lost_request(curb_call: Any, curb_agent_process: Any) -> None:
    await curb_agent_process(AGENT)
    with curb_call.faults.drop(1, direction="to", participant="agent", method="curb.message"):
        await curb_call.client.ask("quote", {"plan": "basic"}, timeout=1)
