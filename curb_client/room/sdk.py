"""The LiveKit SDK's traps, each handled here and only here.

What the Python SDK (1.1.20 to 1.2) does that its users would not expect, all of it measured:

* cancelling ``Room.connect`` makes the native side panic 15 seconds later and end the process;
* the process may abort at interpreter exit, when a native thread calls back into a finalizing interpreter;
* a stream whose sender stopped sending is never given up;
* a room that is left while much goes on may be told of by its state alone, without the event and its reason;
* ``perform_rpc`` and its time-outs: see :mod:`curb_client.room.rpc`;
* who leaves takes the answers along just given: see :mod:`curb_client.room.answers_under_way`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import os
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from livekit import rtc

from curb_client.errors import ConnectFailedError, RoomInUseError
from curb_client.protocol.json_text import utf8_size

__all__ = [
    "AGENT_KIND",
    "CONNECT_SECONDS",
    "STANDARD_KIND",
    "abandon",
    "claim",
    "connect",
    "disconnect",
    "finish_within",
    "is_active",
    "on_disconnected",
    "read_text",
]

T = TypeVar("T")

AGENT_KIND: Final = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
STANDARD_KIND: Final = rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD
_ACTIVE_STATE: Final = rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE

CONNECT_SECONDS: Final = 15.0
DISCONNECT_SECONDS: Final = 5.0
STREAM_IDLE_SECONDS: Final = 15.0
REASON_FOLLOWS_SECONDS: Final = 1.0
_EXIT_PAUSE_SECONDS: Final = 0.05


def is_active(participant: rtc.RemoteParticipant) -> bool:
    """Whether the participant can receive data; a request sent to it earlier would fail after seven seconds."""
    return participant.state == _ACTIVE_STATE


# Deadlines


async def finish_within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """The result of ``work``; cancelled, and not waited for, when it takes longer.

    Raises:
        TimeoutError: it took longer. Whatever ``work`` raises.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        abandon(task)
        raise
    if not done:
        abandon(task)
        raise TimeoutError(f"not done after {seconds:g} s")
    return task.result()


def abandon(task: asyncio.Future[Any]) -> None:
    """Cancel a task whose end nobody waits for any more."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()


# Joining and leaving a room


class _UncancellableTask(asyncio.Task[T]):
    """A connect must end by itself, even when the loop is being shut down."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002
        return False


_background: set[asyncio.Task[Any]] = set()  # the loop itself holds tasks weakly


async def connect(
    url: str,
    token: str,
    *,
    timeout: float = CONNECT_SECONDS,
    options: rtc.RoomOptions | None = None,
    room: rtc.Room | None = None,
) -> rtc.Room:
    """A room, connected. When cancelled or out of time, the attempt ends in the background and leaves nothing.

    Args:
        room: a new one that has its handlers already; made here when not given. The SDK can use a room once only.

    Raises:
        ConnectFailedError: LiveKit's reason, or no connection within ``timeout`` seconds.
    """
    room = room or rtc.Room()
    wanted = True

    async def attempt() -> None:
        try:
            await room.connect(url, token, options or rtc.RoomOptions())
        except Exception:
            if wanted:  # else asyncio.run would report it when it ends the loop
                raise
        else:
            if not wanted:
                await room.disconnect()

    task = _UncancellableTask(attempt(), loop=asyncio.get_running_loop())
    _background.add(task)
    task.add_done_callback(_background.discard)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        wanted = False
        abandon(task)
        if task.done():
            _in_background(room.disconnect())
        raise
    if not done:
        wanted = False
        abandon(task)
        raise ConnectFailedError(
            f"no connection to {url} after {timeout:g} s; is the server up, and reachable over UDP or TCP?"
        )
    try:
        task.result()
    except rtc.ConnectError as error:
        raise ConnectFailedError(f"LiveKit refused the connection to {url}: {error.message}") from error
    return room


