"""Decoding and validating a runner's event stream, against bare ``json.loads`` of the same lines."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from curb_client.protocol.cursor import EventCursor
from curb_client.protocol.ndjson import LineDecoder

__all__ = ["TARGET", "bench_events", "event_lines"]

TARGET = 3.0
"""Times what ``json.loads`` takes."""
LINES = 20_000
ROUNDS = 7
CHUNK = 64 * 1024
AT = 1790625584758


def event_lines(count: int = LINES) -> list[bytes]:
    """A stream as of a busy runner: turns, app messages and asks of 40 calls at once, with a ping now and then."""
    lines = []
    seqs: dict[str, int] = {}
    for envelope in range(1, count + 1):
        call = f"call-{envelope % 40}"
        seq = seqs[call] = seqs.get(call, 0) + 1
        record_class, body = _body(envelope, seq)
        record = {
            "envelope": envelope,
            "producer": call,
            "seq": seq,
            "class": record_class,
            "at": 1790625584758 + envelope,
        }
        lines.append(json.dumps({**record, "body": body}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
        if envelope % 500 == 0:
            lines.append(b'{"ping":1790625584758}\n')
    return lines


def _body(envelope: int, seq: int) -> tuple[str, dict[str, Any]]:
    at = AT + envelope
    match envelope % 4:
        case 0:
            ask = {"id": f"a-{seq}", "name": "human.requested", "payload": {"topic": "refund"}, "expectsReply": True}
            return "host", {"type": "host", "seq": seq, "at": at, **ask}
        case 1:
            payload = {
                "direction": "fromClient",
                "key": "quote",
                "id": f"m-{seq}",
                "payload": {"plan": "basic", "n": seq},
            }
            return "conversation", {"type": "event", "seq": seq, "at": at, "name": "curb.message", "payload": payload}
        case _:
            text = "I would like to know what my policy covers, please. " * 3
            return "conversation", {"type": "turn", "seq": seq, "at": at, "role": "user", "text": text}


def _bare(lines: list[bytes]) -> None:
    for line in lines:
        json.loads(line)


def _decoded(data: bytes, cursor: EventCursor | None = None) -> None:
    decoder = LineDecoder()
    for start in range(0, len(data), CHUNK):
        for line in decoder.feed(data[start : start + CHUNK]):
            if cursor is not None:
                cursor.handle(line)
    assert decoder.records == LINES


def _followed(data: bytes) -> None:
    cursor = EventCursor()
    cursor.connected()
    _decoded(data, cursor)
    cursor.commit()
    assert cursor.cursor == LINES


def bench_events() -> dict[str, float]:
    """Medians of interleaved rounds, in microseconds a line; ``ratio`` is decoded to bare, to be at most ``TARGET``."""
    lines = event_lines()
    data = b"".join(lines)
    works: dict[str, Callable[[], None]] = {
        "json.loads": lambda: _bare(lines),
        "decoded": lambda: _decoded(data),
        "decoded, with the cursor": lambda: _followed(data),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.process_time()
            work()
            times[name].append((time.process_time() - began) / len(lines) * 1e6)
    ratios = [after / before for before, after in zip(times["json.loads"], times["decoded"], strict=True)]
    figures = {name: round(statistics.median(each), 2) for name, each in times.items()}
    return {**figures, "ratio": round(statistics.median(ratios), 2)}


if __name__ == "__main__":
    for name, figure in bench_events().items():
        print(f"{name:24} {figure}")
