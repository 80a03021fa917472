"""A participant that breaks the rules, to bring against an agent or an app of your own.

::

    async with HostilePeer.join(server.url, server.token("mallory", room_name, kind="agent")) as mallory:
        await mallory.sees_active("caller")
        for attack in HostilePeer.ATTACKS:
            await mallory.attack(attack, "caller")

It speaks WebRTC by itself, without LiveKit's SDK, which would not send any of this. It needs a server that is reached
at 127.0.0.1: the embedded one, or a livekit-server with ``rtc.enable_loopback_candidate``, as the kit starts it. With a
token of kind ``agent`` it is taken for the agent, and may name other senders.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import zlib
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from livekit.protocol import models

from curb_client.protocol.contract import MESSAGE, UPDATE
from curb_client.testing.raw_peer import LABELS, LOSSY, RELIABLE, RawPeer

__all__ = ["MALFORMED_TEXTS", "HostilePeer"]

MALFORMED_TEXTS: Final[tuple[bytes, ...]] = (
    b"",
    b" ",
    b"no JSON",
    b"null",
    b"[]",
    b'"text"',
    b"{",
    b"{}",
    b'{"key":""}',
    b'{"key":7}',
    b'{"key":"' + b"k" * 257 + b'"}',
    b'{"key":"k","id":7}',
    b'{"key":"k","id":"' + b"i" * 129 + b'"}',
    b'{"key":"k","payload":NaN}',
    b'{"key":"k","payload":{}} {}',
    b'{"key":"k","payload":' + b"9" * 10_000 + b"}",
    b"[" * 20_000,
    b'{"key":"k","payload":' + b'{"a":' * 5_000,
    b"\xff\xfe\x00",
    b'{"key":"\xed\xa0\xb4"}',
    '{"key":"\U0001d11e"}'.encode()[:-4],
)
"""None of them is a message, whichever way it is read."""

CHUNK_BYTES: Final = 15_000
_NONSENSE: Final = (b"\x00", b"\xff" * 100, b"\x1a\xff\xff\xff\xff\x0f", b"\x08\x96\x01\x12")
_NOISE: Final = random.Random(1).randbytes(1000)
"""The same each time. As a data track's packet it has no extensions: livekit-server 1.13.5 dies of wrong ones."""
_BUFFERED: Final = 64 * 1024
"""Bytes that may wait in the peer itself."""
_UNACKNOWLEDGED: Final = 256
"""Chunks of SCTP: beyond some thousands, small ones that get lost hold it up for minutes."""
_DRAIN_SECONDS: Final = 120.0
_LOOK_AGAIN_SECONDS: Final = 0.005
_BOMB_BYTES: Final = 64 * 1024 * 1024


