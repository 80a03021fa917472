"""Running a tool that the model called: arguments checked, the result as JSON, failures told and logged."""

from __future__ import annotations

import inspect
import json
import logging
from typing import Any, Final

from pydantic import ValidationError

from curb_client.model.builder.harmless import harmless_value
from curb_client.model.builder.skill import Tool
from curb_client.model.message import ToolCall

__all__ = ["run_tool"]

logger: Final = logging.getLogger("curb_client.model")


async def run_tool(tool: Tool, call: ToolCall) -> dict[str, Any]:
    """The result of a call, in whose texts no block of the runtime can be; raises nothing but what cancels it."""
    try:
        result: dict[str, Any] = harmless_value(await _run(tool, call))
    except Exception:
        logger.exception("the tool %r failed", tool.name)
        return {"ok": False, "error": "tool_failed"}
    return result


async def _run(tool: Tool, call: ToolCall) -> dict[str, Any]:
    try:
        arguments = _arguments(tool, call)
    except (ValueError, RecursionError) as error:
        return {"ok": False, "error": "invalid_arguments", "message": str(error)}
    value = tool.on_submit(arguments)
    if inspect.isawaitable(value):
        value = await value
    value = json.loads(json.dumps(value, allow_nan=False))
    if value is None:
        return {"ok": True}
    return value if isinstance(value, dict) else {"ok": True, "result": value}


def _arguments(tool: Tool, call: ToolCall) -> Any:
    value = json.loads(call.arguments or "{}")
    if not isinstance(value, dict):
        raise ValueError(f"the arguments are of type {type(value).__name__}; they must be an object")
    if tool.schema is None:
        return {}
    if isinstance(tool.schema, type):
        try:
            return tool.schema.model_validate(value)
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            raise ValueError("; ".join(wrong)) from None
    missing = [name for name in tool.json_schema.get("required", ()) if name not in value]
    if missing:
        raise ValueError(f"missing: {', '.join(missing)}")
    return value
