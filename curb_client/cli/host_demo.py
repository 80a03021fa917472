"""The host demo: two calls on a runner, followed and steered by a host, and what an app in each of them sees."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from curb_client import AgentRefusedError, CurbError
from curb_client.cli.demo import Report, Step, ms_since
from curb_client.cli.demo_app import refusal_text
from curb_client.cli.host_demo_stage import Stage, stage_with
from curb_client.errors import RunnerRefusedError
from curb_client.host import RunnerClient, RunnerProcess
from curb_client.testing import LiveKitServerHandle

__all__ = ["NAMES", "RUNNER_COMMAND", "STEPS", "run"]

RUNNER_COMMAND = (sys.executable, "-m", "curb_client.cli", "runner", "curb_client.cli.host_demo_agent:agent")
STEP_SECONDS = 40.0
A: Final = "call-a"
B: Final = "call-b"
LEADS: Final = 20
SAME_ID: Final = "m-7"


async def health(stage: Stage) -> str:
    answer = await stage.runner.health()
    return f"ok {answer.ok}, version {answer.protocol_version} of {list(answer.versions)}"


async def wrong_token(stage: Stage) -> str:
    async with RunnerClient(stage.process.address, "guessed") as stranger:
        return await _refusal(stranger.status())


async def two_calls(stage: Stage) -> str:
    new_a = await stage.place(A, client_context={"event": "webinar"})
    new_b = await stage.place(B, direction="outbound")
    return f"accepted {new_a}, {new_b}"


async def same_call_again(stage: Stage) -> str:
    return f"accepted {await stage.place(A)}"


async def third_call(stage: Stage) -> str:
    return await _refusal(stage.place("call-c"))


async def connected(stage: Stage) -> str:
    states: dict[str, str] = {}
    deadline = time.monotonic() + STEP_SECONDS / 2
    while time.monotonic() < deadline and set(states.values()) != {"connected"}:
        states = {live.session_id: live.state for live in (await stage.runner.status()).sessions}
        await asyncio.sleep(0.05)
    return ", ".join(f"{call} {state}" for call, state in sorted(states.items()))


async def clients_ask(stage: Stage) -> str:
    await asyncio.gather(stage.caller_joins(A), stage.caller_joins(B))
    quotes = [await stage.agent(call).ask("quote", {"plan": call}) for call in (A, B)]
    return "; ".join(f"{quote['plan']}, {quote['price']}, {quote['event']}" for quote in quotes)


async def host_sends(stage: Stage) -> str:
    for call, door in ((A, 4), (B, 5)):
        await stage.runner.send(call, "ops.notice", {"door": door})
    await stage.until(lambda: all(stage.shown.values()), "a notice in each app")
    return "; ".join(f"{call} {stage.shown[call]}" for call in (A, B))


async def agent_asks_host(stage: Stage) -> str:
    reply = await stage.agent(A).ask("refund", timeout=15)
    asks = [f"{ask.session_id} asked {ask.name} {dict(ask.payload)}" for ask in stage.asks]
    return f"{', '.join(asks)}; {reply}"


async def bad_message(stage: Stage) -> str:
    return await _refusal(stage.runner.send(A, "lead", {"score": "high"}, id=SAME_ID))


async def corrected(stage: Stage) -> str:
    answer = await stage.runner.send(A, "lead", {"score": 1}, id=SAME_ID)
    return f"delivered {answer.delivered}"


async def once_more(stage: Stage) -> str:
    answer = await stage.runner.send(A, "lead", {"score": 2}, id=SAME_ID)
    await stage.until(lambda: bool(stage.scores()), "the lead on record")
    return f"delivered {answer.delivered}, scores {stage.scores()}"


async def in_the_other_call(stage: Stage) -> str:
    answer = await stage.runner.send(B, "lead", {"score": 3}, id=SAME_ID)
    await stage.until(lambda: len(stage.scores()) > 1, "the lead on record")
    return f"delivered {answer.delivered}"


async def host_settings(stage: Stage) -> str:
    now = await stage.runner.update(A, {"tts": {"voice": 17}, "stt": {"language": "de"}})
    return f"voice {now.tts.voice}, language {now.stt.language}"


async def host_settings_refused(stage: Stage) -> str:
    return await _refusal(stage.runner.update(A, {"tts": {"voice": 1, "model": "loud"}}))


async def client_settings(stage: Stage) -> str:
    now = await stage.agent(A).update({"tts": {"voice": 18}})
    return f"voice {now.tts.voice}, language {now.stt.language}"


async def client_settings_refused(stage: Stage) -> str:
    return await _refusal(stage.agent(A).update({"stt": {"language": "fr"}}))


async def stream_is_cut(stage: Stage) -> str:
    before, connections = len(stage.scores()), stage.host.stream.counts.connections
    for number in range(LEADS):
        if number == LEADS // 2:
            cut = stage.checks.cut_streams()
        await stage.runner.send(B, "lead", {"score": 100 + number})
    await _until_leads(stage, before + LEADS)
    more = stage.host.stream.counts.connections - connections
    in_order = stage.scores()[before:] == list(range(100, 100 + LEADS))
    return f"{cut} cut, {more} more; in order {in_order}; {stage.losses()}"


async def host_restarts(stage: Stage) -> str:
    before = len(stage.scores())
    await stage.host_goes()
    for number in range(LEADS):
        await stage.runner.send(A, "lead", {"score": 200 + number})
    missed = before + LEADS - len(stage.scores())
    await stage.host_comes()
    await _until_leads(stage, before + LEADS)
    in_order = stage.scores()[before:] == list(range(200, 200 + LEADS))
    return f"{missed} missed; in order {in_order}; {stage.losses()}"


async def stop(stage: Stage) -> str:
    answer = await stage.runner.stop_call(A, reason="caller_hung_up", grace=1.0)
    await stage.until(lambda: stage.end_of(A) is not None, f"curb.ended of {A}")
    again = await stage.runner.stop_call("call-c")
    return f"stopped {answer.stopped}, {stage.end_of(A)}; of no such call {again.stopped}"


async def drain(stage: Stage) -> str:
    answer = await stage.runner.drain()
    refusal = await _refusal(stage.place("call-c"))
    quote = await stage.agent(B).ask("quote", {"plan": B})
    return f"active {answer.active_sessions}; {refusal}; {quote['plan']} goes on"


async def last_caller_leaves(stage: Stage) -> str:
    await stage.caller_leaves(B)
    await asyncio.wait_for(stage.host.wait_ended(), STEP_SECONDS / 2)
    await stage.until(lambda: "ended" in stage.lifecycle, "the runner's last record")
    status = await stage.process.wait(STEP_SECONDS / 2)
    return f"{stage.end_of(B)}; {', '.join(stage.lifecycle)}; exit status {status}"


async def whole_record(stage: Stage) -> str:
    left_open = ", ".join(call for call in (A, B) if stage.end_of(call) is None) or "none"
    return f"{stage.losses()}; calls without an end: {left_open}"


async def schema(stage: Stage) -> str:
    if stage.checks.violations:
        return stage.checks.violations[0]
    is_much = stage.checks.answers > LEADS and stage.checks.lines > LEADS
    return "every answer and every line fits" if is_much else "hardly anything was checked"


StepRun = Callable[[Stage], Awaitable[str]]

STEPS: tuple[tuple[str, str, StepRun], ...] = (
    ("health", "ok True, version 1 of [1]", health),
    ("a wrong token", "unauthorized", wrong_token),
    ("two calls are placed", "accepted True, True", two_calls),
    ("the same call again", "accepted False", same_call_again),
    ("a third call", "runner_at_capacity", third_call),
    ("both are connected", "call-a connected, call-b connected", connected),
    ("each client asks", "call-a, 12, webinar; call-b, 12, None", clients_ask),
    ("the host sends to each", "call-a [{'door': 4}]; call-b [{'door': 5}]", host_sends),
    (
        "an agent asks the host",
        "call-a asked human.requested {'topic': 'refund'}; {'refund': 'allowed'}",
        agent_asks_host,
    ),
    ("a bad message", "invalid_payload, issue at score", bad_message),
    ("corrected, same id", "delivered True", corrected),
    ("and again", "delivered False, scores [1]", once_more),
    ("the id in the other call", "delivered True", in_the_other_call),
    ("the host's settings", "voice 17, language de", host_settings),
    ("settings it may not change", "not_adjustable, path tts.model", host_settings_refused),
    ("the client's settings", "voice 18, language de", client_settings),
    ("settings it may not either", "not_adjustable, path stt.language", client_settings_refused),
    ("the stream is cut", "1 cut, 1 more; in order True; nothing lost, nothing twice", stream_is_cut),
    ("the host restarts", "20 missed; in order True; nothing lost, nothing twice", host_restarts),
    ("a call is stopped", "stopped True, caller_hung_up; of no such call False", stop),
    ("the runner is drained", "active 1; runner_draining; call-b goes on", drain),
    ("the last caller leaves", "caller_left; ready, draining, ended; exit status 0", last_caller_leaves),
    ("the whole record", "nothing lost, nothing twice; calls without an end: none", whole_record),
    ("the schema", "every answer and every line fits", schema),
)
NAMES: Final = ("server", "runner", *(name for name, _, _ in STEPS))
_NEEDED: Final = (two_calls, connected)
"""Without these the other steps would wait in vain."""


async def _until_leads(stage: Stage, count: int) -> None:
    await stage.until(lambda: len(stage.scores()) >= count, "every lead on record")


async def _refusal(request: Awaitable[object]) -> str:
    try:
        return f"answered {await request}"
    except (RunnerRefusedError, AgentRefusedError) as error:
        return refusal_text(error)


def run(server: LiveKitServerHandle) -> Report:
    """Start everything, go through the steps, stop everything."""
    report = Report(planned=len(NAMES), scene="A runner, its host and two calls in rooms")
    started = time.monotonic()
    try:
        server.prepare()
        started = time.monotonic()
        with server, tempfile.TemporaryDirectory() as directory:
            report.server = server.title
            report.steps.append(Step("server", "running", "running", ms_since(started)))
            asyncio.run(_go_through(server, report, Path(directory)))
    except CurbError as error:
        if report.steps:
            report.steps.append(Step("the end", "no error", _told(error), 0.0))
        else:
            report.steps.append(Step("server", "running", _told(error), ms_since(started)))
    return report


async def _go_through(server: LiveKitServerHandle, report: Report, directory: Path) -> None:
    started = time.monotonic()
    expected = "ready for 2 calls"
    try:
        environment = {"CURB_MAX_SESSIONS": "2"}
        async with RunnerProcess(RUNNER_COMMAND, environment=environment, stop_within=1.0) as process:
            got = f"ready for {process.ready.max_sessions} calls"
            report.steps.append(Step("runner", expected, got, ms_since(started)))
            async with stage_with(server, process, directory / "cursor.json") as stage:
                await _take_steps(stage, report)
    except CurbError as error:
        if len(report.steps) > 1:
            raise
        report.steps.append(Step("runner", expected, _told(error), ms_since(started)))
        _skip(report, "there is no runner")


async def _take_steps(stage: Stage, report: Report) -> None:
    for name, expected, step in STEPS:
        started = time.monotonic()
        try:
            got = await asyncio.wait_for(step(stage), STEP_SECONDS)
        except asyncio.TimeoutError as error:
            got = str(error) or f"not done within {STEP_SECONDS:g} s"
        except Exception as error:
            got = _told(error)
        report.steps.append(Step(name, expected, got, ms_since(started)))
        if step in _NEEDED and got != expected:
            _skip(report, f"without {name!r} there is nothing to see; the runner said: {stage.process.output_tail(5)}")
            return


def _skip(report: Report, why: str) -> None:
    taken = len(report.steps) - 2
    report.steps += [Step(name, expected, f"not tried: {why}", 0.0) for name, expected, _ in STEPS[taken:]]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}"
