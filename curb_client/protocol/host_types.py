"""What a runner answers a host, and the payloads of a transfer (host protocol, Routes, Shapes and Transfer)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictStr

from curb_client.protocol.contract import CallState
from curb_client.protocol.scalars import Count, Flag, Id, Milliseconds, NonEmpty, Positive, Yes
from curb_client.protocol.types import EffectiveSettings, HostModel, Issue

__all__ = [
    "DrainAnswer",
    "ErrorBody",
    "Health",
    "LiveCall",
    "MessageAnswer",
    "RunnerStatus",
    "SettingsAnswer",
    "StartCallAnswer",
    "StopAnswer",
    "TransferAnswer",
    "TransferCancel",
    "TransferStart",
]


class Health(HostModel):
    """The answer of ``GET /health``, the one route without a token."""

    ok: Yes
    protocol_version: Positive
    versions: list[Positive] = Field(description="every version that this runner speaks")


class StartCallAnswer(HostModel):
    """The answer of ``POST /v1/sessions``."""

    session_id: NonEmpty
    accepted: Flag = Field(description="false for the repeat of a call that the runner holds already")


class StopAnswer(HostModel):
    """The answer of ``DELETE /v1/sessions/{id}``."""

    session_id: NonEmpty
    stopped: Flag = Field(description="false where the runner held no such call; still a success")


class MessageAnswer(HostModel):
    """The answer of ``POST /v1/sessions/{id}/messages``."""

    id: Id
    delivered: Flag = Field(description="false where that id was delivered to the call before")


class SettingsAnswer(HostModel):
    """The answer of ``PATCH /v1/sessions/{id}``."""

    session_id: NonEmpty
    settings: EffectiveSettings


class DrainAnswer(HostModel):
    """The answer of ``POST /v1/runner/drain``."""

    draining: Flag
    active_sessions: Count | None = Field(default=None, description="calls that the runner still finishes")


class LiveCall(HostModel):
    """A call that a runner holds: the answer of ``GET /v1/sessions/{id}``, and in a runner's status."""

    session_id: NonEmpty
    state: CallState
    started_at_ms: Milliseconds = Field(description="since the Unix epoch")


class RunnerStatus(HostModel):
    """The answer of ``GET /v1/runner``."""

    protocol_version: Positive
    deployment_id: StrictStr | None = None
    configuration_version: Positive | None = None
    max_sessions: Count
    active_sessions: Count
    draining: Flag
    sessions: list[LiveCall]


class ErrorBody(HostModel):
    """The body of every answer that is no success. ``error`` says why; a newer runner may have codes of its own."""

    error: StrictStr
    detail: StrictStr | None = Field(default=None, description="prose for people; never classify by it")
    versions: list[Positive] | None = Field(default=None, description="spoken by the runner, with unknown_version")
    requested: Count | None = Field(default=None, description="the cursor asked for, with cursor_too_old")
    oldest_retained: Positive | None = Field(default=None, description="the oldest envelope held, with cursor_too_old")
    path: StrictStr | None = Field(default=None, description="the first setting that may not be changed, dotted")
    issues: list[Issue] | None = None


class TransferStart(HostModel):
    """What the agent asks of a host that can dial, as the host message ``curb.transfer.start``."""

    target: NonEmpty
    summary: StrictStr | None = None


class TransferCancel(HostModel):
    """What the agent asks when the transfer is off, as the host message ``curb.transfer.cancel``."""


class TransferAnswer(HostModel):
    """The payload of the host's reply to ``curb.transfer.start``."""

    outcome: Literal["connected", "failed"]
    identity: StrictStr | None = Field(default=None, description="of the target's participant, once it is in the room")
    code: StrictStr | None = Field(default=None, description="why it failed")
