"""The demo's agent: joins the room that its environment names, until its standard input ends."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pydantic

from curb_client import AgentCall, RequestMeta, connect_room

SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure", "language": "en"},
    "llm": {"provider": "openai", "model": "demo"},
}


class QuoteRequest(pydantic.BaseModel):
    plan: str


def add_handlers(call: AgentCall) -> None:
    """What this agent answers."""

    @call.on_message("note")
    def note(payload: Any, meta: RequestMeta) -> None:
        """Takes anything."""

    @call.on_message("quote", schema=QuoteRequest)
    def quote(request: QuoteRequest, meta: RequestMeta) -> dict[str, Any]:
        return {"plan": request.plan, "price": 12}

    @call.on_message("open-form")
    async def open_form(payload: Any, meta: RequestMeta) -> None:
        await call.send.to_client("show-form", {"fields": ["name", "policy"]})

    @call.on_message("broken")
    def broken(payload: Any, meta: RequestMeta) -> None:
        raise RuntimeError("this handler always fails")


async def main() -> None:
    async with (
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room, settings=SETTINGS, adjustable={"client": ["tts.voice"]}) as call,
    ):
        add_handlers(call)
        await call.ready()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
