"""livekit-client in Chromium: what comes back after an interruption."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from curb_client.testing.embedded import EmbeddedServer
from tests.browser.livekit_page import LiveKitPage, call_of
from tests.browser.peer import Peer, peer_in
from tests.browser.problems import CONNECTION_ENDS, Problems
from tests.e2e.conftest import Stage, until

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]


async def check_calls_and_texts(tab: LiveKitPage, agent: Peer, identity: str = "caller") -> None:
    """All works, both ways."""
    assert await agent.ask(identity) == "agent:hello"
    assert await tab.ask("agent") == ["ok", f"{identity}:hello"]
    await agent.local.send_text("back", topic="t", destination_identities=[identity])
    await tab.until("texts.length === 1")
    options = {"topic": "t", "destinationIdentities": ["agent"]}
    await tab.run("(...args) => room.localParticipant.sendText(...args).then(() => 1)", "back", options)
    await until(lambda: (identity, "back", {}) in agent.texts, within=30, what="the text of the page")


@pytest.mark.parametrize(
    ("scenario", "first_told"),
    [("signal-reconnect", "signalReconnecting"), ("full-reconnect", "reconnecting")],
    ids=["resumed", "made anew"],
)
async def test_an_interruption(
    tab: LiveKitPage, stage: Stage, problems: Problems, scenario: str, first_told: str
) -> None:
    problems.expect(CONNECTION_ENDS)
    async with call_of(tab, stage) as agent:
        before = agent.sid_of("caller")
        await tab.run("(scenario) => room.simulateScenario(scenario).then(() => 1)", scenario)
        await tab.reconnected()
        assert first_told in [event[0] for event in await tab.run("events")]
        sid = await tab.run("room.localParticipant.sid")
        assert (sid == before) == (scenario == "signal-reconnect")
        await until(lambda: agent.sid_of("caller") == sid, within=30, what="the caller is back")
        await agent.sees("caller")
        await tab.sees("agent")
        await check_calls_and_texts(tab, agent)
        assert agent.attributes_of("caller") == {"ready": "1"}
        assert len(agent.told("participant_disconnected")) == (0 if sid == before else 1)
        assert await tab.run("events.filter(([name]) => name === 'disconnected')") == []


async def test_a_call_that_waits_while_signalling_is_away(tab: LiveKitPage, stage: Stage, problems: Problems) -> None:
    problems.expect(CONNECTION_ENDS)
    async with call_of(tab, stage) as agent:
        answer: Any = None
        for calls in (1,) if isinstance(stage.server, EmbeddedServer) else (1, 2, 3):  # livekit-server may lose one
            asked = asyncio.ensure_future(tab.ask("agent", "slow", "a second"))
            await until(lambda calls=calls: agent.slow_calls == calls, what="the call has come")
            await tab.run("room.simulateScenario('signal-reconnect').then(() => 1)")
            await tab.reconnected()
            answer = await asked
            if answer == ["ok", "slow"]:
                break
        assert answer == ["ok", "slow"]


@pytest.mark.livekit_only("embedded", reason="livekit-server has no way to cut what data travel through")
async def test_a_transport_that_is_cut(tabs: list[LiveKitPage], stage: Stage, problems: Problems) -> None:
    problems.expect(CONNECTION_ENDS)
    assert isinstance(stage.server, EmbeddedServer)
    async with peer_in(stage, "agent", kind="agent") as agent:
        for tab in tabs:
            await tab.join(stage.url, stage.token(tab.version))
            await tab.sees("agent")
            await agent.sees(tab.version)
        before = [agent.sid_of(tab.version) for tab in tabs]
        for tab in tabs:
            stage.server.faults.cut_transport(tab.version)
        for tab in tabs:
            await tab.reconnected()
            await check_calls_and_texts(tab, agent, tab.version)
        assert [agent.sid_of(tab.version) for tab in tabs] == before, "these are resumes"
