"""An agent as its author declares it: a function, and what the runner must know before a call comes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from curb_client.errors import UsageError
from curb_client.protocol.experiments import ExperimentDefinitions, assign_experiments
from curb_client.protocol.settings import Adjustable, ProviderRules
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.agent import AgentCall
from curb_client.room.live_settings import LiveSettings

if TYPE_CHECKING:
    from curb_client.host.runner.context import CallContext

__all__ = ["AgentFunction", "HostedAgent", "as_hosted"]

AgentFunction: TypeAlias = Callable[[AgentCall, "CallContext"], Awaitable[None] | None]
"""What a call's agent does, plain or async: it adds its handlers, and may return at once or go on."""


class HostedAgent:
    """An agent for a :class:`Runner`.

    Args:
        function: called for each call, in its room, as ``function(call, context)``. The call goes on when it returns,
            until the caller leaves, the host stops it, the room ends or ``context.end()``. When it raises, the call
            ends with the reason ``agent_error``. It answers requests from its first return on, or from
            ``await call.ready()``.
        settings: the agent's own; see :class:`curb_client.AgentCall`.
        adjustable: the paths that ``client`` and ``host`` may change during a call; none by default.
        experiments: ``{name: {"variants": {name: weight}, "fromClient": key}}``. A host assigns variants itself;
            where there is none that does (the modes ``direct-join``, ``dev`` and ``worker``), they are assigned by
            the protocol's rule.
        warm_up: plain (run in a thread) or async; the runner is ready when it has returned, and ends if it raises.
        client_identity: the only participant taken as the caller's app; everybody of kind STANDARD by default.
        rules: values that providers do not take.

    Raises:
        UsageError: settings, paths or experiments that do not fit.
    """

    def __init__(
        self,
        function: AgentFunction,
        *,
        settings: EffectiveSettings | Mapping[str, Any] | None = None,
        adjustable: Adjustable | None = None,
        experiments: ExperimentDefinitions | None = None,
        warm_up: Callable[[], Awaitable[Any] | Any] | None = None,
        client_identity: str | None = None,
        rules: ProviderRules | None = None,
    ) -> None:
        if not callable(function):
            raise UsageError(f"the agent must be a function of (call, context), not {type(function).__name__}")
        LiveSettings(settings, adjustable or {}, rules or ProviderRules())
        assign_experiments(experiments or {}, "")
        self.function = function
        self.call_options: dict[str, Any] = {
            "settings": settings,
            "adjustable": adjustable,
            "client_identity": client_identity,
            "rules": rules,
        }
        self.client_identity = client_identity
        self.experiments: ExperimentDefinitions = dict(experiments or {})
        self._warm_up = warm_up

    async def warm_up(self) -> None:
        """Whatever the author's function raises."""
        if self._warm_up is None:
            return
        if inspect.iscoroutinefunction(self._warm_up):
            await self._warm_up()
        else:
            made = await _in_thread(self._warm_up)
            if inspect.isawaitable(made):
                await made


def as_hosted(agent: HostedAgent | AgentFunction) -> HostedAgent:
    """The agent itself, or a plain function as one."""
    return agent if isinstance(agent, HostedAgent) else HostedAgent(agent)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """In a thread that does not keep the process from ending, as those of the loop's executor do."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = function()
        except BaseException as raised:
            is_plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if is_plain else RuntimeError(f"it raised {raised!r}")  # type: ignore[assignment]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="curb-warm-up", daemon=True).start()
    return await outcome
