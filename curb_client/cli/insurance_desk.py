"""The agent of ``curb-client model-demo``: an insurance desk that opens claims for policies that it checked, and for
no others, whatever the caller says.

It answers typed text, with a model behind OpenAI's interface: OPENAI_BASE_URL, OPENAI_API_KEY, MODEL. A host runs it
with ``curb-client runner curb_client.cli.insurance_desk:agent``; it runs on its own too, with LIVEKIT_URL and
LIVEKIT_TOKEN of an agent: ``python -m curb_client.cli.insurance_desk``.

Needs `pip install 'curb-client[model]'`.
"""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from curb_client import AgentCall, RequestMeta, connect_room
from curb_client.host import CallContext, HostedAgent
from curb_client.model import AgentCore, Instruction, Llm, Skill, Tool, Turns, TypedText
from curb_client.protocol.settings import Adjustable

POLICIES = {"4711": "household", "0815": "car"}
ADJUSTABLE: Adjustable = {"client": ["llm"]}


@dataclass
class Desk:
    policy: str | None = None
    claim: str | None = None
    specialist: bool = False


class Policy(BaseModel):
    number: str


class Damage(BaseModel):
    what: str


def insurance_desk(desk: Desk) -> AgentCore[Desk]:
    def check_policy(policy: Policy) -> dict[str, object]:
        if policy.number not in POLICIES:
            return {"ok": False, "message": "There is no such policy."}
        desk.policy = policy.number
        return {"ok": True, "cover": POLICIES[policy.number]}

    def open_claim(damage: Damage) -> dict[str, object]:
        desk.claim = damage.what
        return {"ok": True, "claim": "C-17"}

    def claims(desk: Desk) -> Iterator[Instruction | Tool | str]:
        if desk.policy is None:
            yield Instruction("Ask for the number of the policy, and check it.")
            yield Tool("check_policy", "Looks a policy up.", check_policy, Policy)
        elif desk.claim is None:
            yield Instruction("Ask what was damaged, and open the claim.")
            yield f"The policy {desk.policy} is valid: {POLICIES[desk.policy]}."
            yield Tool("open_claim", "Opens a claim.", open_claim, Damage)
        else:
            yield f"A claim is open: {desk.claim}."

    def specialist(desk: Desk) -> Iterator[Instruction]:
        yield Instruction(f"Say that a specialist calls about {desk.claim or 'the damage'} today.")

    return AgentCore(
        "You answer for an insurance company. Be brief and kind.",
        desk,
        [
            Skill("/claims", "Claims", "When something was damaged.", claims),
            Skill("/specialist", "Specialist", "When a person should call.", specialist, lambda desk: desk.specialist),
        ],
    )


def settings_with(llm: Llm) -> dict[str, object]:
    own = {"provider": "openai-compatible", "model": llm.model, "baseURL": llm.base_url}
    return {"tts": {"provider": "none"}, "stt": {"provider": "none"}, "llm": own}


async def serve(call: AgentCall, llm: Llm) -> None:
    """Answer typed text in the call until it is cancelled."""
    desk = Desk()

    @call.on_message("specialist.free", sender="host")
    def free(payload: Any, meta: RequestMeta) -> None:
        desk.specialist = True

    @call.on_message("desk")
    def state(payload: Any, meta: RequestMeta) -> dict[str, Any]:
        return {"policy": desk.policy, "claim": desk.claim}

    async with (
        Turns(insurance_desk(desk), lambda: llm.with_settings(call.settings.llm)) as turns,
        TypedText(call, turns),
    ):
        await call.ready()
        await asyncio.Event().wait()


def llm_of_environment() -> Llm:
    own = os.environ.get
    return Llm(own("MODEL", "small"), own("OPENAI_BASE_URL"), own("OPENAI_API_KEY", "none"))


async def answer(call: AgentCall, context: CallContext) -> None:
    await serve(call, llm_of_environment())


agent = HostedAgent(answer, settings=settings_with(llm_of_environment()), adjustable=ADJUSTABLE)


async def main() -> None:
    llm = llm_of_environment()
    async with (
        connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
        AgentCall(room, settings=settings_with(llm), adjustable=ADJUSTABLE) as call,
    ):
        await serve(call, llm)


if __name__ == "__main__":
    asyncio.run(main())
