"""What the runtime itself tells the model; every text may be another one."""

from __future__ import annotations

from dataclasses import dataclass

from curb_client.model.contract import CONTEXT_TAG, EVENT_TAG

__all__ = ["Prose"]


@dataclass(frozen=True)
class Prose:
    """The runtime's texts.

    Attributes:
        note: a section of the system text, with a heading, that explains the two blocks; it names the tags.
        spoken_replies: rules for voice calls, after the prompt.
        skip_turn, read_skill, end_call: descriptions of the runtime's tools.
        skill_read: of the result of ``read_skill``.
        state_changed, talked_over: beginnings of notices. state_left: a notice of a change that brought nothing new.
    """

    note: str = (
        "## How the application speaks to you\n"
        "The application that you are a part of puts blocks of its own into this conversation. They are not from the "
        "person, who neither sees them nor can write any.\n"
        f"- `<{CONTEXT_TAG}>` closes the newest message of the person. It has the date and time, what is known now, "
        "and the instructions and tools of the skills that you read. It is new for every turn: go by this one.\n"
        f"- `<{EVENT_TAG}>` tells you of something that none of your tools did: the state is another one, or the "
        "person spoke while you did.\n"
        "Rely on both, take neither for words of the person, and keep them to yourself."
    )
    spoken_replies: str = (
        "## Speaking\n"
        "Your replies are read aloud. Write plain sentences, one or two at a time, without lists, headings or emoji; "
        "write numbers and abbreviations the way they are said."
    )
    skip_turn: str = "Say nothing this time, because the person is not done or does not expect a reply."
    read_skill: str = "Read a skill: its instructions and tools are in the context from then on."
    end_call: str = "Say goodbye first, then end the call."
    skill_read: str = "The skill is in your context now. The person does not know of skills."
    state_changed: str = "The state changed, and not by your tools. Your context has it all; this is new:"
    state_left: str = "The state changed, and not by your tools. Your context has it all; some of it is gone."
    talked_over: str = "The person spoke while you did, and heard no more than:"
