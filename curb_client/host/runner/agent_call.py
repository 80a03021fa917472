"""The agent's side of a call, with what its runner must know of it besides."""

from __future__ import annotations

import asyncio

from curb_client.room.agent import AgentCall

__all__ = ["RunnerAgentCall"]


class RunnerAgentCall(AgentCall):
    """The :class:`curb_client.AgentCall` that a hosted agent is given."""

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`ready` was called (or the call closed)."""
        return self._ready.is_set()

    async def until_ready(self) -> None:
        """Returns when the agent takes requests."""
        await self._ready.wait()

    def awaits_reply(self, ask_id: str | None) -> bool:
        """Whether the agent waits for the host's reply to this ask."""
        return ask_id is not None and self._asks.is_waiting(ask_id)

    def has_taken(self, message_id: str) -> bool:
        """Whether the host's message of this id was delivered, or is being delivered."""
        return self._answers.find((None, message_id)) is not None

    async def until_idle(self) -> None:
        """Returns when no message handler runs any more."""
        while running := self._answers.running():
            await asyncio.wait(running)
