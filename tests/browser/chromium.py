"""Chromium: where it is, and one process of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["INSTALL", "ChromiumError", "find_chromium", "running_chromium"]

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL: Final = (
    "the tests in a browser need Chromium: install it (apt-get install chromium, or playwright install chromium), "
    "or name its program in CURB_CHROMIUM"
)
START_WITHIN: Final = 60.0
END_WITHIN: Final = 10.0

OPTIONS: Final = (
    "--headless=new",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    # A microphone and a camera that need nobody's consent; and addresses that the server can make sense of.
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    # A tab behind another one keeps its pace.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    # Nobody but 127.0.0.1 is asked for anything.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class ChromiumError(RuntimeError):
    """Chromium does not start; the text says what it said."""


def find_chromium() -> str | None:
    """The program: ``CURB_CHROMIUM``, else of PATH, else Playwright's own; None where there is none.

    Raises:
        ChromiumError: ``CURB_CHROMIUM`` names no program.
    """
    named = os.environ.get("CURB_CHROMIUM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ChromiumError(f"CURB_CHROMIUM is {named!r}, which is no program")
        return found
    return next(filter(None, map(shutil.which, NAMES)), None) or _of_playwright()


def _of_playwright() -> str | None:
    ask = "from playwright.sync_api import sync_playwright as p\nwith p() as q: print(q.chromium.executable_path)"
    # In a process of its own: the synchronous Playwright refuses to run beside an event loop.
    asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    return shutil.which(asked.stdout.strip())


@contextlib.contextmanager
def running_chromium(program: str) -> Iterator[str]:
    """Runs Chromium with a profile of its own; the URL for ``connect_over_cdp``.

    Raises:
        ChromiumError: it does not start.
    """
    with contextlib.ExitStack() as stack:
        profile = Path(tempfile.mkdtemp(prefix="curb-chromium-"))
        stack.callback(shutil.rmtree, profile, ignore_errors=True)  # its processes may still write a last file
        options = [*OPTIONS, f"--user-data-dir={profile}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--no-sandbox")  # Chromium has none for root
        log = profile / "stderr"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [program, *options, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        stack.callback(_end, process)
        yield f"http://127.0.0.1:{_debugging_port(process, profile, log)}"


def _debugging_port(process: subprocess.Popen[bytes], profile: Path, log: Path) -> int:
    given_up = time.monotonic() + START_WITHIN
    written = profile / "DevToolsActivePort"
    while True:
        with contextlib.suppress(FileNotFoundError):
            lines = written.read_text().splitlines()
            if len(lines) == 2:
                return int(lines[0])
        if process.poll() is not None or time.monotonic() > given_up:
            state = f"is not ready after {START_WITHIN:g} s" if process.returncode is None else "has ended"
            said = log.read_text(errors="replace")[-2000:]
            raise ChromiumError(f"{process.args!r} {state}; it said:\n{said}")
        time.sleep(0.01)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_WITHIN)
    except subprocess.TimeoutExpired:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_WITHIN)
