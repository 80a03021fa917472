"""livekit-client in Chromium: who is let in, and the ways in which a stay ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from livekit import api, rtc
from playwright.async_api import BrowserContext

from tests.browser.livekit_page import LiveKitPage, call_of, open_livekit_page
from tests.browser.peer import Peer
from tests.browser.problems import CONNECTION_ENDS, Problems
from tests.browser.site import Site
from tests.e2e.conftest import Stage, until

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]

NOT_ALLOWED = 0
"""A reason of livekit-client's."""


@pytest.mark.parametrize("wrong", ["signature", "expired", "no token"])
async def test_a_token_that_does_not_let_in(tab: LiveKitPage, stage: Stage, problems: Problems, wrong: str) -> None:
    problems.expect("WebSocket connection to|status of 401|status of 404|error connecting|abort|could not")
    token = stage.token("caller", ttl=-60) if wrong == "expired" else stage.token("caller")
    if wrong == "signature":
        token = token[:-8] + ("AAAAAAAA" if token[-8:] != "AAAAAAAA" else "BBBBBBBB")
    if wrong == "no token":
        token = "none"
    state, error = await tab.run("(url, token) => outcome(join(url, token))", stage.url, token)
    assert (state, error["reason"], error["status"]) == ("failed", NOT_ALLOWED, 401), error
    assert f"invalid {'authorization token' if wrong == 'no token' else 'token: '}" in error["message"]
    validate = stage.url.replace("ws", "http", 1) + "/rtc/validate?access_token=" + token
    asked = "async (url) => { const answer = await fetch(url); return [answer.status, await answer.text()] }"
    assert (await tab.run(asked, validate))[0] == 401
    good = stage.url.replace("ws", "http", 1) + "/rtc/validate?access_token=" + stage.token("caller")
    assert await tab.run(asked, good) == [200, "success"]


async def open_second(context: BrowserContext, site: Site, tab: LiveKitPage) -> LiveKitPage:
    return await open_livekit_page(context, site, tab.version)


async def test_two_tabs(tab: LiveKitPage, stage: Stage, context: BrowserContext, site: Site) -> None:
    second = await open_second(context, site, tab)
    async with call_of(tab, stage) as agent:
        await second.join(stage.url, stage.token("supervisor"))
        await tab.sees("supervisor")
        await second.sees("caller")
        await second.sees("agent")
        assert await tab.ask("supervisor") == ["ok", "caller:hello"]
        assert await second.ask("caller") == ["ok", "supervisor:hello"]
        assert await second.ask("agent") == ["ok", "supervisor:hello"]
        await second.page.close(run_before_unload=True)
        await tab.told("participantDisconnected", "supervisor")
        await until(lambda: "supervisor" not in agent.room.remote_participants, what="the second tab has left")
        assert await tab.ask("agent") == ["ok", "caller:hello"]


async def test_two_tabs_with_one_identity(
    tab: LiveKitPage, stage: Stage, context: BrowserContext, site: Site, problems: Problems
) -> None:
    problems.expect(CONNECTION_ENDS)
    second = await open_second(context, site, tab)
    async with call_of(tab, stage) as agent:
        first_sid = agent.room.remote_participants["caller"].sid
        sid = await second.join(stage.url, stage.token("caller"))
        assert await tab.told("disconnected") == ["DUPLICATE_IDENTITY"]
        await until(lambda: agent.sid_of("caller") == sid != first_sid, what="the second tab is the caller")
        await agent.sees("caller")
        assert await agent.ask("caller") == "agent:hello"
        assert await second.ask("agent") == ["ok", "caller:hello"]
        assert [event[0] for event in await second.run("events")].count("disconnected") == 0


async def test_a_page_that_is_loaded_again(tab: LiveKitPage, stage: Stage) -> None:
    async with call_of(tab, stage) as agent:
        before = agent.sid_of("caller")
        await tab.page.reload()
        sid = await tab.join(stage.url, stage.token("caller"))
        await until(lambda: agent.sid_of("caller") == sid != before, what="the page is back")
        await agent.sees("caller")
        assert await agent.ask("caller") == "agent:hello"
        await tab.sees("agent")
        assert await tab.ask("agent") == ["ok", "caller:hello"]


# The ends of a stay


async def _leaves(tab: LiveKitPage, stage: Stage, agent: Peer, livekit: api.LiveKitAPI) -> None:
    await tab.run("room.disconnect()")


async def _is_removed(tab: LiveKitPage, stage: Stage, agent: Peer, livekit: api.LiveKitAPI) -> None:
    await livekit.room.remove_participant(api.RoomParticipantIdentity(room=stage.room_name, identity="caller"))


async def _loses_the_room(tab: LiveKitPage, stage: Stage, agent: Peer, livekit: api.LiveKitAPI) -> None:
    await livekit.room.delete_room(api.DeleteRoomRequest(room=stage.room_name))


@pytest.mark.parametrize(
    ("end", "told", "seen"),
    [
        (_leaves, "CLIENT_INITIATED", rtc.DisconnectReason.CLIENT_INITIATED),
        (_is_removed, "PARTICIPANT_REMOVED", rtc.DisconnectReason.PARTICIPANT_REMOVED),
        (_loses_the_room, "ROOM_DELETED", None),
    ],
    ids=["leaves", "is removed", "loses the room"],
)
async def test_the_end_of_a_stay(
    tab: LiveKitPage, stage: Stage, problems: Problems, end: Any, told: str, seen: int | None
) -> None:
    problems.expect(CONNECTION_ENDS)
    async with (
        call_of(tab, stage) as agent,
        api.LiveKitAPI(stage.url, stage.server.api_key, stage.server.api_secret) as livekit,
    ):
        caller = agent.room.remote_participants["caller"]
        await asyncio.wait_for(end(tab, stage, agent, livekit), 30)
        assert await tab.told("disconnected") == [told]
        if seen is not None:
            await until(lambda: agent.told("participant_disconnected") == [("caller",)], what="the caller has left")
            assert caller.disconnect_reason == seen
