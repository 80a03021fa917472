"""The types that travel in a room, as pydantic models.

Source: host protocol, parts "App messages", "Client side" and "Live session settings". Decoding is lenient where the
protocol says so: unknown properties are ignored. Names are the wire's; ``baseURL`` is spelt ``base_url`` in Python and
only there.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import (
    VERSION,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core.core_schema import ValidationInfo
from typing_extensions import Self

from curb_client.protocol.scalars import WIRE, Id, JsonValue, Key, Whole

__all__ = [
    "AgentMessage",
    "EffectiveSettings",
    "HostModel",
    "Issue",
    "LlmSettings",
    "LlmUpdate",
    "MessageReply",
    "MessageRequest",
    "RefusalData",
    "SessionUpdate",
    "SttSettings",
    "SttUpdate",
    "TtsSettings",
    "TtsUpdate",
    "WireModel",
    "issues_of",
]

Voice = StrictStr | StrictInt | StrictFloat

_BY_ALIAS: Final[dict[str, Any]] = (
    {"by_alias": True, "by_name": False} if tuple(map(int, VERSION.split(".")[:2])) >= (2, 11) else {}
)


class WireModel(BaseModel):
    """A type on the wire: immutable, unknown properties ignored, absent properties left out when written."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """The model of a decoded JSON value; a property counts under the wire's name and no other.

        Raises:
            pydantic.ValidationError: it does not fit; see :func:`issues_of`.
        """
        model: Self = cls.__pydantic_validator__.validate_python(value, context=WIRE, **_BY_ALIAS)
        return model

    if not _BY_ALIAS:

        @model_validator(mode="before")
        @classmethod
        def _without_python_names(cls, value: Any, info: ValidationInfo) -> Any:
            if info.context is not WIRE or not isinstance(value, dict):
                return value
            aliases = {name: field.alias or name for name, field in cls.model_fields.items()}
            unknown = {name for name, alias in aliases.items() if name != alias and name in value}
            return {name: inside for name, inside in value.items() if name not in unknown} if unknown else value

    def to_wire(self) -> dict[str, Any]:
        """The declared properties that are set, by their wire names; a payload of None stays, as null."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


class HostModel(WireModel):
    """A type of the host protocol: ``snake_case`` in Python, camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel)


class Issue(WireModel):
    """One thing wrong with a payload or an update."""

    path: list[StrictStr | Whole] = Field(description="property names and array indexes; empty is the whole")
    message: StrictStr


class MessageRequest(WireModel):
    """The payload of the RPC ``curb.message``: a client's message to the agent."""

    key: Key
    id: Id
    payload: JsonValue = Field(default_factory=dict, description="any JSON value; a missing one is {}")


class MessageReply(WireModel):
    """The answer to ``curb.message``: what the last-added handler returned."""

    reply: JsonValue = Field(default=None, description="null or absent when the handler returned nothing")


class AgentMessage(WireModel):
    """The text of a stream on the topic ``curb.message``: the agent's message to its clients."""

    key: Key
    id: Id | None = Field(default=None, description="the stream's own id where it is absent")
    payload: JsonValue = Field(default_factory=dict, description="a JSON object; a missing one is {}")


class RefusalData(WireModel):
    """The data of the RPC error of a refusal, whose message is the code."""

    issues: list[Issue] | None = None
    path: StrictStr | None = Field(default=None, description="the first setting that may not be changed, dotted")


class TtsUpdate(WireModel):
    voice: Voice | None = None
    model: StrictStr | None = None


class SttUpdate(WireModel):
    language: StrictStr | None = None


LlmProvider = Literal["kugelaudio", "anthropic", "openai", "openai-compatible"]


class LlmUpdate(WireModel):
    provider: LlmProvider
    model: StrictStr
    base_url: StrictStr | None = Field(default=None, alias="baseURL")


class SessionUpdate(WireModel):
    """The body of ``curb.update`` and of the host's PATCH: settings to change, all or nothing."""

    tts: TtsUpdate | None = None
    stt: SttUpdate | None = None
    llm: LlmUpdate | None = None


class TtsSettings(WireModel):
    provider: StrictStr
    voice: Voice | None = None
    model: StrictStr | None = None


class SttSettings(WireModel):
    provider: StrictStr
    language: StrictStr | None = None


class LlmSettings(WireModel):
    provider: StrictStr
    model: StrictStr
    base_url: StrictStr | None = Field(default=None, alias="baseURL")


class EffectiveSettings(WireModel):
    """The settings in force, never a credential: the answer to an update."""

    tts: TtsSettings
    stt: SttSettings
    llm: LlmSettings


def issues_of(error: ValidationError, value: object) -> list[Issue]:
    """What a model found wrong with ``value``, as the protocol's issues.

    pydantic puts the names of union members into its locations; only steps that lead somewhere in ``value`` (and the
    last step to a missing property) are kept.
    """
    return [
        Issue(path=_real_path(details["loc"], value, missing=details["type"] == "missing"), message=details["msg"])
        for details in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _real_path(location: tuple[str | int, ...], value: Any, *, missing: bool) -> list[str | int]:
    path: list[str | int] = []
    for position, step in enumerate(location):
        is_last = position == len(location) - 1
        if _leads_somewhere(step, value):
            value = value[step]
            path.append(step)
        elif missing and is_last:
            path.append(step)
    return path


def _leads_somewhere(step: str | int, value: Any) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
