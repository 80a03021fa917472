"""Installing livekit-server from a release archive, with a stand-in for the release."""

from __future__ import annotations

import io
import sys
import tarfile

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing.binary import LIVEKIT_SERVER_VERSION, cache_directory, reported_version
from tests.testing.workplace import GOOD_SERVER, Workplace, archive_of, script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")


def test_a_release_archive_is_checked_and_kept(workplace: Workplace) -> None:
    workplace.publish(archive_of(("LICENSE", "as is"), ("livekit-server", script(GOOD_SERVER))))
    found = workplace.find()
    assert found == cache_directory(workplace.env) / "livekit-server"
    assert reported_version(found) == LIVEKIT_SERVER_VERSION
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
