"""The program of a scenario's agent that is a Python function: it has a process of its own, which can be ended
whatever the function does, and in which no other scenario's modules are loaded."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from curb_client.protocol.settings import Adjustable
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.agent import AgentCall
from curb_client.room.join import connect_room

__all__ = ["python_agent_command", "python_agent_environment"]

_OPTIONS: Final = "CURB_PYTHON_AGENT"
_CONNECT_SECONDS: Final = 15.0


def python_agent_command(path: str) -> list[str]:
    """The command that runs the agent of the function at ``path``, such as ``my_package.agent:add_handlers``."""
    return [sys.executable, "-m", __name__, path]


def python_agent_environment(
    folders: Sequence[str | os.PathLike[str]], settings: EffectiveSettings | None, adjustable: Adjustable
) -> dict[str, str]:
    """What the command needs besides the room.

    Args:
        folders: where modules are looked for first.
        settings, adjustable: see :class:`curb_client.AgentCall`.
    """
    options = {
        "folders": list(dict.fromkeys(os.path.abspath(folder) for folder in folders)),
        "settings": None if settings is None else settings.to_wire(),
        "adjustable": {sender: list(paths) for sender, paths in adjustable.items()},
    }
    return {_OPTIONS: json.dumps(options)}


async def _main(path: str, options: Mapping[str, Any]) -> None:
    sys.path[:0] = options["folders"]
    add_handlers = _function(path, options["folders"])
    stopped = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    url, token = os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]
    async with (
        connect_room(url, token, timeout=_CONNECT_SECONDS) as room,
        AgentCall(room, settings=options["settings"], adjustable=options["adjustable"]) as call,
    ):
        room.on("disconnected", lambda _: stopped.set())
        await _called(add_handlers, call)
        await call.ready()
        await stopped.wait()


def _function(path: str, folders: Sequence[str]) -> Callable[[AgentCall], object]:
    module_name, _, names = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            sys.exit(f"agent.python is {path!r}: there is no module {error.name!r} in {' or '.join(folders)}")
        _fail(path, error)
    except Exception as error:
        _fail(path, error)
    for name in names.split("."):
        if not hasattr(found, name):
            sys.exit(f"agent.python is {path!r}: there is no {name!r} in {getattr(found, '__file__', found)}")
        found = getattr(found, name)
    if not callable(found):
        sys.exit(f"agent.python is {path!r}: that is no function but {type(found).__name__}")
    function: Callable[[AgentCall], object] = found
    return function


async def _called(add_handlers: Callable[[AgentCall], object], call: AgentCall) -> None:
    try:
        result = add_handlers(call)
        if inspect.isawaitable(result):
            await result
    except Exception as error:
        _fail(sys.argv[1], error)


def _fail(path: str, error: Exception) -> None:
    """Ends with the error, as its author would see it: without the lines that lead to his code."""
    traceback.print_exception(type(error), error, _without_library(error.__traceback__))
    sys.exit(f"agent.python is {path!r}: it raised {type(error).__name__}")


def _without_library(entry: TracebackType | None) -> TracebackType | None:
    first = entry
    while entry is not None and entry.tb_frame.f_code.co_filename.startswith((__file__, "<frozen", importlib.__file__)):
        entry = entry.tb_next
    return entry or first


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(os.environ.pop(_OPTIONS))))
