"""What a failing test shows, as files: the cause must be plain from the report alone.

``CURB_WRITE_GOLDEN=1`` writes them anew.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from curb_client.testing import LiveKitServerHandle

GOLDEN = Path(__file__).with_name("golden")
NEED_FAULTS = ("lost_request",)


def shown(output: str) -> str:
    """The report without what differs from run to run: times, names of rooms, where things are."""
    start = output.index("= FAILURES =")
    text = output[output.index("\n", start) + 1 : output.index("= short test summary info =")]
    text = text[: text.rindex("\n") + 1]
    text = re.sub(r"curb-\d+-\d+-[0-9a-f]{6}", "ROOM", text)
    text = re.sub(r"-+ (exchange in the room ROOM) -+", r"--- \1 ---", text)
    text = re.sub(r"<curb_client\.testing\.call\.CurbCall object at \w+>|<bound method .*", "...", text)
    text = re.sub(r"\S*/(agent\.py)", r"\1", text)
    text = re.sub(r"\S*/(python[\d.]*)(?= )", "python", text)
    text = re.sub(r"(?m)^ {0,6}\d+ (?= \w+ +\w)", "     MS ", text)
    text = re.sub(r"after \d+ ms", "after MS ms", text)
    text = re.sub(r"(?m)^.* sees the agent (absent|joined|active)\n", "", text)  # as it happens to be seen
    return re.sub(r"for \d\.\d s", "for S s", text)


@pytest.mark.parametrize("mistake", ["wrong_reply", "missing_message", "silent_agent", "lost_request"])
def test_the_report_makes_the_cause_plain(
    mistake: str, pytester: pytest.Pytester, curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("agent.py", "seeded_mistakes.py"):
        shutil.copy(GOLDEN / name, pytester.path / name)
    for name in ("CI", "BUILD_NUMBER"):  # pytest shows more then
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CURB_LIVEKIT_URL", curb_livekit.url)
    monkeypatch.setenv("CURB_LIVEKIT_API_KEY", curb_livekit.api_key)
    monkeypatch.setenv("CURB_LIVEKIT_API_SECRET", curb_livekit.api_secret)
    result = pytester.runpytest_subprocess(
        *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-p", "no:anyio"),
        *("-p", "no:cacheprovider", f"seeded_mistakes.py::test_{mistake}"),
        *(["--livekit=embedded"] if mistake in NEED_FAULTS else []),
        timeout=120,
    )
    result.assert_outcomes(failed=1)
    report = shown(result.stdout.str())
    file = GOLDEN / f"{mistake}.txt"
    if os.environ.get("CURB_WRITE_GOLDEN"):
        file.write_text(report, encoding="utf-8")
    assert report == file.read_text(encoding="utf-8")
