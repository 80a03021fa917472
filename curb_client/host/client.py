"""A runner, as its host talks to it (host protocol, Routes)."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from pydantic import ValidationError
from typing_extensions import Self

from curb_client.errors import (
    RunnerTimeoutError,
    RunnerUnreachableError,
    UsageError,
)
from curb_client.host.answers import error_body_of, typed_answer
from curb_client.host.backoff import Backoff
from curb_client.host.events import EventStream, StreamOptions
from curb_client.host.transport import AiohttpTransport, Answer, ByteStream, Request, Transport
from curb_client.protocol.contract import CallDirection
from curb_client.protocol.host_requests import HostMessage, StartCallRequest, check_grace_ms, encode_host_message
from curb_client.protocol.host_types import (
    DrainAnswer,
    Health,
    LiveCall,
    MessageAnswer,
    RunnerStatus,
    SettingsAnswer,
    StartCallAnswer,
    StopAnswer,
)
from curb_client.protocol.json_text import decode_json, encode_json, path_text
from curb_client.protocol.types import EffectiveSettings, HostModel, SessionUpdate, issues_of
from curb_client.room.arguments import check_timeout

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curb_client.host.cursors import CursorStore
    from curb_client.host.follower import Follower

__all__ = ["RunnerClient", "start_request"]

ModelT = TypeVar("ModelT", bound=HostModel)

TIMEOUT_SECONDS: Final = 15.0
TRY_SECONDS: Final = 5.0
"""For one try of a request that a runner answers at once."""
MESSAGE_SECONDS: Final = 30.0
"""For a message: the runner answers once the agent's handlers have run."""
TRIES: Final = 4
_PROXY_STATUSES: Final = (502, 503, 504)


