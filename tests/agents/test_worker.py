"""AgentCall inside a real livekit-agents worker, dispatched by the embedded server and by the real one.

Runs in an environment of its own (``make test-agents``), since livekit-agents pins its version of livekit.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from livekit import api, rtc

from curb_client import AgentProcessError, AgentRefusedError, join
from curb_client.testing import LiveKitServerHandle, livekit_server
from curb_client.testing.agent_process import (
    AgentProcess,
    dispatch_worker,
    wait_until_agent_answers,
    worker_environment,
)
from curb_client.testing.hearing import Hearing
from tests.e2e.conftest import until

WORKER = str(Path(__file__).with_name("worker.py"))
SPEAKING_WORKER = str(Path(__file__).with_name("speaking_worker.py"))


@pytest.fixture(scope="module", params=["embedded", "server"])
def server(request: pytest.FixtureRequest) -> Iterator[LiveKitServerHandle]:
    with livekit_server(request.param) as started:
        yield started


@pytest.fixture
def room() -> str:
    return f"agents-{uuid.uuid4().hex[:8]}"


def worker(server: LiveKitServerHandle, *name: str, program: str = WORKER) -> AgentProcess:
    return AgentProcess([sys.executable, program, *name], environment=worker_environment(server))


async def agents_in(server: LiveKitServerHandle, room: str) -> list[str]:
    async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as livekit:
        answer = await livekit.room.list_participants(api.ListParticipantsRequest(room=room))
    return [each.identity for each in answer.participants if each.kind == api.ParticipantInfo.Kind.AGENT]


async def test_a_dispatched_worker_answers_the_caller(server: LiveKitServerHandle, room: str) -> None:
    async with worker(server, "quotes") as process, join(server.url, server.token("caller", room)) as call:
        await dispatch_worker(server, room, "quotes", process, within=60)
        await wait_until_agent_answers(process, call.agent, within=30)
        form = call.agent.wait_for("show-form")
        assert await call.agent.ask("quote", {"plan": "basic"}) == {"plan": "basic", "price": 12}
        assert await form == {"for": "caller"}
        assert (call.agent.presence.identity or "").startswith("agent-")
        assert (await call.agent.update({"tts": {"voice": "calm"}})).tts.voice == "calm"
        with pytest.raises(AgentRefusedError, match="no_handler"):
            await call.agent.send("nobody-listens")


async def test_a_session_that_publishes_audio(server: LiveKitServerHandle, room: str) -> None:
    async with (
        worker(server, "speaks", program=SPEAKING_WORKER) as process,
        join(server.url, server.token("caller", room)) as call,
    ):
        said: asyncio.Queue[str] = asyncio.Queue()
        Hearing(call.room, said.put_nowait)
        await dispatch_worker(server, room, "speaks", process, within=60)
        await wait_until_agent_answers(process, call.agent, within=30)
        spoken = await call.agent.ask("say", {"text": "Good morning.", "seconds": 0.5}, timeout=30)
        assert spoken == {"interrupted": False}
        assert await asyncio.wait_for(said.get(), 10) == "Good morning."
        agent = call.room.remote_participants[call.agent.presence.identity or ""]
        tracks = [(each.kind, each.source, each.name) for each in agent.track_publications.values()]
        assert tracks == [(rtc.TrackKind.KIND_AUDIO, rtc.TrackSource.SOURCE_MICROPHONE, "roomio_audio")]
        await until(lambda: agent.attributes["lk.agent.state"] == "listening", what="the end of its speaking, told")


@pytest.mark.parametrize("name", ["quotes", ""], ids=["named", "unnamed"])
@pytest.mark.parametrize("is_early", [True, False], ids=["made early", "made late"])
async def test_one_agent_comes_to_a_room(server: LiveKitServerHandle, room: str, name: str, is_early: bool) -> None:
    async with worker(server, name) as process:
        if not is_early:
            await _registered(process)
        await dispatch_worker(server, room, name, process, within=60)
        await asyncio.sleep(1)  # for a second one to come
        assert len(await agents_in(server, room)) == 1
        assert process.output().count("job AJ_") == 1, process.output()
        await dispatch_worker(server, room, name, process, within=60)  # there is one, and nothing to do
        assert process.output().count("job AJ_") == 1, process.output()


async def test_an_unnamed_worker_comes_to_a_room_that_is_there(server: LiveKitServerHandle, room: str) -> None:
    async with join(server.url, server.token("caller", room)) as call, worker(server) as process:
        await _registered(process)
        await dispatch_worker(server, room, "", process, within=180)  # a busy server loses some
        await wait_until_agent_answers(process, call.agent, within=60)
        assert len(await agents_in(server, room)) == 1


async def test_a_worker_of_another_name(server: LiveKitServerHandle, room: str) -> None:
    async with worker(server, "quotes") as process:
        await _registered(process)
        with pytest.raises(AgentProcessError, match=r"no worker took the agent 'qoutes' to the room .* within 5 s: it"):
            await dispatch_worker(server, room, "qoutes", process, within=5)


async def test_a_worker_that_ends_at_once(server: LiveKitServerHandle, room: str) -> None:
    process = AgentProcess([sys.executable, "-c", "raise SystemExit('no model')"], environment={})
    with process, pytest.raises(AgentProcessError, match="exit status 1 before it took its agent to") as failed:
        await dispatch_worker(server, room, "quotes", process, within=600)
    assert str(failed.value).endswith("no model")


async def _registered(process: AgentProcess) -> None:
    for _ in range(300):
        if "registered worker" in process.output():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the worker did not register within 30 s; it said:\n{process.output_tail()}")
