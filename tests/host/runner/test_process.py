"""The runner as a process: the ready line, signals, failures, what it writes where; and the curl walkthrough."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from curb_client.testing import LiveKitServerHandle
from tests.host.runner.conftest import check_type

ROOT = Path(__file__).parents[3]
TOKEN = "management-token-of-a-process"
PROGRAM = [sys.executable, "-m", "curb_client.cli", "runner"]
SECONDS = 60.0


class RunnerProgram:
    """A runner's process, its output read as it comes."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=ROOT,
            env={**os.environ, "CURB_MANAGEMENT_TOKEN": TOKEN, "CURB_MANAGEMENT_ADDRESS": "127.0.0.1:0", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._new: queue.Queue[str] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.out)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.err)),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))
            if lines is self.out:
                self._new.put(lines[-1])

    def line(self, begin: str) -> str:
        """The next line on stdout that begins so."""
        given_up = time.monotonic() + SECONDS
        while True:
            try:
                line = self._new.get(timeout=max(given_up - time.monotonic(), 0.01))
            except queue.Empty:
                pytest.fail(f"no line {begin!r} within {SECONDS:g} s: {self.out} {self.err}")
            if line.startswith(begin):
                return line

    def event(self, name: str) -> Any:
        return json.loads(self.line(f'curb-hosted {{"event":"{name}"').removeprefix("curb-hosted "))

    def ended(self) -> int:
        """The exit status, when all output is read."""
        status = self.process.wait(SECONDS)
        for thread in self._threads:
            thread.join(SECONDS)
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ended()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def program(*arguments: str, **environment: str) -> Iterator[RunnerProgram]:
    made = RunnerProgram(*arguments, **environment)
    try:
        yield made
    finally:
        made.close()


def ask(address: str, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://{address}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def until_state(address: str, session_id: str, state: str) -> None:
    given_up = time.monotonic() + SECONDS
    while (seen := ask(address, "GET", f"/v1/sessions/{session_id}")).get("state") != state:
        assert time.monotonic() < given_up, seen
        time.sleep(0.05)


def start_body(server: LiveKitServerHandle, session_id: str) -> dict[str, Any]:
    room_token = server.token("agent", session_id, kind="agent")
    return {"sessionId": session_id, "realtimeUrl": server.url, "realtimeToken": room_token}


def test_a_signal_drains_and_a_second_one_ends_it_at_once(curb_livekit: LiveKitServerHandle) -> None:
    with program("tests.host.agent:agent", "--max-sessions", "2") as runner:
        ready = runner.event("ready")
        check_type(ready, "LifecycleReady")
        assert ready["maxSessions"] == 2
        ask(ready["address"], "POST", "/v1/sessions", start_body(curb_livekit, "signalled"))
        until_state(ready["address"], "signalled", "connected")
        runner.process.send_signal(signal.SIGTERM)
        assert runner.event("draining") == {"event": "draining", "signal": "SIGTERM"}
        assert ask(ready["address"], "GET", "/v1/runner")["draining"] is True
        runner.process.send_signal(signal.SIGINT)
        assert runner.ended() == 128 + signal.SIGINT
        assert not any("ended" in line for line in runner.out)


def test_a_drained_runner_exits_with_0_and_shows_no_secret(curb_livekit: LiveKitServerHandle) -> None:
    with program("tests.host.agent:careless", "--deployment-id", "d-1") as runner:
        ready = runner.event("ready")
        body = start_body(curb_livekit, "careless")
        ask(ready["address"], "POST", "/v1/sessions", body)
        until_state(ready["address"], "careless", "ended")
        wrong = {**start_body(curb_livekit, "unjoinable"), "realtimeToken": "secret-but-wrong-token"}
        ask(ready["address"], "POST", "/v1/sessions", wrong)
        until_state(ready["address"], "unjoinable", "ended")
        runner.process.send_signal(signal.SIGINT)
        assert runner.event("draining") == {"event": "draining", "signal": "SIGINT"}
        assert runner.event("ended") == {"event": "ended"}
        assert runner.ended() == 0
        assert "a line of the agent's own" in runner.out
        logged = [json.loads(line) for line in runner.err if line.startswith("{")]
        (failed,) = [line for line in logged if "the agent's function failed" in line["message"]]
        assert (failed["level"], failed["session"]) == ("error", "careless")
        assert "RuntimeError: bad token [hidden]" in failed["error"]
        assert any(line["message"] == "the token is [hidden]" for line in logged)
        assert any("could not be joined" in line["message"] for line in logged)
        written = "\n".join(runner.out + runner.err)
        for secret in (TOKEN, body["realtimeToken"], "secret-but-wrong-token"):
            assert secret not in written


def test_a_second_signal_ends_it_at_once_where_the_agent_blocks_the_loop(curb_livekit: LiveKitServerHandle) -> None:
    with program("tests.host.agent:blocking") as runner:
        address = runner.event("ready")["address"]
        ask(address, "POST", "/v1/sessions", start_body(curb_livekit, "blocked"))
        runner.line("blocking")
        for number in (signal.SIGTERM, signal.SIGINT):
            runner.process.send_signal(number)
            time.sleep(0.2)  # two that wait at once are told in the order of their numbers
        assert runner.ended() == 128 + signal.SIGINT


def test_an_agent_that_does_not_end_does_not_keep_a_drained_runner(curb_livekit: LiveKitServerHandle) -> None:
    with program("tests.host.agent:stubborn", "--drain-timeout", "0.1") as runner:
        address = runner.event("ready")["address"]
        ask(address, "POST", "/v1/sessions", start_body(curb_livekit, "stubborn"))
        until_state(address, "stubborn", "connected")
        runner.process.send_signal(signal.SIGTERM)
        runner.event("ended")
        assert runner.ended() == 0


def test_a_runner_that_cannot_warm_up_is_never_ready() -> None:
    with program("tests.host.agent:cold") as runner:
        assert runner.ended() == 1
        assert runner.out == []
        assert "warming up failed: RuntimeError: the model is not there" in runner.err[-1]


def test_warming_up_that_hangs_does_not_keep_the_process() -> None:
    with program("tests.host.agent:frozen", CURB_WARM_UP_SECONDS="0.2") as runner:
        assert runner.ended() == 1
        assert "warming up: not done after 0.2 s" in runner.err[-1]


def test_a_signal_while_it_warms_up_ends_it() -> None:
    with program("tests.host.agent:lukewarm") as runner:
        runner.line("warming up")
        runner.process.send_signal(signal.SIGTERM)
        assert runner.ended() == 128 + signal.SIGTERM
        assert runner.out == ["warming up"]


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["tests.host.agent:agent"], {"CURB_MANAGEMENT_TOKEN": ""}, "CURB_MANAGEMENT_TOKEN"),
        (["tests.host.agent:nothing"], {}, "has no 'nothing'"),
    ],
)
def test_wrong_options_are_told(arguments: list[str], environment: dict[str, str], words: str) -> None:
    with program(*arguments, **environment) as runner:
        assert runner.ended() == 2
        assert words in "\n".join(runner.err)
        assert runner.out == []


