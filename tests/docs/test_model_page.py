"""The page docs/model.md, executed from top to bottom, and its picture."""

from __future__ import annotations

from pathlib import Path

from curb_client.model.endpoint.script_file import load_script
from curb_client.testing import LiveKitServerHandle
from tests.docs.test_testing_page import BLOCK, FILE_NAME, ROOT, check_output, environment, run

PAGE = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")


def test_the_page_from_top_to_bottom(tmp_path: Path, curb_livekit: LiveKitServerHandle) -> None:
    env = environment(curb_livekit)
    output = ""
    executed = 0
    for block in BLOCK.finditer(PAGE):
        kind, text = block["kind"], block["text"]
        if kind == "sh":
            output = "".join(run(command, tmp_path, env) for command in text.splitlines())
            executed += 1
        elif kind == "text":
            check_output(text, output)
        else:
            name = FILE_NAME.match(text)
            assert name, text
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
    assert executed == 4
    assert len(load_script(tmp_path / "model.yaml").rules) == 3
    assert (tmp_path / "requests.html").stat().st_size > 10_000
    assert (ROOT / "docs" / "images" / "model-view.png").stat().st_size > 10_000
