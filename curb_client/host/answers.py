"""A runner's answers as types, and its refusals as exceptions (host protocol, Routes and Error codes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import ValidationError

from curb_client import errors
from curb_client.errors import ProtocolVersionError, RunnerAnswerError, RunnerRefusedError
from curb_client.host.transport import Answer, Request
from curb_client.protocol.contract import PROTOCOL_VERSIONS, ErrorCode
from curb_client.protocol.host_errors import known_code
from curb_client.protocol.host_types import ErrorBody
from curb_client.protocol.json_text import decode_json, path_text
from curb_client.protocol.types import HostModel, issues_of

__all__ = ["ERROR_CLASSES", "error_body_of", "refused", "typed_answer"]

ModelT = TypeVar("ModelT", bound=HostModel)

_EXCERPT: Final = 200  # bytes

ERROR_CLASSES: Final[Mapping[ErrorCode, type[RunnerRefusedError]]] = {
    ErrorCode.UNAUTHORIZED: errors.RunnerUnauthorizedError,
    ErrorCode.UNKNOWN_VERSION: errors.RunnerUnknownVersionError,
    ErrorCode.NOT_FOUND: errors.RunnerNotFoundError,
    ErrorCode.INVALID_REQUEST: errors.RunnerInvalidRequestError,
    ErrorCode.SESSION_NOT_FOUND: errors.RunnerSessionNotFoundError,
    ErrorCode.RUNNER_AT_CAPACITY: errors.RunnerAtCapacityError,
    ErrorCode.GENERATION_MISMATCH: errors.RunnerGenerationMismatchError,
    ErrorCode.RUNNER_DRAINING: errors.RunnerDrainingError,
    ErrorCode.START_FAILED: errors.RunnerStartFailedError,
    ErrorCode.RUNNER_TAKES_NO_CALLS: errors.RunnerTakesNoCallsError,
    ErrorCode.CURSOR_TOO_OLD: errors.RunnerCursorTooOldError,
    ErrorCode.NO_JOURNAL: errors.RunnerNoJournalError,
    ErrorCode.INTERNAL: errors.RunnerInternalError,
    ErrorCode.NO_HANDLER: errors.RunnerNoHandlerError,
    ErrorCode.INVALID_PAYLOAD: errors.RunnerInvalidPayloadError,
    ErrorCode.HANDLER_FAILED: errors.RunnerHandlerFailedError,
    ErrorCode.NOT_ADJUSTABLE: errors.RunnerNotAdjustableError,
    ErrorCode.INVALID_SETTINGS: errors.RunnerInvalidSettingsError,
}


def typed_answer(request: Request, answer: Answer, model: type[ModelT]) -> ModelT:
    """The body of a success.

    Raises:
        RunnerRefusedError: it is none; the class of its code.
        RunnerAnswerError: it is not what the route answers, or no answer of a runner at all.
    """
    if not 200 <= answer.status < 300:
        raise refused(request, answer)
    try:
        value = decode_json(answer.body.decode())
    except ValueError as error:
        raise _strange(request, answer, f"is not JSON: {error}") from None
    try:
        return model.from_wire(value)
    except ValidationError as error:
        wrong = "; ".join(f"{path_text(tuple(issue.path))}: {issue.message}" for issue in issues_of(error, value))
    raise _strange(request, answer, f"is no {model.__name__} ({wrong})")


def error_body_of(answer: Answer) -> ErrorBody | None:
    """The body of a refusal; None where it is not a runner's, but that of a proxy, say."""
    try:
        return ErrorBody.from_wire(decode_json(answer.body.decode()))
    except ValueError:
        return None


def refused(request: Request, answer: Answer) -> RunnerRefusedError | RunnerAnswerError:
    """The exception for an answer that is no success."""
    body = error_body_of(answer)
    if request.method == "POST" and request.path == "/v1/sessions" and answer.status == 404:
        body = body or ErrorBody(error="")  # runners older than version 1 answered prose
        if known_code(body.error) is not ErrorCode.UNKNOWN_VERSION:
            message = f"{_told(request, body)}: it speaks another version of the protocol than {PROTOCOL_VERSIONS[0]}"
            return ProtocolVersionError(message, status=404, body=body)
    if body is None:
        return _strange(request, answer, "is no answer of a runner: is there a proxy between?")
    code = known_code(body.error)
    error_class = RunnerRefusedError if code is None else ERROR_CLASSES[code]
    return error_class(_told(request, body), status=answer.status, body=body)


def _told(request: Request, body: ErrorBody) -> str:
    more = [body.detail.removeprefix(f"{body.error}: ")] if body.detail else []
    if body.versions is not None:
        more.append(f"it speaks {', '.join(map(str, body.versions))}")
    if not body.detail:
        more += [f"{path_text(tuple(issue.path))}: {issue.message}" for issue in body.issues or ()]
        more += [body.path] if body.path else []
    told = f" ({'; '.join(more)})" if more else ""
    return f"{request.method} {request.path.partition('?')[0]} was refused {body.error or 'without a code'}{told}"


def _strange(request: Request, answer: Answer, what: str) -> RunnerAnswerError:
    return RunnerAnswerError(
        f"the answer {answer.status} to {request.method} {request.path.partition('?')[0]} {what}; "
        f"it begins {answer.body[:_EXCERPT]!r}",
        status=answer.status,
        excerpt=answer.body[:_EXCERPT],
    )
