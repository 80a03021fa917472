"""Scenario files, run one after the other, and what came of each."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from curb_client import LiveKitServerError, UsageError
from curb_client.cli.outcomes import Outcome, to_json, write_junit
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.scenario import Scenario, load_scenario, run_scenario

__all__ = ["run"]

ALL_PASSED: Final = 0
NOT_ALL_PASSED: Final = 1
NOTHING_RUN: Final = 2

_WORDS: Final = {"passed": "ok", "failed": "FAILED", "broken": "BROKEN", "not run": "not run"}
_STYLES: Final = {"passed": "green", "failed": "bold red", "broken": "bold red", "not run": "yellow"}
_INDENT: Final = 9


def run(
    paths: Sequence[Path], server: LiveKitServerHandle, *, name_has: str, as_json: bool, junit_xml: Path | None
) -> int:
    """Run the scenarios of files and folders, and print what came of them; returns the exit status.

    Args:
        name_has: only those with this text in their name, in whatever case.
        as_json: print one JSON object in place of lines.
        junit_xml: a file to write the outcomes to.

    Raises:
        click.UsageError: there is no scenario to run, a package is missing, or ``junit_xml`` cannot be written.
    """
    _check_packages()
    printer = _Printer(Console(highlight=False, quiet=as_json))
    outcomes = _outcomes(paths, server, name_has, printer)
    if as_json:
        click.echo(json.dumps(to_json(outcomes)))
    if junit_xml is not None:
        try:
            write_junit(outcomes, junit_xml)
        except OSError as error:
            raise click.UsageError(f"{junit_xml} cannot be written: {error.strerror or error}") from error
    if any(outcome.status == "broken" for outcome in outcomes):
        return NOTHING_RUN
    return ALL_PASSED if all(outcome.status == "passed" for outcome in outcomes) else NOT_ALL_PASSED


def _check_packages() -> None:
    for module, package in (("yaml", "PyYAML"), ("livekit.api", "livekit-api")):
        if importlib.util.find_spec(module) is None:
            raise click.UsageError(
                f"scenarios need the package {package}; install it: pip install 'curb-client[cli,testing]'"
            )


def _outcomes(paths: Sequence[Path], server: LiveKitServerHandle, name_has: str, printer: _Printer) -> list[Outcome]:
    loaded = [_loaded(file) for file in _files(paths)]
    if any(isinstance(each, Outcome) for each in loaded):
        outcomes = [each if isinstance(each, Outcome) else Outcome.not_run(each) for each in loaded]
        printer.broken(outcomes)
        return outcomes
    scenarios = [each for each in loaded if isinstance(each, Scenario) and name_has.lower() in each.name.lower()]
    if not scenarios:
        raise click.UsageError(f"no scenario of {len(loaded)} has {name_has!r} in its name")
    printer.begin([Outcome.not_run(scenario) for scenario in scenarios])
    try:
        with server:
            outcomes = asyncio.run(_run_all(scenarios, server, printer.outcome))
    except LiveKitServerError as error:
        outcomes = [Outcome.not_run(scenario, f"no LiveKit server: {error}") for scenario in scenarios]
        printer.outcome(outcomes[0])
    printer.summary(outcomes)
    return outcomes


async def _run_all(
    scenarios: Sequence[Scenario], server: LiveKitServerHandle, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    outcomes = []
    for scenario in scenarios:
        outcome = Outcome.of(await run_scenario(scenario, server))
        tell(outcome)
        outcomes.append(outcome)
    return outcomes


# The files


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files, and those of the folders, each once.

    Raises:
        click.UsageError: a folder has none.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        files = sorted(_below(path)) if path.is_dir() else [path]
        if not files:
            raise click.UsageError(f"there is no *.yaml file in {path}")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if not path.name.startswith(".") and path.name != "node_modules":
                yield from _below(path)
        elif path.suffix in (".yaml", ".yml"):
            yield path


def _loaded(file: Path) -> Scenario | Outcome:
    try:
        return load_scenario(file)
    except UsageError as error:
        return Outcome.broken(file, str(error))


# For people


class _Printer:
    """Prints each outcome as soon as it is there, in columns."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = 0

    def begin(self, planned: Sequence[Outcome]) -> None:
        """Make the columns as wide as these need."""
        self._width = max(cell_len(outcome.name) for outcome in planned)

    def outcome(self, outcome: Outcome) -> None:
        """A line, and after a failure what is known about it."""
        padding = " " * (self._width - cell_len(outcome.name))
        self._print(
            Text.assemble(
                (f"{_WORDS[outcome.status]:<{_INDENT}}", _STYLES[outcome.status]),
                f"{outcome.name}{padding}  {outcome.seconds:6.1f} s  ",
                (outcome.file, "dim"),
            )
        )
        if outcome.problem:
            self._print_indented(outcome.problem)
        if outcome.report:
            self._print_indented(f"\n{outcome.report}\n", "dim")

    def broken(self, outcomes: Sequence[Outcome]) -> None:
        """The files that are no scenarios."""
        broken = [outcome for outcome in outcomes if outcome.status == "broken"]
        for outcome in broken:
            self._print(Text.assemble((f"{_WORDS['broken']:<{_INDENT}}", _STYLES["broken"]), outcome.problem or ""))
        are = "is" if len(broken) == 1 else "are"
        self._print(Text(f"{len(broken)} of {_counted(len(outcomes), 'file')} {are} broken; nothing was run."))

    def summary(self, outcomes: Sequence[Outcome]) -> None:
        """The last line."""
        passed = sum(outcome.status == "passed" for outcome in outcomes)
        seconds = sum(outcome.seconds for outcome in outcomes)
        self._print(Text(f"{passed} of {_counted(len(outcomes), 'scenario')} passed, in {seconds:.1f} s."))

    def _print_indented(self, text: str, style: str = "") -> None:
        for line in text.split("\n"):
            self._print(Text(f"{' ' * _INDENT}{line}".rstrip(), style))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
