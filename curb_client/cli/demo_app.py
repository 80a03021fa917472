"""The demo's app: goes through the steps and prints one JSON object for each."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable

from curb_client import AgentRefusedError, AgentUnavailableError, Call, RunnerRefusedError, connect_agent, join
from curb_client.protocol.envelope import encode_request

STEP_SECONDS = 20.0
_ID = "00000000-0000-4000-8000-000000000000"


async def agent_joins(call: Call) -> str:
    agent = call.agent
    ready = asyncio.Event()
    stop = agent.on_presence(lambda presence: ready.set() if presence.state == "ready" else None)
    if agent.presence.state != "ready":
        await ready.wait()
    stop()
    return f"{agent.presence.identity} is {agent.presence.state.value}"


async def send(call: Call) -> str:
    await call.agent.send("note", {"text": "hello"})
    return "taken"


async def ask(call: Call) -> str:
    return _json(await call.agent.ask("quote", {"plan": "basic"}, timeout=5))


async def message_from_agent(call: Call) -> str:
    form = call.agent.wait_for("show-form", timeout=5)
    await call.agent.send("open-form")
    return _json(await form)


async def update_accepted(call: Call) -> str:
    settings = await call.agent.update({"tts": {"voice": 17}})
    return f"{settings.tts.provider} voice {settings.tts.voice}"


async def update_refused(call: Call) -> str:
    return await _refusal(call.agent.update({"stt": {"language": "de"}}))


async def invalid_payload(call: Call) -> str:
    return await _refusal(call.agent.ask("quote", {"plan": 3}))


async def no_handler(call: Call) -> str:
    return await _refusal(call.agent.send("nobody-listens"))


async def failing_handler(call: Call) -> str:
    return await _refusal(call.agent.send("broken"))


async def largest_request(call: Call) -> str:
    await call.agent.send("note", _filling(15_360), message_id=_ID)
    return "taken"


async def too_large_request(call: Call) -> str:
    return await _refusal(call.agent.send("note", _filling(15_361), message_id=_ID))


async def absent_agent(call: Call) -> str:
    await call.agent.aclose()  # one client a room
    async with connect_agent(call.room, agent_identity="nobody") as nobody:
        try:
            await nobody.send("note", timeout=1)
        except AgentUnavailableError as error:
            return f"unavailable: {error.state}"
    return "taken"


Run = Callable[[Call], Awaitable[str]]

STEPS: tuple[tuple[str, str, Run], ...] = (
    ("agent joins", "agent is ready", agent_joins),
    ("send", "taken", send),
    ("ask", '{"plan": "basic", "price": 12}', ask),
    ("message from the agent", '{"fields": ["name", "policy"]}', message_from_agent),
    ("update accepted", "kugelaudio voice 17", update_accepted),
    ("update refused", "not_adjustable, path stt.language", update_refused),
    ("invalid payload", "invalid_payload, issue at plan", invalid_payload),
    ("no handler", "no_handler", no_handler),
    ("failing handler", "handler_failed", failing_handler),
    ("15,360 bytes", "taken", largest_request),
    ("15,361 bytes", "payload_too_large, 15361 bytes, limit 15360", too_large_request),
    ("absent agent", "unavailable: absent", absent_agent),
)


async def _refusal(request: Awaitable[object]) -> str:
    try:
        return f"answered {_json(await request)}"
    except AgentRefusedError as error:
        return refusal_text(error)


def refusal_text(error: AgentRefusedError | RunnerRefusedError) -> str:
    """The code, and what comes with it."""
    parts = [str(getattr(error.code, "value", error.code))]
    parts += [f"path {error.path}"] if error.path else []
    parts += [f"issue at {'.'.join(map(str, issue.path))}" for issue in error.issues]
    if isinstance(error, AgentRefusedError) and error.size:
        parts.append(f"{error.size} bytes, limit {error.limit}")
    return ", ".join(parts)


def _filling(request_bytes: int) -> str:
    """A text that makes the whole request so many bytes."""
    return "x" * (request_bytes - len(encode_request("note", _ID, "")))


def _json(value: object) -> str:
    return json.dumps(value, default=str)


async def main() -> None:
    async with join(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as call:
        for name, expected, run in STEPS:
            started = time.monotonic()
            try:
                got = await asyncio.wait_for(run(call), STEP_SECONDS)
            except Exception as error:
                reason = str(error)
                if isinstance(error, asyncio.TimeoutError) and not reason:
                    reason = f"not done within {STEP_SECONDS:g} s"
                got = f"{type(error).__name__}: {reason}"
            ms = round((time.monotonic() - started) * 1000, 1)
            print(json.dumps({"name": name, "expected": expected, "got": got, "ms": ms}), flush=True)
            if run is agent_joins and got != expected:
                sys.exit("the other steps need an agent")  # each would wait for it in vain


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    asyncio.run(main())
