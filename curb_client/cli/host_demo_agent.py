"""The agent of the host demo, for a runner: ``curb-client runner curb_client.cli.host_demo_agent:agent``."""

from __future__ import annotations

from typing import Any

import pydantic

from curb_client import AgentCall, RequestMeta
from curb_client.host import CallContext, HostedAgent

__all__ = ["SETTINGS", "Lead", "add_handlers", "agent"]

SETTINGS: dict[str, Any] = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure", "language": "en"},
    "llm": {"provider": "openai", "model": "demo"},
}
ADJUSTABLE: Any = {"client": ["tts.voice"], "host": ["tts.voice", "stt.language"]}


class Lead(pydantic.BaseModel):
    score: int = pydantic.Field(strict=True)


def add_handlers(call: AgentCall, context: CallContext) -> None:
    """What this agent answers."""

    @call.on_message("quote")
    def quote(payload: Any, meta: RequestMeta) -> dict[str, Any]:
        return {"plan": payload["plan"], "price": 12, "event": context.client_context.get("event")}

    @call.on_message("refund")
    async def refund(payload: Any, meta: RequestMeta) -> dict[str, Any]:
        context.record_turn("user", "I want my money back.")
        answer = await call.send.ask_host("human.requested", {"topic": "refund"})
        return {"refund": answer["disposition"]}

    @call.on_message("ops.notice", sender="host")
    async def notice(payload: Any, meta: RequestMeta) -> None:
        await call.send.to_client("show-notice", payload)
        call.send.to_host("notice.shown", {"of": meta.id})

    @call.on_message("lead", sender="host", schema=Lead)
    def lead(payload: Lead, meta: RequestMeta) -> None:
        call.send.to_host("lead.taken", {"score": payload.score})


agent = HostedAgent(add_handlers, settings=SETTINGS, adjustable=ADJUSTABLE)
