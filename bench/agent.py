"""The agent that ``bench`` talks to: an echo by AgentCall, and one by the raw SDK."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any

from livekit import rtc

from curb_client import AgentCall, RequestMeta, connect_room


async def main() -> None:
    async with (
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room) as call,
    ):

        async def raw_echo(data: rtc.RpcInvocationData) -> str:
            return data.payload

        room.local_participant.register_rpc_method("raw.echo", raw_echo)

        @call.on_message("echo")
        async def echo(payload: Any, meta: RequestMeta) -> Any:
            return payload

        @call.on_message("cpu")
        def cpu(payload: Any, meta: RequestMeta) -> float:
            return time.process_time()

        await call.ready()
        await asyncio.to_thread(sys.stdin.read)


logging.getLogger("livekit").setLevel(logging.CRITICAL)
asyncio.run(main())
