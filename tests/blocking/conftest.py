"""An agent on a thread and loop of its own, since these tests hold up theirs."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pytest
from typing_extensions import Self

from curb_client import AgentCall, blocking
from tests.e2e.conftest import SETTINGS, Stage, livekit, stage

__all__ = ["AgentSide", "Pair", "livekit", "stage", "until"]

_SECONDS = 20.0


class AgentSide:
    """Runs :meth:`Stage.agent`; each of its methods waits."""

    def __init__(self, stage: Stage, **options: Any) -> None:
        self._stage = stage
        self._options = options
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._joined: Future[AgentCall] = Future()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._leave = asyncio.Event()
        try:
            async with self._stage.agent(**self._options) as call:
                self._joined.set_result(call)
                await self._leave.wait()
        except BaseException as error:
            if self._joined.done():
                raise
            self._joined.set_exception(error)

    def __enter__(self) -> Self:
        self._thread.start()
        self._joined.result(_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive()

    def do(self, work: Callable[[AgentCall], Any]) -> Any:
        """What ``work`` returns, called on the agent's loop, and awaited if it can be."""

        async def on_loop() -> Any:
            result = work(self._joined.result())
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(_SECONDS)

    def on(self, key: str, handler: Callable[[Any, Any], Any] | Callable[[Any, Any], Coroutine[Any, Any, Any]]) -> None:
        self.do(lambda call: call.on_message(key, handler))

    def tell(self, key: str, payload: dict[str, Any] | None = None) -> None:
        """Send the caller a message."""
        assert self.do(lambda call: call.send.to_client(key, payload or {}))


@dataclass(frozen=True)
class Pair:
    """A caller's blocking client and the agent that it talks to."""

    stage: Stage
    call: blocking.Call
    agent: AgentSide

    @property
    def client(self) -> blocking.AgentClient:
        return self.call.agent


@pytest.fixture
def pair(stage: Stage) -> Iterator[Pair]:
    with blocking.join(stage.url, stage.token("caller")) as call, AgentSide(stage, settings=SETTINGS) as agent:
        agent.on("echo", lambda payload, meta: payload)
        yield Pair(stage, call, agent)


def until(condition: Callable[[], object], *, within: float = 10.0, what: str = "the condition") -> None:
    """Wait until ``condition()`` is true."""
    given_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < given_up, f"{what} was not true within {within:g} s"
        time.sleep(0.01)
