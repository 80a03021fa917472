from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pytest

from curb_client.errors import UsageError
from curb_client.protocol.experiments import ExperimentDefinition, assign_experiments
from tests.protocol.vectors import cases


@pytest.mark.parametrize("case", cases("experiments"))
def test_vector(case: Any) -> None:
    context = case.get("clientContext")
    if "refused" not in case:
        assert assign_experiments(case["definitions"], case["sessionId"], context) == case["assigned"]
        return
    with pytest.raises(UsageError, match="experiment 'greeting'"):
        assign_experiments(case["definitions"], case["sessionId"], context)


@pytest.mark.parametrize("case", cases("experiments", "hashes"))
def test_hash_vector(case: Any) -> None:
    first = hashlib.sha256(case["text"].encode("utf-8")).digest()[:8]
    assert str(int.from_bytes(first, "big", signed=False)) == case["value"]


def test_weights_are_kept() -> None:
    definitions = {"pace": {"variants": {"fast": 1, "slow": 3}}}
    counts = Counter(assign_experiments(definitions, f"call-{number}")["pace"] for number in range(4_000))
    assert 850 < counts["fast"] < 1_150


def test_definitions_may_be_models() -> None:
    model = ExperimentDefinition(variants={"formal": 1, "casual": 1}, from_client="event")
    mapping = {"variants": {"casual": 1, "formal": 1}, "fromClient": "event"}
    for session in ("call-1", "call-2", "call-3"):
        assert assign_experiments({"g": model}, session) == assign_experiments({"g": mapping}, session)
    assert assign_experiments({"g": model}, "call-1", {"event": "casual"}) == {"g": "casual"}


@pytest.mark.parametrize(
    ("definitions", "session_id"),
    [
        ({"g": {"variants": {"a": 1}}}, "\ud800"),
        ({"\ud800": {"variants": {"a": 1}}}, "call-1"),
        ({"g": {"variants": {"a": 1, "\ud800": 1}}}, "call-1"),
    ],
)
def test_lone_surrogates_are_refused(definitions: Any, session_id: str) -> None:
    with pytest.raises(UsageError, match="lone surrogate") as caught:
        assign_experiments(definitions, session_id)
    str(caught.value).encode("utf-8")


def test_a_wrong_definition_is_told() -> None:
    with pytest.raises(UsageError, match=r"experiment 'g': variants.a: Input should be"):
        assign_experiments({"g": {"variants": {"a": -1}}}, "call-1")
    with pytest.raises(UsageError, match="no variant with a weight over 0"):
        assign_experiments({"g": {"variants": {"a": 0}}}, "call-1")
