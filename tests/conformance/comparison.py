"""The record, and how what another server does is compared with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from tests.conformance.stage import Json

__all__ = ["ALLOWED", "RECORD", "differences", "read_record", "read_versions", "surprises", "write_record"]

RECORD: Final = Path(__file__).with_name("record.json")
SDKS: Final = ("livekit", "livekit-api")

ALLOWED: Final[Mapping[str, str]] = {
    "tracks.data": "the embedded server carries no data tracks, and says so to who publishes one",
}
"""In which fields the embedded server differs from livekit-server, each with the reason."""


def read_record() -> dict[str, Json]:
    """The results on livekit-server, by the entries' names."""
    return _read("entries")


def read_versions() -> dict[str, Json]:
    """What the record was made with."""
    return _read("versions")


def _read(part: str) -> dict[str, Json]:
    found: dict[str, Json] = json.loads(RECORD.read_text(encoding="utf-8"))[part]
    return found


def write_record(entries: Mapping[str, Json], server_version: str | None) -> None:
    """Writes the record anew, with the versions that it was made with."""
    versions = {"livekit-server": server_version, **{name: metadata.version(name) for name in SDKS}}
    blocks = ",\n".join(f"  {json.dumps(name)}: {_block(value)}" for name, value in sorted(entries.items()))
    text = f'{{\n "versions": {json.dumps(versions)},\n "entries": {{\n{blocks}\n }}\n}}\n'
    RECORD.write_text(text, encoding="utf-8")


def _block(value: Json) -> str:
    """An entry, each of its fields on a line of its own, so that a changed record is read easily."""
    if not isinstance(value, dict):
        return json.dumps(value)
    fields = ",\n".join(f"   {json.dumps(name)}: {json.dumps(value[name], sort_keys=True)}" for name in sorted(value))
    return f"{{\n{fields}\n  }}"


def differences(expected: Json, found: Json, at: str = "") -> dict[str, tuple[Json, Json]]:
    """The fields that differ, by their paths such as ``rpc.errors/custom``, each with both values."""
    return dict(_differences(expected, found, at))


def _differences(expected: Json, found: Json, at: str) -> Iterator[tuple[str, tuple[Json, Json]]]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            path = f"{at}/{name}" if at else name
            yield from _differences(expected.get(name), found.get(name), path)
    elif expected != found:
        yield at, (expected, found)


def surprises(found: Mapping[str, tuple[Json, Json]], allowed: Mapping[str, str]) -> list[str]:
    """A line for each difference that is not allowed, and for each allowed one that there is not."""
    lines = [
        f"{path}\n  livekit-server: {old}\n  here:           {new}"
        for path, (old, new) in found.items()
        if path not in allowed
    ]
    return lines + [f"{path} does not differ any more; take it out of ALLOWED" for path in allowed if path not in found]
