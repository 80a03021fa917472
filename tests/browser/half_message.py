"""An agent that sends the first half of a message to whoever says "begin"."""

from __future__ import annotations

import asyncio
import os

from curb_client import AgentCall, RequestMeta, connect_room


async def main() -> None:
    async with (
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room) as call,
    ):
        # A writer that goes while LiveKit's thread still ends its write closes its stream as if it were whole.
        writers = []

        @call.on_message("begin")
        async def begin(payload: object, meta: RequestMeta) -> None:
            assert meta.sender_identity is not None
            writer = await room.local_participant.stream_text(
                topic="curb.message", destination_identities=[meta.sender_identity]
            )
            writers.append(writer)
            await writer.write('{"key":"status","payload":')

        @call.on_message("slow")
        async def slow(payload: object, meta: RequestMeta) -> None:
            await asyncio.sleep(600)

        await call.ready()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
