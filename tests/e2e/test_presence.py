"""Agents and callers come, are replaced, die and are thrown out."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from livekit import api, rtc

from curb_client import AgentCall, AgentPresence, AgentState, AgentUnavailableError
from tests.e2e.conftest import LongJob, Stage, until

DYING_AGENT = """
import asyncio, sys
from livekit import rtc

async def main(url: str, token: str) -> None:
    room = rtc.Room()
    await room.connect(url, token)
    async def answer(request):
        return '{"reply":"alive"}'
    room.local_participant.register_rpc_method("curb.message", answer)
    await room.local_participant.set_attributes({"curb.ready": "1"})
    writer = await room.local_participant.stream_text(topic="curb.message")
    await writer.write('{"key":"last-words",')
    print("speaking", flush=True)
    await asyncio.sleep(120)

asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def nothing_goes_wrong(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No exception that nobody handled, in the loop or out of it, and no error in the log."""
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(sys, "unraisablehook", failures.append)
    loop.set_exception_handler(lambda _, context: failures.append(context))
    try:
        yield
        gc.collect()
    finally:
        loop.set_exception_handler(None)
        monkeypatch.undo()
    assert failures == []
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors if record.name in ("curb_client", "asyncio")] == []


async def test_presence_follows_the_agent(stage: Stage) -> None:
    seen: list[AgentPresence] = []
    seen_until_removed: list[AgentPresence] = []
    async with stage.client() as call:
        client = call.agent
        assert client.presence == AgentPresence(AgentState.ABSENT, None)
        assert not client.presence.is_there
        client.on_presence(seen.append)
        remove = client.on_presence(seen_until_removed.append)
        async with stage.room("agent", kind="agent") as room:
            await until(lambda: client.presence == AgentPresence(AgentState.ACTIVE, "agent"))
            assert client.presence.is_there
            remove()
            remove()
            async with AgentCall(room) as agent:
                await agent.ready()
                await until(lambda: client.presence == AgentPresence(AgentState.READY, "agent"))
        await until(lambda: client.presence == AgentPresence(AgentState.ABSENT, None))
    assert client.presence == AgentPresence(AgentState.CLOSED, None)
    states = [presence.state.value for presence in seen if presence.state is not AgentState.JOINED]
    assert states == ["active", "ready", "absent", "closed"]
    assert {presence.identity for presence in seen if presence.is_there} == {"agent"}
    assert "ready" not in [presence.state for presence in seen_until_removed]
    assert seen_until_removed[-1].state == "active"


async def test_an_agent_replaced_by_another(stage: Stage) -> None:
    job = LongJob()
    async with stage.client() as call:
        async with stage.agent("first") as first:
            first.on_message("work", job.run)
            unfinished = asyncio.ensure_future(call.agent.ask("work", timeout=20))
            await job.begun()
        with pytest.raises(rtc.RpcError) as left:
            await unfinished
        assert left.value.code == 1503

        forms = call.agent.messages("form")
        async with stage.agent("second") as second:
            second.on_message("work", lambda payload, meta: "second")
            second.send.to_client("form", {"n": 1})
            assert await call.agent.ask("work") == "second", "at once: the first one has said that it is done"
            second.send.to_client("form", {"n": 2})
            assert [(await anext(forms))[0]["n"] for _ in range(2)] == [1, 2]


async def test_an_agent_that_cannot_say_that_it_is_done_is_replaced(stage: Stage) -> None:
    """The client hears of its leaving up to three seconds later; what the next one says meanwhile is not lost."""
    mute = {"can_update_own_metadata": False}
    async with stage.client() as call:
        forms = call.agent.messages("form")
        async with stage.agent("first", token=mute) as first:
            await first.send.to_client("form", {"n": 0})
            await anext(forms)
        async with stage.agent("second", token=mute) as second:
            second.on_message("work", lambda payload, meta: "second")
            second.send.to_client("form", {"n": 1})
            second.send.to_client("form", {"n": 2})
            assert [(await anext(forms))[0]["n"] for _ in range(2)] == [1, 2]
            assert await call.agent.ask("work") == "second"


async def test_an_agent_replaced_under_its_own_identity(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nothing_goes_wrong(caplog, monkeypatch):
        async with stage.client() as call, stage.agent() as first:
            first.on_message("work", lambda payload, meta: "first")
            assert await call.agent.ask("work") == "first"
            async with stage.agent() as second:
                second.on_message("work", lambda payload, meta: "second")
                assert await call.agent.ask("work") == "second"
                form = call.agent.wait_for("form")
                await second.send.to_client("form", {"of": "second"})
                assert await form == {"of": "second"}
            assert not first.room.isconnected()


async def test_an_agent_killed_while_it_speaks(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[Any] = []
    with nothing_goes_wrong(caplog, monkeypatch):
        async with stage.client() as call:
            client = call.agent
            client.on("last-words", lambda payload, meta: got.append(payload))
            agent = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                DYING_AGENT,
                stage.url,
                stage.token("agent", kind="agent"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                assert agent.stdout is not None
                assert await agent.stdout.readline() == b"speaking\n"
                assert await client.ask("any") == "alive"
            finally:
                agent.kill()
            assert await agent.wait() == -signal.SIGKILL

            started = time.monotonic()
            with pytest.raises(rtc.RpcError) as unanswered:
                await client.ask("any", timeout=1)
            assert unanswered.value.code == 1502
            assert time.monotonic() - started < 3

            # LiveKit notices after more than 20 seconds.
            await until(lambda: client.presence.state == "absent", within=40)
            await until(lambda: client.counts.incomplete == 1)
            assert got == []
            async with stage.agent("next") as successor:
                successor.on_message("any", lambda payload, meta: "well")
                assert await client.ask("any") == "well"
                await successor.send.to_client("last-words")
                await until(lambda: got)


async def test_a_caller_who_is_thrown_out(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LongJob()
    with nothing_goes_wrong(caplog, monkeypatch):
        async with stage.agent() as agent, stage.client() as call:
            client = call.agent
            agent.on_message("work", job.run)
            asking = asyncio.ensure_future(client.ask("work"))
            waiting = client.wait_for("form", timeout=30)
            listening = asyncio.ensure_future(anext(client.messages("form")))
            await job.begun()

            address = stage.server.address
            async with api.LiveKitAPI(
                address.url.replace("ws", "http", 1), address.api_key, address.api_secret
            ) as server:
                await server.room.remove_participant(
                    api.RoomParticipantIdentity(room=stage.room_name, identity="caller")
                )
            await until(lambda: client.presence == AgentPresence(AgentState.LOST, None))
            for waiter in (waiting, listening):
                with pytest.raises(AgentUnavailableError, match="PARTICIPANT_REMOVED"):
                    await asyncio.wait_for(waiter, 2)
            with pytest.raises(rtc.RpcError) as broken:
                await asyncio.wait_for(asking, 4)
            assert broken.value.code == 1503

            before = time.monotonic()
            for request in (client.ask("work"), client.send("work"), client.update({}, timeout=20)):
                with pytest.raises(
                    AgentUnavailableError, match=r"disconnected for good \(PARTICIPANT_REMOVED\)"
                ) as lost:
                    await request
                assert lost.value.state == "lost"
            assert time.monotonic() - before < 1
