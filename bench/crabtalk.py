"""A CrabTalk client against bare loops over the same bytes, interleaved: events of a stream, and one large frame.

The daemon is a process of its own that writes bytes made beforehand; seconds are this process's CPU.
``python -m bench.crabtalk`` measures this alone; ``python -m bench.crabtalk serve SOCKET`` is the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from curb_client.crabtalk import CrabTalkClient, encode_frame
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.frames import MAX_FRAME_BYTES

__all__ = ["TARGETS", "measure_crabtalk", "print_crabtalk"]

TARGETS: Final = {"events": 0.6, "large frame": 2.0}
"""The rate of events over the bare loop's, at least; the time of a frame of 16 MiB over the bare one's, at most."""
EVENTS: Final = 30_000
ROUNDS: Final = 11
STREAM: Final = encode_frame(pb.ClientMessage(stream=pb.StreamMsg(agent="crab", content="x")))
COMPACT: Final = encode_frame(pb.ClientMessage(compact=pb.CompactMsg(session=1)))

Way = Callable[[], Awaitable[int]]


def events() -> bytes:
    """A run of many small pieces of text, with a tool now and then."""
    chunk = encode_frame(_event(chunk=pb.StreamChunk(content="a word or two ")))
    result = encode_frame(_event(tool_result=pb.ToolResultEvent(call_id="c", output="x" * 200, duration_ms=3)))
    frames = [result if number % 50 == 49 else chunk for number in range(EVENTS)]
    return b"".join([*frames, encode_frame(_event(end=pb.StreamEnd(agent="crab", model="m")))])


def _event(**fields: Any) -> pb.ServerMessage:
    return pb.ServerMessage(stream=pb.StreamEvent(**fields))


def large() -> bytes:
    """A frame whose payload has 16 MiB."""
    message = pb.ServerMessage(compact=pb.CompactResponse(summary="x" * (MAX_FRAME_BYTES - 16)))
    message.compact.summary += "x" * (MAX_FRAME_BYTES - message.ByteSize())
    assert message.ByteSize() == MAX_FRAME_BYTES
    return encode_frame(message)


def serve(path: str) -> None:
    """Answers each request on each connection, one connection after the other."""
    answers = {STREAM: events(), COMPACT: large()}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                while header := connection.recv(4, socket.MSG_WAITALL):
                    body = connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
                    connection.sendall(answers[header + body])


async def bare_events(path: str) -> int:
    """What a loop over a StreamReader cannot do without."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(STREAM)
    count = 0
    while True:
        size = int.from_bytes(await reader.readexactly(4), "big")
        message = pb.ServerMessage.FromString(await reader.readexactly(size))
        count += 1
        if message.stream.WhichOneof("event") == "end":
            break
    writer.close()
    await writer.wait_closed()
    return count


async def client_events(path: str) -> int:
    async with CrabTalkClient(path) as client:
        return len([None async for _ in client.stream("x")])


async def bare_large(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(COMPACT)
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        payload = bytearray(size)
        view, at = memoryview(payload), 0
        while at < size:
            at += connection.recv_into(view[at:])
        message = pb.ServerMessage()
        message.ParseFromString(payload)  # type: ignore[arg-type, unused-ignore]
        return message.ByteSize()


async def client_large(path: str) -> int:
    async with CrabTalkClient(path) as client:
        answer = await client.request(pb.CompactMsg(session=1), pb.CompactResponse)
        return answer.ByteSize()


async def measure_crabtalk() -> dict[str, Any]:
    """Medians of seconds of CPU, and of the ratios of rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "d.sock")
        daemon = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.crabtalk", "serve", path, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert daemon.stdout is not None
            await asyncio.wait_for(daemon.stdout.readline(), 60)
            ways: dict[str, Way] = {
                "events, bare": lambda: bare_events(path),
                "events": lambda: client_events(path),
                "large frame, bare": lambda: bare_large(path),
                "large frame": lambda: client_large(path),
            }
            seconds = await _rounds(ways)
        finally:
            daemon.kill()
            await daemon.wait()
    rates = [bare / own for bare, own in zip(seconds["events, bare"], seconds["events"], strict=True)]
    times = [own / bare for bare, own in zip(seconds["large frame, bare"], seconds["large frame"], strict=True)]
    return {
        "seconds": {name: statistics.median(taken) for name, taken in seconds.items()},
        "events a second": EVENTS / statistics.median(seconds["events"]),
        "events": statistics.median(rates),
        "large frame": statistics.median(times),
    }


async def _rounds(ways: dict[str, Way]) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name in random.Random(number).sample(list(ways), len(ways)):
            began = time.process_time()
            await asyncio.wait_for(ways[name](), 60)
            if number:  # the first round warms up
                seconds[name].append(time.process_time() - began)
    return seconds


def print_crabtalk(result: dict[str, Any]) -> None:
    """The ratios and their targets."""
    print("\na CrabTalk client")
    print(f"{'events, to a bare loop':36}{result['events']:8.2f}   target {TARGETS['events']}, at least")
    print(f"{'16 MiB, to recv_into and parsing':36}{result['large frame']:8.2f}   target {TARGETS['large frame']}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        measured = asyncio.run(measure_crabtalk())
        print_crabtalk(measured)
        print({name: round(value, 4) for name, value in measured["seconds"].items()})
        print(f"{measured['events a second']:.0f} events a second")
