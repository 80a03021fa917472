"""Each target for a fixed number of inputs: by atheris where there is one, and by hypothesis everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.broken_target import TARGETS as BROKEN
from tests.fuzz.runner import Outcome, find, fuzz, names, why_not
from tests.fuzz.server import Fuzzed

RUNS: Final = 2000
NAMES: Final = names()


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    """The targets' own, which they start when they need it."""
    yield
    Fuzzed.end()


@pytest.fixture(scope="module")
def atheris() -> None:
    has_wheels = sys.platform == "linux" and (3, 11) <= sys.version_info[:2] <= (3, 13)
    if reason := why_not():
        if os.environ.get("CI") and has_wheels:
            pytest.fail(f"atheris is missing: {reason}; install requirements/dev.txt")
        pytest.skip(reason)


@pytest.fixture(scope="module")
def outcomes(atheris: None) -> dict[str, Outcome]:
    return {outcome.name: outcome for outcome in fuzz(NAMES, f"--runs={RUNS}")}


@pytest.mark.parametrize("name", NAMES)
def test_a_target_by_atheris(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    assert not outcome.failed, outcome.told
    assert outcome.runs >= RUNS


def test_a_target_that_fails_is_told_with_its_input(atheris: None, tmp_path: Path) -> None:
    broken, whole = fuzz(["broken", "message"], "--runs=50", artifacts=tmp_path)
    assert broken.failed
    assert "the planted mistake" in broken.told
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith("broken-crash-")
    assert b"planted" in kept.read_bytes()
    assert not whole.failed, whole.told


def test_no_two_targets_have_the_same_name() -> None:
    assert len(set(NAMES)) == len(NAMES)
    with pytest.raises(KeyError, match="--list"):
        find("none")


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_of_a_target(name: str) -> None:
    target = find(name)
    assert target.seeds
    for seed in target.seeds:
        target.check(seed)


def test_the_broken_target_is_broken() -> None:
    with pytest.raises(AssertionError, match="planted"):
        BROKEN[0].check(BROKEN[0].seeds[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_target_by_hypothesis(name: str) -> None:
    target = find(name)

    @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(st.binary(max_size=200), st.sampled_from(target.seeds), st.integers(0, 400), st.integers(0, 40))
    def check(data: bytes, seed: bytes, at: int, cut: int) -> None:
        target.check(data)
        target.check(seed[:at] + data[:12] + seed[at + cut :])

    check()
