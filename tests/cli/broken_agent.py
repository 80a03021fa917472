"""The demo's agent, misbehaving in one step: ``python -m tests.cli.broken_agent STEP``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, cast

from livekit import rtc

from curb_client import AgentCall, RequestMeta, connect_room
from curb_client.cli.demo_agent import SETTINGS, QuoteRequest, add_handlers
from curb_client.protocol.contract import REFUSAL_NUMBER, UPDATE, AdjustablePath
from curb_client.room.sdk import is_active
from curb_client.testing import LiveKitAddress


class Without:
    """A call whose handlers of one message are left out, for others to take their place."""

    def __init__(self, call: AgentCall, key: str) -> None:
        self.send = call.send
        self._call = call
        self._key = key

    def on_message(self, key: str, **options: Any) -> Callable[..., Any]:
        return self._call.on_message(key, **options) if key != self._key else lambda function: function


def add_other_handlers(call: AgentCall, step: str) -> None:
    """The demo's handlers, and what is wrong in this step."""

    async def other_form(payload: Any, meta: RequestMeta) -> None:
        await call.send.to_client("show-form", {"fields": ["age"]})

    def refuse_hello(payload: Any, meta: RequestMeta) -> None:
        if payload == {"text": "hello"}:
            raise RuntimeError("no greetings")

    def refuse_long(payload: Any, meta: RequestMeta) -> None:
        if len(payload) > 10_000:
            raise RuntimeError("too long")

    others: dict[str, tuple[str, type[QuoteRequest] | None, Callable[[Any, RequestMeta], Any]]] = {
        "send": ("note", None, refuse_hello),
        "ask": ("quote", QuoteRequest, lambda request, _: {"plan": request.plan, "price": 13}),
        "message from the agent": ("open-form", None, other_form),
        "invalid payload": ("quote", None, lambda payload, _: {"plan": payload["plan"], "price": 12}),
        "no handler": ("nobody-listens", None, lambda payload, _: None),
        "failing handler": ("broken", None, lambda payload, _: None),
        "15,360 bytes": ("note", None, refuse_long),
    }
    if step in others:
        key, schema, handler = others[step]
        call.on_message(key, handler, schema=schema)
        call = cast(AgentCall, Without(call, key))
    add_handlers(call)


async def update_to_another_voice(request: rtc.RpcInvocationData) -> str:
    if "tts" in json.loads(request.payload):
        return json.dumps({**SETTINGS, "tts": {"provider": "kugelaudio", "voice": 18}})
    raise rtc.RpcError(REFUSAL_NUMBER, "not_adjustable", '{"path":"stt.language"}')


class Nobody:
    """An agent with the identity that should be absent."""

    def __init__(self, stack: AsyncExitStack, beside: rtc.Room) -> None:
        self._stack = stack
        self._beside = beside
        self._came = False

    async def come(self, payload: Any, meta: RequestMeta) -> None:
        """With the app's first message, and before the answer; sooner, the app might take this one for its agent."""
        if self._came:
            return
        self._came = True
        key, secret = os.environ["CURB_LIVEKIT_API_KEY"], os.environ["CURB_LIVEKIT_API_SECRET"]
        address = LiveKitAddress(os.environ["LIVEKIT_URL"], key, secret)
        token = address.token("nobody", self._beside.name, kind="agent")
        room = await self._stack.enter_async_context(connect_room(address.url, token))
        call = await self._stack.enter_async_context(AgentCall(room))
        add_handlers(call)
        await call.ready()
        others = self._beside.remote_participants
        while "nobody" not in others or not is_active(others["nobody"]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def main(step: str) -> None:
    if step == "agent joins":
        sys.stderr.write("no time for this call\n")
        await asyncio.to_thread(sys.stdin.read)
        return
    adjustable: list[AdjustablePath] = ["tts.voice"]
    if step == "update refused":
        adjustable.append("stt.language")
    async with (
        AsyncExitStack() as stack,
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room, settings=SETTINGS, adjustable={"client": adjustable}) as call,
    ):
        add_other_handlers(call, step)
        if step == "update accepted":
            room.local_participant.register_rpc_method(UPDATE, update_to_another_voice)
        if step == "absent agent":
            call.on_message("note", Nobody(stack, room).come)
        await call.ready()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
