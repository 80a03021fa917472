"""Finding the program of a command, with the reason where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from curb_client._node import INSTALL_NODE, NODE_PROGRAMS, node_from_wheel
from curb_client.errors import UsageError

__all__ = ["runnable"]


def runnable(command: Sequence[str], environment: dict[str, str], directory: Path) -> tuple[list[str], dict[str, str]]:
    """The command with the path of its program, and the environment that it needs.

    Args:
        directory: the one it is to run in.

    Raises:
        UsageError: it cannot be run.
    """
    if isinstance(command, str) or not command:
        raise UsageError(f"the command is {command!r}; give a list of the program and its arguments")
    program, *arguments = command
    if not directory.is_dir():
        raise UsageError(f"{program} cannot be run in {directory}: that is no directory")
    if os.path.dirname(program):
        path = directory / program
        if not path.exists():
            raise UsageError(f"{path} cannot be run: there is no such file")
        return [str(path), *arguments], environment
    search = environment.get("PATH", os.defpath)
    found = shutil.which(program, path=search)
    if found is not None:
        return [os.path.abspath(found), *arguments], environment
    if program not in NODE_PROGRAMS:
        raise UsageError(f"{program} cannot be run: it is not on the PATH ({search})")
    from_wheel = node_from_wheel(program)
    if from_wheel is None:
        raise UsageError(f"{program} cannot be run: it is not on the PATH ({search}); {INSTALL_NODE}")
    node_too = os.pathsep.join([search, os.path.dirname(from_wheel[0])])  # for the scripts that npm runs
    return [*from_wheel, *arguments], {**environment, "PATH": node_too}
