"""The demo's app, misbehaving: ``python -m tests.cli.broken_app HOW``."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

from curb_client import Call
from curb_client.cli import demo_app
from curb_client.protocol import envelope


def let_large_requests_pass() -> None:
    vars(envelope)["MAX_REQUEST_BYTES"] = 20_000


def lose_patience_soon() -> None:
    demo_app.STEP_SECONDS = 1.0


def crash_when_asking() -> None:
    async def crash(call: Call) -> str:
        sys.stderr.write("out of ideas\n")
        os._exit(7)

    replace("ask", crash)


def hang_when_asking() -> None:
    async def hang(call: Call) -> str:
        time.sleep(600)  # noqa: ASYNC251 - neither a deadline of the loop nor the end of standard input ends this
        return "awake"

    replace("ask", hang)


def replace(name: str, other: demo_app.Run) -> None:
    demo_app.STEPS = tuple((step, came, other if step == name else run) for step, came, run in demo_app.STEPS)


WAYS: dict[str, Callable[[], None]] = {
    "large requests pass": let_large_requests_pass,
    "impatient": lose_patience_soon,
    "crashes": crash_when_asking,
    "hangs": hang_when_asking,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    asyncio.run(demo_app.main())
