"""Callers in a room, a gateway, and a daemon behind it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from curb_client import AgentCall, AgentRefusedError, Call, connect_room, join
from curb_client.crabtalk import CrabGateway, CrabTalkClient, ask_crab
from curb_client.crabtalk.gateway import gateway, payloads
from curb_client.crabtalk.gateway.payloads import PART_BYTES, pieces
from curb_client.protocol.json_text import encode_json, utf8_size
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.crab_daemon import CrabDaemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from tests.crabtalk.conftest import QUESTION, script

SECONDS = 30.0
MESSAGES = ("started", "chunk", "thinking", "tools", "result", "question", "end", "part")


@dataclass
class Heard:
    """A caller's call, and what it was told: key and payload."""

    call: Call
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def keep(self, key: str, payload: dict[str, Any]) -> None:
        async with self.news:
            self.messages.append((key, payload))
            self.news.notify_all()

    async def until(self, key: str) -> dict[str, Any]:
        """The first message with this key."""

        def found() -> list[dict[str, Any]]:
            return [payload for one, payload in self.messages if one == f"crab.{key}"]

        async with self.news:
            await asyncio.wait_for(self.news.wait_for(found), SECONDS)
        return found()[0]


class Stage:
    """A room with a gateway."""

    def __init__(
        self, server: LiveKitServerHandle, daemon: CrabDaemon, client: CrabTalkClient, room: str, gateway: CrabGateway
    ) -> None:
        self.server = server
        self.daemon = daemon
        self.client = client
        self.room = room
        self.gateway = gateway

    @contextlib.asynccontextmanager
    async def caller(self, identity: str) -> AsyncIterator[Heard]:
        async with join(self.server.url, self.server.token(identity, self.room)) as call:
            heard = Heard(call)
            for name in MESSAGES:
                call.agent.on(f"crab.{name}", _keeper(heard, f"crab.{name}"))
            yield heard

    async def sessions_of(self, identity: str) -> list[int]:
        sessions = await self.client.sessions()
        return [session.id for session in sessions if session.created_by == f"curb-{identity}"]

    async def until_freed(self, identity: str) -> None:
        """Until its sessions are gone."""

        async def freed() -> None:
            while await self.sessions_of(identity):  # noqa: ASYNC110 - only the daemon knows
                await asyncio.sleep(0.05)

        await asyncio.wait_for(freed(), SECONDS)


def _keeper(heard: Heard, key: str) -> Any:
    async def keep(payload: Any, _: Any) -> None:
        await heard.keep(key, payload)

    return keep


@contextlib.asynccontextmanager
async def staged(server: LiveKitServerHandle, daemon: CrabDaemon) -> AsyncIterator[Stage]:
    room = f"gateway-{uuid.uuid4().hex[:8]}"
    async with (
        CrabTalkClient(daemon.address) as client,
        connect_room(server.url, server.token("gateway", room, kind="agent")) as gateway_room,
        AgentCall(gateway_room) as call,
        CrabGateway(call, client) as crab_gateway,
    ):
        await call.ready()
        yield Stage(server, daemon, client, room, crab_gateway)


async def refused(heard: Heard, key: str, payload: Any) -> AgentRefusedError:
    with pytest.raises(AgentRefusedError) as error:
        await heard.call.agent.ask(key, payload, timeout=SECONDS)
    return error.value


