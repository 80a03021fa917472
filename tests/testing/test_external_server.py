"""A LiveKit server that runs already, named in the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import ExternalLiveKitServer, LiveKitAddress, LiveKitServer, livekit_server
from curb_client.testing.embedded import EmbeddedServer
from tests.testing.processes import a_strangers_server, answers

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals and scripts of POSIX"),
]


def point_at(monkeypatch: pytest.MonkeyPatch, address: LiveKitAddress) -> None:
    monkeypatch.setenv("CURB_LIVEKIT_URL", address.url)
    monkeypatch.setenv("CURB_LIVEKIT_API_KEY", address.api_key)
    monkeypatch.setenv("CURB_LIVEKIT_API_SECRET", address.api_secret)


def test_a_server_named_in_the_environment_is_used_and_left_alone(
    running: LiveKitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(monkeypatch, running.address)
    with livekit_server() as server:
        assert isinstance(server, ExternalLiveKitServer)
        assert server.address == running.address
        assert server.version is None
        assert server.log_tail() == ""
    assert answers(running)


def test_an_http_url_becomes_the_url_that_clients_need(running: LiveKitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(monkeypatch, running.address)
    monkeypatch.setenv("CURB_LIVEKIT_URL", running.url.replace("ws://", "http://") + "/")
    with livekit_server() as server:
        assert server.url == running.url


def test_without_a_named_server_one_is_started(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURB_LIVEKIT_SERVER", str(binary))
    with livekit_server("server") as server:
        assert isinstance(server, LiveKitServer)
        assert answers(server)


@pytest.mark.parametrize("choice", [None, "embedded"])
def test_the_embedded_server_is_the_default(choice: str | None) -> None:
    with livekit_server(choice) as server:
        assert isinstance(server, EmbeddedServer)
        assert server.url.startswith("ws://127.0.0.1:")


@pytest.mark.parametrize("wrong", ["CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET"])
def test_a_wrong_key_or_secret_is_a_clear_error(
    running: LiveKitServer, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    point_at(monkeypatch, running.address)
    monkeypatch.setenv(wrong, "mistaken")
    with pytest.raises(
        LiveKitServerError, match=r"does not accept the API key .*status 401.*Check CURB_LIVEKIT_API_KEY"
    ):
        livekit_server().start()


@pytest.mark.parametrize("missing", ["CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET"])
def test_a_missing_key_or_secret_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    point_at(monkeypatch, LiveKitAddress("ws://127.0.0.1:1", "key", "secret"))
    monkeypatch.delenv(missing)
    with pytest.raises(LiveKitServerError, match=f"CURB_LIVEKIT_URL is 'ws://127.0.0.1:1', but {missing} is not set"):
        livekit_server()


def test_nobody_at_the_address_is_an_error_after_the_deadline() -> None:
    server = ExternalLiveKitServer(LiveKitAddress("ws://127.0.0.1:1", "key", "s" * 32), answer_within=0.2)
    with pytest.raises(LiveKitServerError, match=r"No LiveKit server answered at ws://127.0.0.1:1 within 0\.2 s"):
        server.start()


def test_a_stranger_at_the_address_is_an_error() -> None:
    with a_strangers_server() as port, pytest.raises(LiveKitServerError, match="is not a LiveKit server"):
        ExternalLiveKitServer(LiveKitAddress(f"ws://127.0.0.1:{port}", "key", "s" * 32)).start()


@pytest.mark.parametrize("url", ["localhost:7880", "ftp://localhost", "ws://", ""])
def test_what_is_no_url_is_an_error(url: str) -> None:
    with pytest.raises(LiveKitServerError, match="give one like ws://localhost:7880"):
        ExternalLiveKitServer(LiveKitAddress(url, "key", "secret"))
