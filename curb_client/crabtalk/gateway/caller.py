"""The caller's side of a gateway: one question with its whole answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from curb_client.crabtalk.gateway.payloads import ASK, PART
from curb_client.errors import MessageTimeoutError
from curb_client.room.arguments import check_timeout

if TYPE_CHECKING:
    from curb_client.room.client import AgentClient

__all__ = ["GatewayAnswer", "ask_crab"]

ASK_SECONDS: Final = 120.0
PARTS_SECONDS: Final = 15.0


@dataclass(frozen=True)
class GatewayAnswer:
    """What ``crab.ask`` brought.

    Attributes:
        session: of the daemon. usage: tokens, as ``prompt``, ``completion`` and ``total``.
    """

    content: str
    session: int
    usage: dict[str, int]


async def ask_crab(agent: AgentClient, content: str, *, timeout: float | None = None) -> GatewayAnswer:
    """Ask a gateway, and put the parts of a long answer together.

    Args:
        agent: the gateway, ``call.agent`` of a joined call.
        timeout: seconds, 120 by default.

    Raises:
        AgentRefusedError, AgentUnavailableError, livekit.rtc.RpcError: as of ``agent.ask``.
        MessageTimeoutError: parts of the answer did not come.
    """
    parts: dict[str, dict[int, str]] = {}
    came = asyncio.Event()

    def keep(payload: Any, _: Any) -> None:
        parts.setdefault(payload["stream"], {})[payload["part"]] = payload["content"]
        came.set()

    remove = agent.on(PART, keep)
    try:
        reply = await agent.ask(ASK, {"content": content}, timeout=check_timeout(timeout, default=ASK_SECONDS))
        text = reply["content"]
        if reply["parts"]:
            own = parts.setdefault(reply["stream"], {})
            deadline = asyncio.get_running_loop().time() + PARTS_SECONDS
            while len(own) < reply["parts"]:
                came.clear()
                left = deadline - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait_for(came.wait(), max(left, 0.0))
                except asyncio.TimeoutError:
                    raise MessageTimeoutError(
                        f"{len(own)} of {reply['parts']} parts of the answer came within {PARTS_SECONDS:g} s"
                    ) from None
            text = "".join(own[number] for number in range(reply["parts"]))
    finally:
        remove()
    return GatewayAnswer(text, reply["session"], reply["usage"])
