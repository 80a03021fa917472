"""Requests of a conversation at a parcel desk, for the tests of what is done with requests."""

from collections.abc import Sequence
from typing import Any

from curb_client.model import ModelRequest

SYSTEM = "You run a parcel desk.\n\n## Blocks\nA `<current_context>` ends the newest message.\n"


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {}}}


def call(call_id: str, name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": '{"ok":true}'}


def request(
    transcript: Sequence[dict[str, Any]], lines: Sequence[str], tools: Sequence[str], *, system: str = SYSTEM
) -> ModelRequest:
    listed = [f"tool: {name}() [{'runtime' if name == 'read_skill' else 'page'}]" for name in tools]
    block = "\n".join(["<current_context>", "Today is some day", *lines, *listed, "</current_context>"])
    messages = [{"role": "system", "content": system}, *transcript, {"role": "user", "content": block}]
    return ModelRequest.parse({"messages": messages, "tools": [tool(name) for name in tools]})


HELLO = {"role": "user", "content": "It came broken"}
NUMBER = {"role": "user", "content": "It is 17"}
SKILL = "available_skill: Returns — For parcels."

CONVERSATION = [
    request([HELLO], [SKILL], ["read_skill"]),
    request(
        [HELLO, call("c1", "read_skill"), result("c1")],
        ["active_skill: Returns", "instruction: Ask for the number.", "content: No order\n  is known.", SKILL],
        ["read_skill", "find_order"],
    ),
    request(
        [HELLO, call("c1", "read_skill"), result("c1"), NUMBER, call("c2", "find_order"), result("c2")],
        ["active_skill: Returns", "instruction: Ask what broke.", SKILL],
        ["read_skill", "send_label"],
    ),
]
