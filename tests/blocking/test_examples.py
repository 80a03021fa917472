"""The blocking examples run: the script as it is, the window with its button pressed."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

import pytest

from tests.e2e.conftest import Stage

ROOT = Path(__file__).parents[2]

PRESS_THE_BUTTON = """
import os, time, tkinter as tk
from curb_client import blocking
from examples.kiosk_tk import build

def update_until(condition):
    given_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < given_up
        root.update()
        time.sleep(0.01)

root = tk.Tk()
with blocking.join(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as call:
    build(root, call)
    price, form, button = root.winfo_children()
    root.update()
    assert price.winfo_ismapped() and button.winfo_ismapped()
    print(price["text"])
    button.invoke()
    print(price["text"])
    update_until(lambda: form["text"])
    print(form["text"])
root.destroy()
"""


def environment(stage: Stage, identity: str, **token: str) -> dict[str, str]:
    return {
        **os.environ,
        "LIVEKIT_URL": stage.url,
        "LIVEKIT_TOKEN": stage.token(identity, **token),
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def agent(stage: Stage) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "agent.py")], env=environment(stage, "agent", kind="agent")
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def screen() -> Iterator[str]:
    """A display that nobody sees; gives its name."""
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp"],
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        assert select([reading], [], [], 20)[0], "Xvfb did not start within 20 s"
        number = os.read(reading, 20).decode().strip()
        assert number, "Xvfb ended at once"
        yield f":{number}"
    finally:
        os.close(reading)
        server.kill()
        server.wait()


def needs_a_screen() -> None:
    missing = [] if shutil.which("Xvfb") else ["Xvfb (apt-get install xvfb)"]
    try:
        importlib.import_module("tkinter")
    except ImportError:
        missing.append("tkinter (apt-get install python3-tk)")
    if missing:
        reason = f"the window needs {' and '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.usefixtures("agent")
def test_the_script(stage: Stage) -> None:
    kiosk = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "kiosk_blocking.py")],
        env=environment(stage, "kiosk"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert kiosk.returncode == 0, kiosk.stderr
    assert "Traceback" not in kiosk.stderr
    assert kiosk.stdout.splitlines() == ["price: 12", "form: {'fields': ['name', 'policy']}"]


@pytest.mark.usefixtures("agent")
def test_the_window(stage: Stage) -> None:
    needs_a_screen()
    with screen() as display:
        kiosk = subprocess.run(
            [sys.executable, "-c", PRESS_THE_BUTTON],
            env={**environment(stage, "kiosk"), "DISPLAY": display},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert kiosk.returncode == 0, kiosk.stderr
    assert "Traceback" not in kiosk.stderr
    assert kiosk.stdout.splitlines() == ["Which plan?", "12 a month", "Please tell us: name, policy"]
