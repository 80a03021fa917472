"""A message from host to agent against a bare echo of the same bytes by aiohttp, interleaved.

Both servers run in processes of their own, and the same client posts the same bodies to both, so many at a time. What
the runner does besides: it checks the token and the body, looks the call up, runs the agent's handler, remembers the
id, and puts the message on record.

``python -m bench.messages`` measures this alone; ``python -m bench.messages echo`` is the echo.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
from aiohttp import web

from curb_client import AgentCall, RequestMeta
from curb_client.host import CallContext, HostedAgent, RunnerProcess
from curb_client.protocol.ready_line import write_lifecycle_line
from curb_client.protocol.records import LifecycleReady
from curb_client.testing import livekit_server

__all__ = ["TARGETS", "measure_messages", "print_messages"]

ROUNDS: Final = 20
MESSAGES_A_ROUND: Final = 300
AT_ONCE: Final = 16
CALL: Final = "bench"
CONNECT_SECONDS: Final = 30.0
TARGETS: Final = {"messages": 0.5}
"""The runner's rate over the echo's, at least."""

Post = Callable[[], Awaitable[None]]


def take_notes(call: AgentCall, context: CallContext) -> None:
    """The agent: one handler that does nothing."""

    @call.on_message("note", sender="host")
    def note(payload: Any, meta: RequestMeta) -> None:
        """Takes anything."""


agent = HostedAgent(take_notes)


def serve_echo() -> None:
    """A bare echo, which says where it listens as a runner does."""

    async def echo(request: web.Request) -> web.Response:
        return web.json_response(await request.json())

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/echo", echo)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        body = LifecycleReady(event="ready", address=f"127.0.0.1:{port}", max_sessions=0, warmup_ms=0)
        print(write_lifecycle_line(body), flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


async def rate(post: Post) -> float:
    """Requests a second, so many at a time."""
    left = MESSAGES_A_ROUND

    async def one_after_the_other() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await post()

    started = time.perf_counter()
    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return MESSAGES_A_ROUND / (time.perf_counter() - started)


def post_to(http: aiohttp.ClientSession, url: str, token: str, status: int) -> Post:
    """Posts a message with an id of its own, and expects this status."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    async def post() -> None:
        message = {"id": str(uuid.uuid4()), "name": "note", "payload": {"text": "x" * 100}}
        async with http.post(url, data=json.dumps(message), headers=headers) as response:
            answer = await response.json()
            assert (response.status, answer["id"]) == (status, message["id"]), answer

    return post


async def measure_messages() -> dict[str, Any]:
    """Medians of the rates, and of their ratio in each round."""
    runner_command = [sys.executable, "-m", "curb_client.cli", "runner", "bench.messages:agent"]
    echo_command = [sys.executable, "-m", "bench.messages", "echo"]
    rates: dict[str, list[float]] = {"runner": [], "echo": []}
    with livekit_server("embedded") as server:
        async with (
            RunnerProcess(runner_command, stop_within=1.0) as process,
            RunnerProcess(echo_command, stop_within=0.0) as echo,
            process.client() as runner,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
        ):
            token = server.token("agent", CALL, kind="agent")
            await runner.start_call(session_id=CALL, realtime_url=server.url, realtime_token=token)
            deadline = time.monotonic() + CONNECT_SECONDS
            while (await runner.call(CALL)).state != "connected":
                assert time.monotonic() < deadline, "the call does not connect"
                await asyncio.sleep(0.05)
            ways = {
                "runner": post_to(http, f"http://{process.address}/v1/sessions/{CALL}/messages", process.token, 202),
                "echo": post_to(http, f"http://{echo.address}/echo", process.token, 200),
            }
            for number in range(ROUNDS + 1):
                for name in random.Random(number).sample(list(ways), len(ways)):
                    measured = await rate(ways[name])
                    if number:  # the first round warms up
                        rates[name].append(measured)
            await runner.stop_call(CALL)
    ratios = [one / other for one, other in zip(rates["runner"], rates["echo"], strict=True)]
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {"per_second": medians, "ratio": statistics.median(ratios), "load": os.getloadavg()}


def print_messages(result: dict[str, Any]) -> None:
    per_second = result["per_second"]
    print(f"\nmessages from the host: {per_second['runner']:.0f} a second, a bare echo {per_second['echo']:.0f}")
    print(f"ratio {result['ratio']:.2f}   target {TARGETS['messages']}, at least")


if __name__ == "__main__":
    if sys.argv[1:] == ["echo"]:
        serve_echo()
    else:
        print_messages(asyncio.run(measure_messages()))