class RunnerClient:
    """Asks one runner, and follows what it has to say.

    A request that got no answer is repeated, up to three times and within its time-out: starting a call is idempotent
    by the call's id, a message by its own, and the others change nothing the second time. One that was answered, with
    whatever, is not.

    Args:
        address: ``http://127.0.0.1:7071``, or without the scheme as in a ready line.
        token: the runner's ``CURB_MANAGEMENT_TOKEN``.
        transport: carries the requests; by default HTTP with aiohttp. It is closed with this client.
        backoff: the waits between tries.

    Raises:
        UsageError: no address, or a token that no HTTP header can carry.

    All methods raise, besides what they name:

    - RunnerRefusedError, as the class of the code in the answer;
    - RunnerUnreachableError, without an answer; RunnerTimeoutError, without one in time;
    - RunnerAnswerError, with one that is not what the protocol says.

    ``timeout`` is in seconds, for all tries together.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        transport: Transport | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        if not token or not token.isascii() or not token.isprintable():
            raise UsageError(f"the token has {len(token)} characters; it must be printable ASCII, and not empty")
        self.address = address
        self._transport = transport or AiohttpTransport(address)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._backoff = backoff or Backoff()
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"RunnerClient({self.address!r})"

    async def health(self, *, timeout: float | None = None) -> Health:
        """Whether a runner is there, and the versions it speaks; the one route that needs no token."""
        return await self._ask("GET", "/health", Health, timeout, with_token=False)

    async def status(self, *, timeout: float | None = None) -> RunnerStatus:
        """What the runner is, and the calls that it holds."""
        return await self._ask("GET", "/v1/runner", RunnerStatus, timeout)

    async def start_call(
        self,
        *,
        session_id: str,
        realtime_url: str,
        realtime_token: str,
        deployment_id: str | None = None,
        configuration_version: int | None = None,
        client_context: Mapping[str, str] | None = None,
        direction: CallDirection = "inbound",
        experiments: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> StartCallAnswer:
        """Give the runner a call; repeated for one that it holds it answers ``accepted=False``.

        Args:
            session_id: the call's id.
            realtime_url: the LiveKit server, ``wss://…``.
            realtime_token: for the agent, scoped to the call's room.
            deployment_id: the runner must be of this deployment, where both say.
            configuration_version: likewise, 1 or more.
            client_context: what the caller's page or app said; the agent reads ``client.<key>``.
            direction: ``outbound`` when the host dialed the caller.
            experiments: experiment name to variant name, as from :func:`assign_experiments`.

        Raises:
            UsageError: an argument that no runner takes.
            RunnerAtCapacityError, RunnerGenerationMismatchError, RunnerDrainingError: place it on another runner.
            ProtocolVersionError: the runner speaks another version.
            RunnerUnreachableError: where ``maybe_taken``, the call may be running: repeat this until there is an
                answer, before the call is placed anywhere else.
        """
        request = start_request(
            session_id=session_id,
            realtime_url=realtime_url,
            realtime_token=realtime_token,
            deployment_id=deployment_id,
            configuration_version=configuration_version,
            client_context=dict(client_context or {}),
            direction=direction,
            experiments=dict(experiments or {}),
        )
        return await self.start(request, timeout=timeout)

    async def start(self, request: StartCallRequest, *, timeout: float | None = None) -> StartCallAnswer:
        """:meth:`start_call` with the request as one value."""
        return await self._ask("POST", "/v1/sessions", StartCallAnswer, timeout, body=encode_json(request))

    async def call(self, session_id: str, *, timeout: float | None = None) -> LiveCall:
        """How far a call is.

        Raises:
            RunnerSessionNotFoundError: the runner does not hold it.
        """
        return await self._ask("GET", _session_path(session_id), LiveCall, timeout)

    async def send(
        self,
        session_id: str,
        name: str,
        payload: Mapping[str, Any] | object | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the protocol's name
        in_reply_to: str | None = None,
        timeout: float | None = None,
    ) -> MessageAnswer:
        """Send a message to a call's agent; returns once its handlers have run, or while the call starts, at once.

        ``delivered=False`` says that this id was delivered before, by an earlier try perhaps: a success too.

        Args:
            name: the key, 1 to 256 UTF-16 units.
            payload: a JSON object: a mapping, a pydantic model or a dataclass; ``{}`` by default.
            id: unique in the call, 1 to 128 characters; by default a new UUID. A refusal does not take it.
            in_reply_to: the id of the agent's ask that this answers.
            timeout: by default 30 s.

        Raises:
            UsageError: a name, id or payload that no runner takes.
            RunnerNoHandlerError, RunnerInvalidPayloadError, RunnerHandlerFailedError: the agent refused it.
            RunnerSessionNotFoundError: no such call, or it has ended.
            RunnerAtCapacityError: the call is starting and 32 messages wait already; repeat it once it is connected.
        """
        message = _checked(
            HostMessage,
            id=str(uuid.uuid4()) if id is None else id,
            name=name,
            payload=_object(payload),
            in_reply_to=in_reply_to,
        )
        path = f"{_session_path(session_id)}/messages"
        seconds = check_timeout(timeout, default=MESSAGE_SECONDS)
        body = encode_host_message(message)
        # A handler may take all the time; what answers an ask needs none.
        try_seconds = seconds if in_reply_to is None else TRY_SECONDS
        return await self._ask("POST", path, MessageAnswer, seconds, body=body, try_seconds=try_seconds)

    async def update(
        self, session_id: str, settings: SessionUpdate | Mapping[str, Any], *, timeout: float | None = None
    ) -> EffectiveSettings:
        """Change a call's settings, all of these or none; returns those then in force.

        Raises:
            InvalidPayloadError: settings that are not JSON.
            RunnerNotAdjustableError: ``path`` names the first that a host may not change.
            RunnerInvalidSettingsError: ``issues`` say what does not fit.
            RunnerSessionNotFoundError: no such call.
        """
        body = encode_json(settings)
        return (await self._ask("PATCH", _session_path(session_id), SettingsAnswer, timeout, body=body)).settings

    async def stop_call(
        self, session_id: str, *, reason: str | None = None, grace: float = 0.0, timeout: float | None = None
    ) -> StopAnswer:
        """End a call; ``stopped=False`` says that the runner held no such call.

        Args:
            reason: for the record, such as ``caller_hung_up``.
            grace: seconds, 0 to 60, for the agent to finish what it is saying.

        Raises:
            UsageError: another ``grace``.
        """
        query = f"?graceMs={check_grace_ms(round(check_timeout(grace, default=0.0) * 1000))}"
        query += "" if reason is None else f"&reason={_quoted(reason, 'reason')}"
        path = _session_path(session_id) + query
        seconds = check_timeout(timeout, default=TIMEOUT_SECONDS + grace)
        return await self._ask("DELETE", path, StopAnswer, seconds, try_seconds=TRY_SECONDS + grace)

    async def drain(self, *, timeout: float | None = None) -> DrainAnswer:
        """Let the runner finish its calls, take no new ones, and end."""
        return await self._ask("POST", "/v1/runner/drain", DrainAnswer, timeout)

    def events(self, cursor: CursorStore | int | None = 0, **options: Unpack[StreamOptions]) -> EventStream:
        """What the runner has to say, from here on, over broken connections; see :class:`EventStream`.

        Args:
            cursor: a store, to go on where it says; the last envelope processed before; 0 for all that the runner
                still holds; None for what comes from now on.
        """
        stream = EventStream(self._open_events, cursor, **options)
        self._streams.add(stream)
        return stream

    def follow(self, cursor: CursorStore | int | None = 0, **options: Unpack[StreamOptions]) -> Follower:
        """The same in the background, for many consumers, with handlers for the agents' asks; see :class:`Follower`."""
        from curb_client.host.follower import Follower

        return Follower(self, self.events(cursor, **options))

    async def aclose(self) -> None:
        """Close all connections, and the streams that are open."""
        for stream in list(self._streams):
            await stream.aclose()
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _open_events(self, after: int | None, timeout: float) -> Answer | ByteStream:
        query = "" if after is None else f"?from={after}"
        return await self._transport.stream(Request("GET", f"/v1/runner/events{query}", None, timeout, self._headers))

    async def _ask(
        self,
        method: str,
        path: str,
        model: type[ModelT],
        timeout: float | None,
        *,
        body: str | None = None,
        with_token: bool = True,
        try_seconds: float = TRY_SECONDS,
    ) -> ModelT:
        clock = asyncio.get_running_loop().time
        deadline = clock() + check_timeout(timeout, default=TIMEOUT_SECONDS)
        delays = self._backoff.delays()
        headers = self._headers if with_token else {}
        maybe_taken = False
        for number in range(1, TRIES + 1):
            request = Request(method, path, body, max(min(try_seconds, deadline - clock()), 0.001), headers)
            try:
                answer = await self._transport.request(request)
            except RunnerUnreachableError as error:
                maybe_taken = maybe_taken or error.maybe_taken
                failure: RunnerUnreachableError = error
            else:
                if answer.status not in _PROXY_STATUSES or error_body_of(answer) is not None:
                    return typed_answer(request, answer, model)
                maybe_taken = True
                failure = _behind_proxy(request, answer)
            delay = next(delays)
            if number == TRIES or clock() + delay >= deadline:
                break
            await asyncio.sleep(delay)
        raise _gave_up(failure, number, maybe_taken)


