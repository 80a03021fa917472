"""Files for pages, served from 127.0.0.1."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from aiohttp import web

__all__ = ["Site", "serving"]

_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".css": "text/css",
}


class Site:
    """What a page may ask for; ``put`` adds to it at any time."""

    def __init__(self) -> None:
        self.url = ""
        """Without a slash at its end."""
        self._contents: dict[str, str | bytes | Path] = {}

    def put(self, path: str, content: str | bytes | Path) -> str:
        """Serves text, bytes, a file or a folder at a path such as ``/app.js``; returns its URL."""
        self._contents[path] = content
        return self.url + path

    def page(self, path: str, *, scripts: tuple[str, ...] = (), body: str = "") -> str:
        """Serves a page that loads scripts, by their paths, in this order; returns its URL."""
        loads = "".join(f'<script src="{script}"></script>' for script in scripts)
        icon = '<link rel="icon" href="data:,">'  # else the browser asks for one, and complains
        return self.put(path, f'<!doctype html><meta charset="utf-8"><title>{path}</title>{icon}{body}{loads}')

    async def answer(self, request: web.Request) -> web.StreamResponse:
        content = self._find(request.path)
        if isinstance(content, Path):
            content = content.read_bytes() if content.is_file() else None
        if content is None:
            return web.Response(status=404, text=f"nothing at {request.path}")
        other = "text/html" if isinstance(content, str) else "application/octet-stream"
        data = content.encode() if isinstance(content, str) else content
        kind = _TYPES.get(Path(request.path).suffix, other)
        return web.Response(body=data, content_type=kind, charset="utf-8" if kind.startswith("text/") else None)

    def _find(self, path: str) -> str | bytes | Path | None:
        if path in self._contents:
            return self._contents[path]
        for folder, content in self._contents.items():
            inside = path.removeprefix(folder.rstrip("/") + "/")
            if isinstance(content, Path) and inside != path:
                found = (content / inside).resolve()
                return found if found.is_relative_to(content.resolve()) else None
        return None


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    """A site with nothing in it yet."""
    site, app = Site(), web.Application()
    app.router.add_get("/{path:.*}", site.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        listener = web.TCPSite(runner, "127.0.0.1", 0)
        await listener.start()
        port = runner.addresses[0][1]
        site.url = f"http://127.0.0.1:{port}"
        yield site
    finally:
        await runner.cleanup()