async def disconnect(room: rtc.Room, timeout: float = DISCONNECT_SECONDS) -> None:
    """Leave the room, also when cancelled; never raises and never takes longer than ``timeout`` seconds."""
    await asyncio.wait({_in_background(room.disconnect())}, timeout=timeout)


def on_disconnected(room: rtc.Room, callback: Callable[[rtc.DisconnectReason.ValueType], object]) -> Callable[[], None]:
    """Call ``callback`` with the reason, once, when the room was left or lost; returns what ends that.

    Where the SDK tells of the state and not of the reason, that is a second later, with ``UNKNOWN_REASON``.
    """
    without_reason: asyncio.TimerHandle | None = None
    is_removed = False

    def disconnected(reason: rtc.DisconnectReason.ValueType) -> None:
        remove()
        callback(reason)

    def state_changed(state: rtc.ConnectionState.ValueType) -> None:
        nonlocal without_reason
        if state == rtc.ConnectionState.CONN_DISCONNECTED and without_reason is None:
            loop = asyncio.get_running_loop()
            without_reason = loop.call_later(REASON_FOLLOWS_SECONDS, disconnected, rtc.DisconnectReason.UNKNOWN_REASON)

    def remove() -> None:
        nonlocal is_removed
        if is_removed:
            return
        is_removed = True
        if without_reason is not None:
            without_reason.cancel()
        room.off("disconnected", disconnected)
        room.off("connection_state_changed", state_changed)

    room.on("disconnected", disconnected)
    room.on("connection_state_changed", state_changed)
    return remove


def _in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


@atexit.register
def _let_native_threads_finish() -> None:
    """Dispose of the native side, then give its threads the time to come back, before the interpreter finalizes.

    Registered when this module is imported: before the SDK's own handler as a rule, so after it in the order of
    exit. Where the SDK was used before, its handler has not run yet, hence the dispose here, which is done once only.
    """
    ffi_client = getattr(getattr(rtc, "_ffi_client", None), "FfiClient", None)
    instance = getattr(ffi_client, "_instance", None)
    if instance is None or getattr(instance, "_pid", os.getpid()) != os.getpid():
        return
    with contextlib.suppress(Exception):
        instance._dispose()
    time.sleep(_EXIT_PAUSE_SECONDS)


# One owner per room and part

_owners: weakref.WeakKeyDictionary[rtc.Room, dict[str, object]] = weakref.WeakKeyDictionary()


def claim(room: rtc.Room, part: str, owner: object) -> Callable[[], None]:
    """Take a part in a room (LiveKit has one handler per topic and method); returns what gives it back.

    Raises:
        RoomInUseError: somebody else has it.
    """
    owners = _owners.setdefault(room, {})
    if part in owners:
        raise RoomInUseError(f"this room has {part} already; close that one first, or use it")
    owners[part] = owner

    def release() -> None:
        if owners.get(part) is owner:
            del owners[part]

    return release


# Streams


async def read_text(
    reader: rtc.TextStreamReader, accept: Callable[[int], None], idle: float = STREAM_IDLE_SECONDS
) -> str:
    """The whole text of a stream, given up when nothing comes for ``idle`` seconds; to be closed by the caller.

    Args:
        accept: told of the bytes of each piece before it is kept; what it raises ends the reading.

    Raises:
        TimeoutError: nothing came for that long. livekit.rtc.StreamError: the stream broke. What ``accept`` raises.
    """
    text = io.StringIO()  # a list of a million pieces of one character would be many times larger
    chunks = 0

    async def read() -> None:
        nonlocal chunks
        async for chunk in reader:
            accept(utf8_size(chunk))
            text.write(chunk)
            chunks += 1

    task = asyncio.ensure_future(read())
    try:
        seen = -1
        while not task.done():
            if chunks == seen:
                raise TimeoutError(f"nothing came for {idle:g} s, after {seen} chunks")
            seen = chunks
            await asyncio.wait({task}, timeout=idle)
        task.result()
    finally:
        if not task.done():
            abandon(task)
    return text.getvalue()
