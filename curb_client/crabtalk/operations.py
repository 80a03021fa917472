"""Which message asks what, and which answers it. The daemon's own table, which its texts give in part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.errors import DaemonNotFoundError, DaemonRefusedError, MalformedMessageError
from curb_client.errors import UsageError

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["ANSWERED_BY_MANY", "answer_of", "answer_type", "as_json_text", "asked", "made", "operation_of"]

MessageT = TypeVar("MessageT", bound="Message")

_ONEOF: Final = "message"
_FIELDS: Final[Mapping[type, str]] = {
    type(getattr(pb.ClientMessage(), field.name)): field.name
    for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name[_ONEOF].fields
}
ANSWERED_BY_MANY: Final = ("stream", "install_package", "uninstall_package", "subscribe_events")

_ANSWERS: Final[Mapping[str, str]] = {
    "send": "response",
    "sessions": "sessions",
    "compact": "compact",
    "list_conversations": "conversation_list",
    "list_providers": "provider_list",
    "set_provider": "provider_list",
    "list_provider_presets": "provider_preset_list",
    "list_mcps": "mcp_list",
    "list_agents": "agent_list",
    "get_agent": "agent_info",
    "create_agent": "agent_info",
    "update_agent": "agent_info",
    "list_packages": "package_list",
    "list_skills": "skill_list",
    "list_models": "model_list",
    "search_hub": "hub_package_list",
    "service_logs": "service_log_output",
    "create_cron": "cron_info",
    "list_crons": "cron_list",
    "get_config": "config",
    "get_stats": "stats",
}
"""By what is asked, the field of the ServerMessage that answers it; all that is not here is answered by a Pong."""


def operation_of(message: Message) -> str:
    """What a message asks: the field of ClientMessage that takes it.

    Raises:
        UsageError: none does.
    """
    doing = _FIELDS.get(type(message))
    if doing is None:
        name = type(message).__name__
        raise UsageError(f"{name} asks nothing of a daemon; give a message that a ClientMessage takes")
    return doing


def asked(message: Message) -> tuple[str, pb.ClientMessage]:
    """What is asked, and the ClientMessage with it."""
    doing = operation_of(message)
    whole = pb.ClientMessage()
    field = getattr(whole, doing)
    field.SetInParent()  # one without fields would not be there otherwise
    field.CopyFrom(message)
    return doing, whole


def answer_of(message: pb.ServerMessage, doing: str, kind: type[MessageT]) -> MessageT:
    """The answer in a message.

    Raises:
        DaemonRefusedError: it is an ErrorMsg. MalformedMessageError: it is neither.
    """
    field = message.WhichOneof(_ONEOF)
    if field == "error":
        error = message.error
        refused = DaemonNotFoundError if error.code == 404 else DaemonRefusedError
        raise refused(error.code, error.message, doing=doing)
    answer = getattr(message, field) if field else message
    if not isinstance(answer, kind):
        came = f"a {type(answer).__name__}" if field else "a message of a kind that is not known here"
        raise MalformedMessageError(f"{doing}: the daemon's answer is {came} instead of a {kind.__name__}")
    return answer


def answer_type(doing: str) -> type[Message]:
    """The type of the answer."""
    return type(getattr(pb.ServerMessage(), _ANSWERS.get(doing, "pong")))


def made(kind: type[MessageT], **fields: Any) -> MessageT:
    """A message with these fields; those that are None are left out.

    Raises:
        UsageError: a value that its field does not take.
    """
    message = kind()
    for name, value in fields.items():
        if value is None:
            continue
        try:
            setattr(message, name, value)
        except (TypeError, ValueError) as error:  # ValueError: out of range, or a lone surrogate
            raise UsageError(f"{kind.__name__}: {name} is {value!r:.80}: {error}") from None
    return message


def as_json_text(value: Mapping[str, Any] | str, what: str) -> str:
    """Text as it is, an object as JSON.

    Raises:
        UsageError: no JSON.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} cannot be written as JSON: {error}") from None