async def test_each_caller_has_a_session_and_frees_it(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        first = await ask_crab(one.call.agent, "hello")
        assert (first.content, set(first.usage)) == ("Hello, world", {"prompt", "completion", "total"})
        async with stage.caller("two") as two:
            other = await ask_crab(two.call.agent, "hello")
            assert other.session != first.session
            assert (await ask_crab(one.call.agent, "hello again")).session == first.session
            own = await two.call.agent.ask(payloads.SESSIONS)
            assert [session["id"] for session in own["sessions"]] == [other.session]
            assert own["current"] == other.session
        await stage.until_freed("two")
        assert await stage.sessions_of("one") == [first.session]
        killed = await one.call.agent.ask(payloads.KILL)
        assert killed == {"session": first.session}
        assert await stage.sessions_of("one") == []
        assert (await refused(one, payloads.KILL, {})).code == "no_session"


async def test_a_stream_is_told_to_its_caller_alone(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one, stage.caller("two") as two:
        reply = await one.call.agent.ask(payloads.STREAM, {"content": "two tools"})
        await one.until("end")
        assert {payload["stream"] for _, payload in one.messages} == {reply["stream"]}
        keys = list(dict.fromkeys(key for key, _ in one.messages))
        assert keys == ["crab.started", "crab.chunk", "crab.tools", "crab.result", "crab.end"]
        results = [payload for key, payload in one.messages if key == "crab.result"]
        assert [(result["tool"], result["more"]) for result in results] == [("bash", False), ("bash", False)]
        assert "one" in results[0]["output"]
        said = "".join(payload["content"] for key, payload in one.messages if key == "crab.chunk")
        assert said == "let me look. tool said it"
        end = one.messages[-1][1]
        assert end["session"] == one.messages[0][1]["session"]
        assert "code" not in end
        assert (await ask_crab(two.call.agent, "hello")).content == "Hello, world"
        assert two.messages == []


async def test_what_the_model_thinks_is_told(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        await one.call.agent.ask(payloads.STREAM, {"content": "think"})
        await one.until("end")
        thoughts = [payload["content"] for key, payload in one.messages if key == "crab.thinking"]
        assert "".join(thoughts) == "hmm, is it?"


async def test_a_question_of_a_stream_and_of_an_ask(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        assert (await refused(one, payloads.ANSWER, {"answer": "x"})).code == "no_question"
        await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
        asked = await one.until("question")
        assert asked["questions"][0]["question"] == QUESTION
        assert [option["label"] for option in asked["questions"][0]["options"]] == ["SQLite", "Postgres"]
        assert [question["multiple"] for question in asked["questions"]] == [False, True]
        busy = await refused(one, payloads.STREAM, {"content": "hello"})
        assert (busy.code, busy.issues[0].message) == (
            "caller_busy",
            "your last message is still being answered; wait or kill it",
        )
        async with stage.caller("two") as two:
            assert (await refused(two, payloads.ANSWER, {"answer": "mine"})).code == "no_question"
        await one.call.agent.ask(payloads.ANSWER, {"answer": {QUESTION: "SQLite"}})
        assert (await one.until("result"))["output"] == '{"Which database?": "SQLite"}'
        await one.until("end")
        one.messages.clear()
        asking = asyncio.ensure_future(ask_crab(one.call.agent, "ask me", timeout=SECONDS))
        await one.until("question")
        await one.call.agent.ask(payloads.ANSWER, {"answer": "just so"})
        assert (await asking).content == "thank you"


async def test_a_killed_run_ends_for_its_caller(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
        await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
        await one.until("question")
        await one.call.agent.ask(payloads.KILL)
        assert (await one.until("end"))["code"] == "run_failed"
        asking = asyncio.ensure_future(refused(one, payloads.ASK, {"content": "ask me"}))
        one.messages.clear()
        await one.until("question")
        await one.call.agent.ask(payloads.KILL)
        assert (await asking).code == "run_failed"
        assert (await ask_crab(one.call.agent, "hello")).content == "Hello, world"


async def test_a_caller_who_leaves_ends_its_run(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage:
        async with stage.caller("one") as one:
            await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
            await one.until("question")
        await stage.until_freed("one")
        assert not stage.client._others._used


async def test_a_caller_of_whose_leaving_nobody_told(
    curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrabGateway, "_left", lambda *_: None)
    monkeypatch.setattr(gateway, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(gateway, "UNANNOUNCED_SECONDS", 4.0)
    with FakeDaemon(script()) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("stays") as stays:
            await ask_crab(stays.call.agent, "hello")
            async with stage.caller("leaves") as leaves:
                await ask_crab(leaves.call.agent, "hello")
            await stage.until_freed("leaves")
            assert len(await stage.sessions_of("stays")) == 1


async def test_a_daemon_that_is_away_and_comes_back(curb_livekit: LiveKitServerHandle, daemon: CrabDaemon) -> None:
    async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one, stage.caller("two") as two:
        await ask_crab(one.call.agent, "hello")
        second = await ask_crab(two.call.agent, "hello")
        await one.call.agent.ask(payloads.STREAM, {"content": "ask me"})
        await one.until("question")
        await asyncio.to_thread(daemon.stop)
        assert (await one.until("end"))["code"] == "daemon_unavailable"
        for key, payload in ((payloads.ASK, {"content": "hello"}), (payloads.STREAM, {"content": "x"})):
            away = await refused(one, key, payload)
            assert (away.code, "there is no socket" in away.issues[0].message) == ("daemon_unavailable", True)
        for key in (payloads.SESSIONS, payloads.KILL):
            assert (await refused(one, key, {})).code == "daemon_unavailable"
        await asyncio.to_thread(daemon.start)
        again = await ask_crab(two.call.agent, "hello")
        assert again.session == 1 != second.session  # its old number would be a session of nobody, or of another's
        assert (await ask_crab(one.call.agent, "hello")).session == 2


async def test_refusals(curb_livekit: LiveKitServerHandle) -> None:
    with FakeDaemon(script()) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
            for key, payload in (
                (payloads.ASK, {}),
                (payloads.ASK, {"content": ""}),
                (payloads.ASK, {"content": 5}),
                (payloads.STREAM, {"content": "x", "sender": "somebody else"}),
                (payloads.STREAM, "x"),
                (payloads.ANSWER, {"answer": {"a": 1}}),
                (payloads.SESSIONS, {"all": True}),
                (payloads.KILL, {"session": 1}),
            ):
                error = await refused(one, key, payload)
                assert (error.code, bool(error.issues)) == ("invalid_payload", True), (key, payload)
            failed = await refused(one, payloads.ASK, {"content": "bad request"})
            assert (failed.code, "no such thing" in failed.issues[0].message) == ("run_failed", True)
            await one.call.agent.ask(payloads.STREAM, {"content": "bad request"})
            end = await one.until("end")
            assert (end["code"], "no such thing" in end["reason"]) == ("run_failed", True)
        assert not daemon._state.live


async def test_an_agent_that_the_daemon_does_not_have(curb_livekit: LiveKitServerHandle) -> None:
    with FakeDaemon(script()) as daemon:
        room = f"gateway-{uuid.uuid4().hex[:8]}"
        async with (
            CrabTalkClient(daemon.address) as client,
            connect_room(curb_livekit.url, curb_livekit.token("gateway", room, kind="agent")) as gateway_room,
            AgentCall(gateway_room) as call,
            CrabGateway(call, client, agent="nobody"),
            join(curb_livekit.url, curb_livekit.token("one", room)) as caller,
        ):
            await call.ready()
            error = await refused(Heard(caller), payloads.ASK, {"content": "hello"})
            assert (error.code, "agent 'nobody' not registered" in error.issues[0].message) == ("daemon_refused", True)


async def test_long_answers_come_in_parts(curb_livekit: LiveKitServerHandle) -> None:
    own = script()
    text = 'quote " and \n line, ünïcödé, 😀. ' * 3000
    own.on("everything", text=text, chunk=len(text))
    with FakeDaemon(own) as daemon:
        async with staged(curb_livekit, daemon) as stage, stage.caller("one") as one:
            assert (await ask_crab(one.call.agent, "everything")).content == text
            assert sum(key == "crab.part" for key, _ in one.messages) > 5
            one.messages.clear()
            await one.call.agent.ask(payloads.STREAM, {"content": "everything"})
            await one.until("end")
            parts = [payload["content"] for key, payload in one.messages if key == "crab.chunk"]
            assert "".join(parts) == text
            assert all(utf8_size(encode_json(part)) <= PART_BYTES for part in parts)


@pytest.mark.parametrize("text", ["", "x", "x" * (PART_BYTES - 2), "x" * PART_BYTES, '"' * 50_000, "😀" * 20_000])
def test_pieces(text: str) -> None:
    parts = list(pieces(text))
    assert "".join(parts) == text
    assert max(utf8_size(encode_json(part)) for part in parts) <= PART_BYTES
    assert len(parts) == 1 or min(map(len, parts)) > 1000
