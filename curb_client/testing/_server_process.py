"""One run of the livekit-server program: its ports, its settings, its readiness, its log and its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from curb_client._processes import LOG_BYTES_KEPT, CannotRunError, WatchedProgram, last_lines
from curb_client.errors import LiveKitServerError
from curb_client.testing import tokens
from curb_client.testing._key_check import Answer, ask_for_rooms

__all__ = ["PortTakenError", "Ports", "ServerProcess", "free_ports"]

LOOK_EVERY = 0.02
WATCHDOG_WITHIN = 2.0
"""Seconds for the watchdog to end the server; by its own deadlines it takes 1 s at most."""
_TAKEN = ("address already in use", "Only one usage of each socket address")


class Ports(NamedTuple):
    """The three ports of a LiveKit server: TCP for signalling, TCP and UDP for WebRTC."""

    signal: int
    rtc_tcp: int
    rtc_udp: int


def free_ports() -> Ports:
    """Returns three ports that were free a moment ago."""
    with contextlib.ExitStack() as held:  # held together, so that all differ
        found = []
        # livekit-server takes its WebRTC TCP port on every interface
        for kind, host in (
            (socket.SOCK_STREAM, "127.0.0.1"),
            (socket.SOCK_STREAM, ""),
            (socket.SOCK_DGRAM, "127.0.0.1"),
        ):
            port = held.enter_context(socket.socket(socket.AF_INET, kind))
            port.bind((host, 0))
            found.append(int(port.getsockname()[1]))
        return Ports(*found)


class PortTakenError(Exception):
    """One of the ports was taken between picking and using it."""


class ServerProcess:
    """One livekit-server process under its watchdog, with a private directory for its settings and its log."""

    def __init__(self, binary: Path, ports: Ports, api_key: str, api_secret: str) -> None:
        self.server_pid: int | None = None
        self._binary = binary
        self._url = f"ws://127.0.0.1:{ports.signal}"
        self._key_and_secret = (api_key, api_secret)
        self._directory = Path(tempfile.mkdtemp(prefix="curb-livekit-"))
        self._log = self._directory / "server.log"
        config = self._directory / "livekit.yaml"
        config.write_text(json.dumps(_settings(ports, api_key, api_secret)), encoding="utf-8")  # JSON is YAML too
        command: list[str | Path] = [binary, "--config", config]
        with self._log.open("wb") as log:
            self._program = WatchedProgram(
                "server", self._directory, command, _server_environment(os.environ), log.fileno()
            )

    @property
    def owner(self) -> int:
        """The process that started it."""
        return self._program.owner

    def wait_until_ready(self, within: float, abort: threading.Event) -> None:
        """Returns once the server takes calls; :meth:`end` is needed whatever comes of it.

        Raises:
            PortTakenError: one of the ports is another's.
            LiveKitServerError: the program does not run or ended, or the time is over, or ``abort`` was set.
        """
        deadline = time.monotonic() + within
        token = tokens.list_rooms_token(*self._key_and_secret)
        self.server_pid = self._read_pid()
        answer = Answer("nobody", "no answer")
        while time.monotonic() < deadline:
            status = self._program.exit_status
            if status is not None:
                self._explain_end(status)
            answer = ask_for_rooms(self._url, token)
            if answer.kind == "ready":
                return
            if answer.kind == "refused":  # ours is the one server that knows the key
                raise PortTakenError(f"the server that answers at {self._url} rejected the key ({answer.detail})")
            if answer.kind == "stranger":
                raise PortTakenError(f"another server answers at {self._url} ({answer.detail})")
            if abort.wait(LOOK_EVERY):
                raise LiveKitServerError("Stopped while livekit-server was starting: whoever asked for it gave up.")
        raise LiveKitServerError(
            f"{self._binary} was not ready at {self._url} within {within:g} s ({answer.detail}). Raise "
            f"ready_within if this machine is slow. Its last lines:\n{last_lines(self.log())}"
        )

    def _read_pid(self) -> int:
        try:
            return self._program.read_pid()
        except CannotRunError as error:
            reason = str(error) or last_lines(self.log()) or "no reason given"
            raise LiveKitServerError(
                f"{self._binary} could not be run: {reason}. Is it built for this machine?"
            ) from None

    def _explain_end(self, status: int) -> None:
        log = self.log()
        for line in log.splitlines():
            if any(taken in line for taken in _TAKEN):  # livekit-server ends with status 0 then
                raise PortTakenError(f"livekit-server could not have its ports ({line.strip()})")
        raise LiveKitServerError(
            f"{self._binary} ended with exit status {status} before it was ready. Its last lines:\n{last_lines(log)}"
        )

    def end(self) -> str:
        """Ends the server within 3 s and returns what it printed last."""
        try:
            self._program.end(WATCHDOG_WITHIN)
        finally:
            log = self.log()
            shutil.rmtree(self._directory, ignore_errors=True)
        return log

    def log(self) -> str:
        """The last 64 KiB that the server printed; empty once its directory is gone."""
        try:
            with self._log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - LOG_BYTES_KEPT))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def _settings(ports: Ports, api_key: str, api_secret: str) -> dict[str, object]:
    return {
        "port": ports.signal,
        "bind_addresses": ["127.0.0.1"],
        "rtc": {
            "tcp_port": ports.rtc_tcp,
            "udp_port": ports.rtc_udp,
            "node_ip": "127.0.0.1",
            "use_external_ip": False,
            "enable_loopback_candidate": True,
            "ips": {"includes": ["127.0.0.1/32"]},  # without it UDP is bound on the other interfaces
            "stun_servers": [f"127.0.0.1:{ports.rtc_udp}"],  # else clients look up public ones
        },
        "room": {"auto_create": True, "empty_timeout": 30, "departure_timeout": 10},
        "logging": {"level": "info"},
        "keys": {api_key: api_secret},
    }


def _server_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Without the variables by which livekit-server would override the settings file."""
    overriding = ("NODE_IP", "UDP_PORT", "REDIS_HOST", "REDIS_PASSWORD")
    return {name: value for name, value in env.items() if not name.startswith("LIVEKIT_") and name not in overriding}
