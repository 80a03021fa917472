"""The LiveKit server and the surroundings for the tests of the commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServerHandle

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def livekit(curb_livekit: LiveKitServerHandle) -> LiveKitServerHandle:
    """The server that ``--livekit`` chose."""
    return curb_livekit


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is named in it, and programs started from anywhere find the sources."""
    for name in ("CURB_LIVEKIT_URL", "CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name, raising=False)
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
