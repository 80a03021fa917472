"""Agents for the runners of the tests: ``curb-client runner tests.host.agent:agent``.

``agent`` does what a test may want of a call, by messages; its calls do not differ otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from typing import Any

from curb_client import AgentCall, HostUnavailableError
from curb_client.errors import HostTimeoutError
from curb_client.host import CallContext, HostedAgent

SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure", "language": "en"},
    "llm": {"provider": "openai-compatible", "model": "large", "baseURL": "http://llm.internal/v1"},
}
ADJUSTABLE: Any = {"client": ["tts.voice"], "host": ["tts.voice", "stt.language"]}
EXPERIMENTS = {"greeting": {"variants": {"casual": 1, "formal": 1}, "fromClient": "tone"}}


def answer(call: AgentCall, context: CallContext) -> None:
    """Handlers for both sides of a call."""

    @call.on_message("quote")
    def quote(payload: Any, meta: Any) -> Any:
        return {"plan": payload["plan"], "price": 12}

    @call.on_message("ask-host")
    async def ask_host(payload: Any, meta: Any) -> Any:
        try:
            return {"answer": await call.send.ask_host(payload["name"], payload["payload"], timeout=payload["timeout"])}
        except (HostTimeoutError, HostUnavailableError) as error:
            return {"error": type(error).__name__}

    @call.on_message("context")
    def tell(payload: Any, meta: Any) -> Any:
        return {
            "session": context.session_id,
            "direction": context.direction,
            "client": dict(context.client_context),
            "experiments": dict(context.experiments),
            "settings": call.settings.to_wire(),
        }

    @call.on_message("say")
    def say(payload: Any, meta: Any) -> None:
        context.record_turn(payload["role"], payload["text"])

    @call.on_message("end")
    def end(payload: Any, meta: Any) -> None:
        context.end(payload["reason"])

    @call.on_message("echo", sender="client")
    @call.on_message("echo", sender="host")
    def echo(payload: Any, meta: Any) -> Any:
        return payload

    @call.on_message("notice", sender="host")
    def notice(payload: Any, meta: Any) -> None:
        call.send.to_client("noticed", payload)
        call.send.to_host("thanks", {"id": meta.id})

    @call.on_message("slow", sender="host")
    async def slow(payload: Any, meta: Any) -> None:
        await asyncio.sleep(payload["seconds"])

    @call.on_message("fail", sender="host")
    def fail(payload: Any, meta: Any) -> None:
        raise RuntimeError("as it was told to")


agent = HostedAgent(answer, settings=SETTINGS, adjustable=ADJUSTABLE, experiments=EXPERIMENTS)


def blocking(call: AgentCall, context: CallContext) -> None:
    print("blocking", flush=True)
    time.sleep(600)


async def stubborn(call: AgentCall, context: CallContext) -> None:
    """Neither its task nor its thread ends."""
    await call.ready()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.to_thread(time.sleep, 600)


def fail_to_warm_up() -> None:
    raise RuntimeError("the model is not there")


cold = HostedAgent(answer, warm_up=fail_to_warm_up)


async def warm_up_forever() -> None:
    print("warming up", flush=True)
    await asyncio.Event().wait()


lukewarm = HostedAgent(answer, warm_up=warm_up_forever)


def warm_up_in_vain() -> None:
    time.sleep(600)


frozen = HostedAgent(answer, warm_up=warm_up_in_vain)


def blurt(call: AgentCall, context: CallContext) -> None:
    """Puts the runner's token where it should not be seen."""
    print("a line of the agent's own", flush=True)
    logging.getLogger("agent").warning("the token is %s", os.environ["CURB_MANAGEMENT_TOKEN"])
    raise RuntimeError(f"bad token {os.environ['CURB_MANAGEMENT_TOKEN']}")


careless = HostedAgent(blurt)
