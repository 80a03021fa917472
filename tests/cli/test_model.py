"""``curb-client model``: serve and show."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from curb_client.cli.commands import cli
from curb_client.model import RecordedRequest, read_recording
from tests.model.conversation import CONVERSATION, request

SCRIPT = "rules:\n  - when: {said: hello}\n    then: {text: Good morning.}\n"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "recording.jsonl"
    path.write_text("".join(f"{RecordedRequest(0, each.body).to_line()}\n" for each in CONVERSATION), encoding="utf-8")
    return path


def show(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["model", "show", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


class TestShow:
    def test_whole_and_changes(self, recording: Path) -> None:
        assert "You run a parcel desk." in show(recording)
        assert "+ send_label" in show(recording, "--diff")

    def test_the_ledger(self, recording: Path) -> None:
        assert "=== It is 17: find_order\ninstruction: Ask what broke.\ntool: send_label() [page]" in show(
            recording, "--ledger"
        )

    def test_a_page(self, recording: Path, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        show(recording, "--html", page)
        assert page.read_text(encoding="utf-8").count("<article>") == len(CONVERSATION)

    @pytest.mark.parametrize("options", [[], ["--diff"], ["--ledger"]])
    def test_nothing_that_a_terminal_acts_on_or_cannot_show(self, tmp_path: Path, options: list[str]) -> None:
        path = tmp_path / "recording.jsonl"
        odd = "\x1b]0;x\x07 \x9b31m \ud83d\ttab"
        path.write_text(f"{RecordedRequest(0, request([said(odd)], [f'content: {odd}'], []).body).to_line()}\n")
        shown = show(path, *options)
        assert r"content: \x1b]0;x\x07 \x9b31m \ud83d" in shown
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)

    def test_a_page_of_text_that_no_file_can_hold(self, tmp_path: Path) -> None:
        path, page = tmp_path / "recording.jsonl", tmp_path / "page.html"
        half = request([said("a \ud83d")], [], [])
        path.write_text(f"{RecordedRequest(0, half.body).to_line()}\n")
        show(path, "--html", page)
        assert "user: a \ufffd" in page.read_text(encoding="utf-8")

    def test_a_page_in_a_folder_that_is_not_there(self, recording: Path, tmp_path: Path) -> None:
        page = tmp_path / "none" / "page.html"
        result = CliRunner().invoke(cli, ["model", "show", str(recording), "--html", str(page)])
        assert result.exit_code == 2
        assert "the page cannot be written to" in result.output

    @pytest.mark.parametrize(
        ("content", "options", "status", "message"),
        [
            (None, [], 2, "cannot be read"),
            ("oops\n", [], 2, "line 1: no recorded request"),
            ('{"at": 1e999, "request": {}}\n', [], 2, "line 1: no recorded request: at is inf"),
            ('{"at": 1e20, "request": {}}\n', ["--html", "page.html"], 2, "line 1: no recorded request: at is 1e+20"),
            ("", [], 1, "holds no request"),
            ("{}\n", ["--diff", "--ledger"], 2, "exclude each other"),
        ],
    )
    def test_what_cannot_be_shown(
        self, tmp_path: Path, content: str | None, options: list[str], status: int, message: str
    ) -> None:
        path = tmp_path / "recording.jsonl"
        if content is not None:
            path.write_text(content, encoding="utf-8")
        result = CliRunner().invoke(cli, ["model", "show", str(path), *options])
        assert result.exit_code == status
        assert message in result.output


class TestServe:
    def test_it_answers_records_and_ends(self, tmp_path: Path) -> None:
        record = tmp_path / "recording.jsonl"
        with serving(tmp_path, "--record", str(record)) as (process, url):
            assert reply_to(url, "hello") == "Good morning."
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        assert [each.request.last_user_text for each in read_recording(record)] == ["hello"]

    def test_a_request_that_no_rule_fits_is_an_error_in_the_end(self, tmp_path: Path) -> None:
        with serving(tmp_path) as (process, url):
            with pytest.raises(HTTPError) as refused:
                reply_to(url, "goodbye")
            refused.value.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 1
            assert process.stderr is not None
            assert "user: goodbye" in process.stderr.read()

    @pytest.mark.parametrize("script", ["rules: [{}]", "oops: ["])
    def test_a_script_that_is_none(self, tmp_path: Path, script: str) -> None:
        path = tmp_path / "script.yaml"
        path.write_text(script, encoding="utf-8")
        result = CliRunner().invoke(cli, ["model", "serve", "--script", str(path)])
        assert result.exit_code == 2
        assert "script" in result.output


def test_a_recording_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    options = ["--script", str(tmp_path / "script.yaml"), "--record", str(tmp_path / "none" / "recording.jsonl")]
    result = CliRunner().invoke(cli, ["model", "serve", *options])
    assert result.exit_code == 2
    assert "make its folder first" in result.output


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    path = folder / "script.yaml"
    path.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "curb_client.cli", "model", "serve", "--script", str(path), *options]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            name, _, url = process.stdout.readline().strip().partition("=")
            assert name == "OPENAI_BASE_URL"
            yield process, url
        finally:
            process.kill()


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def reply_to(url: str, text: str) -> str:
    body = json.dumps({"model": "m", "messages": [said(text)]}).encode()
    with urlopen(Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"}), timeout=30) as answer:
        reply: str = json.load(answer)["choices"][0]["message"]["content"]
        return reply
