"""The README's host, with the agent of docs/hosting.md and a caller."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

from curb_client import join
from curb_client.host.runner.options import VARIABLES
from curb_client.testing import LiveKitServerHandle

ROOT = Path(__file__).parents[2]
ROOM = "host-example"
DEADLINE = 90.0


def test_the_readme_shows_it() -> None:
    program = (ROOT / "examples" / "host.py").read_text(encoding="utf-8")
    assert f"```python\n{program}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_names_every_variable_of_a_runner() -> None:
    page = (ROOT / "docs" / "hosting.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^\| `(CURB_\w+)`", page)) == set(VARIABLES.values())


async def test_it_runs_a_call(curb_livekit: LiveKitServerHandle, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "hosted_agent.py", tmp_path)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "LIVEKIT_URL": curb_livekit.url,
        "LIVEKIT_TOKEN": curb_livekit.token("agent", ROOM, kind="agent"),
    }
    async with join(curb_livekit.url, curb_livekit.token("caller", ROOM)) as caller:
        banner = caller.agent.wait_for("banner", timeout=DEADLINE)
        host = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "examples" / "host.py"),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert await banner == {"text": "We record."}
            assert await caller.agent.ask("refund", timeout=DEADLINE) == {"allowed": True}
            await caller.__aexit__(None, None, None)
            out, err = await asyncio.wait_for(host.communicate(), DEADLINE)
        finally:
            if host.returncode is None:
                host.kill()
    assert host.returncode == 0, err.decode()
    assert "curb.ended" in out.decode().splitlines()[-1]
    assert (tmp_path / "cursor.json").exists()