class HostilePeer(RawPeer):
    """Somebody in a room who means no good; made by :meth:`join`.

    Each attack returns once all of it is on its way. ``to`` are the identities that it is for, everybody unless given.
    """

    ATTACKS: ClassVar[tuple[str, ...]] = (
        "no_packets",
        "malformed_text",
        "wrong_lengths",
        "no_trailer",
        "forged_sender",
        "bad_requests",
        "stray_answers",
        "bombs",
    )
    """The names of those that :meth:`attack` takes."""

    async def attack(self, name: str, *to: str) -> None:
        """One of :attr:`ATTACKS`; the others are methods with arguments of their own.

        Raises:
            ValueError: there is no such attack.
        """
        if name not in self.ATTACKS:
            raise ValueError(f"{name!r} is no attack; there are {', '.join(self.ATTACKS)}")
        await getattr(self, name)(*to)

    # What streams are made of

    def begin(self, *to: str, sender: str = "", topic: str = MESSAGE, **header: Any) -> str:
        """Sends the header of a text stream; returns the stream's id.

        Args:
            sender: the identity that it claims to be from.
            header: fields of LiveKit's ``DataStream.Header``, to be other than they should.
        """
        fields = {"stream_id": secrets.token_hex(8), "topic": topic, "mime_type": "text/plain", **header}
        if "byte_header" not in fields:
            fields.setdefault("text_header", models.DataStream.TextHeader())
        packet = models.DataPacket(stream_header=models.DataStream.Header(**fields), destination_identities=to)
        packet.participant_identity = sender
        self.send(packet)
        return str(fields["stream_id"])

    def chunk(self, stream: str, index: int, content: bytes, *to: str, sender: str = "") -> None:
        """Sends one chunk of a stream."""
        chunk = models.DataStream.Chunk(stream_id=stream, chunk_index=index, content=content)
        self.send(models.DataPacket(stream_chunk=chunk, destination_identities=to, participant_identity=sender))

    def end(self, stream: str, *to: str, sender: str = "", reason: str = "") -> None:
        """Sends the trailer of a stream; with a reason, it has broken."""
        trailer = models.DataStream.Trailer(stream_id=stream, reason=reason)
        self.send(models.DataPacket(stream_trailer=trailer, destination_identities=to, participant_identity=sender))

    async def write(self, text: bytes, *to: str, sender: str = "", **header: Any) -> None:
        """A whole stream, whatever its text is."""
        stream = self.begin(*to, sender=sender, **header)
        for index, at in enumerate(range(0, len(text), CHUNK_BYTES)):
            self.chunk(stream, index, text[at : at + CHUNK_BYTES], *to, sender=sender)
            await self.drained()
        self.end(stream, *to, sender=sender)
        await self.drained()

    async def drained(self) -> None:
        """Returns when nearly all that was sent has arrived; TimeoutError after two minutes."""
        channel = self.transport.channels[RELIABLE]
        loop = asyncio.get_running_loop()
        given_up = loop.time() + _DRAIN_SECONDS
        await asyncio.sleep(0)
        while channel.bufferedAmount > _BUFFERED or self.transport.unacknowledged > _UNACKNOWLEDGED:
            if loop.time() > given_up:
                raise TimeoutError(f"{channel.bufferedAmount} bytes still wait to be sent; is the server there?")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    # Attacks

    async def no_packets(self, *to: str) -> None:
        """What is no packet, and packets that hold nothing, on every data channel."""
        empty = models.DataPacket(destination_identities=to)
        for label, data in itertools.product(LABELS, (*_NONSENSE, _NOISE, empty.SerializeToString())):
            self.send_bytes(label, data)
        await self.drained()

    async def malformed_text(self, *to: str) -> None:
        """Whole streams, whose text is no message."""
        for text in MALFORMED_TEXTS:
            await self.write(text, *to)

    async def wrong_lengths(self, *to: str) -> None:
        """Streams that are longer or shorter than they say, with chunks missing, doubled, too late or nobody's."""
        for said in (0, 3, 2**40, 2**64 - 1):
            await self.write(b"not so many bytes", *to, total_length=said)
        for indexes in ((0, 0), (0, 2), (1, 0), (2**64 - 1, 0)):
            stream = self.begin(*to)
            for index in indexes:
                self.chunk(stream, index, b"{", *to)
            self.end(stream, *to)
        twice = self.begin(*to)
        self.begin(*to, stream_id=twice)
        self.end(twice, *to)
        self.end(twice, *to)
        self.chunk(twice, 0, b"after the end", *to)
        self.chunk("of no stream", 0, b"text", *to)
        self.end("of no stream", *to)
        self.begin(*to, stream_id="", topic=MESSAGE)
        self.end(self.begin(*to, byte_header=models.DataStream.ByteHeader(name="bytes")), *to)
        await self.drained()

    async def no_trailer(self, *to: str, count: int = 20) -> list[str]:
        """Streams that begin and never end; returns their ids, for :meth:`chunk` and :meth:`end`."""
        streams = []
        for _ in range(count):
            stream = self.begin(*to)
            self.chunk(stream, 0, b'{"key":"', *to)
            streams.append(stream)
            await self.drained()
        return streams

    async def forged_sender(self, *to: str, sender: str = "somebody-else", text: bytes = b'{"key":"forged"}') -> None:
        """A message, a request and a user packet in another participant's name."""
        await self.write(text, *to, sender=sender)
        stream = self.begin(*to)
        self.chunk(stream, 0, text, *to, sender=sender)
        self.end(stream, *to, sender=sender)
        forged: dict[str, Any] = {"participant_identity": sender, "participant_sid": "PA_forged"}
        user = models.UserPacket(payload=text, topic=MESSAGE, **forged)
        request = models.RpcRequest(id=secrets.token_hex(8), method=MESSAGE, payload=text.decode(), version=1)
        for packet in (models.DataPacket(user=user, **forged), models.DataPacket(rpc_request=request, **forged)):
            packet.destination_identities.extend(to)
            for label in (RELIABLE, LOSSY):
                self.send(packet, label)
        await self.drained()

    async def bad_requests(self, *to: str) -> None:
        """RPC requests: texts that are none, methods that nobody has, versions to come, one id for two."""
        texts = [text.decode("utf-8", "replace") for text in MALFORMED_TEXTS]
        for method, text in itertools.product((MESSAGE, UPDATE, "", "m" * 1000), [*texts, "x" * 40_000]):
            self.request(text, *to, method=method)
            await self.drained()
        for _ in range(2):
            self.request("{}", *to, id="the-same")
        self.request("{}", *to, version=99)
        self.request("{}", *to, response_timeout_ms=2**32 - 1)
        self.request("", *to, compressed_payload=_NOISE[:100], version=2)
        await self.drained()

    def request(self, payload: str, *to: str, method: str = MESSAGE, **fields: Any) -> None:
        """Sends an RPC request; ``fields`` are those of LiveKit's ``RpcRequest``."""
        request = models.RpcRequest(
            **{"id": secrets.token_hex(8), "method": method, "payload": payload, "version": 1, **fields}
        )
        self.send(models.DataPacket(rpc_request=request, destination_identities=to))

    async def stray_answers(self, *to: str) -> None:
        """Acknowledgements and answers of requests that nobody made."""
        for request_id in ("", "unknown"):
            self.acknowledge(request_id, *to)
            self.answer(request_id, *to, payload="{}")
            self.answer(request_id, *to, error=models.RpcError(code=7, message="no", data="x"))
        await self.drained()

    async def bombs(self, *to: str) -> None:
        """Compressed streams of a few kilobytes that are 64 MiB when they are unpacked, and one that is no deflate."""
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(_BOMB_BYTES >> 20)) + packer.flush()
        deflate = models.DataStream.CompressionType.DEFLATE_RAW
        await self.write(packed, *to, compression=deflate, total_length=_BOMB_BYTES)
        await self.write(packed, *to, compression=deflate)
        await self.write(_NOISE, *to, compression=deflate)

    # Floods

    async def tiny_chunks(self, count: int, *to: str, key: str = "flood") -> None:
        """One good message, ``{"text": "xxx…"}``, each of whose ``count`` x comes in a chunk of its own."""
        head, tail = f'{{"key":"{key}","payload":{{"text":"'.encode(), b'"}}'
        await self._in_chunks(itertools.chain([head], itertools.repeat(b"x", count), [tail]), to)

    async def oversize(self, size: int, *to: str, key: str = "flood") -> None:
        """One message like that with ``size`` x, in chunks as large as usual."""
        head, tail = f'{{"key":"{key}","payload":{{"text":"'.encode(), b'"}}'
        whole, rest = divmod(size, CHUNK_BYTES)
        body = itertools.repeat(b"x" * CHUNK_BYTES, whole)
        await self._in_chunks(itertools.chain([head], body, [b"x" * rest], [tail]), to)

    async def _in_chunks(self, contents: Iterable[bytes], to: tuple[str, ...]) -> None:
        stream = self.begin(*to)
        packet = models.DataPacket(stream_chunk=models.DataStream.Chunk(stream_id=stream), destination_identities=to)
        for index, content in enumerate(contents):
            packet.stream_chunk.chunk_index = index
            packet.stream_chunk.content = content
            self.send(packet)
            if index % 50 == 0 or len(content) > 1:
                await self.drained()
        self.end(stream, *to)
        await self.drained()

    # Answers

    async def next_request(self, within: float = 30.0) -> tuple[str, models.RpcRequest]:
        """Whose RPC request came next, and the request; asyncio.TimeoutError where none comes."""

        async def find() -> tuple[str, models.RpcRequest]:
            while (packet := await self.receive(within)).WhichOneof("value") != "rpc_request":
                pass
            return packet.participant_identity, packet.rpc_request

        return await asyncio.wait_for(find(), within)

    def acknowledge(self, request_id: str, *to: str) -> None:
        """Says that a request has come."""
        self.send(models.DataPacket(rpc_ack=models.RpcAck(request_id=request_id), destination_identities=to))

    def answer(self, request_id: str, *to: str, **fields: Any) -> None:
        """Answers a request; ``fields`` are those of LiveKit's ``RpcResponse``: payload, error, compressed_payload."""
        response = models.RpcResponse(request_id=request_id, **fields)
        self.send(models.DataPacket(rpc_response=response, destination_identities=to))
