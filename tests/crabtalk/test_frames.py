"""Frames in pieces of any size, their limits, and bytes that are none."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.crabtalk import (
    ClientMessage,
    CutFrameError,
    DaemonRefusedError,
    FrameDecoder,
    FrameError,
    FrameTooLargeError,
    MalformedMessageError,
    ServerMessage,
    encode_frame,
)
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.addresses import TcpAddress
from curb_client.crabtalk.errors import AgentRunError
from curb_client.crabtalk.frames import MAX_FRAME_BYTES
from curb_client.crabtalk.pool import Pool
from curb_client.crabtalk.run_stream import AgentRun
from tests.crabtalk.recorded import FRAMES

MANY = 10_000


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def decoded(data: bytes, cuts: Iterator[int]) -> list[bytes]:
    decoder, payloads, at = FrameDecoder(), [], 0
    while at < len(data):
        size = next(cuts)
        payloads += [bytes(payload) for payload in decoder.feed(data[at : at + size])]
        at += size
    decoder.finish()
    return payloads


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=12), st.integers(1, 40), st.randoms(use_true_random=False))
def test_pieces_of_any_size_give_the_same_payloads(payloads: list[bytes], longest: int, chance: random.Random) -> None:
    data = b"".join(map(framed, payloads))
    assert decoded(data, iter(lambda: chance.randint(1, longest), 0)) == payloads


@pytest.mark.parametrize("sizes", [[65_532], [65_533], [65_536, 3], [200_000, 0, 65_000, 65_000, 1], [64_000] * 9])
@pytest.mark.parametrize("piece", [1_000, 65_536, 1 << 22])
def test_payloads_about_the_size_of_the_buffer(sizes: list[int], piece: int) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate(sizes, start=1)]
    assert decoded(b"".join(map(framed, payloads)), iter(lambda: piece, 0)) == payloads


def test_sixteen_mebibytes_pass_and_one_byte_more_does_not() -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(MAX_FRAME_BYTES.to_bytes(4, "big"))) == []
    with memoryview(bytes(MAX_FRAME_BYTES)) as body:
        (payload,) = decoder.feed(body)
    assert len(payload) == MAX_FRAME_BYTES
    assert list(decoder.feed(framed(b"next"))) == [b"next"]


def test_too_large_is_seen_in_the_header_after_what_came_before_it() -> None:
    decoder = FrameDecoder()
    fed = decoder.feed(framed(b"before") + (MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    assert next(fed) == b"before"
    with pytest.raises(FrameTooLargeError, match="16777217 bytes, the limit is 16777216") as caught:
        next(fed)
    assert (caught.value.size, caught.value.limit) == (MAX_FRAME_BYTES + 1, MAX_FRAME_BYTES)
    with pytest.raises(FrameTooLargeError):
        list(decoder.feed(b"more"))
    with pytest.raises(FrameTooLargeError):
        decoder.finish()


def test_nothing_too_large_is_written() -> None:
    room = MAX_FRAME_BYTES - len(pb.ClientMessage(send=pb.SendMsg(content="x" * 2**21)).SerializeToString()) + 2**21
    largest = pb.ClientMessage(send=pb.SendMsg(content="x" * (room - 2)))
    while largest.ByteSize() < MAX_FRAME_BYTES:
        largest.send.content += "x"
    assert len(encode_frame(largest)) == MAX_FRAME_BYTES + 4
    largest.send.content += "x"
    with pytest.raises(FrameTooLargeError, match="ClientMessage has 16777217 bytes"):
        encode_frame(largest)


@pytest.mark.parametrize(
    ("data", "received", "expected"),
    [(b"\0\0", 2, None), (b"\0\0\0\x09abc", 7, 13), (b"\0\x10\0\0" + bytes(70_000), 70_004, 2**20 + 4)],
)
def test_a_cut_frame_says_how_many_bytes_came(data: bytes, received: int, expected: int | None) -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(data)) == []
    with pytest.raises(CutFrameError, match=f"after {received} of the") as caught:
        decoder.finish()
    assert (caught.value.received, caught.value.expected) == (received, expected)


def test_a_large_payload_is_in_memory_once() -> None:
    size = 8 * 2**20
    body = bytes(size)
    decoder = FrameDecoder()
    list(decoder.feed(size.to_bytes(4, "big")))
    tracemalloc.start()
    (payload,) = decoder.feed(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(payload) == size
    assert peak < size // 4  # its memory was there since its header came


def test_a_socket_writes_into_the_payload_itself() -> None:
    decoder = FrameDecoder()
    list(decoder.feed((2**20).to_bytes(4, "big")))
    room = decoder.get_buffer()
    assert len(room) == 2**20
    room[:] = b"y" * 2**20
    (payload,) = decoder.received(2**20)
    assert payload == b"y" * 2**20


def test_unknown_fields_are_kept() -> None:
    unknown = b"\xfa\x07\x03abc"
    for kind, known in ((ClientMessage, b"\xf2\x01\x00"), (ServerMessage, b"\x12\x00")):
        assert kind.FromString(known + unknown).SerializeToString() == known + unknown


def mutated(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(FRAMES).data)
    for _ in range(chance.randint(0, 6)):
        match chance.randint(0, 3):
            case 0:
                data[chance.randrange(len(data))] = chance.randrange(256)
            case 1:
                at = chance.randrange(len(data))
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            case 2 if len(data) > 1:
                del data[chance.randrange(1, len(data)) :]
            case _:
                data += chance.choice(FRAMES).data
    return bytes(data) if chance.random() > 0.1 else chance.randbytes(chance.randint(1, 80))


async def test_random_and_mutated_frames_end_in_the_errors_of_the_tree() -> None:
    chance = random.Random(1)
    pool = Pool(TcpAddress("127.0.0.1", 1), 1)
    outcomes = {"decoded": 0, "no frame": 0, "no message": 0, "no answer": 0}
    for _ in range(MANY):
        decoder = FrameDecoder()
        run = AgentRun(pool, pb.StreamMsg(content="x"), 1.0)
        try:
            for payload in decoder.feed(mutated(chance)):
                run._take(ServerMessage.FromString(bytes(payload)))
                outcomes["decoded"] += 1
            decoder.finish()
        except FrameError as error:
            outcomes["no answer" if isinstance(error, MalformedMessageError) else "no frame"] += 1
        except DecodeError:
            outcomes["no message"] += 1
        except (DaemonRefusedError, AgentRunError):
            outcomes["decoded"] += 1
    assert min(outcomes.values()) > 100, outcomes
