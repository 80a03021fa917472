"""Processes and servers that the tests watch, and ones that stand in for the real."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from curb_client.testing import LiveKitServer, Ports
from curb_client.testing.server import free_ports

REPOSITORY = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):  # a container's first process may not collect the dead
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def fake_server(folder: Path, body: str) -> Path:
    path = folder / "fake-server"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def answers(server: LiveKitServer) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.ports.signal), timeout=1):
        return True
    return False


@contextlib.contextmanager
def a_strangers_server() -> Iterator[int]:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def first(ports: Ports) -> Callable[[], Ports]:
    """Picks these ports once, then free ones."""
    remaining = [ports]
    return lambda: remaining.pop() if remaining else free_ports()
