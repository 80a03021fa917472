"""A runner's refusals as HTTP answers (host protocol, Error codes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from curb_client.errors import UsageError
from curb_client.protocol.contract import PROTOCOL_VERSIONS, STATUS_BY_CODE, ErrorCode
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.host_types import ErrorBody
from curb_client.protocol.json_text import without_lone_surrogates
from curb_client.protocol.types import Issue

__all__ = ["error_body", "issues_told", "known_code", "refusal_body", "status_of"]

_MUST_CARRY: Final[Mapping[ErrorCode, tuple[str, ...]]] = {
    ErrorCode.CURSOR_TOO_OLD: ("requested", "oldest_retained"),
    ErrorCode.NOT_ADJUSTABLE: ("path",),
    ErrorCode.INVALID_SETTINGS: ("issues",),
    ErrorCode.INVALID_PAYLOAD: ("issues",),
}


MOST_ISSUES: Final = 32
_ISSUES_IN_DETAIL: Final = 5
_DETAIL_CHARACTERS: Final = 2000


def error_body(
    code: ErrorCode,
    detail: str | None = None,
    *,
    requested: int | None = None,
    oldest_retained: int | None = None,
    path: str | None = None,
    issues: Sequence[Issue] | None = None,
) -> ErrorBody:
    """The body of a refusal; :func:`status_of` is its status. ``unknown_version`` gets its ``versions`` here.

    Text that UTF-8 cannot carry (a lone surrogate, sent by the peer) is replaced, so that the body can be written. So
    that a large request does not get a larger answer, 32 issues are told, and 2,000 characters of the detail.

    Args:
        detail: for people. Not with ``unauthorized``, which tells a stranger nothing.

    Raises:
        UsageError: a code without what it must carry, or ``unauthorized`` with anything.
    """
    carried = {"requested": requested, "oldest_retained": oldest_retained, "path": path, "issues": issues}
    missing = [name for name in _MUST_CARRY.get(code, ()) if carried[name] is None]
    if missing:
        raise UsageError(f"the error {code.value} must carry {' and '.join(missing)}")
    given = [name for name, value in {"detail": detail, **carried}.items() if value is not None]
    if code is ErrorCode.UNAUTHORIZED and given:
        raise UsageError(f"the error unauthorized tells a stranger nothing; leave out {' and '.join(given)}")
    return ErrorBody(
        error=code.value,
        detail=None if detail is None else without_lone_surrogates(detail[:_DETAIL_CHARACTERS]),
        versions=list(PROTOCOL_VERSIONS) if code is ErrorCode.UNKNOWN_VERSION else None,
        requested=requested,
        oldest_retained=oldest_retained,
        path=without_lone_surrogates(path),
        issues=None if issues is None else [_writable_issue(issue) for issue in issues[:MOST_ISSUES]],
    )


def refusal_body(refusal: Refusal) -> ErrorBody:
    """An agent's refusal of a host's message or settings.

    Raises:
        ValueError: ``payload_too_large``, which no runner answers.
    """
    told = issues_told(refusal.issues, "payload")
    if refusal.path is not None:
        told.append(f"{refusal.path} may not be changed by the host")
    code = ErrorCode(refusal.code.value)
    issues = refusal.issues if refusal.issues or "issues" in _MUST_CARRY.get(code, ()) else None
    detail = f"{code.value}: {'; '.join(told)}" if told else None
    return error_body(code, detail, path=refusal.path, issues=issues)


def issues_told(issues: Sequence[Issue], whole: str) -> list[str]:
    """The first five issues for people, and how many more there are.

    Args:
        whole: the name of what has them, for an issue without a path.
    """
    told = [f"{'.'.join(map(str, issue.path)) or whole}: {issue.message}" for issue in issues[:_ISSUES_IN_DETAIL]]
    more = len(issues) - len(told)
    return [*told, f"and {more} more"] if more else told


def status_of(code: ErrorCode) -> int:
    """The HTTP status of a code."""
    return STATUS_BY_CODE[code]


def known_code(error: str) -> ErrorCode | None:
    """The code in :attr:`ErrorBody.error`, None for one of a newer runner, or prose of one older than version 1."""
    try:
        return ErrorCode(error)
    except ValueError:
        return None


def _writable_issue(issue: Issue) -> Issue:
    return Issue(path=without_lone_surrogates(issue.path), message=without_lone_surrogates(issue.message))
