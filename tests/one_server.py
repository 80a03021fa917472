"""Tests that run on one LiveKit server alone: the marker ``livekit_only``, and the table of them in the docs.

``python -m tests.one_server --write`` writes the table anew.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

__all__ = ["PAGE", "Only", "marked_tests", "only_on", "replace_table", "table"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "servers.md"
BEGIN: Final = "<!-- one-server tests: make servers-page writes them -->\n"
END: Final = "<!-- end of the one-server tests -->\n"
SERVERS: Final = ("embedded", "server")


@dataclass(frozen=True, order=True)
class Only:
    """What a marker ``livekit_only("embedded", reason="…")`` says."""

    server: str
    reason: str


def only_on(item: pytest.Item) -> Only | None:
    """The one server of a test; None where it runs on every one.

    Raises:
        pytest.UsageError: the marker is not as it should be.
    """
    mark = item.get_closest_marker("livekit_only")
    if mark is None:
        return None
    reason = mark.kwargs.get("reason")
    if len(mark.args) != 1 or mark.args[0] not in SERVERS or not isinstance(reason, str) or not reason:
        raise pytest.UsageError(f'{item.nodeid}: write livekit_only("embedded", reason="…"), or "server"')
    return Only(mark.args[0], reason)


class _Collector:
    def __init__(self) -> None:
        self.found: dict[tuple[str, Only | None], set[str]] = defaultdict(set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            path, _, name = item.nodeid.partition("::")
            self.found[path, only_on(item)].add(name.partition("[")[0])


def marked_tests() -> list[tuple[str, Only, list[str]]]:
    """Files, what their marks say, and the names of the tests; no names where all of a file's tests are meant.

    Raises:
        RuntimeError: the tests cannot be collected.
    """
    collector, told = _Collector(), io.StringIO()
    files = [file for file in Path(__file__).parent.rglob("test_*.py") if "livekit_only" in file.read_text("utf-8")]
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers"]
        status = pytest.main([*arguments, *map(str, files)], plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(f"the tests could not be collected:\n{told.getvalue()[-3000:]}")
    marks: dict[str, set[Only | None]] = defaultdict(set)
    for path, only in collector.found:
        marks[path].add(only)
    return [
        (path, only, [] if marks[path] == {only} else sorted(names))
        for (path, only), names in sorted(collector.found.items(), key=lambda each: (each[0][0], str(each[0][1])))
        if only is not None
    ]


def table(marked: Iterable[tuple[str, Only, list[str]]]) -> str:
    """The table in Markdown."""
    lines = ["| tests | run on | because |", "| --- | --- | --- |"]
    for path, only, names in marked:
        tests = ", ".join(f"`{name}`" for name in names) or "all"
        lines.append(f"| {path}: {tests} | {only.server} | {only.reason} |")
    return "\n".join(lines) + "\n"


def replace_table(page: str, new: str) -> str:
    """The page with another table.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n{new}\n{end}{after}"


def main() -> int:
    """Returns 1 where the page is out of date and was not to be written."""
    parser = argparse.ArgumentParser(prog="python -m tests.one_server", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table anew")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    wanted = replace_table(page, table(marked_tests()))
    if options.write:
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != page:
        print(f"{PAGE.name} is out of date; run: make servers-page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
