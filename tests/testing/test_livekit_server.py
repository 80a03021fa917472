"""A real livekit-server, started, watched and stopped; and what happens where that goes wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import (
    LIVEKIT_SERVER_VERSION,
    ExternalLiveKitServer,
    LiveKitAddress,
    LiveKitServer,
    Ports,
    find_or_install,
    livekit_server,
)
from curb_client.testing.livekit_server import free_ports

pytestmark = [
    pytest.mark.livekit,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and scripts of POSIX"),
]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def binary() -> Path:
    return find_or_install()


@pytest.fixture(scope="module")
def running(binary: Path) -> Iterator[LiveKitServer]:
    """For tests that leave their server as it was."""
    with LiveKitServer(binary) as server:
        yield server


@pytest.fixture(autouse=True)
def no_server_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CURB_LIVEKIT_URL", "CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name, raising=False)


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


# Starting and stopping


def test_it_is_ready_and_says_what_it_is(binary: Path) -> None:
    server = LiveKitServer(binary)
    with server:
        assert answers(server)
        assert server.url == f"ws://127.0.0.1:{server.ports.signal}"
        assert len(server.api_secret) >= 32
        assert server.version == LIVEKIT_SERVER_VERSION
        assert "starting LiveKit server" in server.log_tail()
        assert server.pid is not None
        assert is_running(server.pid)
        pid = server.pid
    assert not is_running(pid)
    assert server.pid is None
    assert "exit requested" in server.log_tail()
    assert not answers(server)
    server.stop()


def test_two_at_once_share_no_port(binary: Path, running: LiveKitServer) -> None:
    with LiveKitServer(binary) as other:
        assert not {*running.ports} & {*other.ports}
        assert running.api_key != other.api_key
        assert len(set(other.ports)) == 3


def test_only_loopback_is_told_to_clients(running: LiveKitServer) -> None:
    assert '"bindAddresses": ["127.0.0.1"]' in running.log_tail()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, pytest.raises(OSError, match="in use"):
        probe.bind(("127.0.0.1", running.ports.rtc_udp))


def test_started_again_it_keeps_address_and_key(binary: Path) -> None:
    server = LiveKitServer(binary)
    with server:
        before = server.address
        with pytest.raises(LiveKitServerError, match="runs already"):
            server.start()
    with server:
        assert server.address == before


def test_what_is_not_started_has_no_address() -> None:
    with pytest.raises(LiveKitServerError, match="call start"):
        _ = LiveKitServer().url


def test_settings_in_the_environment_do_not_reach_it(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEKIT_CONFIG", "port: 1")
    monkeypatch.setenv("LIVEKIT_KEYS", "mine: 0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1:1")
    with LiveKitServer(binary) as server:
        assert server.ports.signal != 1


def test_its_private_directory_goes_with_it(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LiveKitServer(binary):
        (directory,) = tmp_path.iterdir()
        assert directory.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_the_block_stops_it(binary: Path) -> None:
    server = LiveKitServer(binary)
    pids: list[int | None] = []

    def interrupted_block() -> None:
        with server:
            pids.append(server.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_block()
    assert pids[0] is not None
    assert not is_running(pids[0])


async def test_async_with_leaves_the_loop_free(binary: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    async with LiveKitServer(binary) as server:
        pid = server.pid
        assert pid is not None
        await asyncio.sleep(0.3)  # the thread that started it is idle or gone by now, and the server lives on
        assert is_running(pid)
    ticking.cancel()
    assert ticks > 20
    assert not is_running(pid)


async def test_cancelling_the_start_leaves_no_server(tmp_path: Path) -> None:
    server = LiveKitServer(fake_server(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60"))
    entering = asyncio.create_task(server.__aenter__())
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not is_running(int((tmp_path / "pid").read_text()))
    assert server.pid is None


PARTICIPANT = """
import asyncio, os, sys
from livekit import rtc

async def main(url, token):
    room = rtc.Room()
    await room.connect(url, token)
    print("joined", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)

