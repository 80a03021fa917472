"""The page docs/crabtalk.md, executed from top to bottom as a reader would."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from curb_client.crabtalk import CrabTalkClient, errors
from curb_client.crabtalk.gateway import payloads
from curb_client.testing import LiveKitServerHandle
from tests.docs.test_testing_page import BLOCK, FILE_NAME, ROOT, check_output, environment

PAGE = (ROOT / "docs" / "crabtalk.md").read_text(encoding="utf-8")
BLOCKS = list(BLOCK.finditer(PAGE))


def test_the_page_from_top_to_bottom(tmp_path: Path, curb_livekit: LiveKitServerHandle) -> None:
    for block in BLOCKS:
        if name := FILE_NAME.match(block["text"]):
            (tmp_path / name[1]).write_text(block["text"], encoding="utf-8")
    script = "".join(block["text"] for block in BLOCKS if block["kind"] == "sh")
    done = subprocess.run(
        ["bash", "-ec", f"trap 'kill %1 2>/dev/null' EXIT\nset -m\n{script}"],
        cwd=tmp_path,
        env=environment(curb_livekit),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [block["text"] for block in BLOCKS if block["kind"] == "text"]
    assert len(shown) == 4
    check_output("".join(shown), done.stdout)


def test_what_the_page_names_is_there() -> None:
    for name in re.findall(r"`(\w+Error)`", PAGE):
        assert hasattr(errors, name), name
    methods = re.search(r"\| `send`.*?\| `request", PAGE, re.DOTALL)
    assert methods is not None
    for name in re.findall(r"`(\w+)`", methods[0]):
        assert callable(getattr(CrabTalkClient, name)), name
    keys = {value for value in vars(payloads).values() if isinstance(value, str) and value.startswith("crab.")}
    assert keys == set(re.findall(r"`(crab\.\w+)`", PAGE))
    for code in payloads.GatewayCode:
        assert f"`{code.value}`" in PAGE
