"""A daemon for each test: the fake one, and the real one where there is one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from curb_client.crabtalk import CrabTalkClient
from curb_client.model import Call, ModelScript
from curb_client.testing.crab_daemon import CrabDaemon, RealDaemon, find_daemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon

QUESTION = "Which database?"


def asking(*questions: str) -> Call:
    """A call that asks these."""
    options = [{"label": "yes", "description": "so it is"}]
    return Call("ask_user", {"questions": [{"question": one, "header": "Q", "options": options} for one in questions]})


ASKING = {
    "questions": [
        {
            "question": QUESTION,
            "header": "Database",
            "options": [{"label": "SQLite", "description": "a file"}, {"label": "Postgres", "description": "a server"}],
        },
        {
            "question": "Which features?",
            "header": "Features",
            "multi_select": True,
            "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
        },
    ]
}


def script() -> ModelScript:
    """What the model of every daemon here does. A real one is asked for titles too."""
    script = ModelScript(is_strict=False)
    script.on("long", text="x" * 50_000, chunk=1000)
    script.on("slow", text="late", delay=1.5)
    script.on("hello", text="Hello, world", chunk=5)
    script.on("think", text="Yes.", thinking="hmm, is it?", chunk=6)
    script.on(
        "two tools",
        text="let me look. ",
        calls=[Call("bash", {"command": "echo one"}), Call("bash", {"command": "sleep 0.2; echo two"})],
    )
    script.on("sleepy", calls=[Call("bash", {"command": "sleep 1; echo done"})])
    script.on(after="bash", text="tool said it")
    script.on("ask me", calls=[Call("ask_user", ASKING)])
    script.on("look first", calls=[Call("bash", {"command": "sleep 0.3; echo seen"}), asking("Go on?")])
    script.on("two questions", calls=[asking("One?"), asking("Two?", "Three?")])
    script.on(after="ask_user", text="thank you")
    script.on("bad request", status=400, error="no such thing")
    script.on("cut", text="one two three four", chunk=4, cut_after=3)
    return script


def real_daemon() -> CrabDaemon:
    """The real daemon.

    Under CI there must be one.
    """
    if find_daemon() is None and not os.environ.get("CI"):
        pytest.skip("no crabtalk here; CRABTALK_BIN names one, `curb-client crab install` builds one")
    return RealDaemon(script())


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.real_crabtalk)])
def daemon(request: pytest.FixtureRequest) -> Iterator[CrabDaemon]:
    """A daemon that runs: a test with it is run on both."""
    with FakeDaemon(script()) if request.param == "fake" else real_daemon() as running:
        yield running


@pytest_asyncio.fixture
async def client(daemon: CrabDaemon) -> AsyncIterator[CrabTalkClient]:
    """A client at the daemon's socket."""
    async with CrabTalkClient(daemon.address) as client:
        yield client
