"""Ports that are taken, strangers that answer there, and programs that do not become a server."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import LiveKitServer
from curb_client.testing.server import free_ports
from tests.testing.processes import a_strangers_server, fake_server, first, is_running

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals and scripts of POSIX"),
]


# Ports


def test_a_strangers_server_is_never_taken_for_ours(binary: Path) -> None:
    with a_strangers_server() as port:
        lines: list[str] = []
        server = LiveKitServer(binary, progress=lines.append, pick_ports=first(free_ports()._replace(signal=port)))
        with server:
            assert server.ports.signal != port
        assert any("trying other ports (1 of 5)" in line for line in lines)


def test_a_stranger_that_answers_while_ours_is_silent(tmp_path: Path) -> None:
    lines: list[str] = []
    with a_strangers_server() as port:
        server = LiveKitServer(
            fake_server(tmp_path, "exec sleep 60"),
            progress=lines.append,
            pick_ports=lambda: free_ports()._replace(signal=port),
        )
        with pytest.raises(LiveKitServerError, match="found a port taken 5 times"):
            server.start()
    assert len([line for line in lines if "another server answers" in line]) == 5


def test_another_livekit_server_rejects_the_key(tmp_path: Path, running: LiveKitServer) -> None:
    lines: list[str] = []
    server = LiveKitServer(
        fake_server(tmp_path, "exec sleep 60"), progress=lines.append, pick_ports=lambda: running.ports
    )
    rejected = rf"the server that answers at {running.url} rejected the key \(status 401: .+\)"
    with pytest.raises(
        LiveKitServerError, match=rf"found a port taken 5 times in a row, the last time because {rejected}"
    ):
        server.start()
    assert re.fullmatch(rf"{rejected}; trying other ports \(1 of 5\)", lines[0])


@pytest.mark.parametrize("which", ["signal", "rtc_tcp", "rtc_udp"])
def test_a_port_taken_in_the_meantime_is_tried_elsewhere(binary: Path, which: str) -> None:
    kind = socket.SOCK_DGRAM if which == "rtc_udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        port = taken.getsockname()[1]
        lines: list[str] = []
        server = LiveKitServer(binary, progress=lines.append, pick_ports=first(free_ports()._replace(**{which: port})))
        with server:
            assert port not in server.ports
    assert any(f":{port}: bind: address already in use" in line for line in lines)  # others may be taken, too


# Failures


def test_a_server_that_ends_at_once_shows_its_last_lines(tmp_path: Path) -> None:
    server = LiveKitServer(fake_server(tmp_path, "echo cannot find my hat; exit 3"))
    with pytest.raises(LiveKitServerError, match=r"(?s)exit status 3 before it was ready.*cannot find my hat"):
        server.start()
    assert server.log_tail() == "cannot find my hat"


def test_a_server_that_is_never_ready_has_a_deadline(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    server = LiveKitServer(
        fake_server(tmp_path, f"echo $$ > {pid_file}; echo thinking; exec sleep 60"), ready_within=0.5
    )
    with pytest.raises(LiveKitServerError, match=r"(?s)not ready at ws://127.0.0.1:\d+ within 0\.5 s.*thinking"):
        server.start()
    assert not is_running(int(pid_file.read_text()))


def test_a_file_that_is_no_program_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("not a program")
    with pytest.raises(LiveKitServerError, match=r"notes could not be run: .*Permission denied"):
        LiveKitServer(tmp_path / "notes").start()
