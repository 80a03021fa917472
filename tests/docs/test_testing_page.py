"""The page docs/testing.md, executed from top to bottom as a reader would, without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServerHandle
from tests.conftest import CHILD_OPTIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- (?P<golden>\S+) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
BLOCKS = list(BLOCK.finditer(PAGE))
FILE_NAME = re.compile(r"# (\S+\.(?:py|yaml))\n")


def environment(server: LiveKitServerHandle) -> dict[str, str]:
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join(programs),
        "CURB_LIVEKIT_URL": server.url,
        "CURB_LIVEKIT_API_KEY": server.api_key,
        "CURB_LIVEKIT_API_SECRET": server.api_secret,
        "PIP_NO_INDEX": "1",  # whatever the page installs is here already: nothing is fetched
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "npm_config_offline": "true",
        "PYTEST_ADDOPTS": f"{CHILD_OPTIONS} -p no:cacheprovider",
    }


def run(command: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


def check_output(wanted: str, output: str) -> None:
    """Each line of the page is found in the output, in this order; runs of spaces count as one."""
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    for line in wanted.splitlines():
        assert any(" ".join(line.split()) in shown for shown in lines), f"{line!r} is not in\n{output}"


@pytest.mark.skipif(
    not (ROOT / "examples" / "node-agent" / "node_modules").exists() and not os.environ.get("CI"),
    reason="the packages of examples/node-agent are not installed: make test-main does it",
)
def test_the_page_from_top_to_bottom(tmp_path: Path, curb_livekit: LiveKitServerHandle) -> None:
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    assert execute(BLOCKS, tmp_path, environment(curb_livekit)) > 5


def execute(blocks: list[re.Match[str]], folder: Path, env: dict[str, str]) -> int:
    """Commands are run, files are written, what is shown is looked for in the output; returns how many were run."""
    output = ""
    executed = 0
    for block in blocks:
        kind, text = block["kind"], block["text"]
        if block["golden"]:
            continue
        if kind == "sh":
            output = "".join(run(command, folder, env) for command in text.splitlines())
            executed += 1
        elif kind == "text":
            check_output(text, output)
        else:
            name = FILE_NAME.match(text)
            assert name, f"a block of the page has no file's name in its first line:\n{text}"
            (folder / name[1]).write_text(text, encoding="utf-8")
    return executed


@pytest.mark.parametrize("block", [block for block in BLOCKS if block["golden"]], ids=lambda block: block["golden"])
def test_the_reports_on_the_page_are_those_that_are_tested(block: re.Match[str]) -> None:
    report = (ROOT / "tests" / "testing" / "golden" / block["golden"]).read_text(encoding="utf-8")
    start = report.index(">  ")
    wanted = re.sub(r"(?m)^ {5}MS ", "        ", report[start:])
    assert block["text"] == wanted


def test_every_block_is_of_a_kind_that_is_executed() -> None:
    assert {block["kind"] for block in BLOCKS} <= {"sh", "python", "yaml", "text"}
    assert PAGE.count("```") == 2 * len(BLOCKS)
