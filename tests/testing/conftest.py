"""Servers and surroundings for the tests of the test kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServer, find_or_install
from tests.testing.workplace import Workplace, open_workplace


@pytest.fixture(scope="session")
def binary() -> Path:
    return find_or_install()


@pytest.fixture(scope="module")
def running(binary: Path) -> Iterator[LiveKitServer]:
    """For tests that leave their server as it was."""
    with LiveKitServer(binary) as server:
        yield server


@pytest.fixture(autouse=True)
def no_server_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CURB_LIVEKIT_URL", "CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with open_workplace(tmp_path) as place:
        yield place
