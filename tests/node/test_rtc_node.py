"""@livekit/rtc-node: an agent in Node.js, and a caller in Python."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from livekit import rtc

from curb_client.testing import LiveKitServerHandle
from curb_client.testing.agent_process import AgentProcess, agent_environment
from curb_client.testing.embedded import EmbeddedServer
from tests.browser.peer import Peer, peer_in
from tests.e2e.conftest import Stage, filling_bytes, until

pytestmark = pytest.mark.livekit

PACKAGES = Path(__file__).parents[2] / "examples" / "node-agent" / "node_modules"
AGENT = Path(__file__).with_name("agent.mjs")
AWAY = {rtc.RpcError.ErrorCode.RECIPIENT_DISCONNECTED, rtc.RpcError.ErrorCode.RECIPIENT_NOT_FOUND}


@pytest.fixture
def stage(curb_livekit: LiveKitServerHandle) -> Stage:
    return Stage(curb_livekit, f"node-{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def caller(stage: Stage, tmp_path: Path) -> AsyncIterator[Peer]:
    """Sees an agent in Node.js, which answers."""
    if not PACKAGES.is_dir():
        reason = "the agent in Node.js lacks its packages: make examples/node-agent/node_modules/ready"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    shutil.copy(AGENT, tmp_path)  # Node looks for packages beside the script
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    environment = agent_environment(stage.server, stage.room_name)
    async with (
        peer_in(stage, "caller") as peer,
        AgentProcess(["node", "agent.mjs"], environment=environment, cwd=tmp_path) as agent,
    ):
        await until(lambda: peer.attributes_of("agent").get("ready"), within=30, what="the agent is ready")
        yield peer
        print("the caller was told:", *peer.events, sep="\n  ")  # shown where the test failed
        print("the agent printed:", agent.output(), sep="\n")


async def do(caller: Peer, action: str, argument: Any = None) -> Any:
    """Has the agent do something; what comes of it."""
    return json.loads(await caller.ask("agent", "do", json.dumps([action, argument])))


async def until_done(caller: Peer, action: str, argument: Any = None, *, wanted: Callable[[Any], object]) -> Any:
    """Has the agent do something again and again, until what comes of it is as wanted; its leaving may end a call."""
    given_up = time.monotonic() + 30
    result: Any = None
    while True:
        try:
            if wanted(result := await do(caller, action, argument)):
                return result
        except rtc.RpcError as error:
            if error.code not in AWAY:
                raise
        assert time.monotonic() < given_up, f"{action} still gives {result}"
        await asyncio.sleep(0.02)


async def asked_by_node(caller: Peer, method: str, payload: str = "hello", identity: str = "caller") -> Any:
    options = {"destinationIdentity": identity, "method": method, "payload": payload, "responseTimeout": 20_000}
    return await do(caller, "ask", options)


async def test_an_agent_in_node(caller: Peer) -> None:
    agent = caller.room.remote_participants["agent"]
    assert agent.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
    await caller.local.set_attributes({"page": "claims"})
    # Told on another way than calls, so perhaps after them.
    seen = await until_done(caller, "seen", "caller", wanted=lambda seen: "page" in seen["attributes"])
    assert seen == {"kind": 0, "attributes": {"ready": "1", "page": "claims"}}
    await do(caller, "attributes", {"mood": "calm", "ready": ""})
    await until(lambda: caller.attributes_of("agent") == {"mood": "calm"}, what="the agent's attributes")


async def test_calls_both_ways(caller: Peer) -> None:
    assert await caller.ask("agent") == "caller:hello"
    assert await asked_by_node(caller, "echo") == ["ok", "agent:hello"]
    assert await caller.code_of("agent", "nothing") == 1400
    assert await caller.code_of("agent", "fail") == 1500
    with pytest.raises(rtc.RpcError) as refused:
        await caller.ask("agent", "refuse")
    assert (refused.value.code, refused.value.message) == (4220, "invalid_payload")
    assert refused.value.data == '{"issues":[]}'
    refusal = {"code": 4220, "message": "invalid_payload", "data": '{"issues":[]}'}
    assert await asked_by_node(caller, "refuse") == ["failed", refusal]
    for method, code in (("nothing", 1400), ("fail", 1500)):
        assert (await asked_by_node(caller, method))[1]["code"] == code
    assert (await asked_by_node(caller, "echo", identity="nobody"))[1]["code"] == 1501
    assert await caller.ask("agent", "count", filling_bytes(60_000)) == "60000"


async def test_texts_both_ways(caller: Peer) -> None:
    long = filling_bytes(60_000)
    options = {"topic": "t", "destinationIdentities": ["caller"], "attributes": {"n": "1"}}
    await do(caller, "text", {"text": filling_bytes(8_000), "options": options})
    await until(lambda: caller.texts, what="the agent's text")
    assert (caller.texts[0][0], len(caller.texts[0][1]), caller.texts[0][2]) == ("agent", 8_000, {"n": "1"})
    await caller.local.send_text(long, topic="t", destination_identities=["agent"], attributes={"n": "2"})
    told = await until_done(caller, "told", wanted=lambda told: told["texts"])
    assert told["texts"] == [["caller", long, {"n": "2"}]]


async def test_an_agent_in_node_that_publishes_audio(caller: Peer) -> None:
    sid = await do(caller, "speak")
    await until(lambda: caller.told("track_published"), what="the agent's track")
    publication = caller.room.remote_participants["agent"].track_publications[sid]
    assert (publication.name, publication.kind) == ("voice", rtc.TrackKind.KIND_AUDIO)
    assert publication.source == rtc.TrackSource.SOURCE_MICROPHONE
    for number in range(20):
        assert await caller.ask("agent", payload=str(number)) == f"caller:{number}"
        assert await asked_by_node(caller, "echo", str(number)) == ["ok", f"agent:{number}"]
    await do(caller, "hush")
    await until(lambda: caller.told("track_unpublished"), what="the end of the agent's track")
    assert await caller.ask("agent") == "caller:hello"


@pytest.mark.livekit_only("embedded", reason="@livekit/rtc-node has no way to stage a reconnect, and its server does")
@pytest.mark.parametrize("fault", ["cut_signalling", "force_full_reconnect"], ids=["resumed", "made anew"])
async def test_an_agent_in_node_that_reconnects(caller: Peer, stage: Stage, fault: str) -> None:
    assert isinstance(stage.server, EmbeddedServer)
    await do(caller, "speak")
    # The SDK's reconnect forgets a track that it has not offered yet.
    await until(lambda: _has_track(caller), within=30, what="the agent's first track")
    getattr(stage.server.faults, fault)("agent")
    if fault == "force_full_reconnect":
        await until(lambda: caller.told("participant_disconnected"), within=30, what="the agent is gone")
    await caller.sees("agent")
    await until(lambda: _has_track(caller), within=30, what="the agent's track")
    await until_done(caller, "told", wanted=lambda told: "reconnected" in told["events"])
    assert await asked_by_node(caller, "echo") == ["ok", "agent:hello"]


def _has_track(caller: Peer) -> bool:
    agent = caller.room.remote_participants.get("agent")
    return agent is not None and len(agent.track_publications) == 1
