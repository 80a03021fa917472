"""What came of scenario files: as JSON, and as JUnit's XML for a CI."""

from __future__ import annotations

import datetime as dt
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from curb_client.testing.scenario import Scenario, ScenarioResult, StepResult

__all__ = ["Outcome", "to_json", "write_junit"]

_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_NOT_PRINTABLE: Final = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """What came of a file. All of its text can be printed, and written as XML.

    Attributes:
        name: the scenario's; of a broken file, its own.
        status: a broken file is no scenario, and then none is run.
        problem: in what it failed, in lines; None where it did not.
        report: after a failure, the exchange and the last output of the agent's process; else empty.
    """

    file: str
    name: str
    status: Literal["passed", "failed", "broken", "not run"]
    seconds: float = 0.0
    steps: Sequence[StepResult] = ()
    problem: str | None = None
    report: str = ""

    @classmethod
    def of(cls, result: ScenarioResult) -> Outcome:
        """That of a scenario that was run."""
        return cls(
            file=_printable(str(result.scenario.file)),
            name=_name(result.scenario),
            status="passed" if result.ok else "failed",
            seconds=result.seconds,
            steps=[
                replace(step, text=_printable(step.text), problem=_printable(step.problem)) for step in result.steps
            ],
            problem=_printable(result.problem),
            report=_printable(result.report),
        )

    @classmethod
    def broken(cls, file: Path, problem: str) -> Outcome:
        """That of a file that is no scenario."""
        return cls(_printable(str(file)), _printable(file.name), "broken", problem=_printable(problem))

    @classmethod
    def not_run(cls, scenario: Scenario, problem: str | None = None) -> Outcome:
        """That of a scenario which was not run, with the reason if it is not in another's outcome."""
        return cls(_printable(str(scenario.file)), _name(scenario), "not run", problem=_printable(problem))


def _name(scenario: Scenario) -> str:
    return " ".join(_printable(scenario.name).split())


def _printable(text: str | None) -> Any:
    """Without the colours of an agent's output, and with the control characters of a payload spelt out."""
    if text is None:
        return None
    text = _TERMINAL_CODES.sub("", text.replace("\r\n", "\n"))
    return _NOT_PRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All of them as one JSON object."""
    return {"ok": all(each.status == "passed" for each in outcomes), "scenarios": [_json(each) for each in outcomes]}


def _json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "file": outcome.file,
        "status": outcome.status,
        "ok": outcome.status == "passed",
        "seconds": outcome.seconds,
        "steps": [_json_of_step(step) for step in outcome.steps],
        "problem": outcome.problem,
        "report": outcome.report,
    }


def _json_of_step(step: StepResult) -> dict[str, Any]:
    return {
        "step": step.text,
        "line": step.line,
        "status": step.status,
        "ok": step.status == "passed",
        "ms": step.ms,
        "problem": step.problem,
    }


def write_junit(outcomes: Sequence[Outcome], path: Path) -> None:
    """One suite with a case for each file: a failure, an error for a broken file, skipped if it was not run.

    Raises:
        OSError: the file cannot be written.
    """
    counts = {
        "tests": len(outcomes),
        "failures": sum(each.status == "failed" for each in outcomes),
        "errors": sum(_is_error(each) for each in outcomes),
        "skipped": sum(each.status == "not run" and not _is_error(each) for each in outcomes),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    numbers["time"] = f"{sum(each.seconds for each in outcomes):.3f}"
    root = ET.Element("testsuites", numbers)
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    suite = ET.SubElement(root, "testsuite", numbers, name="curb-client", timestamp=now)
    for outcome in outcomes:
        _add_case(suite, outcome)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _is_error(outcome: Outcome) -> bool:
    return outcome.status in ("broken", "not run") and outcome.problem is not None


def _add_case(suite: ET.Element, outcome: Outcome) -> None:
    time = f"{outcome.seconds:.3f}"
    case = ET.SubElement(suite, "testcase", classname=outcome.file, name=outcome.name, time=time)
    if outcome.problem is not None:
        kind = "error" if _is_error(outcome) else "failure"
        told = ET.SubElement(case, kind, message=" ".join(outcome.problem.split()))
        told.text = "\n\n".join(filter(None, [outcome.problem, outcome.report]))
    elif outcome.status == "not run":
        ET.SubElement(case, "skipped", message="another file is broken")
