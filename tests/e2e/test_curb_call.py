"""A call under test, used directly: what the plugin's fixture gives."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import rtc

from curb_client import (
    AgentRefusedError,
    AgentState,
    AgentUnavailableError,
    ConnectFailedError,
    ExpectationError,
    UnexpectedRequestError,
    UsageError,
    join,
)
from curb_client.testing import CurbCall, LiveKitAddress, LiveKitServerHandle, Recorder, ScriptedAgent
from tests.e2e.conftest import SETTINGS, until


async def test_messages_come_before_the_expectation_or_after(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as call:
        agent = call.agent

        @agent.on_message("open")
        async def opened(payload: Any, meta: Any) -> None:
            for number in (1, 2):
                await agent.send.to_client("show-form", {"n": number})

        await call.client.send("open")
        await until(lambda: call.client.counts.unhandled["show-form"] == 2)
        assert await call.expect("show-form", {"n": 2}) == {"n": 2}
        assert await call.expect("show-form") == {"n": 1}
        asyncio.get_running_loop().call_later(0.1, agent.send.to_client, "status", {"n": 3})
        assert await call.expect("status", lambda payload: payload["n"] == 3) == {"n": 3}
        await call.expect_nothing(within=0.1)


async def test_what_does_not_come_is_told_with_what_came(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit, strict=False) as call:
        agent = call.agent
        running = asyncio.Event()

        @agent.on_message("job")
        async def job(payload: Any, meta: Any) -> None:
            agent.send.to_client("show-form", {"fields": ["name"]})
            agent.send.to_client("status", {"n": 1})
            running.set()
            await asyncio.sleep(30)

        asking = asyncio.ensure_future(call.client.ask("job", {"n": 1}, timeout=30))
        await asyncio.wait_for(running.wait(), 10)
        await until(lambda: call.client.counts.unhandled["status"] == 1)
        with pytest.raises(ExpectationError) as failed:
            await call.expect("show-form", {"fields": ["name", "policy"]}, within=0.1)
        asking.cancel()
    lines = str(failed.value).splitlines()
    assert lines[:3] == [
        'the agent sent no message \'show-form\' with the payload {"fields":["name","policy"]} within 0.1 s',
        '  show-form {"fields":["name"]} came: expected 2 items at fields, came 1',
        '  not expected so far: status {"n":1}',
    ]
    assert lines[3] == "pending requests:"
    assert lines[4].startswith('  caller asks job {"n":1} - for ')
    assert lines[5].startswith("all steps")


async def test_only_the_last_twenty_steps_are_in_an_error(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit, strict=False) as call:
        call.agent.on_message("note", lambda payload, meta: None)
        for _ in range(10):
            await call.client.send("note")
        with pytest.raises(ExpectationError) as failed:
            await call.expect("show-form", within=0)
    assert len([line for line in str(failed.value).splitlines() if line.startswith("  ")]) == 20
    assert "the last 20 of" in str(failed.value)


async def test_nothing_was_expected(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit, strict=False) as call:
        await call.joined()
        await call.expect_nothing(within=0.05)
        asyncio.get_running_loop().call_later(0.1, call.agent.send.to_client, "status", {"n": 3})
        call.client.on("status", lambda payload, meta: None)
        await call.expect_nothing(within=0.3)
        await until(lambda: "caller" in call.agent.room.remote_participants)
        asyncio.get_running_loop().call_later(0.1, call.agent.send.to_client, "show-form", {"n": 3})
        await call.expect_nothing("other", within=0.3)
        with pytest.raises(
            ExpectationError, match=r"nothing was expected, and the agent sent:\n  show-form \{\"n\":3\}"
        ):
            await call.expect_nothing(within=5)


@asynccontextmanager
async def call_with_a_message_left(livekit: LiveKitServerHandle, **options: Any) -> AsyncIterator[CurbCall]:
    async with CurbCall(livekit, **options) as call:

        @call.agent.on_message("open")
        def opened(payload: Any, meta: Any) -> None:
            call.agent.send.to_client("show-form")

        await call.client.send("open")
        await until(lambda: "gets the message show-form" in call.recorder.report(0))  # on a busy machine, not at once
        yield call


async def test_at_the_end_a_message_that_nothing_took_is_an_error(livekit: LiveKitServerHandle) -> None:
    with pytest.raises(ExpectationError, match="what no handler and no expectation took:\n  show-form"):
        async with call_with_a_message_left(livekit):
            pass
    async with call_with_a_message_left(livekit, strict=False):
        pass
    with pytest.raises(LookupError, match="mine"):
        async with call_with_a_message_left(livekit):
            raise LookupError("mine")


async def test_typed_text_reaches_the_agent(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as call:
        said: list[tuple[str, str]] = []

        def opened(reader: rtc.TextStreamReader, identity: str) -> None:
            async def read() -> None:
                said.append((identity, await reader.read_all()))

            tasks.append(asyncio.ensure_future(read()))

        tasks: list[asyncio.Future[None]] = []
        call.agent.room.register_text_stream_handler("lk.chat", opened)
        await call.say("hello there")
        await until(lambda: said == [("caller", "hello there")])


async def test_what_an_agent_says_is_expected(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as call:
        assert call.client is not None
        await call.joined()

        async def says(text: str, **attributes: str) -> None:
            room = call.agent.room
            await room.local_participant.send_text(text, topic="lk.transcription", attributes=attributes)

        @call.agent.on_message("greet")
        async def greet(payload: Any, meta: Any) -> None:
            await says("Good", **{"lk.transcription_final": "false"})
            await says("Good morning.", **{"lk.transcription_final": "true"})
            await says("How are you?")

        await call.client.send("greet")
        assert await call.expect_said("How are you?") == "How are you?"
        with pytest.raises(
            ExpectationError, match=r'(?s)nobody said "Bye." within 0.3 s; what was said:\n  "Good morning."'
        ):
            await call.expect_said("Bye.", within=0.3)
        assert await call.expect_said(lambda text: text.startswith("Good")) == "Good morning."
        with pytest.raises(ExpectationError, match=r"nobody said anything within 0\.3 s"):
            await call.expect_said(within=0.3)


async def test_saying_something_to_nobody_fails_in_time(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as call:
        assert call.client.presence.state is AgentState.UNCONNECTED
        await call.joined()
        missing = r"could not say 'hello': the agent was not in the room within 0\.3 s: it is 'absent'"
        with pytest.raises(ExpectationError, match=missing):
            await call.say("hello", within=0.3)


async def test_others_may_join(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit, agent_identity="second") as call:
        async with call.join("supervisor", attributes={"role": "boss"}) as room:
            assert room.local_participant.attributes == {"role": "boss"}
            async with call.join("second", kind="agent"):
                await until(lambda: call.client.presence.identity == "second")
        assert "supervisor leaves" in call.report()


async def test_the_agent_has_the_settings_it_was_given(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit, settings=SETTINGS, adjustable={"client": ["tts.voice"]}) as call:
        call.agent.on_message("note", lambda payload, meta: None)
        assert (await call.client.update({"tts": {"voice": 17}})).tts.voice == 17


async def test_who_cannot_join_fails_whoever_waits_and_the_end() -> None:
    call = CurbCall(LiveKitAddress("ws://127.0.0.1:1", "key", "s" * 32))
    with pytest.raises(AgentUnavailableError, match="could not be joined at all"):
        await call.client.ask("quote")
    with pytest.raises(ConnectFailedError, match="the client of the test is not in the room"):
        await call.expect("show-form", within=30)
    with pytest.raises(ConnectFailedError):
        await call.joined()
    await call.aclose()
    with pytest.raises(ConnectFailedError, match="caller could not join"):
        call.check()
    assert "caller could not join" in call.report()


async def test_a_scripted_agent_for_an_app_under_test(livekit: LiveKitServerHandle) -> None:
    call = CurbCall(livekit)
    agent = await call.start_scripted_agent({"on": {"quote": {"reply": {"price": 12}}}})
    async with join(call.url, call.token("kiosk")) as app:
        assert await app.agent.ask("quote", {"plan": "basic"}) == {"price": 12}
        assert await agent.wait_for("quote") == {"plan": "basic"}
        with pytest.raises(AgentRefusedError):
            await app.agent.ask("claim")
    await call.aclose()
    with pytest.raises(UnexpectedRequestError, match=r"'claim' \{\} from 'kiosk'"):
        call.check()
    assert 'agent  takes quote {"plan":"basic"} from kiosk' in call.report()


async def test_a_scripted_agent_made_before_keeps_its_own_trace(livekit: LiveKitServerHandle) -> None:
    agent, own = ScriptedAgent(), Recorder()
    agent.reply("quote", 1)
    agent.trace = own
    async with CurbCall(livekit) as call:
        assert await call.start_scripted_agent(agent) is agent
        assert await call.client.ask("quote") == 1
        assert "takes quote" not in call.report()
    assert "takes quote" in own.report(0)


AGENT = """
import asyncio, os
from curb_client import AgentCall, connect_room

