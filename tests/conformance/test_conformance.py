"""The script on the embedded server and, where one is chosen, on livekit-server; both against the record."""

from __future__ import annotations

import pytest

from curb_client.testing import LiveKitServerHandle, livekit_server
from tests.conformance.comparison import ALLOWED, differences, read_record, read_versions, surprises
from tests.conformance.script import run_script


@pytest.mark.livekit_only("embedded", reason="compares it with the record of livekit-server")
async def test_the_embedded_server_does_what_livekit_server_does() -> None:
    with livekit_server("embedded") as server:
        found = await run_script(server)
    assert "\n".join(surprises(differences(read_record(), found), ALLOWED)) == ""


@pytest.mark.livekit_only("server", reason="makes sure of the record that the embedded server is compared with")
async def test_livekit_server_does_what_it_did_when_the_record_was_made(curb_livekit: LiveKitServerHandle) -> None:
    recorded = read_versions()["livekit-server"]
    if curb_livekit.version != recorded:
        pytest.skip(f"the record is of livekit-server {recorded}, the one chosen is {curb_livekit.version}")
    record = read_record()
    found = await run_script(curb_livekit)
    for name in {path.split("/")[0] for path in differences(record, found)}:  # on a busy machine it loses connections
        found.update(await run_script(curb_livekit, only=name))
    assert "\n".join(surprises(differences(record, found), {})) == ""


def test_what_differs_is_named_by_its_path() -> None:
    record = {"a": {"x": 1, "y": [1]}, "b": True, "c": {"only": 1}}
    found = {"a": {"x": 1, "y": [2]}, "b": False, "d": 3}
    assert differences(record, found) == {
        "a/y": ([1], [2]),
        "b": (True, False),
        "c": ({"only": 1}, None),
        "d": (None, 3),
    }
    assert differences(record, record) == {}


def test_what_is_allowed_must_differ() -> None:
    lines = surprises({"a": (1, 2), "b": (1, 2)}, {"a": "for a reason", "gone": "for another"})
    assert lines == [
        "b\n  livekit-server: 1\n  here:           2",
        "gone does not differ any more; take it out of ALLOWED",
    ]
