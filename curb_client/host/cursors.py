"""Where a host keeps its place in a runner's event stream, so that a restart loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Protocol

from curb_client.errors import UsageError
from curb_client.protocol.json_text import decode_json

__all__ = ["CursorStore", "FileCursorStore", "MemoryCursorStore"]


class CursorStore(Protocol):
    """Keeps one JSON object, that of :meth:`curb_client.protocol.cursor.EventCursor.to_json`."""

    async def load(self) -> dict[str, Any] | None:
        """What was saved last, None when nothing was."""

    async def save(self, state: dict[str, Any]) -> None:
        """Keep this instead; once it returns, a crash does not lose it. Calls come one after the other."""


class MemoryCursorStore:
    """Keeps it as long as this object lives."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.state = state

    async def load(self) -> dict[str, Any] | None:
        return self.state

    async def save(self, state: dict[str, Any]) -> None:
        self.state = state


class FileCursorStore:
    """Keeps it in a JSON file, replaced as a whole: a crash leaves the old content or the new, never a half.

    Args:
        path: of the file; its directory must be there. One file per runner and host.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._saving: asyncio.Future[None] | None = None

    async def load(self) -> dict[str, Any] | None:
        """What was saved last, None when there is no file.

        Raises:
            UsageError: the file is not one of these.
            OSError: it cannot be read.
        """
        return await asyncio.to_thread(self._read)

    async def save(self, state: dict[str, Any]) -> None:
        """Raises OSError where the file cannot be written; what it had is then still there."""
        before = self._saving
        if before is not None:  # its caller was cancelled; the thread goes on, and must not come last
            await asyncio.wait({before})
        text = json.dumps(state, separators=(",", ":"))
        self._saving = asyncio.ensure_future(asyncio.to_thread(self._write, text))
        await asyncio.shield(self._saving)

    def _read(self) -> dict[str, Any] | None:
        try:
            state = decode_json(self._path.read_bytes().decode())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._unreadable(f"it is not JSON: {error}") from None
        if not isinstance(state, dict):
            raise self._unreadable(f"it is no JSON object but {type(state).__name__}")
        return state

    def _unreadable(self, reason: str) -> UsageError:
        return UsageError(
            f"{self._path} is no stored cursor ({reason}). Remove it to follow from the oldest record held, or put "
            '{"cursor": N} there, with the last envelope that was processed'
        )

    def _write(self, text: str) -> None:
        number, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        try:
            with open(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        if os.name == "posix":  # the file's new name is content of its directory
            directory = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
