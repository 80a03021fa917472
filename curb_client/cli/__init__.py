"""The command ``curb-client``: thin commands over the library."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point; says what to install where the extra ``cli`` is missing."""
    try:
        from curb_client.cli.commands import cli
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"aiohttp", "click", "rich"}:
            raise
        sys.exit(f"curb-client needs the package {package}; install it: pip install 'curb-client[cli]'")
    cli(prog_name="curb-client")
