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
    from curb_client.errors import TurnError
    from curb_client.model.assertions import (
        assert_instruction,
        assert_not_offered,
        assert_prefix_stable,
        assert_snapshot,
        assert_tool_offered,
    )
    from curb_client.model.builder.core import AgentCore
    from curb_client.model.builder.prose import Prose
    from curb_client.model.builder.skill import Content, Instruction, Skill, Tool
    from curb_client.model.builder.turn import Llm, Turns
    from curb_client.model.builder.typed_text import TypedText
    from curb_client.model.changes import Change, RequestDiff, diff
    from curb_client.model.context import AvailableSkill, ContextLine, ContextTool, CurrentContext, Problem
    from curb_client.model.endpoint.script import Answer, Call, ModelScript, Rule
    from curb_client.model.endpoint.script_file import load_script
    from curb_client.model.endpoint.server import ModelEndpoint
    from curb_client.model.message import ContextEvent, Message, ToolCall, ToolResult
    from curb_client.model.prefix import PrefixStep, estimate_tokens
    from curb_client.model.recording import RecordedRequest, read_recording
    from curb_client.model.request import ModelRequest, OfferedTool
    from curb_client.model.steps import Step, ledger, render_ledger
    from curb_client.model.system_text import SystemText

__all__ = [
    "AgentCore",
    "Answer",
    "AvailableSkill",
    "Call",
    "Change",
    "Content",
    "ContextEvent",
    "ContextLine",
    "ContextTool",
    "CurrentContext",
    "Instruction",
    "Llm",
    "Message",
    "ModelEndpoint",
    "ModelRequest",
    "ModelScript",
    "OfferedTool",
    "PrefixStep",
    "Problem",
    "Prose",
    "RecordedRequest",
    "RequestDiff",
    "Rule",
    "Skill",
    "Step",
    "SystemText",
    "Tool",
    "ToolCall",
    "ToolResult",
    "TurnError",
    "Turns",
    "TypedText",
    "assert_instruction",
    "assert_not_offered",
    "assert_prefix_stable",
    "assert_snapshot",
    "assert_tool_offered",
    "diff",
    "estimate_tokens",
    "ledger",
    "load_script",
    "read_recording",
    "render_ledger",
]

_HOMES: Final = {
    "AgentCore": "curb_client.model.builder.core",
    "Answer": "curb_client.model.endpoint.script",
    "AvailableSkill": "curb_client.model.context",
    "Call": "curb_client.model.endpoint.script",
    "Change": "curb_client.model.changes",
    "Content": "curb_client.model.builder.skill",
    "ContextEvent": "curb_client.model.message",
    "ContextLine": "curb_client.model.context",
    "ContextTool": "curb_client.model.context",
    "CurrentContext": "curb_client.model.context",
    "Instruction": "curb_client.model.builder.skill",
    "Llm": "curb_client.model.builder.turn",
    "Message": "curb_client.model.message",
    "ModelEndpoint": "curb_client.model.endpoint.server",
    "ModelRequest": "curb_client.model.request",
    "ModelScript": "curb_client.model.endpoint.script",
    "OfferedTool": "curb_client.model.request",
    "PrefixStep": "curb_client.model.prefix",
    "Problem": "curb_client.model.context",
    "Prose": "curb_client.model.builder.prose",
    "RecordedRequest": "curb_client.model.recording",
    "RequestDiff": "curb_client.model.changes",
    "Rule": "curb_client.model.endpoint.script",
    "Skill": "curb_client.model.builder.skill",
    "Step": "curb_client.model.steps",
    "SystemText": "curb_client.model.system_text",
    "Tool": "curb_client.model.builder.skill",
    "ToolCall": "curb_client.model.message",
    "ToolResult": "curb_client.model.message",
    "TurnError": "curb_client.errors",
    "Turns": "curb_client.model.builder.turn",
    "TypedText": "curb_client.model.builder.typed_text",
    "assert_instruction": "curb_client.model.assertions",
    "assert_not_offered": "curb_client.model.assertions",
    "assert_prefix_stable": "curb_client.model.assertions",
    "assert_snapshot": "curb_client.model.assertions",
    "assert_tool_offered": "curb_client.model.assertions",
    "diff": "curb_client.model.changes",
    "estimate_tokens": "curb_client.model.prefix",
    "ledger": "curb_client.model.steps",
    "load_script": "curb_client.model.endpoint.script_file",
    "read_recording": "curb_client.model.recording",
    "render_ledger": "curb_client.model.steps",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
