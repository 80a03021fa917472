from curb_client import AgentCall
from curb_client.host import CallContext, HostedAgent


async def answer(call: AgentCall, context: CallContext) -> None:
    @call.on_message("quote")
    def quote(payload, meta):
        return {"plan": payload["plan"], "price": 12}

    @call.on_message("refund")
    async def refund(payload, meta):
        decision = await call.send.ask_host("human.requested", {"topic": "refund", **payload}, timeout=60)
        return {"allowed": decision["allowed"]}

    @call.on_message("notice", sender="host")
    def notice(payload, meta):
        call.send.to_client("banner", payload)

    context.record_turn("assistant", "Hi!" if context.variant("greeting") == "casual" else "Good day.")


agent = HostedAgent(
    answer,
    settings={
        "tts": {"provider": "kugelaudio", "voice": 1072},
        "stt": {"provider": "azure", "language": "en"},
        "llm": {"provider": "openai", "model": "large"},
    },
    adjustable={"host": ["tts.voice", "stt.language"]},
    experiments={"greeting": {"variants": {"casual": 1, "formal": 1}}},
)
