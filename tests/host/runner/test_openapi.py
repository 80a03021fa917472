"""The OpenAPI document, and schemathesis with it: what it makes up finds the runner answering as told."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from curb_client.host.openapi import openapi_document
from curb_client.protocol.contract import STATUS_BY_CODE
from curb_client.testing import LiveKitServerHandle
from tests.host.runner.test_process import TOKEN, ask, program, start_body, until_state

# The protocol's errors have no 405, and an agent may refuse what fits the types; a drain would end the run, and the
# stream of events does not end.
ARGUMENTS = [
    "--exclude-checks=unsupported_method,positive_data_acceptance",
    "--exclude-path=/v1/runner/events",
    "--exclude-path=/v1/runner/drain",
    "--phases=coverage,fuzzing",
    "--generation-database=none",
    "--seed=1",
    "--max-examples=10",
    "--request-timeout=30",
    "--no-color",
]
CONFIGURATION = """
[parameters]
"path.id" = "live"

[[operations]]
include-operation-id = "stopCall"
parameters = { "path.id" = "nobody" }
"""


def document() -> dict[str, Any]:
    """For this machine alone: nothing listens on that port."""
    made = copy.deepcopy(openapi_document())
    made["components"]["schemas"]["StartCallRequest"]["properties"]["realtimeUrl"] = {"const": "ws://127.0.0.1:9"}
    return made


def test_every_code_and_every_type_of_an_answer_is_in_the_document() -> None:
    text = json.dumps(openapi_document()["paths"])
    missing = [code.value for code in STATUS_BY_CODE if code.value not in text]
    assert missing == ["unknown_version", "start_failed"], "those that no route of it answers"


def test_schemathesis_finds_nothing(curb_livekit: LiveKitServerHandle, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(document()))
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    with program("tests.host.agent:agent", "--max-sessions", "2") as runner:
        address = runner.event("ready")["address"]
        ask(address, "POST", "/v1/sessions", start_body(curb_livekit, "live"))
        until_state(address, "live", "connected")
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                "run",
                "openapi.json",
                f"--url=http://{address}",
                f"--header=Authorization: Bearer {TOKEN}",
                *ARGUMENTS,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        status = ask(address, "GET", "/v1/runner")  # the call may be over: a room with nobody but an agent is closed
        assert (status["draining"], status["maxSessions"]) == (False, 2), "and the runner is as it was"
        assert not [line for line in runner.err if "Traceback" in line]
