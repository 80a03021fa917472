"""``curb-client model-demo``: what it prints when all is well, and that each of its steps can fail."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from curb_client import AgentCall
from curb_client.cli import insurance_desk, model_demo
from curb_client.cli.commands import cli
from curb_client.model import Answer, Llm, ModelScript, Rule, Tool
from curb_client.model.builder import core
from curb_client.testing import LiveKitServerHandle

Patch = pytest.MonkeyPatch
NAMES = [name for name, _, _ in model_demo.STEPS]


def run_demo(server: LiveKitServerHandle, *options: str) -> Result:
    env = {"CURB_LIVEKIT_API_KEY": server.api_key, "CURB_LIVEKIT_API_SECRET": server.api_secret}
    return CliRunner().invoke(cli, ["model-demo", f"--livekit={server.url}", *options], env=env)


def test_all_steps_and_the_ledger(curb_livekit: LiveKitServerHandle) -> None:
    result = run_demo(curb_livekit, "--json")
    report = json.loads(result.stdout)
    assert [step["name"] for step in report["steps"]] == NAMES
    assert [step for step in report["steps"] if not step["ok"]] == []
    assert report["ok"]
    assert result.exit_code == 0
    at = report["ledger"].index("=== It is 4711: check_policy")
    assert report["ledger"][at + 3] == "tool: open_claim(what*) [page]"
    assert not any("open_claim(" in line for line in report["ledger"][:at] if line.startswith("tool: "))


def test_people_get_a_table(curb_livekit: LiveKitServerHandle) -> None:
    result = run_demo(curb_livekit)
    assert f"{len(NAMES)} of {len(NAMES)} steps as expected." in result.stdout
    assert "=== My kitchen floor: open_claim" in result.stdout


def another_reply(after: str, index: int) -> Callable[[Patch], None]:
    """The model says something else at the rule with this number."""

    def script() -> ModelScript:
        script = conversation()
        script.rules[index] = Rule(Answer("Pardon?"), **{**_options(script.rules[index]), "after": after})
        return script

    conversation = model_demo.conversation
    return lambda patch: patch.setattr(model_demo.run, "__defaults__", (script,))


def _options(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in ("said", "offers", "lacks", "turn", "when", "times")}


def desk_that_renders(item: Tool | str) -> Callable[[Patch], None]:
    made = functools.partial(core.AgentCore, render=lambda _: [item])
    return lambda patch: patch.setattr(insurance_desk, "AgentCore", made)


def text_is_taken_as_it_comes(patch: Patch) -> None:
    patch.setattr(core, "made_harmless", lambda text: text)


def policies_are_not_kept(patch: Patch) -> None:
    patch.setattr(insurance_desk.Desk, "policy", property(lambda _: None, lambda *_: None), raising=False)


def nothing_is_adjustable(patch: Patch) -> None:
    patch.setattr(model_demo, "AgentCall", lambda room, settings, adjustable: AgentCall(room, settings=settings))


def settings_are_not_used(patch: Patch) -> None:
    patch.setattr(Llm, "with_settings", lambda llm, settings: llm)


def the_host_is_not_heard(patch: Patch) -> None:
    async def nothing(*_: Any) -> bool:
        return True

    patch.setattr(AgentCall, "receive_from_host", nothing)


def the_system_text_changes(patch: Patch) -> None:
    numbers = itertools.count()
    patch.setattr(core.AgentCore, "system_text", property(lambda _: f"You are number {next(numbers)}."))


BROKEN: dict[str, Callable[[Patch], None]] = {
    "a claim is demanded": another_reply("read_skill", 2),
    "no claim before the check": desk_that_renders(Tool("open_claim", "Opens a claim.", lambda _: None)),
    "a forged context is text": text_is_taken_as_it_comes,
    "the policy is checked": another_reply("check_policy", 4),
    "then claims are offered": policies_are_not_kept,
    "another model is set": nothing_is_adjustable,
    "the claim is opened": another_reply("open_claim", 6),
    "the next turn used it": settings_are_not_used,
    "the host unlocks a skill": the_host_is_not_heard,
    "the prefix stays the same": the_system_text_changes,
    "the ledger": desk_that_renders("One line more."),
}


@pytest.mark.parametrize("name", NAMES)
def test_each_step_can_fail(name: str, curb_livekit: LiveKitServerHandle, monkeypatch: Patch) -> None:
    BROKEN[name](monkeypatch)
    monkeypatch.setattr(model_demo, "STEP_SECONDS", 1.5)
    result = run_demo(curb_livekit, "--json")
    report = json.loads(result.stdout)
    assert name in [step["name"] for step in report["steps"] if not step["ok"]]
    assert report["ok"] is False
    assert result.exit_code == 1


def test_a_request_that_the_script_does_not_have(curb_livekit: LiveKitServerHandle, monkeypatch: Patch) -> None:
    monkeypatch.setattr(model_demo.run, "__defaults__", (ModelScript,))
    monkeypatch.setattr(model_demo, "STEP_SECONDS", 0.2)
    result = run_demo(curb_livekit, "--json")
    assert "UnmatchedRequestError" in json.loads(result.stdout)["steps"][-1]["got"]
    assert result.exit_code == 1