asyncio.run(main(*sys.argv[1:]))
"""


def test_it_stops_with_a_participant_inside(binary: Path) -> None:
    server = LiveKitServer(binary)
    server.start()
    command = [sys.executable, "-c", PARTICIPANT, server.url, server.token("alice", "a-room")]
    participant = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert participant.stdout is not None
        assert participant.stdout.readline() == "joined\n"
        pid = server.pid
        assert pid is not None
        began = time.monotonic()
        server.stop()
        took = time.monotonic() - began
    finally:
        participant.communicate("", timeout=20)
    assert not is_running(pid)
    assert took < 3
    assert '"force": true' in server.log_tail(100)  # the first request did not do


def test_a_server_that_ignores_requests_is_killed(tmp_path: Path, binary: Path) -> None:
    stubborn = fake_server(
        tmp_path, f"trap '' TERM; {binary} \"$@\" & echo $! > {tmp_path}/real; while :; do sleep 0.1; done"
    )
    server = LiveKitServer(stubborn)
    server.start()
    pid = server.pid
    assert pid is not None
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 3
    assert not is_running(pid)
    os.kill(int((tmp_path / "real").read_text()), signal.SIGKILL)


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


def test_another_livekit_server_is_a_stranger_too(tmp_path: Path, running: LiveKitServer) -> None:
    server = LiveKitServer(
        fake_server(tmp_path, "exec sleep 60"), progress=lambda _: None, pick_ports=lambda: running.ports
    )
    with pytest.raises(LiveKitServerError, match="found a port taken 5 times"):
        server.start()


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
    assert len(lines) == 1
    assert "address already in use" in lines[0]


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


# The death of the process that started it

OWNER = """
import os, sys, time
from pathlib import Path
from curb_client.testing import LiveKitServer
server = LiveKitServer(Path(sys.argv[1]))
{start}
print(server.pid, flush=True)
{then}
"""


def start_owner(
    binary: Path, folder: Path, then: str, start: str = "server.start()"
) -> tuple[subprocess.Popen[str], int]:
    code = OWNER.format(start=start, then=textwrap.dedent(then))
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    owner = subprocess.Popen([sys.executable, "-c", code, str(binary)], env=env, text=True, stdout=pipe, stderr=pipe)
    assert owner.stdout is not None
    line = owner.stdout.readline()
    assert line, owner.communicate(timeout=10)
    return owner, int(line)


def end_of(owner: subprocess.Popen[str]) -> None:
    owner.communicate(timeout=10)


def test_a_killed_owner_leaves_no_server_and_no_files(binary: Path, tmp_path: Path) -> None:
    owner, pid = start_owner(binary, tmp_path, "time.sleep(60)")
    assert is_running(pid)
    owner.kill()
    wait_for(lambda: not is_running(pid), 5)
    wait_for(lambda: not list(tmp_path.iterdir()), 5)
    end_of(owner)


def test_a_forked_child_does_not_keep_a_dead_owners_server(binary: Path, tmp_path: Path) -> None:
    then = """
        child = os.fork()
        if child == 0:
            server.stop()  # not the child's to stop
            os.close(1)
            time.sleep(60)
        Path(os.environ["TMPDIR"], "child").write_text(str(child))
        time.sleep(60)
    """
    owner, pid = start_owner(binary, tmp_path, then)
    wait_for(lambda: (tmp_path / "child").exists() and bool((tmp_path / "child").read_text()))
    time.sleep(0.5)
    assert is_running(pid)
    owner.kill()
    try:
        wait_for(lambda: not is_running(pid), 5)
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
        end_of(owner)


def test_an_owner_that_forgets_to_stop_it_leaves_no_server(binary: Path, tmp_path: Path) -> None:
    owner, pid = start_owner(binary, tmp_path, "")
    end_of(owner)
    assert owner.returncode == 0
    assert not is_running(pid)
    assert list(tmp_path.iterdir()) == []


def test_a_terminated_owner_leaves_no_server(binary: Path, tmp_path: Path) -> None:
    owner, pid = start_owner(binary, tmp_path, "time.sleep(60)")
    owner.terminate()
    wait_for(lambda: not is_running(pid), 5)
    end_of(owner)


PLAIN_BLOCK = """
with server:
    print(server.pid, flush=True)
    time.sleep(60)
"""
ASYNC_BLOCK = """
import asyncio
async def main():
    async with server:
        print(server.pid, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("start", [PLAIN_BLOCK, ASYNC_BLOCK], ids=["with", "async with"])
def test_ctrl_c_ends_owner_and_server(binary: Path, tmp_path: Path, start: str) -> None:
    owner, pid = start_owner(binary, tmp_path, "", start)
    owner.send_signal(signal.SIGINT)
    _, errors = owner.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors
    assert not is_running(pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_watchdog_takes_the_server_along(binary: Path) -> None:
    server = LiveKitServer(binary)
    with server:
        pid = server.pid
        assert pid is not None
        watchdog = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(watchdog, signal.SIGKILL)
        wait_for(lambda: not is_running(pid), 5)


# A server that runs already


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
    with livekit_server() as server:
        assert isinstance(server, LiveKitServer)
        assert answers(server)


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


# Tokens, and what importing needs


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
