"""An answer with what its form needs besides: ids, time, counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from curb_client.model.endpoint.script import Answer, Call
from curb_client.model.prefix import estimate_tokens

__all__ = ["Answering"]


@dataclass(frozen=True)
class Answering:
    """An answer on its way.

    Attributes:
        id: of the answer, unique for its endpoint. created: when, seconds since the Unix epoch.
        model: as the request names it. prompt: the request, rendered.
    """

    answer: Answer
    id: int
    created: int
    model: str
    prompt: str

    @cached_property
    def calls(self) -> list[tuple[str, Call, str]]:
        """Each call with an id of its own and its arguments as text."""
        return [
            (f"call_{self.id}_{number}", call, json.dumps(dict(call.arguments), ensure_ascii=False))
            for number, call in enumerate(self.answer.calls)
        ]

    @cached_property
    def prompt_tokens(self) -> int:
        """Estimate of the request's."""
        return estimate_tokens(self.prompt)

    @cached_property
    def answer_tokens(self) -> int:
        """Estimate of the answer's."""
        return estimate_tokens(self.answer.text + "".join(arguments for _, _, arguments in self.calls))
