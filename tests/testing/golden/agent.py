"""An agent with mistakes: its price is wrong, its form lacks a field, and one of its handlers never ends."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from curb_client import AgentCall, RequestMeta, connect_room


async def main() -> None:
    async with (
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room) as call,
    ):

        @call.on_message("quote")
        def quote(payload: Any, meta: RequestMeta) -> dict[str, Any]:
            print("a quote for the plan", payload["plan"])
            return {"plan": payload["plan"], "price": 13}

        @call.on_message("open-form")
        def open_form(payload: Any, meta: RequestMeta) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(0.3, call.send.to_client, "show-form", {"fields": ["name"]})

        @call.on_message("approve")
        async def approve(payload: Any, meta: RequestMeta) -> None:
            print("waiting for somebody to approve it")
            await asyncio.sleep(60)

        await call.ready()
        await asyncio.Event().wait()


asyncio.run(main())
