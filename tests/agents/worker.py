"""A livekit-agents application that talks to the caller's app through AgentCall: no model, no audio.

Its argument is the name that it registers with; without one it takes part in LiveKit's dispatch of its own.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from livekit.agents import AgentServer, JobContext, JobExecutorType

from curb_client import AgentCall, RequestMeta

server = AgentServer(job_executor_type=JobExecutorType.THREAD, host="127.0.0.1", port=0)


@server.rtc_session(agent_name="".join(sys.argv[1:]))
async def quotes(ctx: JobContext) -> None:
    print("job", ctx.job.id)
    await ctx.connect()
    call = AgentCall(ctx.room, settings=None, adjustable={"client": ["tts.voice"]})
    await call.__aenter__()
    ctx.add_shutdown_callback(call.aclose)

    @call.on_message("quote")
    async def quote(payload: Any, meta: RequestMeta) -> dict[str, Any]:
        call.send.to_client("show-form", {"for": meta.sender_identity})
        return {"plan": payload["plan"], "price": 12}

    await call.ready()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(server.run(devmode=True))
