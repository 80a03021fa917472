"""Scripts of a model in YAML.

::

    strict: true
    rules:
      - when: {said: broken, turn: 1}
        then: {calls: [{tool: read_skill, arguments: {skill: /returns}}]}
      - when: {after: read_skill}
        then: {text: "What is the number of your order?", delay: 0.2}
      - then: {status: 429, retry_after: 1}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from curb_client.errors import UsageError
from curb_client.model.endpoint.script import Answer, Call, ModelScript, Rule

__all__ = ["load_script", "read_script"]


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Pattern(_Written):
    matches: str


class _When(_Written):
    said: str | _Pattern | None = None
    offers: list[str] = Field(default_factory=list)
    lacks: list[str] = Field(default_factory=list)
    after: str | None = None
    turn: Annotated[int, Field(ge=1)] | None = None
    times: Annotated[int, Field(ge=1)] | None = None


class _Call(_Written):
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class _Then(_Written):
    text: str = ""
    calls: list[_Call] = Field(default_factory=list)
    delay: Annotated[float, Field(ge=0)] = 0.0
    status: int = 200
    error: str = "the script says so"
    retry_after: Annotated[float, Field(ge=0)] | None = None
    chunk: Annotated[int, Field(ge=1)] = 16
    cut_after: Annotated[int, Field(ge=0)] | None = None
    thinking: str = ""
    code: str | None = None


class _Rule(_Written):
    when: _When = Field(default_factory=_When)
    then: _Then


class _Script(_Written):
    strict: bool = True
    rules: list[_Rule]


def load_script(path: str | Path) -> ModelScript:
    """Read a script from a file.

    Raises:
        UsageError: it cannot be read, or does not fit; the message names the field.
    """
    try:
        return read_script(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def read_script(text: str) -> ModelScript:
    """Read a script from its text; raises as :func:`load_script`."""
    try:
        written = _Script.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise UsageError(f"the script is not YAML: {error}") from None
    except ValidationError as error:
        wrong = [f"{_place(each['loc'])}: {each['msg']}" for each in error.errors()]
        raise UsageError(f"the script does not fit: {'; '.join(wrong)}") from None
    return ModelScript([_rule(number, each) for number, each in enumerate(written.rules)], is_strict=written.strict)


def _rule(number: int, written: _Rule) -> Rule:
    said = written.when.said
    try:
        calls = [Call(each.tool, each.arguments) for each in written.then.calls]
        then = {**written.then.model_dump(), "calls": calls}
        pattern = re.compile(said.matches) if isinstance(said, _Pattern) else said
        return Rule(Answer(**then), **{**written.when.model_dump(), "said": pattern})
    except re.error as error:
        raise UsageError(f"rules[{number}].when.said.matches is no pattern: {error}") from None
    except UsageError as error:
        raise UsageError(f"rules[{number}].then: {error}") from None


def _place(loc: tuple[str | int, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.lstrip(".") or "the script"
