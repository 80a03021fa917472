"""The JavaScript client in Node.js, on @livekit/rtc-node, against an agent in Python."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from curb_client import AgentCall, RequestMeta, connect_room
from curb_client.testing import LiveKitServerHandle
from tests.js.test_js_package import run

SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure", "language": "de"},
    "llm": {"provider": "openai-compatible", "model": "large"},
}


async def caller(js: Path, built: Path, url: str, token: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "node",
        str(js / "test" / "node" / "caller.mjs"),
        env={**os.environ, "CURB_NODE_CLIENT": str(built / "node.js"), "LIVEKIT_URL": url, "LIVEKIT_TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 90)
    finally:
        if process.returncode is None:
            process.kill()
    text = output.decode("utf-8", "replace")
    found = [line for line in text.splitlines() if line.startswith("found ")]
    assert found, text
    return json.loads(found[0].removeprefix("found "))


@pytest.mark.livekit
async def test_a_caller_in_node(js: Path, curb_livekit: LiveKitServerHandle) -> None:
    built = js / "node_modules" / ".cache" / "node-client"  # inside, where the SDK is found
    run(js, "node", "build.mjs", "--no-types", CURB_DIST=str(built))
    room_name = f"node-client-{os.getpid()}"
    async with (
        connect_room(curb_livekit.url, curb_livekit.token("agent", room_name, kind="agent")) as room,
        AgentCall(room, settings=SETTINGS, adjustable={"client": ["tts.voice"]}) as agent,
    ):

        @agent.on_message("wait")
        async def wait(payload: Any, meta: RequestMeta) -> str:
            await asyncio.sleep(2)
            return "waited"

        @agent.on_message("open-form")
        def open_form(payload: Any, meta: RequestMeta) -> None:
            agent.send.to_client("show-form", {"n": payload["n"], "text": "é😀" * 20_000})

        agent.on_message("quote", lambda payload, meta: {"plan": payload["plan"], "price": 12})
        await agent.ready()
        found = await caller(js, built, curb_livekit.url, curb_livekit.token("caller", room_name))

    form = {"n": 7, "text": "é😀" * 20_000}
    assert found == {
        "before": "unconnected",
        "reply": {"plan": "basic", "price": 12},
        "form": form,
        "forms": [form],
        "during": {"state": "ready", "identity": "agent", "isThere": True},
        "refused": {"name": "AgentRefusedError", "code": "no_handler"},
        "settings": {**SETTINGS, "tts": {"provider": "kugelaudio", "voice": 17}},
        "notAdjustable": {"code": "not_adjustable", "path": "stt.language"},
        "late": [True, 1502],
        "patient": "waited",
        "broken": [True, 1503],
        "after": "lost",
    }
