"""docs/parity.md is whole; that its cells are true, the scenarios' own tests say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.table import CLIENTS, PAGE, PASS, SCENARIOS, SERVERS, all_cells, cells_of, note, noted, page_of


def test_the_page_has_every_scenario_with_every_client_and_passes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    cells = cells_of(text)
    assert page_of(cells) == text, "run: make parity"
    assert {cell for cell, outcome in cells.items() if outcome != PASS} == set()
    assert len(cells) == len(SCENARIOS) * len(CLIENTS) * len(SERVERS)


def test_the_names_fit_a_table() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert [name for name in names if "|" in name] == []


def test_what_was_found_makes_the_page(tmp_path: Path) -> None:
    for cell in all_cells():
        note(tmp_path, cell, "passed or not")
    outcomes = noted(tmp_path)
    assert cells_of(page_of(outcomes)) == outcomes
    with pytest.raises(ValueError, match=f"1 of {len(outcomes)} cells are missing"):
        page_of(dict(list(outcomes.items())[1:]))
