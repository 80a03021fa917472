"""The files in ``fixtures/``; its README tells their formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def vectors(name: str) -> Any:
    """The whole of one file."""
    return read(FIXTURES / "vectors" / f"{name}.json")


def cases(name: str, part: str = "cases") -> list[Any]:
    """The cases in one list of a file, as parameters of a test; never none."""
    found = vectors(name)[part]
    assert found, f"{name}.json has no {part}"
    return [pytest.param(case, id=case.get("name", f"{index}")) for index, case in enumerate(found)]
