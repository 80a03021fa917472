"""What a Chromium that does not work says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import ChromiumError, find_chromium, running_chromium


def test_a_program_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURB_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(ChromiumError, match="CURB_CHROMIUM is '/nowhere/chromium'"):
        find_chromium()


def test_a_program_that_ends_at_once(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho no display\n")
    program.chmod(0o755)
    with pytest.raises(ChromiumError, match=r"has ended; it said:\nno display"), running_chromium(str(program)):
        pass
