"""What all tests need of the process that they run in, and of the LiveKit server that was chosen for them."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from tests.one_server import only_on

CHILD_OPTIONS = "-p no:schemathesis -p no:hypothesispytest"
"""For a pytest that a test starts: without these plugins' imports it takes a quarter of the time."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background ignores Ctrl-C, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONG = (
    "e2e/test_hostile_peer.py",
    "e2e/test_lifetime.py",
    "e2e/test_reconnect.py",
    "host/test_chaos.py",
    "docs/test_testing_page.py",
    "testing/test_pytest_plugin.py",
    "cli/test_demo.py",
    "js/test_js_package.py",
    "conformance/test_conformance.py",
    "testing/test_scenario.py",
    "parity/test_in_chromium.py",
    "parity/test_in_python_and_node.py",
    "testing/embedded/test_cycles.py",
    "testing/embedded/test_fault_links.py",
    "testing/embedded/test_resume.py",
)
"""Begun first, so that no worker is left alone with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.partition("::")[0].endswith(LONG))
    for item in items:
        if "curb_livekit" in getattr(item, "fixturenames", ()) or item.get_closest_marker("livekit_only"):
            item.add_marker("livekit")


def pytest_collection_finish() -> None:
    """What was imported lives to the end: a test that collects garbage need not look through it, 0.1 s each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    only = only_on(item)
    if only is None:
        return
    choice = item.config.getoption("curb_livekit") or os.environ.get("CURB_LIVEKIT_URL") or "embedded"
    if (choice == "embedded") != (only.server == "embedded"):
        pytest.skip(f"runs on --livekit={only.server} alone: {only.reason}")


@pytest.fixture(scope="session", autouse=True)
def child_options() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", CHILD_OPTIONS)
        yield


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """With the options for children, which pytest's own takes away."""
    monkeypatch.setenv("PYTEST_ADDOPTS", CHILD_OPTIONS)
    return pytester
