"""The page docs/model.md, executed from top to bottom, and its picture."""

from __future__ import annotations

from pathlib import Path

from curb_client.model.endpoint.script_file import load_script
from curb_client.testing import LiveKitServerHandle
from tests.docs.test_testing_page import BLOCK, ROOT, environment, execute

PAGE = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")


def test_the_page_from_top_to_bottom(tmp_path: Path, curb_livekit: LiveKitServerHandle) -> None:
    executed = execute(list(BLOCK.finditer(PAGE)), tmp_path, environment(curb_livekit))
    assert executed == 4
    assert len(load_script(tmp_path / "model.yaml").rules) == 3
    assert (tmp_path / "requests.html").stat().st_size > 10_000
    assert (ROOT / "docs" / "images" / "model-view.png").stat().st_size > 10_000
