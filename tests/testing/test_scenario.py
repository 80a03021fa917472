"""Scenarios in rooms: every kind of step as it should be, and as it should not."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from curb_client._node import node_from_wheel
from curb_client.testing import LiveKitAddress, LiveKitServerHandle
from curb_client.testing.scenario import ScenarioResult, load_scenario, run_scenario
from tests.testing.processes import is_running

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure", "language": "en"},
    "llm": {"provider": "openai", "model": "large"},
}
SCRIPT: dict[str, Any] = {
    "settings": SETTINGS,
    "adjustable": {"client": ["tts.voice", "tts.model"]},
    "on": {
        "note": {},
        "quote": [
            {"when": {"plan": "gold"}, "reply": {"plan": "gold", "price": 20, "items": [{"id": 7, "of": "gold"}]}},
            {"reply": {"price": 12}},
        ],
        "claim": {
            "refuse": "invalid_payload",
            "issues": [{"path": ["items", 0], "message": "?"}, {"path": ["id"], "message": "?"}],
        },
        "broken": {"refuse": "handler_failed"},
        "open-form": {"send": "show-form", "payload": {"fields": ["name", "policy"]}},
        "slow": {"after": 30},
    },
}

Run = Callable[..., Awaitable[ScenarioResult]]


@pytest.fixture
def run(curb_livekit: LiveKitServerHandle, tmp_path: Path) -> Run:
    """Runs steps with an agent, by default the script's."""

    async def run(*steps: object, agent: object = None, **scenario: object) -> ScenarioResult:
        file = tmp_path / "quote.yaml"
        form = {"agent": agent or {"script": SCRIPT}, "steps": steps, "within": 3, **scenario}
        file.write_text(json.dumps(form, indent=1), encoding="utf-8")
        return await run_scenario(load_scenario(file), curb_livekit)

    return run


def statuses(result: ScenarioResult) -> list[str]:
    return [step.status for step in result.steps]


# As it should be


@pytest.mark.parametrize("name", ["quote", "scripted"])
async def test_the_examples_pass(curb_livekit: LiveKitServerHandle, name: str) -> None:
    result = await run_scenario(load_scenario(EXAMPLES / "scenarios" / f"{name}.yaml"), curb_livekit)
    assert result.problem is None


async def test_the_example_with_an_agent_in_javascript_passes(curb_livekit: LiveKitServerHandle) -> None:
    has_node = shutil.which("node") or node_from_wheel("node")
    if not os.environ.get("CI") and not (has_node and (EXAMPLES / "node-agent" / "node_modules").is_dir()):
        pytest.skip("Node.js or the packages of the agent in JavaScript are missing: npm ci in examples/node-agent")
    result = await run_scenario(load_scenario(EXAMPLES / "scenarios" / "node.yaml"), curb_livekit)
    assert result.problem is None


async def test_every_kind_of_step_passes(run: Run) -> None:
    result = await run(
        {"send": "note", "payload": [1, None]},
        {"ask": "note", "reply": None},
        {"ask": "quote"},
        {"ask": "quote", "payload": {"plan": "basic"}, "reply": {"price": 12.0}},
        {"ask": "quote", "payload": {"plan": "gold"}, "reply_has": {"price": 20, "items": [{"id": 7}]}},
        {"send": "claim", "refused": "invalid_payload"},
        {"ask": "claim", "refused": "invalid_payload", "issues": ["id", ["items", 0]]},
        {"ask": "broken", "refused": "handler_failed"},
        {"send": "nobody-listens", "refused": "no_handler"},
        {"send": "note", "payload": "x" * 16_000, "refused": "payload_too_large"},
        {"expect_nothing": 0.1},
        {"send": "open-form"},
        {"send": "open-form"},
        {"send": "open-form"},
        {"expect": "show-form", "payload": {"fields": ["name", "policy"]}},
        {"expect": "show-form", "payload_has": {}},
        {"expect": "show-form", "within": 1},
        {"update": {"tts": {"voice": 17}}},
        {"update": {"tts": {"model": "m"}}, "settings": {"tts": {"voice": 17, "model": "m"}}},
        {"update": {"stt": {"language": "de"}}, "refused": "not_adjustable", "path": "stt.language"},
        {"update": {"tts": {"voice": "x"}}, "refused": "invalid_settings", "issues": ["tts.voice"]},
        {"say": "hello"},
        {"wait": 0.2},
        name="Every kind",
    )
    assert result.problem is None
    assert result.ok
    assert result.report == ""
    assert set(statuses(result)) == {"passed"}
    assert all(step.problem is None and step.ms > 0 for step in result.steps)
    assert result.steps[-1].ms >= 200
    assert result.seconds > 0.3


