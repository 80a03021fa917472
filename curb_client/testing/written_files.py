"""Files that people write: YAML read as JSON reads values, and what is wrong with them, by place and in words."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from curb_client.errors import UsageError
from curb_client.testing.recorder import shortened

if TYPE_CHECKING:
    import yaml

__all__ = ["Part", "check_part", "decode_yaml", "mistakes_in", "place_of", "yaml_loader"]

PartT = TypeVar("PartT", bound="Part")

_SHOWN_MISTAKES: Final = 10
_SHOWN_VALUE: Final = 80  # characters


class Part(BaseModel):
    """A part that refuses properties it does not know."""

    model_config = ConfigDict(frozen=True)
    short_forms: ClassVar[Sequence[str]] = ()

    @model_validator(mode="before")
    @classmethod
    def _knows(cls, value: object) -> object:
        known = [field.alias or name for name, field in cls.model_fields.items()] + [*cls.short_forms]
        words: dict[str, Any] = {"known": ", ".join(known)}
        if not isinstance(value, Mapping):
            raise PydanticCustomError("no_mapping", "must have properties, of these: {known}", words)
        for name in value:
            if name not in known:
                raise PydanticCustomError(
                    "unknown_property", "no such property; there are {known}", words | {"name": name}
                )
        return value


def check_part(part: type[PartT], value: object, name: str) -> PartT:
    """The value as a part of a script.

    Raises:
        UsageError: it is none; with ``name``, each place, what is allowed there and what it is.
    """
    try:
        return part.model_validate(value)
    except ValidationError as error:
        mistakes = mistakes_in(error, value)
    if len(mistakes) == 1:
        raise UsageError(f"{name}: {mistakes[0]}")
    more = [f"… {len(mistakes) - _SHOWN_MISTAKES} more"] if len(mistakes) > _SHOWN_MISTAKES else []
    raise UsageError("\n  ".join([f"{name} has {len(mistakes)} mistakes:", *mistakes[:_SHOWN_MISTAKES], *more]))


def mistakes_in(error: ValidationError, value: object) -> list[str]:
    """One line for each place; pydantic has one for each type that would do there."""
    told: dict[tuple[str, str], list[str]] = {}
    for details in error.errors(include_url=False):
        context, kind = details.get("ctx", {}), details["type"]
        location = (*details["loc"], context["name"]) if kind == "unknown_property" else details["loc"]
        place = place_of(location, value, missing=kind == "missing")
        message = str(context["error"]) if kind == "value_error" else details["msg"]
        message = re.sub("^(?:key|payload) ", "", message)  # the place says that
        shown = (
            "" if kind in ("missing", "unknown_property") else f"; it is {shortened(details['input'], _SHOWN_VALUE)}"
        )
        told.setdefault((place, shown), []).append(message)
    return [
        f"{place + ': ' if place else ''}{', or '.join(dict.fromkeys(messages))}{shown}"
        for (place, shown), messages in told.items()
    ]


def place_of(location: tuple[str | int, ...], value: Any, *, missing: bool) -> str:
    """Where that is, as people write it, without the steps that pydantic makes up."""
    text = ""
    for position, step in enumerate(location):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, (list, tuple)) and isinstance(step, int) and step < len(value):
            value = value[step]
            text += f"[{step}]"
            continue
        elif not (missing and position == len(location) - 1):
            continue
        is_plain = isinstance(step, str) and re.fullmatch(r"[\w-]{1,60}", step)
        text += f"{'.' if text else ''}{step}" if is_plain else f"[{shortened(step, _SHOWN_VALUE)}]"
    return text


# YAML


def decode_yaml(text: str, name: str) -> object:
    try:
        import yaml
    except ImportError as error:
        raise UsageError(
            f"{name}: a script in YAML needs the package PyYAML: pip install 'curb-client[testing]'"
        ) from error
    try:
        return yaml.load(text, yaml_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UsageError(f"{name}: {at}{error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from error
    except RecursionError:
        raise UsageError(f"{name} is nested too deeply") from None


@functools.cache
def yaml_loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Plain values as in JSON: YAML 1.1 would read the property `on` as true, and `12:30` as 750."""

        def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
            node = super().compose_mapping_node(anchor)
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):  # others are refused later
                    if key.value in seen:
                        raise yaml.composer.ComposerError(None, None, f"{key.value!r} is there twice", key.start_mark)
                    seen.add(key.value)
            return node

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in (
        ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
        ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
        ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
        ("merge", r"<<", ["<"]),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"{pattern}$"), first)
    return Loader
