"""The questions in a call of ``ask_user``, read as a daemon reads them."""

from __future__ import annotations

import json
from typing import Final, TypeVar

from curb_client.crabtalk.events import Question, QuestionOption

__all__ = ["ASK_TOOL", "questions_in"]

ASK_TOOL: Final = "ask_user"

FieldT = TypeVar("FieldT", str, bool, list[object])

_KINDS: Final = {str: "a string", bool: "a boolean", list: "a sequence"}


def questions_in(arguments: str) -> tuple[Question, ...]:
    """The questions of a call; there may be none.

    Args:
        arguments: of the call, JSON text.

    Raises:
        ValueError: a daemon does not take them: it tells the model ``invalid arguments: …``, and asks nobody.
    """
    try:
        given = json.loads(arguments)
        json.dumps(given, ensure_ascii=False).encode()  # a lone surrogate is no text
    except RecursionError:
        raise ValueError("recursion limit exceeded") from None
    return tuple(_question(one) for one in _field(given, "questions", list))


def _question(given: object) -> Question:
    text, header = _field(given, "question", str), _field(given, "header", str)
    options = tuple(
        QuestionOption(_field(one, "label", str), _field(one, "description", str))
        for one in _field(given, "options", list)
    )
    is_multiple = isinstance(given, dict) and "multi_select" in given and _field(given, "multi_select", bool)
    return Question(text, header, options, is_multiple)


def _field(of: object, name: str, kind: type[FieldT]) -> FieldT:
    if not isinstance(of, dict):
        raise ValueError(f"invalid type: {json.dumps(of):.40}, expected a map with the field `{name}`")
    if name not in of:
        raise ValueError(f"missing field `{name}`")
    value = of[name]
    if not isinstance(value, kind):
        raise ValueError(f"invalid type: `{name}` is {json.dumps(value):.40}, expected {_KINDS[kind]}")
    return value
