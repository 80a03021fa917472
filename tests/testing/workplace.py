"""A user's surroundings for the tests of installing: stand-ins for the release, for go and for livekit-server."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from curb_client.testing._release_archive import archive_name
from curb_client.testing.binary import LIVEKIT_SERVER_VERSION, cache_directory, find_or_install

GOOD_SERVER = f"print('livekit-server version {LIVEKIT_SERVER_VERSION}')"
RELEASE = f"/v{LIVEKIT_SERVER_VERSION}"


def script(body: str) -> str:
    return f"#!{sys.executable} -IS\n{textwrap.dedent(body)}\n"


def write_script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(body))
    path.chmod(0o755)
    return path


def archive_of(*members: tuple[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            tar.addfile(info, io.BytesIO(content.encode()))
    return packed.getvalue()


class Workplace:
    """A user's surroundings that hold nothing but what a test puts there, and a release server."""

    def __init__(self, root: Path, releases: str) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.env = {
            "PATH": str(self.bin),
            "HOME": str(root / "home"),
            "XDG_CACHE_HOME": str(root / "cache"),
            "CURB_LIVEKIT_RELEASES": releases,
        }
        self.files: dict[str, bytes] = {}
        self.lines: list[str] = []

    def find(self, **options: object) -> Path:
        return find_or_install(progress=self.lines.append, env=self.env, **options)  # type: ignore[arg-type]

    def publish(self, archive: bytes, checksum: str | None = None) -> None:
        name = archive_name()
        line = f"{checksum or hashlib.sha256(archive).hexdigest()}  {name}\n"
        self.files[f"{RELEASE}/checksums.txt"] = f"{'0' * 64}  other.tar.gz\n{line}".encode()
        self.files[f"{RELEASE}/{name}"] = archive

    def put_go(self, install: str = "", version: str = "go1.26.8", where: Path | None = None) -> Path:
        """A go that says its version and installs a livekit-server after running ``install``."""
        return write_script(
            where or self.bin / "go",
            f"""
import os, pathlib, sys, time
root = pathlib.Path({str(self.root)!r})
if sys.argv[1] == "env":
    print({version!r})
    sys.exit()
with open(root / "go-runs", "a") as runs:
    runs.write(f"{{os.getpid()}} {{sys.argv[1:]}}\\n")
(root / "go-env").write_text(repr(dict(os.environ)))
{install}
binary = pathlib.Path(os.environ["GOBIN"]) / "server"
binary.parent.mkdir(parents=True)
binary.write_text({script(GOOD_SERVER)!r})
binary.chmod(0o755)
""",
        )

    def go_runs(self) -> list[str]:
        runs = self.root / "go-runs"
        return runs.read_text().splitlines() if runs.exists() else []

    def left_in_cache(self) -> list[str]:
        return sorted(path.name for path in cache_directory(self.env).glob("*") if path.name != "lock")


@contextmanager
def open_workplace(root: Path) -> Iterator[Workplace]:
    class Release(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = place.files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Release) as server:
        place = Workplace(root, f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield place
        server.shutdown()
