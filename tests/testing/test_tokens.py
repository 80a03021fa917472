"""Tokens, and what the test kit needs to be imported."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import LiveKitAddress
from tests.testing.processes import REPOSITORY


def claims(token: str) -> dict[str, object]:
    payload = token.split(".")[1]
    decoded: dict[str, object] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


ADDRESS = LiveKitAddress("ws://127.0.0.1:1", "key", "s" * 32)


def test_a_token_says_what_it_was_asked_to() -> None:
    plain = claims(ADDRESS.token("alice", "a-room", ttl=60))
    assert (plain["sub"], plain["kind"], plain["iss"]) == ("alice", "standard", "key")
    assert plain["video"] == {
        "roomJoin": True,
        "room": "a-room",
        "canPublish": True,
        "canSubscribe": True,
        "canPublishData": True,
        "canUpdateOwnMetadata": True,
        "hidden": False,
    }
    expires, begins = plain["exp"], plain["nbf"]
    assert isinstance(expires, int)
    assert isinstance(begins, int)
    assert expires - begins <= 60

    agent = claims(ADDRESS.token("a", "r", kind="agent", name="A", metadata="m", attributes={"k": "v"}, hidden=True))
    assert (agent["kind"], agent["name"], agent["metadata"], agent["attributes"]) == ("agent", "A", "m", {"k": "v"})


def test_a_short_secret_does_not_warn() -> None:
    assert LiveKitAddress("ws://127.0.0.1:1", "devkey", "secret").token("alice", "a-room")


@pytest.mark.parametrize(("key", "identity", "room"), [("", "a", "r"), ("key", "", "r"), ("key", "a", "")])
def test_an_empty_part_of_a_token_is_an_error(key: str, identity: str, room: str) -> None:
    with pytest.raises(LiveKitServerError, match="empty"):
        LiveKitAddress("ws://127.0.0.1:1", key, "s" * 32).token(identity, room)


def test_an_address_does_not_show_its_secret() -> None:
    assert "s" * 32 not in repr(ADDRESS)


def run_python(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30, check=True)
    return run.stdout


def test_importing_needs_no_livekit_package() -> None:
    code = """
import sys
import curb_client
before = set(sys.modules)
import curb_client.testing
print([name for name in set(sys.modules) - before if name.split(".")[0] == "livekit"])
"""
    assert run_python(code) == "[]\n"


def test_a_token_without_livekit_api_says_what_to_install() -> None:
    code = """
import sys
sys.modules["livekit.api"] = None
from curb_client.testing import LiveKitAddress
try:
    LiveKitAddress("ws://127.0.0.1:1", "key", "s" * 32).token("a", "r")
except Exception as error:
    print(type(error).__name__, error)
"""
    assert "LiveKitServerError" in run_python(code)
    assert "pip install 'curb-client[testing]'" in run_python(code)