WALKTHROUGH = """
auth=(-H "Authorization: Bearer $TOKEN")
curl -s http://$ADDR/health
echo
curl -s "${auth[@]}" http://$ADDR/v1/runner
echo
curl -sN "${auth[@]}" "http://$ADDR/v1/runner/events?from=0" > events.ndjson & follower=$!
curl -s "${auth[@]}" -H 'content-type: application/json' \\
  -d '{"sessionId":"call-42","realtimeUrl":"'$URL'","realtimeToken":"'$ROOM_TOKEN'",
       "clientContext":{"event":"webinar-11-04"}}' \\
  http://$ADDR/v1/sessions
echo
curl -s "${auth[@]}" http://$ADDR/v1/sessions/call-42
echo
until curl -s "${auth[@]}" http://$ADDR/v1/sessions/call-42 | grep -q connected; do sleep 0.1; done
curl -s "${auth[@]}" -H 'content-type: application/json' \\
  -d '{"id":"m-7","name":"notice","payload":{"text":"hello"},"inReplyTo":"a-3"}' \\
  http://$ADDR/v1/sessions/call-42/messages
echo
curl -s "${auth[@]}" -X PATCH -H 'content-type: application/json' \\
  -d '{"tts":{"voice":17},"stt":{"language":"de"}}' \\
  http://$ADDR/v1/sessions/call-42
echo
curl -s "${auth[@]}" -X DELETE "http://$ADDR/v1/sessions/call-42?reason=caller_hung_up&graceMs=2000"
echo
curl -s "${auth[@]}" -X POST http://$ADDR/v1/runner/drain
echo
wait $follower
"""


@pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("CI"), reason="needs curl")
def test_the_curl_walkthrough(curb_livekit: LiveKitServerHandle, tmp_path: Path) -> None:
    with program("tests.host.agent:agent") as runner:
        address = runner.event("ready")["address"]
        done = subprocess.run(
            ["bash", "-euc", WALKTHROUGH],
            cwd=tmp_path,
            env={
                **os.environ,
                "ADDR": address,
                "TOKEN": TOKEN,
                "URL": curb_livekit.url,
                "ROOM_TOKEN": curb_livekit.token("agent", "call-42", kind="agent"),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS * 2,
            check=True,
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        types = ["Health", "RunnerStatus", "StartCallAnswer", "LiveCall", "MessageAnswer", "SettingsAnswer"]
        types += ["StopAnswer", "DrainAnswer"]
        for answer, name in zip(answers, types, strict=True):
            check_type(answer, name)
        assert answers[2] == {"sessionId": "call-42", "accepted": True}
        assert answers[4] == {"id": "m-7", "delivered": True}
        assert answers[5]["settings"]["tts"] == {"provider": "kugelaudio", "voice": 17}
        assert answers[6] == {"sessionId": "call-42", "stopped": True}
        assert runner.ended() == 0
    records = [json.loads(line) for line in (tmp_path / "events.ndjson").read_text().splitlines()]
    for record in records:
        check_type(record, "JournalRecord")
    assert [record["envelope"] for record in records] == [*range(1, len(records) + 1)]
    ended = [record["body"] for record in records if record["producer"] == "call-42"][-1]
    assert (ended["name"], ended["payload"]) == ("curb.ended", {"reason": "caller_hung_up"})
    assert [record["body"] for record in records][-1] == {"event": "ended"}