async def test_what_no_step_expects_may_be_allowed(run: Run) -> None:
    result = await run({"send": "open-form"}, {"wait": 0.1}, strict=False)
    assert result.ok


# As it should not

GOLD = {"plan": "gold"}


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            {"ask": "quote", "reply": {"price": 13}},
            'the reply differs: expected 13 at price, came 12\n  expected  {"price":13}\n  came      {"price":12}',
        ),
        ({"ask": "quote", "reply": {}}, "the reply differs: price was not expected\n"),
        ({"ask": "quote", "reply": None}, "the reply differs: expected null, came"),
        ({"ask": "note", "reply": True}, "the reply differs: expected true, came null"),
        (
            {"ask": "quote", "payload": GOLD, "reply_has": {"items": [{"id": 8}]}},
            'expected 8 at items[0].id, came 7\n  expected  at least {"items":[{"id":8}]}\n  came      {"plan":"gold",',
        ),
        ({"ask": "quote", "reply_has": {"vat": 1}}, "the reply differs: vat is missing\n"),
        ({"ask": "quote", "payload": GOLD, "reply_has": {"items": []}}, "expected 0 items at items, came 1\n"),
        ({"ask": "broken"}, "the agent refused it\n  came      handler_failed"),
        (
            {"send": "claim"},
            "the agent refused it\n  came      invalid_payload (items.0: ?; id: ?)",
        ),
        (
            {"ask": "quote", "refused": "no_handler"},
            'the agent did not refuse it\n  expected  the refusal no_handler\n  came      {"price":12}',
        ),
        ({"send": "note", "refused": "no_handler"}, "  came      no reply"),
        (
            {"ask": "claim", "refused": "handler_failed"},
            "the refusal differs\n  expected  handler_failed\n  came      invalid_payload (items.0: ?; id: ?)",
        ),
        (
            {"ask": "claim", "refused": "invalid_payload", "issues": ["id", []]},
            "the refusal has other issues\n  expected  (root), id\n  came      id, items.0",
        ),
        ({"ask": "claim", "refused": "invalid_payload", "issues": []}, "\n  expected  none\n  came      id, items.0"),
        (
            {"ask": "slow", "within": 0.4},
            "no answer came: the agent did not answer in time (LiveKit's RpcError 1502)",
        ),
        (
            {"update": {"tts": {"voice": 17}}, "settings": {"tts": {"voice": 18}}},
            "the settings differ: expected 18 at tts.voice, came 17\n",
        ),
        (
            {"update": {"tts": {"voice": 17}}, "refused": "not_adjustable"},
            "the agent did not refuse it\n  expected  the refusal not_adjustable\n",
        ),
        (
            {"update": {"stt": {"language": "de"}}},
            "the agent refused it\n  came      not_adjustable (path stt.language)",
        ),
        (
            {"update": {"stt": {"language": "de"}}, "refused": "not_adjustable", "path": "llm"},
            "the refusal has another path\n  expected  llm\n  came      stt.language",
        ),
        ({"expect": "hello", "within": 0.2}, "the agent sent no message 'hello' within 0.2 s"),
    ],
)
async def test_a_step_that_fails_ends_the_scenario(run: Run, step: dict[str, object], problem: str) -> None:
    result = await run({"wait": 0}, step, {"wait": 100})
    assert not result.ok
    assert statuses(result) == ["passed", "failed", "not run"]
    failed = result.steps[1]
    assert failed.problem is not None
    assert problem in failed.problem
    assert result.problem == f"in step 2 of 3, line {failed.line}: {failed.text}\n{failed.problem}"
    assert "all steps (milliseconds, who, what):" in result.report


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            {"expect": "show-form", "payload": {"fields": ["name"]}, "within": 0.2},
            '{"fields":["name"]} within 0.2 s\n  show-form {"fields":["name","policy"]} came: expected 1 item',
        ),
        (
            {"expect": "show-form", "payload_has": {"title": "Claim"}, "within": 0.2},
            'expected at least {"title":"Claim"}, came {"fields":["name","policy"]}',
        ),
        ({"expect_nothing": 0.5}, 'nothing was expected, and the agent sent:\n  show-form {"fields":'),
        ({"expect_nothing": {"key": "show-form", "within": 0.5}}, "nothing was expected, and the agent sent:\n"),
    ],
)
async def test_a_message_that_is_not_the_expected_one(run: Run, step: dict[str, object], problem: str) -> None:
    result = await run({"send": "open-form"}, step)
    assert statuses(result) == ["passed", "failed"]
    assert problem in str(result.steps[1].problem)


