"""What all tests need of the process that they run in, and of the LiveKit server that was chosen for them."""

from __future__ import annotations

import os
import signal

import pytest

from tests.one_server import only_on

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background ignores Ctrl-C, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "curb_livekit" in getattr(item, "fixturenames", ()) or item.get_closest_marker("livekit_only"):
            item.add_marker("livekit")


def pytest_runtest_setup(item: pytest.Item) -> None:
    only = only_on(item)
    if only is None:
        return
    choice = item.config.getoption("curb_livekit") or os.environ.get("CURB_LIVEKIT_URL") or "embedded"
    if (choice == "embedded") != (only.server == "embedded"):
        pytest.skip(f"runs on --livekit={only.server} alone: {only.reason}")
