"""The official client in JavaScript against the endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from curb_client._node import node_from_wheel
from curb_client.model.endpoint.script import Call, ModelScript
from curb_client.model.endpoint.server import ModelEndpoint

PROGRAM = Path(__file__).with_name("openai_client.mjs")
PACKAGES = Path(__file__).parents[2] / "browser" / "node_modules"


@pytest.fixture
def node() -> list[str]:
    found = shutil.which("node")
    command = [found] if found else node_from_wheel("node")
    if command and (PACKAGES / "openai").is_dir():
        return command
    if os.environ.get("CI"):
        pytest.fail("node, or what `make tests/browser/node_modules/ready` installs, is missing")
    pytest.skip("needs Node.js and `make tests/browser/node_modules/ready`")


async def test_every_form_of_answer(node: list[str]) -> None:
    script = ModelScript()
    script.on("hello", text="Good morning, and welcome to the parcel desk.")
    script.on("order", text="Looking.", calls=[Call("find_order", {"number": "ä17"})])
    script.on(after="find_order", text="Found.")
    script.on("slower", status=429)
    with ModelEndpoint(script, models=("small", "large")) as endpoint:
        process = await asyncio.create_subprocess_exec(
            *node, PROGRAM, endpoint.url, PACKAGES, stdout=asyncio.subprocess.PIPE
        )
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), 120)
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0
    got = json.loads(printed)
    unmatched = got.pop("unmatched")
    assert unmatched[:2] == ["BadRequestError", 400]
    assert "user: whatever" in unmatched[2]
    limited = got.pop("limited")
    assert limited[:2] == ["RateLimitError", 429]
    assert got.pop("models") == ["small", "large"]
    greeting = "Good morning, and welcome to the parcel desk."
    assert got == {
        "whole": [greeting, "stop", True],
        "streamed": [greeting, True, True],
        "tool": ["Looking.", [["find_order", {"number": "ä17"}]], "Found."],
        "responses": ["Looking.", "Looking.", [["find_order", {"number": "ä17"}]]],
    }
    assert [request.last_user_text for request in endpoint.requests].count("my order") == 3
