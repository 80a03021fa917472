"""The page about the two servers: its program runs, and what it lists is what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from curb_client.testing.binary import LIVEKIT_SERVER_VERSION
from tests.conformance.comparison import ALLOWED
from tests.one_server import PAGE, Only, replace_table, table

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_program_prints_what_the_page_says() -> None:
    program, printed = re.findall(r"```(?:python|text)\n(.*?)```", TEXT, re.DOTALL)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, printed), run.stderr


def test_the_table_of_one_server_tests_is_up_to_date() -> None:
    command = [sys.executable, "-m", "tests.one_server"]
    run = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr


def test_what_the_embedded_server_may_do_otherwise_is_on_the_page() -> None:
    told = " ".join(TEXT.split())
    assert [why for why in ALLOWED.values() if why not in told] == []
    assert f"livekit-server {LIVEKIT_SERVER_VERSION}" in told


def test_the_table_is_written_into_its_place() -> None:
    marked = [
        ("tests/a.py", Only("embedded", "a fault"), ["test_one", "test_two"]),
        ("tests/b.py", Only("server", "x"), []),
    ]
    rows = table(marked)
    assert "| tests/a.py: `test_one`, `test_two` | embedded | a fault |\n| tests/b.py: all | server | x |\n" in rows
    page = replace_table(TEXT, rows)
    assert rows in page
    assert replace_table(page, "") == replace_table(TEXT, "")
    with pytest.raises(ValueError, match="needs the lines"):
        replace_table("no place", rows)


MARKED = """
import pytest

@pytest.mark.livekit_only("embedded", reason="a fault")
def test_embedded():
    pass

@pytest.mark.livekit_only("server", reason="a difference")
def test_server():
    pass

def test_both():
    pass
"""


@pytest.mark.parametrize(
    ("choice", "skipped"),
    [
        ("embedded", "runs on --livekit=server alone: a difference"),
        ("server", "runs on --livekit=embedded alone: a fault"),
        ("ws://127.0.0.1:1", "runs on --livekit=embedded alone: a fault"),
    ],
)
def test_a_marked_test_is_skipped_on_the_other_server(pytester: pytest.Pytester, choice: str, skipped: str) -> None:
    outcomes, output = _run(pytester, MARKED, f"--livekit={choice}")
    assert outcomes == {"passed": 2, "skipped": 1}
    assert skipped in output


@pytest.mark.parametrize("mark", ["'embedded'", "'other', reason='x'", "reason='x'"])
def test_a_mark_without_a_reason_or_a_server_is_an_error(pytester: pytest.Pytester, mark: str) -> None:
    outcomes, output = _run(pytester, f"import pytest\n\n@pytest.mark.livekit_only({mark})\ndef test_it():\n    pass\n")
    assert outcomes == {"errors": 1}
    assert 'write livekit_only("embedded", reason="…"), or "server"' in output


def _run(pytester: pytest.Pytester, source: str, *arguments: str) -> tuple[dict[str, int], str]:
    root = Path(__file__).parents[2]
    pytester.makepyfile(source)
    pytester.makeini("[pytest]\nmarkers =\n    livekit_only(server, reason): …\n    livekit: …\n")
    pytester.syspathinsert(root)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    result = pytester.runpytest_subprocess("-ra", *plugins, *arguments, timeout=120)
    return result.parseoutcomes(), result.stdout.str()
