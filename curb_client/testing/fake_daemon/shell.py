"""What a fake daemon has for ``bash``: it runs nothing."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["harmless_bash"]

_MOST_SECONDS: Final = 60.0
_NOT_FOUND: Final = 127


async def harmless_bash(arguments: Mapping[str, Any]) -> str:
    """``echo`` and ``sleep``, one after the other with ``;``; all else is told that it was not found."""
    command = arguments.get("command")
    if not isinstance(command, str):
        return "invalid arguments: missing field `command`, which is a string"
    status, stdout, stderr = 0, "", ""
    try:
        commands = list(_commands(command))
    except ValueError as error:
        return _told(2, "", f"bash: -c: line 1: {error}\n")
    for words in commands:
        status, said, complaint = await _run(words)
        stdout += said
        stderr += complaint
    return _told(status, stdout, stderr)


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command; raises ValueError for a quote without its end."""
    words = shlex.shlex(text, posix=True, punctuation_chars=";")
    words.whitespace_split = True
    words.commenters = ""
    command: list[str] = []
    for word in words:
        if word.strip(";"):
            command.append(word)
        else:
            yield command
            command = []
    if command:
        yield command


async def _run(words: list[str]) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    name, given = (words[0], words[1:]) if words else ("", [])
    if name == "echo":
        return 0, " ".join(given) + "\n", ""
    if name != "sleep":
        return _NOT_FOUND, "", f"{name}: not in a fake daemon, which has echo and sleep\n"
    if not given:
        return 1, "", "sleep: missing operand\n"
    try:
        seconds = float(given[0])
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:  # nor NaN
        return 1, "", f"sleep: invalid time interval '{given[0]}'\n"
    await asyncio.sleep(min(seconds, _MOST_SECONDS))
    return 0, "", ""


def _told(status: int, stdout: str, stderr: str) -> str:
    return json.dumps({"exit_code": status, "stderr": stderr, "stdout": stdout}, separators=(",", ":"))
