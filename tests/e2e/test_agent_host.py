"""The agent and its host: messages both ways, questions and their answers, settings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from livekit import rtc

from curb_client import (
    AgentCall,
    EffectiveSettings,
    HostRecord,
    HostTimeoutError,
    HostUnavailableError,
    InvalidTimeoutError,
    RequestMeta,
)
from curb_client.protocol.envelope import Refusal
from tests.e2e.conftest import SETTINGS, Pair, Stage, code_of, echo, until


class RecordingHost:
    """A host that reads what the agent says and is answered for by the test."""

    def __init__(self) -> None:
        self.is_connected = True
        self.records: list[HostRecord] = []

    def record(self, message: HostRecord) -> None:
        self.records.append(message)


async def test_ask_host_returns_the_payload_of_the_reply(stage: Stage) -> None:
    host = RecordingHost()
    async with stage.agent(host=host) as agent:
        handled: list[Any] = []
        agent.on_message("human.found", lambda payload, meta: handled.append((payload, meta.id)), sender="host")
        agent.send.to_host("note", {"text": "hello"})
        asking = asyncio.ensure_future(agent.send.ask_host("human.requested", {"topic": "refund"}))
        await until(lambda: len(host.records) == 2)
        assert host.records == [
            HostRecord("a-1", "note", {"text": "hello"}, expects_reply=False),
            HostRecord("a-2", "human.requested", {"topic": "refund"}, expects_reply=True),
        ]
        assert await agent.receive_from_host("h-1", "human.found", {"desk": 4}, in_reply_to="a-2") is True
        assert await asking == {"desk": 4}
        assert handled == []

        with pytest.raises(HostTimeoutError, match=r"did not answer 'human.requested' \(id a-3\) within 0.1 s"):
            await agent.send.ask_host("human.requested", timeout=0.1)
        assert await agent.receive_from_host("h-2", "human.found", {"desk": 5}, in_reply_to="a-3") is True
        assert handled == [({"desk": 5}, "h-2")], "a late reply is a message like any other"
        with pytest.raises(InvalidTimeoutError):
            await agent.send.ask_host("human.requested", timeout=-1)


async def test_ask_host_fails_at_once_where_no_host_is_connected_or_the_call_ends(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    host = RecordingHost()
    async with stage.agent(host=host) as agent:
        host.is_connected = False
        with pytest.raises(HostUnavailableError, match="no host is connected to this call"):
            await agent.send.ask_host("human.requested", timeout=30)
        agent.send.to_host("note")
        agent.send.to_host("note")
        assert caplog.text.count("the message 'note' to the host: no host is connected; dropped") == 1
        assert host.records == []

        host.is_connected = True
        asking = asyncio.ensure_future(agent.send.ask_host("human.requested", timeout=30))
        await until(lambda: len(host.records) == 1)
        await agent.aclose()
        with pytest.raises(HostUnavailableError, match="the call ended while"):
            await asyncio.wait_for(asking, 5)

        async with AgentCall(agent.room) as hostless:
            with pytest.raises(HostUnavailableError):
                await hostless.send.ask_host("human.requested", timeout=30)


@pytest.mark.parametrize("tells_why", [True, False])
async def test_an_ask_ends_when_the_room_is_lost(stage: Stage, tells_why: bool) -> None:
    host = RecordingHost()
    async with stage.agent(host=host) as agent:
        asking = asyncio.ensure_future(agent.send.ask_host("human.requested", timeout=60))
        await until(lambda: len(host.records) == 1)
        if tells_why:
            await agent.room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE)
        else:  # as LiveKit's SDK does at times
            agent.room.emit("connection_state_changed", rtc.ConnectionState.CONN_DISCONNECTED)
        with pytest.raises(HostUnavailableError, match="the call ended while"):
            await asyncio.wait_for(asking, 10)
        assert await agent.send.to_client("news") is False


async def test_a_host_message_is_delivered_once_and_a_refused_id_is_not_taken(stage: Stage) -> None:
    async with stage.agent(ready=False) as agent:
        early = asyncio.ensure_future(agent.receive_from_host("h-0", "transfer", {}))
        done, _ = await asyncio.wait({early}, timeout=0.2)
        assert not done, "it came before the agent was ready"
        ran: list[RequestMeta] = []
        remove = agent.on_message("transfer", lambda payload, meta: ran.append(meta), sender="host")
        await agent.ready()
        assert await early is True
        assert ran == [RequestMeta("h-0", "host", None)]
        assert await agent.receive_from_host("h-0", "transfer", {}) is False

        remove()
        assert await code_of(agent.receive_from_host("h-1", "transfer", {})) == "no_handler"
        agent.on_message("transfer", lambda payload, meta: 1 // payload["n"], sender="host")
        assert await code_of(agent.receive_from_host("h-1", "transfer", {"n": 0})) == "handler_failed"
        assert await agent.receive_from_host("h-1", "transfer", {"n": 1}) is True
        assert await agent.receive_from_host("h-1", "transfer", {"n": 0}) is False
        assert len(ran) == 1


async def test_handlers_of_the_client_never_see_the_host_and_the_reverse(pair: Pair) -> None:
    heard: list[str] = []
    pair.agent.on_message("note", lambda payload, meta: heard.append(f"client {meta.sender}"))
    pair.agent.on_message("note", lambda payload, meta: heard.append(f"host {meta.sender}"), sender="host")
    await pair.client.ask("note", message_id="m-1")
    assert heard == ["client client"]
    assert await pair.agent.receive_from_host("m-1", "note", {}) is True, "the ids of each sender are its own"
    assert heard == ["client client", "host host"]

    pair.agent.on_message("client-only", echo)
    pair.agent.on_message("host-only", echo, sender="host")
    assert await code_of(pair.client.ask("host-only")) == "no_handler"
    assert await code_of(pair.agent.receive_from_host("m-2", "client-only", {})) == "no_handler"


async def test_settings_changed_by_the_host(stage: Stage) -> None:
    adjustable = {"client": ["tts.voice"], "host": ["tts.voice", "stt.language"]}
    changes: list[tuple[EffectiveSettings, str]] = []
    async with stage.client() as call, stage.agent(settings=SETTINGS, adjustable=adjustable) as agent:
        remove = agent.on_settings(lambda settings, sender: changes.append((settings, sender)))
        in_force = agent.update_from_host({"stt": {"language": "de"}, "tts": {"voice": 7}})
        assert (in_force.stt.language, in_force.tts.voice) == ("de", 7)
        assert changes == [(in_force, "host")]
        with pytest.raises(Refusal) as refused:
            agent.update_from_host({"tts": {"voice": 8, "model": "v2"}})
        assert (refused.value.code.value, refused.value.path) == ("not_adjustable", "tts.model")
        assert agent.settings == in_force

        assert (await call.agent.update({"tts": {"voice": 9}})).stt.language == "de"
        assert [(settings.tts.voice, sender) for settings, sender in changes] == [(7, "host"), (9, "client")]
        remove()
        agent.update_from_host({"tts": {"voice": 7}})
        assert len(changes) == 2
