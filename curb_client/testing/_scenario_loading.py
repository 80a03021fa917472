"""From a scenario's file to the scenario, and its mistakes with their lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from curb_client.errors import UsageError
from curb_client.testing.scenario_file import ScenarioAgent, ScenarioForm, Step
from curb_client.testing.written_files import decode_yaml, mistakes_in, place_of, yaml_loader

if TYPE_CHECKING:
    from yaml import Node

__all__ = ["Scenario", "load_scenario"]

_SHOWN_MISTAKES: Final = 10


@dataclass(frozen=True)
class Scenario:
    """A scenario, ready to be run.

    Attributes:
        name: as the file says, else the file's own without its ending.
        file: as it was given to :func:`load_scenario`.
        within: seconds for each step that does not say otherwise.
        strict: whether a message of the agent that no step expects is a failure.
        lines: of each step, in the file, counted from 1.
    """

    name: str
    file: Path
    agent: ScenarioAgent
    within: float
    strict: bool
    steps: Sequence[Step]
    lines: Sequence[int]


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """The scenario of a YAML file; see :mod:`curb_client.testing.scenario_file`.

    Raises:
        UsageError: the file cannot be read, is not YAML, has a property twice, or is no scenario; with the file and,
            for each mistake, its line, its place, what is allowed there and what it is. Or PyYAML is missing.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text: {error}") from error
    value = decode_yaml(text, str(file))
    lines = _Lines(text)
    try:
        form = ScenarioForm.model_validate(value)
    except ValidationError as error:
        raise UsageError(_told(error, value, lines, file)) from None
    return Scenario(
        name=form.name or file.stem,
        file=file,
        agent=form.agent,
        within=form.within,
        strict=form.strict,
        steps=tuple(form.steps),
        lines=tuple(lines.of(("steps", index)) for index in range(len(form.steps))),
    )


def _told(error: ValidationError, value: object, lines: _Lines, file: Path) -> str:
    line_of: dict[str, int] = {}
    for details in error.errors(include_url=False):
        kind, location = details["type"], details["loc"]
        if kind == "unknown_property":
            location = (*location, details["ctx"]["name"])
        line_of.setdefault(place_of(location, value, missing=kind == "missing"), lines.of(location))
    mistakes = []
    for mistake in mistakes_in(error, value):
        place = max((place for place in line_of if not place or mistake.startswith(f"{place}: ")), key=len)
        mistakes.append(f"line {line_of[place]}: {mistake}")
    if len(mistakes) == 1:
        return f"{file}, {mistakes[0]}"
    more = [f"… {len(mistakes) - _SHOWN_MISTAKES} more"] if len(mistakes) > _SHOWN_MISTAKES else []
    return "\n  ".join([f"{file} has {len(mistakes)} mistakes:", *mistakes[:_SHOWN_MISTAKES], *more])


class _Lines:
    """Where things are in a YAML text that can be read."""

    def __init__(self, text: str) -> None:
        import yaml

        self._root: Node | None = yaml.compose(text, yaml_loader())

    def of(self, location: Sequence[str | int]) -> int:
        """The line, from 1, of what is there, or of what it would be in; steps that lead nowhere do not count."""
        node, line = self._root, 1
        for step in location:
            found = _child(node, step) if node is not None else None
            if found is not None:
                node, line = found
        return line


def _child(node: Node, step: str | int) -> tuple[Node, int] | None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child = node.value[step]
        return child, child.start_mark.line + 1
    return None
