"""What ``make test`` gets before the tests start is really got: none of them can wait minutes for a build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_livekit_server_is_got_by_the_setup(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (venv / "ready").touch()
    run = subprocess.run(
        ["make", "--silent", f"VENV={venv}", str(venv / "livekit-server")],
        cwd=ROOT,
        env={**os.environ, "CURB_LIVEKIT_SERVER": str(tmp_path / "no-such-binary")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode != 0
    assert "no-such-binary" in run.stderr
    assert not (venv / "livekit-server").exists()
