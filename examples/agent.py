import asyncio
import os

from curb_client import AgentCall, connect_room


async def main() -> None:
    async with (
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room) as call,
    ):

        @call.on_message("quote")
        def quote(payload, meta):
            call.send.to_client("show-form", {"fields": ["name", "policy"]})
            return {"plan": payload["plan"], "price": 12}

        await call.ready()
        await asyncio.Event().wait()


asyncio.run(main())
