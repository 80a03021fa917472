"""What the model receives: build it, record it, read it, compare it.

::

    from curb_client.model import ModelRequest

    request = ModelRequest.parse(body)  # the JSON that an agent sent to its model
    assert request.context is not None
    print(request.context.instructions, [tool.name for tool in request.tools])
"""

from typing import TYPE_CHECKING, Final

from curb_client._lazy import lazy_names

if TYPE_CHECKING:
    from curb_client.model.context import AvailableSkill, ContextLine, ContextTool, CurrentContext, Problem
    from curb_client.model.message import ContextEvent, Message, ToolCall, ToolResult
    from curb_client.model.request import ModelRequest, OfferedTool
    from curb_client.model.system_text import SystemText

__all__ = [
    "AvailableSkill",
    "ContextEvent",
    "ContextLine",
    "ContextTool",
    "CurrentContext",
    "Message",
    "ModelRequest",
    "OfferedTool",
    "Problem",
    "SystemText",
    "ToolCall",
    "ToolResult",
]

_HOMES: Final = {
    "AvailableSkill": "curb_client.model.context",
    "ContextEvent": "curb_client.model.message",
    "ContextLine": "curb_client.model.context",
    "ContextTool": "curb_client.model.context",
    "CurrentContext": "curb_client.model.context",
    "Message": "curb_client.model.message",
    "ModelRequest": "curb_client.model.request",
    "OfferedTool": "curb_client.model.request",
    "Problem": "curb_client.model.context",
    "SystemText": "curb_client.model.system_text",
    "ToolCall": "curb_client.model.message",
    "ToolResult": "curb_client.model.message",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
