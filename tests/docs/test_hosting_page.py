"""The page docs/hosting.md, executed from top to bottom as a reader would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServerHandle
from curb_client.testing.server import free_ports

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hosting.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("CI"), reason="needs curl")
def test_the_page_from_top_to_bottom(tmp_path: Path, curb_livekit: LiveKitServerHandle) -> None:
    shutil.copy(ROOT / "examples" / "hosted_agent.py", tmp_path)
    port = str(free_ports().signal)
    script = "\n".join(text for kind, text in BLOCKS if kind == "sh").replace("7071", port)
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "LIVEKIT_URL": curb_livekit.url,
            "ROOM_TOKEN": curb_livekit.token("agent", "hosting-page", kind="agent"),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = "".join(text for kind, text in BLOCKS if kind == "text").replace("7071", port).splitlines()
    assert len(wanted) > 12
    shown = iter(done.stdout.splitlines())
    for line in wanted:
        assert any(line in output for output in shown), f"{line!r} is not in\n{done.stdout}"


def test_the_page_shows_the_example() -> None:
    (program,) = (text for kind, text in BLOCKS if kind == "python")
    assert program == "# hosted_agent.py\n" + (ROOT / "examples" / "hosted_agent.py").read_text(encoding="utf-8")
    assert {kind for kind, _ in BLOCKS} == {"sh", "python", "text"}
