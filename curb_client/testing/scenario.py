"""Scenarios: what a caller's app does and what the agent must do then, as YAML, run against a real LiveKit server.

::

    from curb_client.testing import livekit_server
    from curb_client.testing.scenario import load_scenario, run_scenario

    scenario = load_scenario("quote.yaml")
    async with livekit_server() as server:
        result = await run_scenario(scenario, server)
    assert result.ok, result.problem

The form of the file is told in :mod:`curb_client.testing.scenario_file`. The command ``curb-client test`` runs files.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from curb_client.errors import AgentProcessError, CurbError, ExpectationError
from curb_client.testing._python_agent import python_agent_command, python_agent_environment
from curb_client.testing._scenario_loading import Scenario, load_scenario
from curb_client.testing._scenario_steps import perform
from curb_client.testing.agent_process import AgentProcess
from curb_client.testing.call import CurbCall
from curb_client.testing.scenario_file import Step, TimedStep
from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle

__all__ = ["Scenario", "ScenarioResult", "StepResult", "load_scenario", "run_scenario"]

_LOOK_EVERY: Final = 0.1
_LAST_WORDS_SECONDS: Final = 1.0
"""How long what an agent sent before its process ended may be on its way."""
_OUTPUT_SECONDS: Final = 0.1


@dataclass(frozen=True)
class StepResult:
    """What came of a step.

    Attributes:
        text: what it does, on a line.
        line: in the file, counted from 1.
        status: the steps after one that failed are not run.
        ms: milliseconds that it took.
        problem: in what it failed, None where it did not.
    """

    text: str
    line: int
    status: Literal["passed", "failed", "not run"] = "not run"
    ms: float = 0.0
    problem: str | None = None


@dataclass(frozen=True)
class ScenarioResult:
    """What came of a scenario.

    Attributes:
        seconds: that it took, with the agent's start and end.
        problem: where it failed and in what, in lines; None where it did not.
        report: after a failure, the exchange and the last output of the agent's process; else empty.
    """

    scenario: Scenario
    seconds: float
    steps: Sequence[StepResult]
    problem: str | None = None
    report: str = ""

    @property
    def ok(self) -> bool:
        return self.problem is None


async def run_scenario(scenario: Scenario, server: LiveKitServerHandle | LiveKitAddress) -> ScenarioResult:
    """Runs a scenario in a room of its own, with an agent of its own that is gone at the end.

    It never waits longer than the deadlines of the agent and the steps together, and some seconds more to end. What
    goes wrong is told in the result.
    """
    started = time.monotonic()
    call = CurbCall(server, strict=scenario.strict, exchange_in_errors=False)
    run = _Run(scenario, call)
    try:
        await run.to_its_end()
    finally:
        await call.aclose()
    return ScenarioResult(scenario, round(time.monotonic() - started, 3), run.steps, run.problem, run.report)


class _Run:
    def __init__(self, scenario: Scenario, call: CurbCall) -> None:
        self.steps = [StepResult(step.text, line) for step, line in zip(scenario.steps, scenario.lines, strict=True)]
        self.problem: str | None = None
        self.report = ""
        self._scenario = scenario
        self._call = call
        self._process: AgentProcess | None = None
        self._process_ended_at: float | None = None

    async def to_its_end(self) -> None:
        """Starts the agent, takes the steps, and looks at what is left; ends at the first failure."""
        where = "before the first step"
        try:
            await self._start_agent()
            for index, step in enumerate(self._scenario.steps):
                where = f"in step {index + 1} of {len(self.steps)}, line {self.steps[index].line}: {step.text}"
                await self._take(index, step)
            where = "after the last step"
            await self._check_rest()
        except CurbError as error:
            self.problem = f"{where}\n{error}"
            await asyncio.sleep(_OUTPUT_SECONDS)  # for what the agent has just printed
            told_it_all = isinstance(error, AgentProcessError)
            self.report = self._call.recorder.report(time.monotonic()) if told_it_all else self._call.report()

    # The agent

    async def _start_agent(self) -> None:
        agent = self._scenario.agent
        _ = self._call.client  # joins
        await self._call.joined()
        script = agent.script_form
        if script is not None:
            await self._call.start_scripted_agent(script)
            await self._call.agent_is_there(agent.within)  # else the first step would wait for that news
        elif agent.python is not None:
            folder = self._scenario.file.absolute().parent
            options = python_agent_environment([folder, "."], agent.settings, agent.adjustable)
            self._process = await self._call.start_agent_process(
                python_agent_command(agent.python), env={**agent.env, **options}, within=agent.within
            )
        else:
            self._process = await self._call.start_agent_process(
                agent.command,
                worker=agent.worker is not None,
                agent_name=agent.worker or "",
                env=agent.env,
                cwd=self._scenario.file.absolute().parent / agent.cwd,
                within=agent.within,
            )

    # The steps

    async def _take(self, index: int, step: Step) -> None:
        within = self._scenario.within
        if isinstance(step, TimedStep) and step.within is not None:
            within = step.within
        doing = perform(step, self._call, within)
        started = time.monotonic()
        status: Literal["passed", "failed"] = "failed"
        problem: str | None = None
        try:
            await (self._while_agent_runs(doing) if isinstance(step, TimedStep) else doing)
            status = "passed"
        except CurbError as error:
            problem = str(error)
            raise
        finally:
            ms = round((time.monotonic() - started) * 1000, 1)
            self.steps[index] = replace(self.steps[index], status=status, ms=ms, problem=problem)

    async def _while_agent_runs(self, doing: Coroutine[Any, Any, None]) -> None:
        """LiveKit tells of a participant that was killed only after some 20 s."""
        task = asyncio.ensure_future(doing)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_LOOK_EVERY)
                if not task.done() and self._has_been_gone():
                    assert self._process is not None
                    status = self._process.exit_status
                    raise ExpectationError(f"the agent's process ended with exit status {status} meanwhile")
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _has_been_gone(self) -> bool:
        if self._process is None or self._process.exit_status is None:
            return False
        self._process_ended_at = self._process_ended_at or time.monotonic()
        return time.monotonic() - self._process_ended_at > _LAST_WORDS_SECONDS

    async def _check_rest(self) -> None:
        await self._call.settle()
        if self._scenario.strict:
            try:
                await self._call.expect_nothing(within=0)
            except ExpectationError as error:
                raise ExpectationError(
                    f"{error}\nadd a step `expect` for each, or allow them with `strict: false`"
                ) from None
