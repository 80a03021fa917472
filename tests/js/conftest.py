"""Where the npm package is, and that its tools are installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def js() -> Path:
    """The folder of the npm package, ready to be built."""
    folder = ROOT / "js"
    if not (folder / "node_modules" / ".package-lock.json").exists():
        if os.environ.get("CI"):
            pytest.fail("the packages of js/ are not installed: make js/node_modules/ready")
        pytest.skip("the packages of js/ are not installed: make js/node_modules/ready")
    return folder
