"""A participant in Python, with nothing of ours but the connecting, for the page or the Node program to talk to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import rtc

from tests.e2e.conftest import Stage, filling_bytes, until

__all__ = ["Peer", "peer_in"]


class Peer:
    """Answers calls, and keeps what it is told: by whom, as plain values."""

    def __init__(self, room: rtc.Room) -> None:
        self.room = room
        self.local = room.local_participant
        self.texts: list[tuple[str, str, dict[str, str]]] = []
        self.packets: list[tuple[str, str, str]] = []
        self.events: list[tuple[Any, ...]] = []
        self.slow_calls = 0
        self._reading: set[asyncio.Task[None]] = set()
        for name in ("participant_connected", "participant_disconnected", "track_published", "track_unpublished"):
            self._note(name)
        self._note("track_muted")
        self._note("track_unmuted")
        room.register_text_stream_handler("t", self._begin_text)
        room.on("data_received", self._on_data)
        for name in ("echo", "count", "fill", "refuse", "fail", "slow", "sleep"):
            self.local.register_rpc_method(name, getattr(self, f"_{name}"))

    def _note(self, name: Any) -> None:
        def note(*arguments: Any) -> None:
            self.events.append((name, *(getattr(each, "identity", each) for each in arguments)))

        self.room.on(name, note)

    def _on_data(self, packet: rtc.DataPacket) -> None:
        sender = packet.participant.identity if packet.participant else ""
        self.packets.append((sender, packet.data.decode(), packet.topic or ""))

    def _begin_text(self, reader: rtc.TextStreamReader, identity: str) -> None:
        task = asyncio.ensure_future(self._read_text(reader, identity))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_text(self, reader: rtc.TextStreamReader, identity: str) -> None:
        self.texts.append((identity, await reader.read_all(), dict(reader.info.attributes or {})))

    # What it answers

    async def _echo(self, call: rtc.RpcInvocationData) -> str:
        return f"{call.caller_identity}:{call.payload}"

    async def _count(self, call: rtc.RpcInvocationData) -> str:
        return str(len(call.payload))

    async def _fill(self, call: rtc.RpcInvocationData) -> str:
        return filling_bytes(int(call.payload))

    async def _refuse(self, call: rtc.RpcInvocationData) -> str:
        raise rtc.RpcError(4220, "invalid_payload", '{"issues":[]}')

    async def _fail(self, call: rtc.RpcInvocationData) -> str:
        raise RuntimeError("a bug")

    async def _slow(self, call: rtc.RpcInvocationData) -> str:
        self.slow_calls += 1
        await asyncio.sleep(1)
        return "slow"

    async def _sleep(self, call: rtc.RpcInvocationData) -> str:
        await asyncio.sleep(60)
        return "late"

    # What tests do with it

    async def ask(self, identity: str, method: str = "echo", payload: str = "hello") -> str:
        asking = self.local.perform_rpc(
            destination_identity=identity, method=method, payload=payload, response_timeout=30
        )
        return await asyncio.wait_for(asking, 60)

    async def code_of(self, identity: str, method: str = "echo", payload: str = "hello") -> int:
        """The number of the error that a call ends with."""
        with pytest.raises(rtc.RpcError) as failed:
            await self.ask(identity, method, payload)
        return int(failed.value.code)

    async def sees(self, identity: str) -> None:
        """Returns once a participant is there and can be asked."""

        def is_active() -> bool:
            found = self.room.remote_participants.get(identity)
            return found is not None and found.state == rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE

        await until(is_active, within=30, what=f"{identity} is seen to be active")

    def attributes_of(self, identity: str) -> dict[str, str]:
        found = self.room.remote_participants.get(identity)
        return dict(found.attributes) if found else {}

    def sid_of(self, identity: str) -> str:
        """Empty where nobody is there."""
        found = self.room.remote_participants.get(identity)
        return found.sid if found else ""

    def told(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each event of a name."""
        return [event[1:] for event in self.events if event[0] == name]


@asynccontextmanager
async def peer_in(stage: Stage, identity: str, **token: Any) -> AsyncIterator[Peer]:
    """Somebody who has joined, answers, and says so by the attribute ``ready``, which is told at once."""
    async with stage.room(identity, **token) as room:
        peer = Peer(room)
        await room.local_participant.set_attributes({"ready": "1"})
        yield peer
