"""Failures that have no caller to be raised at."""

from __future__ import annotations

import asyncio

__all__ = ["report"]


def report(message: str, error: BaseException) -> None:
    """Give it to the loop's exception handler, which logs it by default."""
    context = {"message": f"curb_client: {message}: {type(error).__name__}: {error}", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
