"""The JavaScript client as one file for a script tag (``window.CurbClient``), for web servers written in Python.

It is the file ``curb-client/iife`` of the npm package ``curb-client``, minified, with its source map beside it. The
page loads livekit-client's own script before it::

    app.router.add_static("/curb", curb_client.static.script_path().parent)
    # <script src="/curb/curb-client.js"></script>
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["script_path", "script_text"]


def script_path() -> Path:
    """Where the file ``curb-client.js`` is; its folder also holds ``curb-client.js.map``."""
    return Path(__file__).with_name("curb-client.js")


def script_text() -> str:
    """The text of the file."""
    return script_path().read_text(encoding="utf-8")
