"""A daemon that says what a recorded one said, byte for byte."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

from typing_extensions import Self

from curb_client.crabtalk.addresses import PortFile, UnixAddress
from curb_client.crabtalk.frames import HEADER_BYTES
from curb_client.errors import ExpectationError, UsageError
from curb_client.testing.fake_daemon.listener import GoneError, Listener, Peer

__all__ = ["RecordedStep", "ReplayedDaemon", "read_frames"]

_SECONDS: Final = 20.0


@dataclass(frozen=True)
class RecordedStep:
    """A line of a recording.

    Attributes:
        connection: whose. direction: from the client (``C>S``) or from the daemon.
        data: the bytes; empty of notes.
        note: of lines without a message: what happened, or what the bytes are.
        message: the frame's, as JSON; None where it is none.
    """

    connection: str
    direction: Literal["C>S", "S>C"]
    data: bytes
    note: str
    message: dict[str, object] | None


def read_frames(path: Path) -> list[RecordedStep]:
    """The steps of a recording, in their order.

    Raises:
        UsageError: it is none.
    """
    steps = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            read = json.loads(line)
            data = bytes.fromhex(read.get("hex", ""))
            steps.append(RecordedStep(read["conn"], read["dir"], data, read.get("note", ""), read.get("msg")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}, line {number}: no step of a recording ({error!r})") from None
    return steps


class ReplayedDaemon:
    """Takes the recorded frames of the client, in their order, and answers with the recorded bytes; ``with`` it.

    Which connection is which is seen from what comes first on it.

    Args:
        recording: a file with a step a line.

    Raises:
        UsageError: it is none.
    """

    def __init__(self, recording: Path) -> None:
        self._steps = read_frames(recording)
        self._at = 0
        self._peers: dict[str, Peer] = {}
        self._names: dict[Peer, str] = {}
        self._turn = asyncio.Condition()
        self._problem: str | None = None
        self.home = Path(tempfile.mkdtemp(prefix="curb-crab-"))
        self._listener = Listener(self.address.path, self.port_file.path, self._serve)

    @property
    def address(self) -> UnixAddress:
        """Its socket."""
        return UnixAddress(self.home / "run" / "crabtalk.sock")

    @property
    def port_file(self) -> PortFile:
        """Its other address: TCP."""
        return PortFile(self.home / "run" / "crabtalk.port")

    def check(self) -> None:
        """See that all of the recording was played.

        Raises:
            ExpectationError: the client sent something else, or not everything.
        """
        if self._problem is not None:
            raise ExpectationError(self._problem)
        left = [step for step in self._steps[self._at :] if step.data]
        if left:
            raise ExpectationError(f"{len(left)} frames of the recording were not played; the next one: {left[0]}")

    def __enter__(self) -> Self:
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    async def _serve(self, peer: Peer) -> None:
        pending: list[bytes] = []
        while True:
            if not pending:
                frames = await peer.read()
                if frames is None:
                    return
                pending += [len(frame).to_bytes(HEADER_BYTES, "big") + frame for frame in frames]
            await asyncio.wait_for(self._take(peer, pending.pop(0)), _SECONDS)

    async def _take(self, peer: Peer, frame: bytes) -> None:
        """The client's next frame; what the daemon said after it follows."""
        async with self._turn:
            # what was sent later on another connection may come earlier
            await self._turn.wait_for(lambda: self._is_turn(peer, frame) or not self._is_to_come(peer, frame))
            step = self._next_of_client()
            if step is None or not self._is_turn(peer, frame):
                self._problem = f"step {self._at + 1} of the recording is {step}; the client sent {frame.hex()}"
                self._turn.notify_all()
                peer.close()
                raise GoneError
            self._names[peer] = step.connection
            self._peers[step.connection] = peer
            self._at += 1
            await self._say()
            self._turn.notify_all()

    def _is_turn(self, peer: Peer, frame: bytes) -> bool:
        step = self._next_of_client()
        return step is not None and self._fits(step, peer, frame)

    def _is_to_come(self, peer: Peer, frame: bytes) -> bool:
        return self._problem is None and any(self._fits(step, peer, frame) for step in self._steps[self._at :])

    def _fits(self, step: RecordedStep, peer: Peer, frame: bytes) -> bool:
        is_known = step.connection in self._peers
        same = self._peers[step.connection] is peer if is_known else peer not in self._names
        return same and step.direction == "C>S" and step.data == frame

    def _next_of_client(self) -> RecordedStep | None:
        while self._at < len(self._steps):
            step = self._steps[self._at]
            if step.direction == "C>S" and step.data:
                return step
            self._at += 1
        return None

    async def _say(self) -> None:
        while self._at < len(self._steps) and self._steps[self._at].direction == "S>C":
            step = self._steps[self._at]
            self._at += 1
            peer = self._peers[step.connection]
            if step.data:
                await peer.write(step.data)
            elif step.note.startswith("EOF"):
                peer.close()
