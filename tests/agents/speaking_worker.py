"""A livekit-agents application whose session speaks: it publishes audio, and the words of it as text.

Its argument is the name that it registers with.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import AsyncIterator
from typing import Any

from livekit import rtc
from livekit.agents import Agent, AgentServer, AgentSession, JobContext, JobExecutorType, room_io

from curb_client import AgentCall, RequestMeta

RATE = 24_000
"""Samples a second."""

server = AgentServer(job_executor_type=JobExecutorType.THREAD, host="127.0.0.1", port=0)


async def tone(seconds: float) -> AsyncIterator[rtc.AudioFrame]:
    """A tone of 440 Hz, in frames of 20 ms."""
    samples = RATE // 50
    for frame in range(round(seconds * 50)):
        wave = (math.sin(2 * math.pi * 440 * (frame * samples + n) / RATE) for n in range(samples))
        data = b"".join(round(8000 * value).to_bytes(2, "little", signed=True) for value in wave)
        yield rtc.AudioFrame(data, RATE, 1, samples)


@server.rtc_session(agent_name=sys.argv[1])
async def speaks(ctx: JobContext) -> None:
    await ctx.connect()
    session: Any = AgentSession(vad=None)
    options = room_io.RoomOptions(audio_input=False, close_on_disconnect=False)
    await session.start(Agent(instructions="You speak."), room=ctx.room, room_options=options)
    call = AgentCall(ctx.room)
    await call.__aenter__()
    ctx.add_shutdown_callback(call.aclose)

    @call.on_message("say")
    async def say(payload: Any, meta: RequestMeta) -> dict[str, Any]:
        speech = session.say(payload["text"], audio=tone(payload["seconds"]))
        await speech.wait_for_playout()
        return {"interrupted": speech.interrupted}

    await call.ready()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(server.run(devmode=True))
