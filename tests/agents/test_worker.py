"""AgentCall inside a real livekit-agents worker, dispatched by the real server.

Runs in an environment of its own (``make test-agents``), since livekit-agents pins its version of livekit.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from livekit import api

from curb_client import AgentRefusedError, join
from curb_client.testing import LiveKitServerHandle, livekit_server

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
async def server() -> AsyncIterator[LiveKitServerHandle]:
    async with livekit_server() as started:
        yield started


@pytest.fixture
async def worker(server: LiveKitServerHandle, tmp_path: Path) -> AsyncIterator[Path]:
    """A running worker; the fixture is the file with what it said."""
    log = tmp_path / "worker.log"
    credentials = {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), env={**os.environ, **credentials}, stdout=output, stderr=output
        )
    try:
        yield log
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_dispatched_worker_answers_the_caller(server: LiveKitServerHandle, worker: Path) -> None:
    room = f"agents-{uuid.uuid4().hex[:8]}"
    async with api.LiveKitAPI(server.url.replace("ws", "http", 1), server.api_key, server.api_secret) as livekit:
        await _registered(worker)
        await livekit.agent_dispatch.create_dispatch(api.CreateAgentDispatchRequest(agent_name="quotes", room=room))
        async with join(server.url, server.token("caller", room)) as call:
            form = call.agent.wait_for("show-form", timeout=30)
            assert await call.agent.ask("quote", {"plan": "basic"}, timeout=30) == {"plan": "basic", "price": 12}, (
                worker.read_text()
            )
            assert await form == {"for": "caller"}
            assert (call.agent.presence.identity or "").startswith("agent-")
            assert (await call.agent.update({"tts": {"voice": "calm"}})).tts.voice == "calm"
            with pytest.raises(AgentRefusedError, match="no_handler"):
                await call.agent.send("nobody-listens")


async def _registered(log: Path) -> None:
    for _ in range(300):
        if "registered" in log.read_text():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the worker did not register within 30 s; it said:\n{log.read_text()}")