def start_request(**fields: Any) -> StartCallRequest:
    """The request as one value, checked; for :meth:`RunnerClient.start` and :meth:`RunnerPool.place`.

    Raises:
        UsageError: a field that no runner takes.
    """
    return _checked(StartCallRequest, **fields)


def _session_path(session_id: str) -> str:
    """The path of a call, whose id may be any text."""
    if not session_id or session_id in (".", ".."):
        raise UsageError(f"session_id is {session_id!r}: no URL can name such a call")
    return f"/v1/sessions/{_quoted(session_id, 'session_id')}"


def _quoted(text: str, name: str) -> str:
    try:
        return quote(text, safe="")
    except (UnicodeEncodeError, TypeError):
        raise UsageError(f"{name} is {text!r:.80}: it must be text that UTF-8 can carry") from None


def _object(payload: object) -> object:
    if payload is None:
        return {}
    if isinstance(payload, Mapping):
        return dict(payload)
    return decode_json(encode_json(payload))


def _checked(model: type[ModelT], **fields: Any) -> ModelT:
    try:
        return model(**fields)
    except ValidationError as error:
        wrong = [f"{path_text(tuple(issue.path))}: {issue.message}" for issue in issues_of(error, fields)]
        raise UsageError(f"no runner takes this {model.__name__}: {'; '.join(wrong)}") from None


def _behind_proxy(request: Request, answer: Answer) -> RunnerUnreachableError:
    what = f"{request.method} {request.path.partition('?')[0]}"
    return RunnerUnreachableError(
        f"{what}: {answer.status} from something between here and the runner", maybe_taken=True
    )


def _gave_up(last: RunnerUnreachableError, tries: int, maybe_taken: bool) -> RunnerUnreachableError:
    times = "on one try" if tries == 1 else f"on {tries} tries"
    advice = "; it may have taken the request: repeat it with the same id to know" if maybe_taken else ""
    kind = RunnerTimeoutError if isinstance(last, RunnerTimeoutError) else RunnerUnreachableError
    error = kind(f"{last} ({times}){advice}", maybe_taken=maybe_taken, refused=last.refused)
    error.__cause__ = last
    return error