async def test_what_no_step_expects_is_a_failure_at_the_end(run: Run) -> None:
    result = await run({"send": "open-form"})
    assert statuses(result) == ["passed"]
    assert result.problem == (
        'after the last step\nnothing was expected, and the agent sent:\n  show-form {"fields":["name","policy"]}\n'
        "add a step `expect` for each, or allow them with `strict: false`"
    )


async def test_nothing_but_its_own_key_is_expected_nothing_of(run: Run) -> None:
    result = await run({"send": "open-form"}, {"expect_nothing": {"key": "hello", "within": 0.2}}, strict=False)
    assert result.ok


# Agents in Python


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the module ``my_agent`` beside the scenario; the current folder is another."""
    current = tmp_path / "current"
    current.mkdir()
    monkeypatch.chdir(current)

    def write(code: str) -> None:
        (tmp_path / "my_agent.py").write_text(textwrap.dedent(code), encoding="utf-8")

    return write


async def test_an_async_function_adds_the_handlers(run: Run, agent: Callable[[str], None]) -> None:
    agent(
        """
        import asyncio, os

        class Agents:
            @staticmethod
            async def quotes(call):
                await asyncio.sleep(0.2)
                call.on_message("quote", lambda payload, meta: {
                    "price": int(os.environ["PRICE"]), "folder": os.getcwd(), "voice": call.settings.tts.voice
                })
        """
    )
    result = await run(
        {"update": {"tts": {"voice": 17}}},
        {"ask": "quote", "reply": {"price": 12, "folder": os.getcwd(), "voice": 17}},
        agent={
            "python": "my_agent:Agents.quotes",
            "env": {"PRICE": "12"},
            "settings": SETTINGS,
            "adjustable": {"client": ["tts.voice"]},
        },
    )
    assert result.problem is None


async def test_a_module_in_the_current_folder_is_found_after_the_scenarios(
    run: Run, agent: Callable[[str], None]
) -> None:
    agent("from here import add_handlers")
    Path("here.py").write_text("def add_handlers(call):\n    call.on_message('note', lambda payload, meta: None)\n")
    Path("my_agent.py").write_text("raise RuntimeError('the wrong one')\n")
    result = await run({"send": "note"}, agent={"python": "my_agent:add_handlers"})
    assert result.problem is None


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise KeyError('hat')", "KeyError: 'hat'\nagent.python is 'my_agent:add': it raised KeyError"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'\n"),
        ("def add(call):\n    raise KeyError('hat')", ", line 2, in add\n    raise KeyError('hat')\nKeyError: 'hat'\n"),
        ("def add():\n    pass", "TypeError: add() takes 0 positional arguments but 1 was given\n"),
        ("add = 3", "agent.python is 'my_agent:add': that is no function but int"),
        ("def addd(call): pass", "agent.python is 'my_agent:add': there is no 'add' in "),
    ],
    ids=["module raises", "module lacks another", "function raises", "no parameter", "no function", "none"],
)
async def test_a_python_agent_that_is_none(run: Run, agent: Callable[[str], None], code: str, problem: str) -> None:
    agent(code)
    result = await run({"wait": 0}, agent={"python": "my_agent:add"})
    assert result.problem is not None
    assert result.problem.startswith("before the first step\nthe process of ")
    assert "ended with exit status 1 before its agent answered" in result.problem
    assert problem in result.problem
    assert "importlib" not in result.problem, "the way to the author's code is of no use to him"
    assert statuses(result) == ["not run"]


async def test_a_module_that_does_not_exist(run: Run, tmp_path: Path, agent: Callable[[str], None]) -> None:
    result = await run({"wait": 0}, agent={"python": "no_package.agent:add"})
    told = f"there is no module 'no_package' in {tmp_path} or {tmp_path / 'current'}"
    assert f"agent.python is 'no_package.agent:add': {told}" in str(result.problem)


async def test_an_agent_that_blocks_its_process_holds_nobody_up(run: Run, agent: Callable[[str], None]) -> None:
    agent("import time\ndef add(call):\n    call.on_message('block', lambda payload, meta: time.sleep(1000))\n")
    started = time.monotonic()
    result = await run({"ask": "block", "within": 0.5}, agent={"python": "my_agent:add"})
    assert "did not answer in time" in str(result.problem)
    assert time.monotonic() - started < 30


async def test_an_agent_that_dies_is_told_at_once(run: Run, agent: Callable[[str], None]) -> None:
    agent(
        "import os\n"
        "def add(call):\n"
        "    def die(payload, meta):\n"
        "        print('out of paper', flush=True)\n"
        "        os._exit(7)\n"
        "    call.on_message('die', die)\n"
    )
    started = time.monotonic()
    result = await run({"ask": "die", "within": 60}, agent={"python": "my_agent:add"})
    assert result.steps[0].problem == "the agent's process ended with exit status 7 meanwhile"
    assert time.monotonic() - started < 30
    assert result.report.endswith("\nout of paper")


async def test_a_handler_that_fails_is_seen_in_the_agents_output(run: Run, agent: Callable[[str], None]) -> None:
    agent("def add(call):\n    call.on_message('quote', lambda payload, meta: payload['plan'])\n")
    result = await run({"ask": "quote"}, agent={"python": "my_agent:add"})
    assert result.steps[0].problem == "the agent refused it\n  came      handler_failed"
    assert "the last output of " in result.report
    assert "KeyError: 'plan'" in result.report


# Agents of any kind


async def test_a_command_runs_in_its_folder_with_its_environment(run: Run, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    code = "import os; print(os.getcwd(), os.environ['PRICE'], *sorted(n for n in os.environ if n[:7] == 'LIVEKIT'))"
    command = {"command": [sys.executable, "-c", code], "cwd": "agents", "env": {"PRICE": "a b"}}
    result = await run({"wait": 0}, agent=command)
    assert f"{tmp_path / 'agents'} a b LIVEKIT_ROOM LIVEKIT_TOKEN LIVEKIT_URL" in str(result.problem)
    result = await run({"wait": 0}, agent={**command, "cwd": "nowhere"})
    assert f"cannot be run in {tmp_path / 'nowhere'}: that is no directory" in str(result.problem)


async def test_a_worker_gets_the_servers_key_and_is_dispatched(run: Run) -> None:
    code = "import os, time; print(*sorted(n for n in os.environ if n[:7] == 'LIVEKIT'), flush=True); time.sleep(100)"
    worker = {"command": [sys.executable, "-c", code], "worker": "quotes", "within": 1}
    result = await run({"wait": 0}, agent=worker)
    assert "no worker took the agent 'quotes' to the room" in str(result.problem)
    assert "LIVEKIT_API_KEY LIVEKIT_API_SECRET LIVEKIT_URL" in str(result.problem)


async def test_an_agent_that_ends_at_once(run: Run) -> None:
    started = time.monotonic()
    result = await run({"wait": 0}, agent={"command": "sh -c 'echo out of paper; exit 3'", "within": 60})
    assert "ended with exit status 3 before its agent answered" in str(result.problem)
    assert str(result.problem).endswith("out of paper")
    assert "the last output" not in result.report, "that was told"
    assert time.monotonic() - started < 30


async def test_an_agent_that_never_joins(run: Run, tmp_path: Path) -> None:
    agent = {"command": ["sh", "-c", "echo $$ > pid; exec sleep 1000"], "within": 0.5}
    result = await run({"wait": 0}, {"wait": 0}, agent=agent)
    assert "its agent did not answer within " in str(result.problem)
    assert "is not in it; is the agent started, and in this room?" in str(result.problem)
    assert statuses(result) == ["not run", "not run"]
    assert not is_running(int((tmp_path / "pid").read_text()))


async def test_a_server_that_cannot_be_reached() -> None:
    nobody = LiveKitAddress("ws://127.0.0.1:1", "key", "a secret of more than thirty-two bytes")
    result = await run_scenario(load_scenario(EXAMPLES / "scenarios" / "scripted.yaml"), nobody)
    assert "before the first step\nLiveKit refused the connection to ws://127.0.0.1:1" in str(result.problem)


async def test_a_command_that_does_not_exist(run: Run) -> None:
    result = await run({"wait": 0}, agent={"command": "no-such-program"})
    assert "before the first step\nno-such-program cannot be run: it is not on the PATH" in str(result.problem)
