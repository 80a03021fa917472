"""livekit-server from a release archive, checked against the release's own checksums."""

from __future__ import annotations

import hashlib
import http.client
import platform
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from curb_client.errors import LiveKitServerError
from curb_client.testing._installation import ADVICE, LIVEKIT_SERVER_VERSION, PROGRAM, Installation, UnreachableError

__all__ = ["archive_name", "download"]

RELEASES_URL = "https://github.com/livekit/livekit/releases/download"
DOWNLOAD_WITHIN = 5 * 60.0
CONNECT_WITHIN = 5.0


def download(work: Path, installation: Installation) -> Path:
    """Returns the program out of the archive for this machine, put into ``work``.

    Raises:
        UnreachableError: the release, or an archive of it for this machine, cannot be had.
        LiveKitServerError: the archive does not match its checksum, or does not hold the program.
    """
    base = (installation.env.get("CURB_LIVEKIT_RELEASES") or RELEASES_URL).rstrip("/")
    if not base.startswith(("https://", "http://")):
        raise LiveKitServerError(f"CURB_LIVEKIT_RELEASES is {base!r}; it must start with https:// or http://.")
    name = archive_name()
    release = f"{base}/v{LIVEKIT_SERVER_VERSION}"
    installation.progress(f"getting {release}/{name}")
    checksums = work / "checksums.txt"
    _fetch(f"{release}/checksums.txt", checksums, installation)
    expected = _expected_checksum(checksums.read_text(encoding="utf-8", errors="replace"), name)
    archive = work / name
    _fetch(f"{release}/{name}", archive, installation)
    actual = hashlib.sha256(archive.read_bytes()).hexdigest()
    if actual != expected:
        raise LiveKitServerError(
            f"{release}/{name} has SHA-256 {actual}, but its checksums.txt says {expected}: it was thrown "
            f"away. Find out what changed it on the way, and do not use it. {ADVICE}"
        )
    return _extract(archive, work / PROGRAM)


def archive_name() -> str:
    """The release's name of the archive for this machine."""
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armv7"}.get(machine, machine)
    return f"livekit_{LIVEKIT_SERVER_VERSION}_{system}_{machine}.{'zip' if system == 'windows' else 'tar.gz'}"


def _expected_checksum(checksums: str, name: str) -> str:
    for line in checksums.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].lstrip("*") == name:
            return fields[0].lower()
    raise UnreachableError(f"the release lists no {name}")


def _fetch(url: str, target: Path, installation: Installation) -> None:
    give_up_at = time.monotonic() + DOWNLOAD_WITHIN
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_WITHIN) as response, target.open("wb") as file:
            expected_bytes = response.length
            while chunk := response.read(1 << 16):
                file.write(chunk)
                installation.check(f"downloading {url}")
                if time.monotonic() > give_up_at:
                    raise UnreachableError(f"{url} took more than {DOWNLOAD_WITHIN:.0f} s")
    except urllib.error.HTTPError as error:
        error.close()
        raise UnreachableError(f"{url} answers {error.code}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise UnreachableError(f"{url}: {getattr(error, 'reason', error)}") from error
    if expected_bytes is not None and target.stat().st_size < expected_bytes:
        raise UnreachableError(f"{url} broke off after {target.stat().st_size} of {expected_bytes} bytes")


def _extract(archive: Path, target: Path) -> Path:
    """Copies the one member out by its exact name: nothing else in the archive gets to choose a path."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped, zipped.open(PROGRAM) as member, target.open("wb") as file:
                shutil.copyfileobj(member, file)
            return target
        with tarfile.open(archive) as tar:
            found = tar.getmember(PROGRAM)
            content = tar.extractfile(found) if found.isreg() else None
            if content is None:
                raise KeyError(PROGRAM)
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
            return target
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise LiveKitServerError(
            f"The archive {archive.name} holds no readable file {PROGRAM} ({error}), though its checksum is right. "
            f"{ADVICE}"
        ) from error
