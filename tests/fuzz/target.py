"""What a fuzz target is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Target", "text_of"]


@dataclass(frozen=True)
class Target:
    """A decoder, and what is expected of it.

    Attributes:
        name: as the command line has it.
        check: takes any bytes, lets the decoder read them, and raises where it does what it should not.
        seeds: inputs that it understands, to begin with.
    """

    name: str
    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]

    @classmethod
    def of(cls, check: Callable[[bytes], None], seeds: Iterable[bytes | str]) -> Target:
        """Named like the function."""
        encoded = (seed.encode("utf-8") if isinstance(seed, str) else seed for seed in seeds)
        return cls(check.__name__, check, tuple(encoded))


def text_of(data: bytes) -> str:
    """Any text that a decoder may be given: lone surrogates too, where bytes are no UTF-8."""
    return data.decode("utf-8", "surrogateescape")
