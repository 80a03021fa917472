"""What participants send each other."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from livekit import rtc

from curb_client import AgentRefusedError
from curb_client.testing import CurbCall
from curb_client.testing.embedded import EmbeddedServer
from tests.testing.embedded.conftest import Stage, Texts, ask, code_of, is_active, serve_echo, until


async def pair(stage: Stage, **token: Any) -> tuple[rtc.Room, rtc.Room]:
    """A caller and an agent with an echo, each ready for the other."""
    agent = await stage.join("agent", kind="agent")
    caller = await stage.join("caller", **token)
    for room in (caller, agent):
        serve_echo(room)
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
    return caller, agent


# RPC


async def test_requests_go_both_ways(stage: Stage) -> None:
    caller, agent = await pair(stage)
    assert await ask(caller, "agent") == "caller:hello"
    assert await ask(agent, "caller") == "agent:hello"
    assert await ask(caller, "agent", "") == "caller:"


@pytest.mark.parametrize("size", [15_361, 60_000, 300_000])
async def test_large_requests(stage: Stage, size: int) -> None:
    caller, _ = await pair(stage)
    payload = os.urandom(size // 2).hex()
    assert await ask(caller, "agent", payload) == f"caller:{payload}"


async def test_every_way_in_which_a_request_fails(stage: Stage) -> None:
    caller, agent = await pair(stage)

    async def own(data: rtc.RpcInvocationData) -> str:
        raise rtc.RpcError(1234, "its own", "with data")

    async def broken(data: rtc.RpcInvocationData) -> str:
        raise ValueError("broken")

    async def slow(data: rtc.RpcInvocationData) -> str:
        await asyncio.sleep(30)
        return ""

    for method, handler in (("own", own), ("broken", broken), ("slow", slow)):
        agent.local_participant.register_rpc_method(method, handler)
    with pytest.raises(rtc.RpcError) as caught:
        await ask(caller, "agent", method="own")
    assert (caught.value.code, caught.value.message, caught.value.data) == (1234, "its own", "with data")
    assert await code_of(ask(caller, "agent", method="no-such")) == rtc.RpcError.ErrorCode.UNSUPPORTED_METHOD
    assert await code_of(ask(caller, "agent", method="broken")) == rtc.RpcError.ErrorCode.APPLICATION_ERROR
    late, absent = await asyncio.gather(
        code_of(ask(caller, "agent", method="slow", response_timeout=1)), code_of(ask(caller, "nobody"))
    )
    assert late == rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
    assert absent == rtc.RpcError.ErrorCode.CONNECTION_TIMEOUT
    asking = asyncio.ensure_future(code_of(ask(caller, "agent", method="slow")))
    await asyncio.sleep(0.2)
    await agent.disconnect()
    assert await asking == rtc.RpcError.ErrorCode.RECIPIENT_DISCONNECTED


async def test_a_hundred_requests_at_once(stage: Stage) -> None:
    caller, _ = await pair(stage)
    answers = await asyncio.gather(*(ask(caller, "agent", str(number)) for number in range(100)))
    assert answers == [f"caller:{number}" for number in range(100)]


async def test_a_request_to_who_has_just_joined_waits_for_it(stage: Stage) -> None:
    """The SDK reports a participant that cannot receive yet."""
    caller = await stage.join("caller")
    asked: asyncio.Queue[asyncio.Task[str]] = asyncio.Queue()
    caller.on(
        "participant_connected",
        lambda participant: asked.put_nowait(asyncio.ensure_future(ask(caller, participant.identity, method="none"))),
    )
    await stage.join("agent", kind="agent")
    assert await code_of(await asked.get()) == rtc.RpcError.ErrorCode.UNSUPPORTED_METHOD, "it got there"


# Streams


async def test_texts(stage: Stage) -> None:
    caller, agent = await pair(stage)
    texts = Texts(agent)
    large = os.urandom(30_000).hex()
    await caller.local_participant.send_text(large, topic="t", destination_identities=["agent"])
    await until(lambda: texts.arrived == [("caller", large)])


async def test_an_agent_may_send_text_in_the_name_of_another(stage: Stage) -> None:
    caller, agent = await pair(stage)
    other = await stage.join("other")
    texts = Texts(other)
    for room, name in ((agent, "caller"), (caller, "agent")):
        writer = await room.local_participant.stream_text(topic="t", sender_identity=name)
        await writer.write("hello")
        await writer.aclose()
        await until(lambda: texts.arrived)
        assert texts.arrived.pop() == ("caller", "hello"), "nobody else may"


async def test_bytes(stage: Stage) -> None:
    caller, agent = await pair(stage)
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(reader: rtc.ByteStreamReader) -> None:
        arrived.put_nowait(b"".join([chunk async for chunk in reader]))

    reading: list[asyncio.Task[None]] = []
    agent.register_byte_stream_handler(
        "f", lambda reader, identity: reading.append(asyncio.ensure_future(read(reader)))
    )
    data = os.urandom(200_000)
    writer = await caller.local_participant.stream_bytes("a-file", topic="f")
    await writer.write(data)
    await writer.aclose()
    assert await asyncio.wait_for(arrived.get(), 10) == data


# Packets


class Packets:
    """The data packets that come to a room."""

    def __init__(self, room: rtc.Room) -> None:
        self.arrived: list[tuple[str | None, bytes, str | None, bool]] = []
        room.on("data_received", self._note)

    def _note(self, packet: rtc.DataPacket) -> None:
        sender = packet.participant.identity if packet.participant else None
        is_reliable = packet.kind == rtc.DataPacketKind.KIND_RELIABLE
        self.arrived.append((sender, packet.data, packet.topic, is_reliable))


async def test_packets_reach_those_they_are_for(stage: Stage) -> None:
    caller, agent = await pair(stage)
    other = await stage.join("other")
    await until(lambda: is_active(caller, "other"))
    packets = {room.local_participant.identity: Packets(room) for room in (caller, agent, other)}
    publish = caller.local_participant.publish_data
    await publish(b"all", topic="t")
    await publish(b"lossy", reliable=False)
    await publish(b"other", destination_identities=["other", "nobody"])
    await publish(b"x" * 60_000)
    await until(lambda: len(packets["other"].arrived) == 4)
    await until(lambda: len(packets["agent"].arrived) == 3)
    assert sorted(packets["other"].arrived, key=str) == sorted(
        [
            ("caller", b"all", "t", True),
            ("caller", b"lossy", "", False),
            ("caller", b"other", "", True),
            ("caller", b"x" * 60_000, "", True),
        ],
        key=str,
    )
    assert b"other" not in [packet[1] for packet in packets["agent"].arrived]
    assert packets["caller"].arrived == []


async def test_many_packets_come_in_order(stage: Stage) -> None:
    caller, agent = await pair(stage)
    packets = Packets(agent)
    sent = [number.to_bytes(2, "big") * 2000 for number in range(300)]
    for data in sent:
        await caller.local_participant.publish_data(data)
    await until(lambda: len(packets.arrived) == len(sent), within=30)
    assert [packet[1] for packet in packets.arrived] == sent


async def test_who_may_not_publish_data_is_not_heard(stage: Stage) -> None:
    caller, agent = await pair(stage, can_publish_data=False)
    texts, packets = Texts(agent), Packets(agent)
    await caller.local_participant.publish_data(b"no")
    await caller.local_participant.send_text("no", topic="t")
    await asyncio.sleep(0.2)
    assert (texts.arrived, packets.arrived) == ([], [])
    assert "may not publish data" in stage.server.log_tail()
    hears = Packets(caller)
    await agent.local_participant.publish_data(b"yes")
    await until(lambda: hears.arrived)


# The protocol on top


async def test_a_curb_call(server: EmbeddedServer) -> None:
    async with CurbCall(server) as call:
        call.agent.on_message("quote", lambda payload, meta: {"price": payload["n"]})
        assert await call.client.ask("quote", {"n": 7}) == {"price": 7}
        await call.agent.send.to_client("show-form", {"fields": ["name"]})
        await call.expect("show-form", {"fields": ["name"]})
        with pytest.raises(AgentRefusedError) as refused:
            await call.client.ask("no-such")
        assert refused.value.code == "no_handler"
