"""One LiveKit RPC with a deadline that holds, and any number of them at once.

The SDK's ``perform_rpc`` subscribes every call to every native event: a thousand calls in flight cost a million
wake-ups, and its time-out gives seven seconds less to the other side. Two ways around it, with one face:

* :class:`_SharedSubscription`: all calls of a loop share one filtered subscription. It reaches into the SDK, so it is
  used with the versions that it was tested with, and when no RPC interceptor of the user's wants to see the call.
* :class:`_PublicCalls`: ``perform_rpc`` itself, at most 64 young calls in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol, TypeVar

from livekit import rtc

from curb_client.room.sdk import abandon

__all__ = ["start_rpc"]

_SDK_KEEPS_SECONDS: Final = 7.0
_TESTED_VERSIONS: Final = ((1, 1, 20), (1, 3, 0))  # from, and below
_MAX_CALLS: Final = 64
_SLOT_SECONDS: Final = 0.25
_LAG_SECONDS: Final = 0.05


def start_rpc(room: rtc.Room, identity: str, method: str, payload: str, timeout: float) -> asyncio.Future[str]:
    """Send a request; the future has the answer, LiveKit's RpcError unchanged, or its 1502 when the time is up.

    Cancelling the future, or giving it an exception, ends the waiting; the other side's handler goes on.

    Args:
        timeout: seconds, all of them for the other side.
    """
    loop = asyncio.get_running_loop()
    calls: _Calls
    if _may_share(room):
        calls = _of_this_loop(_shared_by_loop, _SharedSubscription)
    else:
        calls = _of_this_loop(_public_by_loop, _PublicCalls)
    answer = calls.start(room.local_participant, identity, method, payload, timeout + _SDK_KEEPS_SECONDS)
    deadline = loop.call_later(timeout, _time_is_up, answer)
    answer.add_done_callback(lambda _: deadline.cancel())
    return answer


def _time_is_up(answer: asyncio.Future[str]) -> None:
    if not answer.done():
        code = rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
        answer.set_exception(rtc.RpcError(code, rtc.RpcError.ErrorMessage[code]))


class _Calls(Protocol):
    def start(
        self, caller: rtc.LocalParticipant, identity: str, method: str, payload: str, response_timeout: float
    ) -> asyncio.Future[str]: ...


# One subscription for all


def _is_tested_version() -> bool:
    with contextlib.suppress(ValueError):
        version = tuple(int(part) for part in rtc.__version__.split(".")[:3])
        return _TESTED_VERSIONS[0] <= version < _TESTED_VERSIONS[1]
    return False


try:
    from livekit.rtc._ffi_client import FfiClient
    from livekit.rtc._proto.ffi_pb2 import FfiEvent, FfiRequest

    _can_share = _is_tested_version()
except ImportError:
    _can_share = False


def _may_share(room: rtc.Room) -> bool:
    return _can_share and not getattr(room.local_participant, "_rpc_interceptors", None)


class _SharedSubscription:
    """Subscribed to the answers of RPCs while any is awaited."""

    def __init__(self) -> None:
        self._awaited: dict[int, asyncio.Future[str]] = {}
        self._subscription: Any = None

    def start(
        self, caller: rtc.LocalParticipant, identity: str, method: str, payload: str, response_timeout: float
    ) -> asyncio.Future[str]:
        request = FfiRequest()
        request.perform_rpc.local_participant_handle = caller._ffi_handle.handle
        request.perform_rpc.destination_identity = identity
        request.perform_rpc.method = method
        request.perform_rpc.payload = payload
        request.perform_rpc.response_timeout_ms = int(response_timeout * 1000)
        loop = asyncio.get_running_loop()
        self._subscribe(loop)
        answer: asyncio.Future[str] = loop.create_future()
        try:
            call_id = FfiClient.instance.request(request).perform_rpc.async_id
            self._awaited[call_id] = answer
        finally:
            self._unsubscribe_if_idle()
        answer.add_done_callback(lambda _: self._forget(call_id))
        return answer

    def _subscribe(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._subscription is None:
            self._subscription = FfiClient.instance.queue.subscribe(loop, filter_fn=_is_rpc_answer)
            self._subscription.put_nowait = self._answered  # called on the loop; saves a task that reads a queue

    def _forget(self, call_id: int) -> None:
        del self._awaited[call_id]
        self._unsubscribe_if_idle()

    def _unsubscribe_if_idle(self) -> None:
        if not self._awaited:
            FfiClient.instance.queue.unsubscribe(self._subscription)
            self._subscription = None

    def _answered(self, event: FfiEvent) -> None:
        callback = event.perform_rpc
        answer = self._awaited.get(callback.async_id)
        if answer is None or answer.done():
            return  # another loop's, or too late
        if callback.HasField("error"):
            answer.set_exception(rtc.RpcError(callback.error.code, callback.error.message, callback.error.data))
        else:
            answer.set_result(callback.payload)


def _is_rpc_answer(event: FfiEvent) -> bool:
    return event.WhichOneof("message") == "perform_rpc"


# The public way


class _PublicCalls:
    """``perform_rpc``, a task for each call.

    A slot is given back after a quarter of a second, or when its call ends: so a thousand quick calls stay linear, and
    two hundred that wait for a slow handler do not hold up a quick one. While the loop itself lags, calls are slow
    because there are too many of them: then slots are kept.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_MAX_CALLS)

    def start(
        self, caller: rtc.LocalParticipant, identity: str, method: str, payload: str, response_timeout: float
    ) -> asyncio.Future[str]:
        async def call() -> str:
            async with self._slot():
                return await caller.perform_rpc(
                    destination_identity=identity, method=method, payload=payload, response_timeout=response_timeout
                )

        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(call())
        task.add_done_callback(lambda done: _copy(done, answer))
        answer.add_done_callback(lambda _: abandon(task))
        return answer

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        await self._free.acquire()
        held = _HeldSlot(self._free)
        try:
            yield
        finally:
            held.give_back()


class _HeldSlot:
    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free: asyncio.Semaphore | None = free
        self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SLOT_SECONDS, self._time_is_up)

    def _time_is_up(self) -> None:
        if asyncio.get_running_loop().time() - self._timer.when() > _LAG_SECONDS:
            self._wait()
        else:
            self.give_back()

    def give_back(self) -> None:
        free, self._free = self._free, None
        if free is not None:
            self._timer.cancel()
            free.release()


def _copy(done: asyncio.Future[str], answer: asyncio.Future[str]) -> None:
    if answer.done():
        return
    if done.cancelled():
        answer.cancel()
    elif error := done.exception():
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


# One of each for a loop

_CallsT = TypeVar("_CallsT", bound=_Calls)

_shared_by_loop: dict[asyncio.AbstractEventLoop, _SharedSubscription] = {}
_public_by_loop: dict[asyncio.AbstractEventLoop, _PublicCalls] = {}


def _of_this_loop(by_loop: dict[asyncio.AbstractEventLoop, _CallsT], kind: type[_CallsT]) -> _CallsT:
    loop = asyncio.get_running_loop()
    if loop not in by_loop:
        for ended in [other for other in list(by_loop) if other.is_closed()]:  # other threads have loops too
            by_loop.pop(ended, None)
        by_loop[loop] = kind()
    return by_loop[loop]
