"""``curb-client test``: what it runs, what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from curb_client.cli.commands import cli
from curb_client.testing import LiveKitServerHandle
from tests.cli.conftest import REPOSITORY
from tests.testing.processes import is_running, wait_for

EXAMPLES = REPOSITORY / "examples" / "scenarios"
SCRIPT = "{on: {quote: {reply: {price: 12}}}}"
GOOD = f"{{name: A quote, agent: {{script: {SCRIPT}}}, steps: [{{ask: quote, reply: {{price: 12}}}}]}}"
WRONG = f"""
name: A wrong quote
agent: {{script: {SCRIPT}}}
steps:
  - wait: 0
  - ask: quote
    reply: {{price: 13}}
  - wait: 100
"""
BROKEN = "agent: {script: {}}\nsteps:\n  - wait: soon\n"

Test = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run_test(livekit: LiveKitServerHandle) -> Test:
    """Runs the command on the server of the tests."""

    def run(*arguments: object) -> Result:
        env = {"CURB_LIVEKIT_API_KEY": livekit.api_key, "CURB_LIVEKIT_API_SECRET": livekit.api_secret}
        return CliRunner().invoke(cli, ["test", f"--livekit={livekit.url}", *map(str, arguments)], env=env)

    return run


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")


def junit_of(path: str) -> tuple[ET.Element, dict[str, ET.Element]]:
    root = ET.parse(path).getroot()
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    for name in ("tests", "failures", "errors", "skipped", "time"):
        assert root.get(name) == suite.get(name)
    return suite, {case.get("classname", ""): case for case in suite}


def without_seconds(text: str) -> str:
    """In columns as wide as they were."""
    text = re.sub(r"in \d+\.\d s", "in N s", text)
    return re.sub(r"\d+\.\d s", lambda found: "N s".rjust(len(found[0])), text)


# What it prints


def test_the_examples_pass(run_test: Test) -> None:
    result = run_test(EXAMPLES / "quote.yaml", EXAMPLES / "scripted.yaml")
    assert result.exit_code == 0, result.output
    assert without_seconds(result.stdout).splitlines() == [
        f"ok       A quote and a form                N s  {EXAMPLES / 'quote.yaml'}",
        f"ok       A form that the agent opens       N s  {EXAMPLES / 'scripted.yaml'}",
        "2 of 2 scenarios passed, in N s.",
    ]


def test_a_failure_is_told_with_its_step_and_the_exchange(run_test: Test) -> None:
    write(good=GOOD, wrong=WRONG)
    result = run_test("wrong.yaml", "good.yaml")
    assert result.exit_code == 1
    lines = without_seconds(result.stdout).splitlines()
    assert lines[:7] == [
        "FAILED   A wrong quote       N s  wrong.yaml",
        "         in step 2 of 3, line 6: ask quote",
        "         the reply differs: expected 13 at price, came 12",
        '           expected  {"price":13}',
        '           came      {"price":12}',
        "",
        "         no request is pending",
    ]
    assert any('caller  gets the answer to quote {"price":12} after ' in line for line in lines)
    assert lines[-2:] == ["ok       A quote             N s  good.yaml", "1 of 2 scenarios passed, in N s."]


def test_the_agents_output_is_told_without_its_colours(run_test: Test) -> None:
    write(ends="agent: {command: [sh, -c, \"printf 'out of \\\\033[31mpaper\\\\033[0m\\\\a'\"]}\nsteps: [{wait: 0}]\n")
    result = run_test("ends.yaml")
    assert result.exit_code == 1
    assert "         out of paper\\x07\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_on_a_terminal_there_are_colours(run_test: Test, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    write(good=GOOD)
    assert run_test("good.yaml").stdout.startswith("\x1b[32mok")


def test_as_json_it_is_one_object(run_test: Test) -> None:
    write(good=GOOD, wrong=WRONG)
    result = run_test("--json", "good.yaml", "wrong.yaml")
    assert result.exit_code == 1
    report: dict[str, Any] = json.loads(result.stdout)
    good, wrong = report["scenarios"]
    assert (report["ok"], good["ok"], wrong["ok"]) == (False, True, False)
    assert (good["name"], good["file"], good["status"], good["problem"]) == ("A quote", "good.yaml", "passed", None)
    assert 0 < good["seconds"] < 60
    (step,) = good["steps"]
    assert 0 < step.pop("ms") < 60_000
    assert step == {"step": "ask quote", "line": 1, "status": "passed", "ok": True, "problem": None}
    assert [(step["status"], step["ok"]) for step in wrong["steps"]] == [
        ("passed", True),
        ("failed", False),
        ("not run", False),
    ]
    assert wrong["problem"].startswith("in step 2 of 3, line 6: ask quote\nthe reply differs: expected 13 at price")
    assert wrong["steps"][1]["problem"] in wrong["problem"]
    assert "all steps (milliseconds, who, what):" in wrong["report"]


# What it writes


def test_junit_has_a_case_for_each_scenario(run_test: Test) -> None:
    write(good=GOOD, wrong=WRONG)
    assert run_test("good.yaml", "wrong.yaml", "--junit-xml", "new/folder/junit.xml").exit_code == 1
    suite, cases = junit_of("new/folder/junit.xml")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "1", "0", "0"]
    good, wrong = cases["good.yaml"], cases["wrong.yaml"]
    assert (good.get("name"), len(good), wrong.get("name")) == ("A quote", 0, "A wrong quote")
    times = [float(each.get("time", "")) for each in (good, wrong)]
    assert min(times) > 0
    assert float(suite.get("time", "")) == pytest.approx(sum(times), abs=0.01)
    (failure,) = wrong
    assert failure.tag == "failure"
    assert failure.get("message") == (
        'in step 2 of 3, line 6: ask quote the reply differs: expected 13 at price, came 12 expected {"price":13} '
        'came {"price":12}'
    )
    assert "gets the answer to quote" in str(failure.text)


def test_junit_can_be_read_whatever_was_sent(run_test: Test) -> None:
    strange = "\u0001\u001b[31m\u007f\u009b\ufffe]]>&<\u2028é"
    script = {"script": {"on": {"quote": {"reply": {strange: strange}}}}}
    scenario = {"name": f"A\n{strange}", "agent": script, "steps": [{"ask": "quote", "reply": {}}]}
    write(strange=json.dumps(scenario))
    result = run_test("strange.yaml", "--junit-xml", "junit.xml")
    assert result.exit_code == 1
    _, cases = junit_of("junit.xml")
    (failure,) = cases["strange.yaml"]
    assert "\\x01\\x7f\\x9b\\ufffe]]>&<\u2028é was not expected" in str(failure.text)
    assert cases["strange.yaml"].get("name") == "A \\x01\\x7f\\x9b\\ufffe]]>&< é"
    assert "\\x01\\x7f\\x9b\\ufffe]]>&<" in result.stdout


def test_a_junit_file_that_cannot_be_written(run_test: Test) -> None:
    write(good=GOOD)
    result = run_test("good.yaml", "--junit-xml", "good.yaml/junit.xml")
    assert result.exit_code == 2
    assert "good.yaml/junit.xml cannot be written: " in result.stderr


# What it runs


def test_the_files_of_folders_are_run_once_each_in_order(run_test: Test) -> None:
    for folder in ("b", "b/c", "b/.hidden", "b/node_modules"):
        Path(folder).mkdir()
    write(**{"b/z": GOOD, "b/c/y": GOOD, "b/.hidden/x": BROKEN, "b/node_modules/w": BROKEN, "a": GOOD})
    Path("b/notes.txt").write_text("no scenario", encoding="utf-8")
    Path("b/v.yml").write_text(GOOD, encoding="utf-8")
    result = run_test("--json", "a.yaml", "b", "./a.yaml")
    assert result.exit_code == 0, result.output
    files = [Path(scenario["file"]).as_posix() for scenario in json.loads(result.stdout)["scenarios"]]
    assert files == ["a.yaml", "b/c/y.yaml", "b/v.yml", "b/z.yaml"]


def test_k_selects_by_name(run_test: Test) -> None:
    write(good=GOOD, wrong=WRONG)
    result = run_test(".", "-k", "a QUOTE")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("1 of 1 scenario passed, in ")
    nothing = run_test(".", "-k", "claim")
    assert nothing.exit_code == 2
    assert "no scenario of 2 has 'claim' in its name" in nothing.stderr


def test_a_broken_file_is_told_before_anything_is_run(run_test: Test) -> None:
    write(broken=BROKEN, good=GOOD)
    result = run_test("good.yaml", "broken.yaml", "-k", "A quote", "--junit-xml", "junit.xml")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        'BROKEN   broken.yaml, line 3: steps[0].wait: must be a number of seconds from 0 to 86400; it is "soon"',
        "1 of 2 files is broken; nothing was run.",
    ]
    suite, cases = junit_of("junit.xml")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "0", "1", "1"]
    ((error,), (skipped,)) = cases["broken.yaml"], cases["good.yaml"]
    assert (error.tag, skipped.tag) == ("error", "skipped")
    assert str(error.text).startswith("broken.yaml, line 3: steps[0].wait: must be")


def test_a_broken_file_as_json(run_test: Test) -> None:
    write(broken=BROKEN, good=GOOD)
    result = run_test("--json", ".")
    assert result.exit_code == 2
    report = json.loads(result.stdout)
    assert report["ok"] is False
    assert [(each["name"], each["status"]) for each in report["scenarios"]] == [
        ("broken.yaml", "broken"),
        ("A quote", "not run"),
    ]
    assert "steps[0].wait: must be" in report["scenarios"][0]["problem"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing argument 'FILE...'"),
        (["missing.yaml"], "'missing.yaml' does not exist"),
        (["."], "there is no *.yaml file in ."),
        (["good.yaml", "--livekit=nonsense"], "give 'embedded', 'server' or the URL of one that runs"),
    ],
)
def test_nothing_to_run_is_a_usage_error(arguments: list[str], told: str) -> None:
    if "good.yaml" in arguments:
        write(good=GOOD)
    result = CliRunner().invoke(cli, ["test", *arguments])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize(("module", "package"), [("yaml", "PyYAML"), ("livekit.api", "livekit-api")])
def test_without_a_package_it_says_what_to_install(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(good=GOOD)
    monkeypatch.setitem(sys.modules, module, None)
    result = CliRunner().invoke(cli, ["test", "good.yaml"])
    assert result.exit_code == 2
    told = f"scenarios need the package {package}; install it: pip install 'curb-client[cli,testing]'"
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "lines"])
def test_a_server_that_dies_is_told(tmp_path: Path, as_json: bool) -> None:
    write(good=GOOD)
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho cannot find my hat\nexit 3\n")
    program.chmod(0o755)
    options = ["--livekit=server", "--junit-xml=junit.xml", *(["--json"] if as_json else [])]
    result = CliRunner().invoke(cli, ["test", "good.yaml", *options], env={"CURB_LIVEKIT_SERVER": str(program)})
    assert result.exit_code == 1, result.output
    assert "no LiveKit server: " in result.stdout
    assert "cannot find my hat" in result.stdout
    if as_json:
        assert json.loads(result.stdout)["scenarios"][0]["status"] == "not run"
    else:
        assert result.stdout.splitlines()[-1] == "0 of 1 scenario passed, in 0.0 s."
    ((error,),) = junit_of("junit.xml")[1].values()
    assert error.tag == "error"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("step", ["wait: 1000", "ask: quote"])
def test_ctrl_c_ends_the_agent_and_the_server_at_once(step: str) -> None:
    write(
        silent=f"""
        agent:
          command:
            - {sys.executable}
            - -c
            - |
              import asyncio, os
              from curb_client import AgentCall, connect_room

              def tell():
                  with open("told", "w") as file:
                      file.write(os.environ["LIVEKIT_URL"] + f" {{os.getpid()}} .")

              async def main():
                  async with (
                      connect_room(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as room,
                      AgentCall(room) as call,
                  ):
                      call.on_message("quote", lambda payload, meta: asyncio.sleep(1000))
                      call.on_message("hello", lambda payload, meta: tell())
                      await call.ready()
                      await asyncio.sleep(1000)

              asyncio.run(main())
        within: 500
        steps: [send: hello, {{{step}}}]
        """
    )
    command = [sys.executable, "-m", "curb_client.cli", "test", "silent.yaml"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: Path("told").exists() and Path("told").read_text().endswith("."), seconds=60)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=20)
    finally:
        run.kill()
        run.communicate()
    assert (run.returncode, errors.splitlines()[-1]) == (130, "interrupted")
    assert "Traceback" not in errors
    assert output == ""
    url, pid, _ = Path("told").read_text().split()
    assert not is_running(int(pid))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=1)
