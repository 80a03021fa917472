"""livekit-client in Chromium: what it sees, calls, texts and data, with an agent in Python."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from livekit import rtc

from tests.browser.livekit_page import CARRIES_LARGE_CALLS, LiveKitPage, call_of
from tests.browser.peer import peer_in
from tests.browser.problems import Problems
from tests.e2e.conftest import Stage, filling_bytes, until

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]

TIMEOUT_MS = 2500
"""With less than 2 s, a call of 2.9.9 never ends."""
CAP = 15_360
"""Bytes of a call in LiveKit's first version of calls."""


async def test_the_agent_is_seen(tab: LiveKitPage, stage: Stage) -> None:
    async with call_of(tab, stage) as agent:
        seen = await tab.sees("agent")
        assert seen == {
            "sid": agent.local.sid,
            "kind": 4,
            "name": "Ada",
            "metadata": "made of Python",
            "attributes": {"ready": "1"},
            "tracks": [],
        }
        await agent.local.set_attributes({"mood": "calm", "ready": ""})
        await tab.sees("agent", "mood")
        assert (await tab.run("seen('agent')"))["attributes"] == {"mood": "calm"}

        await tab.run("room.localParticipant.setAttributes({page: 'claims', ready: ''})")
        await until(lambda: agent.attributes_of("caller") == {"page": "claims"}, what="the page's attribute")
        caller = agent.room.remote_participants["caller"]
        assert (caller.kind, caller.name) == (rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD, "")


async def test_calls_both_ways(tab: LiveKitPage, stage: Stage) -> None:
    async with call_of(tab, stage) as agent:
        assert await tab.ask("agent") == ["ok", "caller:hello"]
        assert await agent.ask("caller") == "agent:hello"
        many = await tab.run("Promise.all(Array.from({length: 50}, (_, n) => ask('agent', 'echo', String(n))))")
        assert many == [["ok", f"caller:{n}"] for n in range(50)]

        state, error = await tab.ask("agent", "refuse")
        assert (state, error["code"], error["message"]) == ("failed", 4220, "invalid_payload")
        assert error["data"] == '{"issues":[]}'
        with pytest.raises(rtc.RpcError) as refused:
            await agent.ask("caller", "refuse")
        assert (refused.value.code, refused.value.message) == (4220, "invalid_payload")
        assert refused.value.data == '{"issues":[]}'

        assert await tab.code_of("agent", "nothing") == 1400
        assert await tab.code_of("agent", "fail") == 1500
        assert await agent.code_of("caller", "nothing") == 1400
        assert await agent.code_of("caller", "fail") == 1500


async def test_calls_that_end_late(tabs: list[LiveKitPage], stage: Stage, problems: Problems) -> None:
    problems.expect("Response received for unexpected RPC request")  # which was given up before
    async with peer_in(stage, "agent", kind="agent") as agent:
        asking = []
        for tab in tabs:
            await tab.join(stage.url, stage.token(tab.version))
            await tab.sees("agent")
            asking += [tab.code_of("nobody"), tab.code_of("agent", "sleep", responseTimeout=TIMEOUT_MS)]
        asking.append(agent.code_of("nobody"))
        assert await asyncio.gather(*asking) == [1501, 1502, 1501, 1502, 1501, 1502, 1501]


async def test_large_calls(tab: LiveKitPage, stage: Stage) -> None:
    async with call_of(tab, stage) as agent:
        for ask in (tab.ask("agent", "count", "x" * CAP), tab.ask("agent", "fill", str(CAP))):
            assert (await ask)[0] == "ok"
        assert await agent.ask("caller", "count", "x" * CAP) == str(CAP)
        assert len(await agent.ask("caller", "fill", str(CAP))) == CAP
        if tab.version in CARRIES_LARGE_CALLS:
            assert await tab.ask("agent", "count", filling_bytes(60_000)) == ["ok", "60000"]
            assert len((await tab.ask("agent", "fill", "60000"))[1]) == 60_000
            assert await agent.ask("caller", "count", filling_bytes(60_000)) == "60000"
            assert len(await agent.ask("caller", "fill", "60000")) == 60_000
        else:
            assert await tab.code_of("agent", "count", "x" * (CAP + 1)) == 1402
            assert await tab.code_of("agent", "fill", str(CAP + 1)) == 1504
            assert await agent.code_of("caller", "count", "x" * (CAP + 1)) == 1402
            assert await agent.code_of("caller", "fill", str(CAP + 1)) == 1504


async def test_long_texts_go_to_whom_they_are_sent(tab: LiveKitPage, stage: Stage) -> None:
    async with call_of(tab, stage) as agent, peer_in(stage, "observer") as observer:
        await tab.sees("observer")
        await observer.sees("caller")
        await observer.sees("agent")
        long = filling_bytes(60_000)
        options = {"topic": "t", "destinationIdentities": ["agent"], "attributes": {"n": "1"}}
        await tab.run("(...args) => room.localParticipant.sendText(...args).then(() => 1)", long, options)
        await tab.run("(...args) => room.localParticipant.sendText(...args).then(() => 1)", "to all", {"topic": "t"})
        await until(lambda: len(agent.texts) == 2 and observer.texts, what="the texts")
        assert sorted(agent.texts, key=_length) == [("caller", "to all", {}), ("caller", long, {"n": "1"})]
        assert observer.texts == [("caller", "to all", {})]

        await agent.local.send_text(long, topic="t", destination_identities=["caller"], attributes={"n": "2"})
        await agent.local.send_text("to all", topic="t")
        await tab.until("texts.length === 2")
        arrived = sorted(await tab.run("texts"), key=_length)
        assert arrived == [["agent", "to all", {}], ["agent", long, {"n": "2"}]]
        await until(lambda: len(observer.texts) == 2)
        assert observer.texts[1] == ("agent", "to all", {})


def _length(text: Sequence[Any]) -> int:
    return len(text[1])


async def test_data_go_to_whom_they_are_sent(tab: LiveKitPage, stage: Stage) -> None:
    async with call_of(tab, stage) as agent, peer_in(stage, "observer") as observer:
        await tab.sees("observer")
        await observer.sees("caller")
        await observer.sees("agent")
        publish = "(text, o) => room.localParticipant.publishData(new TextEncoder().encode(text), o).then(() => 1)"
        await tab.run(publish, "secret", {"reliable": True, "topic": "d", "destinationIdentities": ["agent"]})
        await tab.run(publish, "public", {"reliable": True})
        await until(lambda: len(agent.packets) == 2 and observer.packets, what="the data")
        assert agent.packets == [("caller", "secret", "d"), ("caller", "public", "")]
        assert observer.packets == [("caller", "public", "")]

        await agent.local.publish_data("secret", topic="d", destination_identities=["observer"])
        await agent.local.publish_data("public", topic="d")
        await tab.until("packets.length")
        await until(lambda: len(observer.packets) == 3)
        assert await tab.run("packets") == [["agent", "public", "d"]]
