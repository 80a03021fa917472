from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from curb_client.errors import UsageError
from curb_client.host import FileCursorStore, MemoryCursorStore


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_what_was_saved_is_loaded(kind: str, tmp_path: Path) -> None:
    store: Any = MemoryCursorStore() if kind == "memory" else FileCursorStore(tmp_path / "cursor.json")
    assert await store.load() is None
    await store.save({"cursor": 1})
    await store.save({"cursor": 2, "producers": [{"producer": "\u00e4"}]})
    assert await store.load() == {"cursor": 2, "producers": [{"producer": "\u00e4"}]}


async def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "cursor.json"
    store = FileCursorStore(path)
    await store.save({"cursor": 1})
    before = path.stat().st_ino
    await store.save({"cursor": 2})
    assert path.stat().st_ino != before
    assert [each.name for each in tmp_path.iterdir()] == ["cursor.json"]


async def test_a_file_that_cannot_be_written_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileCursorStore(tmp_path / "cursor.json")
    await store.save({"cursor": 1})

    def full(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="the disk is full"):
            await store.save({"cursor": 2})
    assert await store.load() == {"cursor": 1}
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(OSError, match="nowhere"):
        await FileCursorStore(tmp_path / "nowhere" / "cursor.json").save({"cursor": 1})


@pytest.mark.parametrize("content", ["", "{", "57", "[]", "\ud800"])
async def test_a_file_that_is_something_else(content: str, tmp_path: Path) -> None:
    path = tmp_path / "cursor.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=r"cursor\.json is no stored cursor .*Remove it"):
        await FileCursorStore(path).load()


async def test_a_cancelled_save_does_not_come_last(tmp_path: Path) -> None:
    store = FileCursorStore(tmp_path / "cursor.json")
    for number in range(20):
        task = asyncio.ensure_future(store.save({"cursor": number}))
        await asyncio.sleep(0)
        task.cancel()
        await store.save({"cursor": number + 1000})
        assert await store.load() == {"cursor": number + 1000}
