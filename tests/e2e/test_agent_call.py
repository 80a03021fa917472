"""The agent's side in a real room: who is heard, what is answered once, the host behind it, the end of a call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import Any

import pydantic
import pytest
from livekit import rtc

import curb_client
from curb_client import (
    AgentCall,
    AgentClient,
    AgentRefusedError,
    AgentState,
    AuthoringError,
    ClosedError,
    InvalidKeyError,
    InvalidPayloadError,
    RequestMeta,
    RoomInUseError,
    UsageError,
)
from tests.e2e.conftest import SETTINGS, Pair, Stage, code_of, echo, until

VOICE_FROM_CLIENT = {"client": ["tts.voice"]}


# Before the agent is ready


async def test_requests_that_come_before_ready_are_held_and_then_answered(stage: Stage) -> None:
    async with (
        stage.client() as call,
        stage.agent(ready=False, settings=SETTINGS, adjustable=VOICE_FROM_CLIENT) as agent,
    ):
        await until(lambda: call.agent.presence.state is AgentState.READY)
        asking = asyncio.ensure_future(call.agent.ask("quote", {"plan": "basic"}))
        updating = asyncio.ensure_future(call.agent.update({"tts": {"voice": 3}}))
        done, _ = await asyncio.wait({asking, updating}, timeout=0.5)
        assert not done
        assert agent.settings.tts.voice == 1072

        agent.on_message("quote", echo)
        await agent.ready()
        assert await asking == {"plan": "basic"}
        assert (await updating).tts.voice == 3


async def test_requests_are_refused_after_the_hold_when_the_agent_never_is_ready(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curb_client.room.agent.EARLY_REQUEST_SECONDS", 0.4)
    ran: list[str] = []
    async with (
        stage.client() as call,
        stage.agent(ready=False, settings=SETTINGS, adjustable=VOICE_FROM_CLIENT) as agent,
    ):
        agent.on_message("quote", lambda payload, meta: ran.append(meta.id))
        asked, updated = await asyncio.gather(
            code_of(call.agent.ask("quote", message_id="m-1")), code_of(call.agent.update({"tts": {"voice": 3}}))
        )
        assert (asked, updated) == ("no_handler", "not_adjustable")
        assert ran == []

        await agent.ready()
        await call.agent.ask("quote", message_id="m-1")
        assert ran == ["m-1"]


async def test_ready_needs_an_entered_call() -> None:
    call = AgentCall(rtc.Room())
    with pytest.raises(ClosedError, match="async with AgentCall"):
        await call.ready()
    await call.aclose()


# A repeat is answered from memory


async def test_a_repeated_id_is_handled_once_and_gets_the_first_answer(pair: Pair) -> None:
    ran: list[Any] = []
    running = asyncio.Event()
    let_go = asyncio.Event()

    @pair.agent.on_message("order")
    async def order(payload: Any, meta: RequestMeta) -> int:
        ran.append(payload)
        running.set()
        await let_go.wait()
        return len(ran)

    first = asyncio.ensure_future(pair.client.ask("order", {"n": 1}, message_id="m-1"))
    await asyncio.wait_for(running.wait(), 10)
    repeats = [asyncio.ensure_future(pair.client.ask("order", {"n": 2}, message_id="m-1")) for _ in range(3)]
    done, _ = await asyncio.wait({first, *repeats}, timeout=0.3)
    assert not done
    let_go.set()
    assert await asyncio.gather(first, *repeats) == [1, 1, 1, 1]
    assert await pair.client.ask("order", {"n": 3}, message_id="m-1") == 1
    assert ran == [{"n": 1}]
    assert await pair.client.ask("order", {"n": 4}, message_id="m-2") == 2


async def test_a_refused_id_is_not_taken(pair: Pair) -> None:
    ask = pair.client.ask
    assert await code_of(ask("order", message_id="m-1")) == "no_handler"

    @pair.agent.on_message("order", schema=int)
    def order(payload: int, meta: RequestMeta) -> int:
        return 10 // payload

    assert await code_of(ask("order", "much", message_id="m-1")) == "invalid_payload"
    assert await code_of(ask("order", 0, message_id="m-1")) == "handler_failed"
    assert await ask("order", 5, message_id="m-1") == 2
    assert await ask("order", 1, message_id="m-1") == 2


async def test_two_clients_may_use_the_same_id(stage: Stage) -> None:
    async with stage.client("ann") as ann, stage.client("bob") as bob, stage.agent() as agent:
        agent.on_message("who", lambda payload, meta: meta.sender_identity)
        answers = [await call.agent.ask("who", message_id="m-1") for call in (ann, bob, ann)]
        assert answers == ["ann", "bob", "ann"]


async def test_a_retry_finds_the_answer_of_the_handler_that_went_on(pair: Pair) -> None:
    ran: list[str] = []
    let_go = asyncio.Event()

    @pair.agent.on_message("order")
    async def order(payload: Any, meta: RequestMeta) -> str:
        ran.append(meta.id)
        await let_go.wait()
        return "done"

    with pytest.raises(rtc.RpcError) as expired:
        await pair.client.ask("order", message_id="m-1", timeout=0.3)
    assert expired.value.code == rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
    await asyncio.sleep(1.5)  # by then the SDK has cancelled the request on the agent's side
    retry = asyncio.ensure_future(pair.client.ask("order", message_id="m-1"))
    done, _ = await asyncio.wait({retry}, timeout=0.2)
    assert not done
    let_go.set()
    assert await retry == "done"
    assert ran == ["m-1"]


# Handlers


async def test_a_handler_that_raises_fails_the_request_and_the_others_still_run(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    def broken(payload: Any, meta: RequestMeta) -> None:
        ran.append("broken")
        raise RuntimeError("no such plan")

    async def broken_later(payload: Any, meta: RequestMeta) -> None:
        await asyncio.sleep(0)
        ran.append("broken_later")
        raise asyncio.CancelledError

    def last(payload: Any, meta: RequestMeta) -> str:
        ran.append("last")
        return "fine"

    for handler in (broken, broken_later, last):
        pair.agent.on_message("job", handler)
    with pytest.raises(AgentRefusedError) as refused:
        await pair.client.ask("job", timeout=5)
    assert (refused.value.code, str(refused.value)) == ("handler_failed", "handler_failed")
    assert ran == ["broken", "broken_later", "last"]
    assert "no such plan" in caplog.text

    pair.agent.on_message("job-2", lambda payload, meta: object())
    pair.agent.on_message("job-3", lambda payload, meta: "x" * 15_360)
    assert await code_of(pair.client.ask("job-2")) == "handler_failed"
    assert await code_of(pair.client.ask("job-3")) == "handler_failed"


async def test_a_schema_refuses_before_any_handler_runs(pair: Pair) -> None:
    class Order(pydantic.BaseModel):
        plan: str
        lines: list[int]

    ran: list[Any] = []
    pair.agent.on_message("order", lambda payload, meta: ran.append(payload))
    pair.agent.on_message("order", lambda payload, meta: ran.append(payload), schema=Order)
    with pytest.raises(AgentRefusedError) as refused:
        await pair.client.ask("order", {"lines": [1, "two"]})
    assert refused.value.code == "invalid_payload"
    assert sorted(map(str, (issue.path for issue in refused.value.issues))) == ["['lines', 1]", "['plan']"]
    assert ran == []
    await pair.client.ask("order", {"plan": "a", "lines": [1]})
    assert ran == [{"plan": "a", "lines": [1]}, Order(plan="a", lines=[1])]


async def test_a_removed_handler_hears_nothing_more(pair: Pair) -> None:
    remove = pair.agent.on_message("quote", echo)
    assert await pair.client.ask("quote", 1) == 1
    remove()
    remove()
    assert await code_of(pair.client.ask("quote", 2)) == "no_handler"


async def test_an_invalid_key_or_sender_raises_when_the_handler_is_registered() -> None:
    call = AgentCall(rtc.Room())
    for key in ("", "k" * 257, "\ud800", 7):
        with pytest.raises(AuthoringError, match="on_message: key") as refused:
            call.on_message(key, echo)  # type: ignore[arg-type]
        assert refused.value.code == "AGENT_INVALID_AUTHORING_PROP"
    with pytest.raises(AuthoringError, match="sender is 'agent'; it must be one of client, host"):
        call.on_message("quote", echo, sender="agent")  # type: ignore[arg-type]
    with pytest.raises(AuthoringError, match="the handler of 'quote' is no function but str"):
        call.on_message("quote", "echo")  # type: ignore[arg-type]
    call.on_message("k" * 256, echo)


# Who the client is


async def test_client_identity_refuses_everybody_else(stage: Stage) -> None:
    async with (
        stage.client("caller") as caller,
        stage.client("supervisor") as supervisor,
        stage.agent(settings=SETTINGS, adjustable=VOICE_FROM_CLIENT, client_identity="caller") as agent,
    ):
        ran: list[str | None] = []
        agent.on_message("quote", lambda payload, meta: ran.append(meta.sender_identity))
        await caller.agent.ask("quote")
        assert await code_of(supervisor.agent.ask("quote")) == "no_handler"
        assert await code_of(supervisor.agent.update({"tts": {"voice": 3}})) == "not_adjustable"
        assert ran == ["caller"]
        assert agent.settings.tts.voice == 1072

        await until(lambda: len(agent.room.remote_participants) == 2)
        heard: Counter[str] = Counter()
        caller.agent.on("news", lambda payload, meta: heard.update(["caller"]))
        supervisor.agent.on("news", lambda payload, meta: heard.update(["supervisor"]))
        assert await agent.send.to_client("news")
        assert not await agent.send.to_client("news", to="supervisor")
        await until(lambda: heard["caller"] == 1)
        await asyncio.sleep(0.2)
        assert heard == {"caller": 1}


async def test_a_participant_of_kind_agent_is_not_the_client(stage: Stage) -> None:
    async with (
        stage.agent(settings=SETTINGS, adjustable=VOICE_FROM_CLIENT) as agent,
        stage.room("second-agent", kind="agent") as room,
        curb_client.connect_agent(room, agent_identity="agent") as client,
    ):
        agent.on_message("quote", echo)
        await room.local_participant.set_attributes({"seen": "at once"})
        await until(lambda: "second-agent" in agent.room.remote_participants)
        assert await code_of(client.ask("quote")) == "no_handler"
        assert await code_of(client.update({"tts": {"voice": 3}})) == "not_adjustable"
        assert not await agent.send.to_client("news"), "no client is in the room"


# Messages to the client


async def test_a_message_goes_to_all_clients_or_to_the_one_named(stage: Stage) -> None:
    async with stage.client("ann") as ann, stage.client("bob") as bob, stage.agent() as agent:
        await until(lambda: len(agent.room.remote_participants) == 2)
        heard: dict[str, list[int]] = {"ann": [], "bob": []}
        ann.agent.on("news", lambda payload, meta: heard["ann"].append(payload["n"]))
        bob.agent.on("news", lambda payload, meta: heard["bob"].append(payload["n"]))
        sent = [agent.send.to_client("news", {"n": n}, to=to) for n, to in enumerate((None, "ann", "bob", None))]
        assert await asyncio.gather(*sent) == [True] * 4
        await until(lambda: len(heard["ann"]) == len(heard["bob"]) == 3)
        assert heard == {"ann": [0, 1, 3], "bob": [0, 2, 3]}
        assert agent.undelivered_to_client == {}


async def test_a_message_for_nobody_is_dropped_counted_and_warned_of_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.agent() as agent:
        with caplog.at_level(logging.WARNING, "curb_client"):
            for key in ("news", "news", "form"):
                assert await agent.send.to_client(key) is False
            for _ in range(2):
                assert await agent.send.to_client("news", to="ghost") is False
        assert agent.undelivered_to_client == {"news": 4, "form": 1}
        assert [record.getMessage() for record in caplog.records if record.name == "curb_client"] == [
            "the message 'news' to the client: no client is in the room; dropped",
            "the message 'form' to the client: no client is in the room; dropped",
            "the message 'news' to the client: 'ghost' is not in the room; dropped",
        ]

        for payload in ([1], "text", None, 3):
            with pytest.raises(InvalidPayloadError, match="must be a JSON object"):
                agent.send.to_client("news", payload)
            with pytest.raises(InvalidPayloadError, match="must be a JSON object"):
                agent.send.to_host("news", payload)
            with pytest.raises(InvalidPayloadError, match="must be a JSON object"):
                await agent.send.ask_host("news", payload)
        with pytest.raises(InvalidKeyError):
            agent.send.to_client("")
        assert agent.undelivered_to_client == {"news": 4, "form": 1}
    assert await agent.send.to_client("news") is False
    assert agent.undelivered_to_client["news"] == 5


async def test_what_was_sent_before_the_end_still_arrives(stage: Stage) -> None:
    async with stage.client() as call:
        got: list[int] = []
        call.agent.on("news", lambda payload, meta: got.append(payload["n"]))
        async with stage.agent() as agent:
            await until(lambda: "caller" in agent.room.remote_participants)
            for n in range(20):
                agent.send.to_client("news", {"n": n})
        undelivered = agent.undelivered_to_client["news"]  # by a machine that takes more than two seconds for them
        await until(lambda: len(got) == 20 - undelivered)
        assert got == list(range(20 - undelivered))
        assert got


# Coming and going


@pytest.mark.parametrize("may_update", [True, False], ids=["leaving with a word", "leaving without"])
async def test_the_answer_of_a_handler_that_ends_the_call_arrives(stage: Stage, may_update: bool) -> None:
    bye = asyncio.Event()

    def end(payload: Any, meta: RequestMeta) -> str:
        bye.set()
        return "good bye"

    async def answer_once() -> None:
        async with stage.agent(ready=False, token={"can_update_own_metadata": may_update}) as agent:
            agent.on_message("bye", end)
            await agent.ready()
            await bye.wait()

    heard: list[str] = []
    async with stage.client() as call, stage.room("listener") as listener:
        for room in (call.room, listener):
            room.register_text_stream_handler("curb.leaving", lambda reader, identity: heard.append(identity))
        agent = asyncio.ensure_future(answer_once())
        assert await call.agent.ask("bye", timeout=10) == "good bye"
        await agent
    assert heard == []  # what tells the agent that its answer is sent


async def test_others_see_the_agent_at_once_and_that_it_is_ready(stage: Stage) -> None:
    delays: list[float] = []
    async with stage.room("watcher") as watcher:
        loop = asyncio.get_running_loop()
        for number in range(5):
            seen: asyncio.Future[float] = loop.create_future()

            def look(*_: object, identity: str = f"agent-{number}", seen: asyncio.Future[float] = seen) -> None:
                participant = watcher.remote_participants.get(identity)
                if participant is not None and participant.attributes.get("curb.ready") and not seen.done():
                    seen.set_result(loop.time())

            watcher.on("participant_connected", look)
            watcher.on("participant_attributes_changed", look)
            async with stage.room(f"agent-{number}", kind="agent") as room:
                entered = loop.time()
                async with AgentCall(room):
                    delays.append(await asyncio.wait_for(seen, 10) - entered)
                    assert watcher.remote_participants[f"agent-{number}"].attributes["curb.ready"] == "1"
            watcher.off("participant_connected", look)
            watcher.off("participant_attributes_changed", look)
    # Without the attribute each delay would be anything up to three seconds.
    assert sorted(delays)[3] < 1, delays


async def test_an_agent_that_may_not_set_attributes_is_found_all_the_same(stage: Stage) -> None:
    async with stage.client() as call, stage.agent(token={"can_update_own_metadata": False}) as agent:
        agent.on_message("quote", echo)
        assert await call.agent.ask("quote", 1) == 1
        assert call.agent.presence.state is AgentState.READY


async def test_a_room_takes_one_agents_side_at_a_time(stage: Stage) -> None:
    with pytest.raises(UsageError, match="the room is not connected"):
        async with AgentCall(rtc.Room()):
            pass
    async with stage.client() as call, stage.room("agent", kind="agent") as room:
        async with AgentCall(room) as first:
            first.on_message("who", lambda payload, meta: "first")
            await first.ready()
            assert await call.agent.ask("who") == "first"
            with pytest.raises(RoomInUseError, match="an agent's side"):
                async with AgentCall(room):
                    pass
            assert await call.agent.ask("who") == "first"
        between = asyncio.ensure_future(call.agent.ask("who"))
        await asyncio.sleep(0.3)
        async with AgentCall(room) as second:
            second.on_message("who", lambda payload, meta: "second")
            await second.ready()
            assert await between == "second"


async def test_entering_that_is_cancelled_leaves_the_room_free(stage: Stage) -> None:
    async with stage.room("agent", kind="agent") as room:
        entering = asyncio.ensure_future(AgentCall(room).__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        async with AgentCall(room):
            pass


async def test_leaving_that_is_cancelled_leaves_the_room_free(stage: Stage) -> None:
    async with stage.room("agent", kind="agent") as room, stage.client() as caller:
        call = await AgentCall(room).__aenter__()
        await call.ready()
        await until(lambda: "caller" in room.remote_participants)
        call.send.to_client("news")
        leaving = asyncio.ensure_future(call.aclose())
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await call.aclose()
        async with AgentCall(room) as next_call:
            next_call.on_message("who", lambda payload, meta: "the next")
            await next_call.ready()
            assert await caller.agent.ask("who", timeout=20) == "the next"


async def test_a_caller_that_is_cancelled_while_it_leaves_has_left(stage: Stage) -> None:
    rooms: list[rtc.Room] = []

    async def app() -> None:
        async with stage.client() as call:
            rooms.append(call.room)
            me = asyncio.current_task()
            assert me is not None
            call.agent.on_presence(lambda presence: me.cancel() if presence.state is AgentState.CLOSED else None)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(app())
    assert not rooms[0].isconnected()


async def test_the_end_of_a_call_answers_whoever_waits(pair: Pair) -> None:
    running = asyncio.Event()
    cancelled: list[str] = []

    async def endless(payload: Any, meta: RequestMeta) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(meta.sender)
            raise

    pair.agent.on_message("job", endless)
    asking = asyncio.ensure_future(pair.client.ask("job", timeout=60))
    await asyncio.wait_for(running.wait(), 10)
    await pair.agent.aclose()
    await pair.agent.aclose()
    with pytest.raises(rtc.RpcError):
        await asyncio.wait_for(asking, 5)
    assert cancelled == ["client"]
    assert pair.agent.room.isconnected()


async def test_the_end_of_a_call_answers_what_was_held(stage: Stage) -> None:
    async with stage.client() as call, stage.agent(ready=False, adjustable=VOICE_FROM_CLIENT) as agent:
        await until(lambda: call.agent.presence.state is AgentState.READY)
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(call.agent.ask("job", timeout=60)),
            asyncio.ensure_future(call.agent.update({"tts": {"voice": 3}}, timeout=60)),
        ]
        await asyncio.wait(waiting, timeout=0.5)
        await agent.aclose()
        done, _ = await asyncio.wait(waiting, timeout=5)
        assert len(done) == 2
        for request in waiting:
            assert isinstance(request.exception(), (rtc.RpcError, AgentRefusedError))
        assert agent.settings.tts.voice is None


async def test_the_end_of_a_call_while_a_host_message_is_handled(stage: Stage) -> None:
    running = asyncio.Event()

    async def endless(payload: Any, meta: RequestMeta) -> None:
        running.set()
        await asyncio.Event().wait()

    async with stage.agent() as agent:
        agent.on_message("transfer", endless, sender="host")
        receiving = asyncio.ensure_future(agent.receive_from_host("h-1", "transfer", {}))
        await asyncio.wait_for(running.wait(), 10)
        await agent.aclose()
        await asyncio.wait({receiving}, timeout=5)
        with pytest.raises(ClosedError):
            receiving.result()


async def test_an_agent_that_is_gone_is_an_agent_that_is_absent(stage: Stage) -> None:
    async with stage.client() as call:
        client: AgentClient = call.agent
        async with stage.agent() as agent:
            agent.on_message("quote", echo)
            assert await client.ask("quote", 1) == 1
        await until(lambda: client.presence.state is AgentState.ABSENT)
        async with stage.agent("agent-2") as agent:
            agent.on_message("quote", echo)
            assert await client.ask("quote", 2) == 2
            assert client.presence.identity == "agent-2"
            with contextlib.suppress(AgentRefusedError):
                await client.ask("other")
