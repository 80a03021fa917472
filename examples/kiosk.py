import asyncio
import os

from curb_client import AgentRefusedError, join


async def main() -> None:
    async with join(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as call:
        form = call.agent.wait_for("show-form")
        try:
            quote = await call.agent.ask("quote", {"plan": "basic"}, timeout=5)
            print("price:", quote["price"])
            print("form:", await form)
        except AgentRefusedError as refused:
            print("the agent said no:", refused.code, refused.issues)


asyncio.run(main())