async def main():
    async with connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room, AgentCall(room) as call:
        call.on_message("room", lambda payload, meta: [os.environ["LIVEKIT_ROOM"], os.environ["PRICE"]])
        call.on_message("end", lambda payload, meta: os._exit(3))
        await call.ready()
        await asyncio.Event().wait()

print("an agent of mine", flush=True)
asyncio.run(main())
"""


async def test_an_agent_in_a_process(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as call:
        process = await call.start_agent_process([sys.executable, "-c", AGENT], env={"PRICE": "12"})
        assert await call.client.ask("room") == [call.room_name, "12"]
        assert "an agent of mine" in call.report()
        assert "curb.probe" not in call.report()
        assert process.exit_status is None
    assert process.exit_status is not None


async def test_an_agent_that_ends_fails_an_expectation_at_once(livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as call:
        await call.start_agent_process([sys.executable, "-c", AGENT], env={"PRICE": "12"})
        ending = asyncio.ensure_future(call.client.send("end", timeout=30))
        with pytest.raises(ExpectationError, match=r"'show-form', and its process ended \(status 3\)"):
            await asyncio.wait_for(call.expect("show-form", within=60), 20)
        ending.cancel()


async def test_leaving_at_once_leaves_nothing(livekit: LiveKitServerHandle) -> None:
    call = CurbCall(livekit)
    client, agent = call.client, call.agent
    await call.aclose()
    await call.aclose()
    assert client.presence.state is AgentState.CLOSED
    assert not agent.room.isconnected()
    call.check()


def test_a_loop_that_is_needed_and_not_there() -> None:
    call = CurbCall(LiveKitAddress("ws://127.0.0.1:1", "key", "s" * 32))
    with pytest.raises(UsageError, match="needs a running asyncio loop"):
        _ = call.agent
    assert call.token("kiosk").count(".") == 2

    async def use() -> None:
        _ = call.client

    asyncio.run(use())
    with pytest.raises(UsageError, match="begun in another event loop"):
        asyncio.run(use_agent(call))


async def use_agent(call: CurbCall) -> None:
    _ = call.agent
