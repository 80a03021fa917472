"""Turns: the person says something, the model is asked until it has an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import openai
from typing_extensions import Self

from curb_client.errors import TurnError
from curb_client.model.builder.core import AgentCore
from curb_client.model.builder.harmless import made_harmless
from curb_client.model.contract import SKIP_TURN
from curb_client.model.message import ToolCall
from curb_client.protocol.json_text import without_lone_surrogates
from curb_client.protocol.types import LlmSettings

__all__ = ["Llm", "Turns", "with_delta"]

MAX_REQUESTS: Final = 8

logger: Final = logging.getLogger("curb_client.model")


@dataclass(frozen=True)
class Llm:
    """A model behind OpenAI's interface.

    Attributes:
        model: its name. base_url: where it is; OpenAI's own unless given. api_key: never shown.
    """

    model: str
    base_url: str | None = None
    api_key: str = "none"

    def with_settings(self, settings: LlmSettings) -> Llm:
        """The model that a call's settings name, at their endpoint or else at this one; this one if they name none."""
        if settings.provider == "none":
            return self
        return replace(self, model=settings.model, base_url=settings.base_url or self.base_url)

    def __repr__(self) -> str:
        return f"Llm(model={self.model!r}, base_url={self.base_url!r})"


class Turns:
    """Runs the turns of one agent, one after the other; ``async with`` it, or close it.

    Args:
        core: the agent.
        llm: the model, or what gives the one for the next turn.
        timeout: seconds for each request to the model.
    """

    def __init__(self, core: AgentCore[Any], llm: Llm | Callable[[], Llm], *, timeout: float = 30.0) -> None:
        self.core = core
        self._llm = llm if callable(llm) else lambda: llm
        self._timeout = timeout
        self._clients: dict[tuple[str | None, str], openai.AsyncOpenAI] = {}
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to models."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def run(self, said: str, *, on_text: Callable[[str], None] = lambda _: None) -> str | None:
        """The model's reply to what the person said; None where it has nothing to say, and once it ended the call.

        Args:
            on_text: called with each piece of the reply as it comes.

        Raises:
            TurnError: the model could not be reached, did not answer in time, or called tools without an end.
        """
        async with self._one_at_a_time:
            if self._has_ended():
                logger.warning("the call has ended; the model is not asked about %r", made_harmless(said)[:80])
                return None
            self.core.user_said(said)
            llm = self._llm()
            spoken: list[str] = []
            for _ in range(MAX_REQUESTS):
                text, calls = await self._ask(llm, on_text)
                if text:
                    spoken.append(text)
                if not calls:
                    if text:
                        self.core.assistant_said(text)
                    return "\n".join(spoken) or None
                await self.core.run_tools(text, calls)
                if self._has_ended() or any(call.name == SKIP_TURN for call in calls):
                    return "\n".join(spoken) or None
            raise TurnError(f"the model called tools in {MAX_REQUESTS} requests of one turn, and gave no answer")

    def _has_ended(self) -> bool:
        return self.core.is_over

    async def _ask(self, llm: Llm, on_text: Callable[[str], None]) -> tuple[str, list[ToolCall]]:
        try:
            return await asyncio.wait_for(self._stream(llm, on_text), self._timeout)
        except asyncio.TimeoutError:
            raise TurnError(f"the model {llm.model!r} did not finish its answer within {self._timeout:g} s") from None
        except openai.OpenAIError as error:
            raise TurnError(f"the model {llm.model!r} gave no answer: {error}") from error

    async def _stream(self, llm: Llm, on_text: Callable[[str], None]) -> tuple[str, list[ToolCall]]:
        texts: list[str] = []
        calls: dict[int, ToolCall] = {}
        is_complete = False
        stream: Any = await self._client(llm).chat.completions.create(
            model=llm.model, stream=True, **self.core.request()
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    texts.append(choice.delta.content)
                    on_text(choice.delta.content)
                for delta in choice.delta.tool_calls or ():
                    calls[delta.index] = with_delta(calls.get(delta.index), delta)
                is_complete = is_complete or choice.finish_reason is not None
        if not is_complete:
            raise TurnError(f"the answer of the model {llm.model!r} was cut off after {len(''.join(texts))} characters")
        return without_lone_surrogates("".join(texts)), [calls[index] for index in sorted(calls)]

    def _client(self, llm: Llm) -> openai.AsyncOpenAI:
        key = (llm.base_url, llm.api_key)
        if key not in self._clients:
            self._clients[key] = openai.AsyncOpenAI(base_url=llm.base_url, api_key=llm.api_key, timeout=self._timeout)
        return self._clients[key]


def with_delta(call: ToolCall | None, delta: Any) -> ToolCall:
    """The call so far with a piece of a stream added to it."""
    call = call or ToolCall("", "", "")
    function = delta.function  # some servers send the id alone first
    return ToolCall(
        call.id or delta.id or "",
        call.name + ((function and function.name) or ""),
        call.arguments + ((function and function.arguments) or ""),
    )
