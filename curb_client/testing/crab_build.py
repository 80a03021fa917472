"""The real CrabTalk daemon, built once into the user's cache."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from curb_client._processes import kill_group, last_lines
from curb_client.crabtalk.errors import CrabDaemonError
from curb_client.testing.crab_daemon import CRABTALK_VERSION, cached_daemon, find_daemon

__all__ = ["install_daemon"]

BUILD_SECONDS: Final = 30 * 60.0
_TELL_EVERY: Final = 15.0
_LOOK_EVERY: Final = 0.2
_NEEDS: Final = (
    ("cargo", "Rust 1.85 or newer, from your system or rustup"),
    ("protoc", "the package protobuf-compiler, or its path in PROTOC"),
)


def install_daemon(progress: Callable[[str], None], env: Mapping[str, str] | None = None) -> Path:
    """The program: the one that is there, or one built with cargo (some minutes on two cores), without optimizations.

    Args:
        progress: takes each line that tells what goes on.

    Raises:
        CrabDaemonError: cargo or protoc is missing, or the build failed.
    """
    env = os.environ if env is None else env
    found = find_daemon(env)
    if found is not None:
        return found
    for program, advice in _NEEDS:
        there = env.get("PROTOC") if program == "protoc" and env.get("PROTOC") else program
        if shutil.which(str(there), path=env.get("PATH")) is None:
            raise CrabDaemonError(f"building crabtalk needs {program}: install {advice}")
    target = cached_daemon(env)
    root = target.parents[1]
    root.mkdir(parents=True, exist_ok=True)
    with _alone(root / "lock", progress):
        if not target.is_file():
            _build_into(root, env, progress)
    if not target.is_file():
        raise CrabDaemonError(f"cargo ended well but left no {target}")
    return target


@contextlib.contextmanager
def _alone(lock: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """One build at a time; the system gives the lock back even of a process that is killed."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    given_up = time.monotonic() + BUILD_SECONDS
    with lock.open("a") as file:
        for attempt in itertools.count():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == 0:
                    progress("another process builds crabtalk; waiting for it")
                if time.monotonic() > given_up:
                    raise CrabDaemonError(
                        f"another process builds crabtalk for {BUILD_SECONDS:.0f} s ({lock})"
                    ) from None
                time.sleep(_LOOK_EVERY)
        yield


def _build_into(root: Path, env: Mapping[str, str], progress: Callable[[str], None]) -> None:
    command = ["cargo", "install", f"crabtalk@{CRABTALK_VERSION}", "--locked", "--debug", "--root", str(root)]
    _build(command, {**env, "CARGO_TARGET_DIR": str(root / "build")}, root / "build.log", progress)
    shutil.rmtree(root / "build", ignore_errors=True)
    progress(f"crabtalk {CRABTALK_VERSION} is now in {root}")


def _build(command: list[str], env: dict[str, str], log: Path, progress: Callable[[str], None]) -> None:
    doing = f"building crabtalk {CRABTALK_VERSION} with cargo"
    progress(doing)
    began = told = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        while process.poll() is None:
            now = time.monotonic()
            if now - began > BUILD_SECONDS:
                raise CrabDaemonError(f"{doing}: not done within {BUILD_SECONDS:.0f} s. Last output:\n{_end(log)}")
            if now - told > _TELL_EVERY:
                told = now
                progress(f"{doing}: {now - began:.0f} s so far")
            time.sleep(_LOOK_EVERY)
    finally:
        if process.poll() is None:
            kill_group(process)
    if process.returncode != 0:
        raise CrabDaemonError(f"{' '.join(command)} failed with status {process.returncode}. Last output:\n{_end(log)}")


def _end(log: Path) -> str:
    return last_lines(log.read_text(encoding="utf-8", errors="replace"), 15)
