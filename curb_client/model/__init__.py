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
    from curb_client.model.assertions import (
        assert_instruction,
        assert_not_offered,
        assert_prefix_stable,
        assert_snapshot,
        assert_tool_offered,
    )
    from curb_client.model.changes import Change, RequestDiff, diff
    from curb_client.model.context import AvailableSkill, ContextLine, ContextTool, CurrentContext, Problem
    from curb_client.model.message import ContextEvent, Message, ToolCall, ToolResult
    from curb_client.model.prefix import PrefixStep, estimate_tokens
    from curb_client.model.recording import RecordedRequest, read_recording
    from curb_client.model.request import ModelRequest, OfferedTool
    from curb_client.model.steps import Step, ledger, render_ledger
    from curb_client.model.system_text import SystemText

__all__ = [
    "AvailableSkill",
    "Change",
    "ContextEvent",
    "ContextLine",
    "ContextTool",
    "CurrentContext",
    "Message",
    "ModelRequest",
    "OfferedTool",
    "PrefixStep",
    "Problem",
    "RecordedRequest",
    "RequestDiff",
    "Step",
    "SystemText",
    "ToolCall",
    "ToolResult",
    "assert_instruction",
    "assert_not_offered",
    "assert_prefix_stable",
    "assert_snapshot",
    "assert_tool_offered",
    "diff",
    "estimate_tokens",
    "ledger",
    "read_recording",
    "render_ledger",
]

_HOMES: Final = {
    "AvailableSkill": "curb_client.model.context",
    "Change": "curb_client.model.changes",
    "ContextEvent": "curb_client.model.message",
    "ContextLine": "curb_client.model.context",
    "ContextTool": "curb_client.model.context",
    "CurrentContext": "curb_client.model.context",
    "Message": "curb_client.model.message",
    "ModelRequest": "curb_client.model.request",
    "OfferedTool": "curb_client.model.request",
    "PrefixStep": "curb_client.model.prefix",
    "Problem": "curb_client.model.context",
    "RecordedRequest": "curb_client.model.recording",
    "RequestDiff": "curb_client.model.changes",
    "Step": "curb_client.model.steps",
    "SystemText": "curb_client.model.system_text",
    "ToolCall": "curb_client.model.message",
    "ToolResult": "curb_client.model.message",
    "assert_instruction": "curb_client.model.assertions",
    "assert_not_offered": "curb_client.model.assertions",
    "assert_prefix_stable": "curb_client.model.assertions",
    "assert_snapshot": "curb_client.model.assertions",
    "assert_tool_offered": "curb_client.model.assertions",
    "diff": "curb_client.model.changes",
    "estimate_tokens": "curb_client.model.prefix",
    "ledger": "curb_client.model.steps",
    "read_recording": "curb_client.model.recording",
    "render_ledger": "curb_client.model.steps",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
