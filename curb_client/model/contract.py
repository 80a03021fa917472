"""The fixed strings of what a model receives: tags, labels, names of the runtime's tools (What the model receives).

Marked [S] where the protocol text states them, [I] where they were inferred. The prose around them belongs to
whoever writes the agent and is in none of this.
"""

from __future__ import annotations

from typing import Final, Literal

CONTEXT_TAG: Final = "current_context"  # [S]
EVENT_TAG: Final = "context_event"  # [S]
DATE_PREFIX: Final = "Today is "  # [S] how the first line of a context begins

# Labels of the lines of a context, each followed by a colon and a space [S].
ACTIVE_SKILL: Final = "active_skill"
INSTRUCTION: Final = "instruction"
CONTENT: Final = "content"
AVAILABLE_SKILL: Final = "available_skill"
TOOL: Final = "tool"
LABELS: Final = (ACTIVE_SKILL, INSTRUCTION, CONTENT, AVAILABLE_SKILL, TOOL)

DESCRIPTION_SEPARATOR: Final = " — "  # [S] between an available skill's name and its description
CONTINUATION: Final = "  "  # [I] begins the further lines of a text, so that none of them reads as a line of its own

Origin = Literal["runtime", "page"]
"""Who made a tool [S]: the runtime, or what the agent's author renders."""

# The runtime's own tools [S].
SKIP_TURN: Final = "skip_turn"
READ_SKILL: Final = "read_skill"
END_CALL: Final = "end_call"

CONTEXT_CHANGED: Final = "contextChanged"  # [S] of a tool's result: the lines that joined the context
MAX_CHANGED_LINE: Final = 200  # [S] characters of each
