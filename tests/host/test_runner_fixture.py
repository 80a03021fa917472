"""The fixture ``curb_runner``, with runners of two languages, and what it does with one that breaks the protocol."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from curb_client.errors import ExpectationError, RunnerProcessError, UsageError
from curb_client.host import JournalRecord
from curb_client.testing import CurbCall, LiveKitServerHandle
from curb_client.testing.runner_fixture import CurbRunner

pytestmark = pytest.mark.livekit

HERE = Path(__file__).parent
PYTHON = [sys.executable, "-m", "curb_client.cli", "runner", "tests.host.agent:agent"]
NODE = ["node", str(HERE / "node_runner.mjs")]
DEADLINE = 30.0


def needs_node() -> None:
    node_modules = HERE.parents[1] / "examples" / "node-agent" / "node_modules"
    if not (shutil.which("node") and node_modules.is_dir()):
        reason = "node.js and `make examples/node-agent/node_modules/ready` are needed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.mark.parametrize("command", [PYTHON, NODE], ids=["python", "node"])
async def test_a_call_on_a_runner_of_any_kind(curb_call: CurbCall, curb_runner: CurbRunner, command: list[str]) -> None:
    if command is NODE:
        needs_node()
    shown = "noticed" if command is PYTHON else "show-notice"
    name = "notice" if command is PYTHON else "ops.notice"
    async with curb_runner(command) as hosted:
        assert hosted.call is curb_call
        assert await curb_call.client.ask("quote", {"plan": "basic"}) == {"plan": "basic", "price": 12}
        assert (await hosted.runner.send(hosted.session_id, name, {"door": 4}, id="m-1")).delivered
        assert not (await hosted.runner.send(hosted.session_id, name, {"door": 4}, id="m-1")).delivered
        await curb_call.expect(shown, {"door": 4})
        await hosted.runner.stop_call(hosted.session_id, reason="done")

        async def last() -> object:
            items = [item async for item in hosted.events]
            return items[-1]

        end = await asyncio.wait_for(last(), DEADLINE)
        assert isinstance(end, JournalRecord)
        assert end.ends_call
    assert hosted.process.exit_status == 0
    assert hosted.checks.answers >= 6
    assert hosted.checks.lines >= 5


async def test_the_option_names_the_runner(curb_call: CurbCall) -> None:
    async with CurbRunner(curb_call, f"'{PYTHON[0]}' {' '.join(PYTHON[1:])}")(client_context={"tone": "casual"}):
        context = await curb_call.client.ask("context")
        assert context["client"] == {"tone": "casual"}
        assert context["session"] == curb_call.room_name


async def test_without_a_command_it_says_how_to_give_one(curb_call: CurbCall) -> None:
    with pytest.raises(UsageError, match="--curb-runner="):
        async with CurbRunner(curb_call)():
            pass


async def test_a_runner_that_does_not_start_is_told(curb_runner: CurbRunner) -> None:
    with pytest.raises(RunnerProcessError, match="the model is not there"):
        async with curb_runner([*PYTHON[:-1], "tests.host.agent:cold"]):
            pass


async def test_what_is_not_of_the_protocol_fails_the_test(curb_runner: CurbRunner) -> None:
    async def run() -> None:
        command = [sys.executable, "-m", "tests.cli.broken_runner", "the schema"]
        deadline = time.monotonic() + DEADLINE
        async with curb_runner(command) as hosted:
            while not hosted.checks.violations and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    with pytest.raises(ExpectationError, match="is no PingLine: ping: 'now' is not of type 'number'"):
        await run()


async def test_a_call_that_fails_is_told_with_what_the_runner_printed(
    curb_runner: CurbRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExpectationError, match="before it was connected"):
        async with curb_runner([*PYTHON[:-1], "tests.host.agent:careless"]):
            pass
    assert "a line of the agent's own" in capsys.readouterr().err


def test_pytest_takes_the_option(
    pytester: pytest.Pytester, curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("CURB_LIVEKIT_URL", curb_livekit.url),
        ("CURB_LIVEKIT_API_KEY", curb_livekit.api_key),
        ("CURB_LIVEKIT_API_SECRET", curb_livekit.api_secret),
        ("PYTHONPATH", str(HERE.parents[1])),
    ):
        monkeypatch.setenv(name, value)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.asyncio
        async def test_quote(curb_call, curb_runner):
            async with curb_runner():
                assert (await curb_call.client.ask("quote", {"plan": "basic"}))["price"] == 12
    """)
    options = ["-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]
    result = pytester.runpytest_subprocess(*options, f"--curb-runner={' '.join(PYTHON)}", timeout=120)
    result.assert_outcomes(passed=1)
