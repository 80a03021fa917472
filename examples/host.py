import asyncio
import os

from curb_client.host import FileCursorStore, RunnerProcess


async def main() -> None:
    async with (
        RunnerProcess(["curb-client", "runner", "hosted_agent:agent"]) as process,
        process.client() as runner,
        runner.follow(FileCursorStore("cursor.json")) as host,
    ):
        host.on_ask("human.requested", lambda ask: {"allowed": True})
        events = host.call_events("call-42")
        url, token = os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]
        await runner.start_call(session_id="call-42", realtime_url=url, realtime_token=token)
        await runner.send("call-42", "notice", {"text": "We record."}, id="m-1")
        async for item in events:
            print(item)


asyncio.run(main())
