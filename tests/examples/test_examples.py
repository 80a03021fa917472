"""The README's programs are the files in examples/, and they run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServerHandle

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", ["kiosk", "agent"])
def test_the_readme_shows_the_example(name: str) -> None:
    program = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert program in BLOCKS
    body = program.split("async def main", 1)[1].strip().splitlines()
    assert len([line for line in body if line.strip()]) <= 16, "fifteen lines and the end"


def test_the_kiosk_and_the_agent_talk_to_each_other(curb_livekit: LiveKitServerHandle) -> None:
    def environment(identity: str, **token: str) -> dict[str, str]:
        made = curb_livekit.token(identity, "examples", **token)  # type: ignore[arg-type]
        return {**os.environ, "LIVEKIT_URL": curb_livekit.url, "LIVEKIT_TOKEN": made}

    agent = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "agent.py")], env=environment("agent", kind="agent")
    )
    try:
        kiosk = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "kiosk.py")],
            env=environment("kiosk"),
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        agent.kill()
        agent.wait()
    assert kiosk.returncode == 0, kiosk.stderr
    assert "Traceback" not in kiosk.stderr, "what the SDK logs at a quick end is its own affair"
    assert kiosk.stdout.splitlines() == ["price: 12", "form: {'fields': ['name', 'policy']}"]


def test_the_readme_shows_the_blocking_kiosk() -> None:
    assert (ROOT / "examples" / "kiosk_blocking.py").read_text(encoding="utf-8") in BLOCKS


@pytest.mark.skipif(
    not (ROOT / "examples" / "node-agent" / "node_modules").exists() and not os.environ.get("CI"),
    reason="the packages of examples/node-agent are not installed: make test-main does it",
)
def test_the_readmes_test_passes(curb_livekit: LiveKitServerHandle, pytester: pytest.Pytester) -> None:
    (program,) = (block for block in BLOCKS if "async def test_quote" in block)
    agent = ROOT / "examples" / "node-agent" / "agent.mjs"
    pytester.makepyfile(program.replace('"agent.mjs"', repr(str(agent))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURB_LIVEKIT_URL", curb_livekit.url)
        patch.setenv("CURB_LIVEKIT_API_KEY", curb_livekit.api_key)
        patch.setenv("CURB_LIVEKIT_API_SECRET", curb_livekit.api_secret)
        result = pytester.runpytest_subprocess("-o", "asyncio_default_fixture_loop_scope=function", timeout=120)
    result.assert_outcomes(passed=1)
