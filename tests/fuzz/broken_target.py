"""A target that fails, to see that failures are told."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target

__all__ = ["TARGETS"]


def broken(data: bytes) -> None:
    """Takes everything but a word that the fuzzer knows from a seed."""
    assert b"planted" not in data, "the planted mistake"


TARGETS: Final = (Target.of(broken, ["a planted word"]),)
