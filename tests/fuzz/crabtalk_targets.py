"""The decoders of what a CrabTalk daemon sends."""

from __future__ import annotations

import contextlib
from typing import Final

from google.protobuf.message import DecodeError

from curb_client.crabtalk import AgentRunError, DaemonRefusedError, FrameDecoder, FrameError, ServerMessage
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.addresses import TcpAddress
from curb_client.crabtalk.frames import encode_frame
from curb_client.crabtalk.pool import Pool
from curb_client.crabtalk.run_stream import AgentRun
from tests.crabtalk.recorded import FRAMES
from tests.fuzz.target import Target

__all__ = ["TARGETS"]

_LIMIT: Final = 512
_POOL: Final = Pool(TcpAddress("127.0.0.1", 1), 1)


def _payloads(data: bytes, size: int) -> tuple[list[bytes], str]:
    """In pieces of this size; and the error at the end."""
    decoder = FrameDecoder(limit=_LIMIT)
    payloads: list[bytes] = []
    try:
        for at in range(0, len(data), size):
            payloads += map(bytes, decoder.feed(data[at : at + size]))
        decoder.finish()
    except FrameError as error:
        return payloads, str(error)
    return payloads, ""


def frames(data: bytes) -> None:
    """The same payloads and the same error however the bytes are cut; what is whole can be framed again."""
    whole = _payloads(data, len(data) or 1)
    assert _payloads(data, 1) == _payloads(data, 7) == whole
    assert sum(len(payload) + 4 for payload in whole[0]) <= len(data)


def agent_run(data: bytes) -> None:
    """The frames of a run: events, or one of the errors that a run can end with."""
    run = AgentRun(_POOL, pb.StreamMsg(content="x"), 1.0)
    for payload in _payloads(data, len(data) or 1)[0]:
        try:
            message = ServerMessage.FromString(payload)
        except DecodeError:
            return
        assert ServerMessage.FromString(encode_frame(message)[4:]) == message
        with contextlib.suppress(FrameError, DaemonRefusedError, AgentRunError):
            run._take(message)


_RECORDED: Final = [step.data for step in FRAMES if step.direction == "S>C" and len(step.data) < _LIMIT]

TARGETS: Final = (
    Target.of(frames, [b"\0\0\0\2\x12\0", b"\0\0\0\0", b"\0\0\2\1", b"\0\0\0\3\x12", *_RECORDED[:4]]),
    Target.of(agent_run, _RECORDED),
)
