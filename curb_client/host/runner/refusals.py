"""A runner's no, on its way to the answer."""

from __future__ import annotations

from collections.abc import Sequence

from curb_client.protocol.contract import ErrorCode
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.host_errors import error_body, issues_told, refusal_body, status_of
from curb_client.protocol.host_types import ErrorBody
from curb_client.protocol.types import Issue

__all__ = ["RunnerRefusal"]


class RunnerRefusal(Exception):  # noqa: N818 - the protocol calls it a refusal
    """Raised anywhere below a route; its body and status are the answer.

    Attributes:
        body: what the host is told.
        status: of the HTTP answer.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str | None = None,
        *,
        requested: int | None = None,
        oldest_retained: int | None = None,
        issues: Sequence[Issue] | None = None,
    ) -> None:
        super().__init__(code.value)
        self.body: ErrorBody = error_body(
            code, detail, requested=requested, oldest_retained=oldest_retained, issues=issues
        )
        self.status = status_of(code)

    @classmethod
    def of_agent(cls, refusal: Refusal) -> RunnerRefusal:
        """The no of a call's agent."""
        body = refusal_body(refusal)
        refused = cls(ErrorCode.INTERNAL)
        refused.body, refused.status = body, status_of(ErrorCode(body.error))
        return refused

    @classmethod
    def invalid(cls, issues: Sequence[Issue]) -> RunnerRefusal:
        """A request that does not fit."""
        return cls(ErrorCode.INVALID_REQUEST, "; ".join(issues_told(issues, "body")), issues=issues)
