"""What passed in a call, kept and written for people: the first reader of the trace."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from curb_client.errors import InvalidPayloadError
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.states import AgentState
from curb_client.room.trace import NOTHING, TraceEvent
from curb_client.testing.agent_process import PROBE_KEY

__all__ = ["Recorder", "shortened"]

KEPT_STEPS: Final = 500
SHOWN_CHARACTERS: Final = 200

_SENTENCES: Final[Mapping[str, str]] = {
    "ask": "asks {key}{payload}",
    "answer": "gets the answer to {key}{payload}{after}",
    "message": "gets the message {key}{payload} from {peer}",
    "presence": "sees the agent {detail}",
    "request": "takes {key}{payload} from {peer}",
    "reply": "answers {key}{payload}",
    "send": "sends {key}{payload} to {peer}",
    "to-host": "tells the host {key}{payload}",
    "note": "{detail}",
    "expect": "expects {key}{payload}{after}",
    "expected": "has what it expected, {key}",
}
_FAILURES: Final[Mapping[str, str]] = {
    "answer": "gets no reply to {key}: {error}{after}",
    "reply": "refuses {key}: {error}",
    "send": "could not send {key}{payload}: {error}",
    "to-host": "could not tell the host {key}: {error}",
    "expected": "misses what it expected, {key}: {error}",
}


@dataclass(frozen=True)
class _Line:
    at: float
    who: str
    text: str


class Recorder:
    """A trace that keeps the last steps as text; payloads are shortened, and written when the step is taken."""

    def __init__(self) -> None:
        self._lines: deque[_Line] = deque(maxlen=KEPT_STEPS)
        self._taken = 0
        self._began: float | None = None
        self._pending: dict[tuple[str, str], _Line] = {}

    def record(self, event: TraceEvent) -> None:
        """Keep one step."""
        if event.step == "presence" and event.detail == AgentState.CLOSED.value:
            return  # that is the client's own end
        if event.key == PROBE_KEY:
            return  # the kit's own, which any answer satisfies
        line = _Line(event.at, event.identity or event.side, _sentence(event))
        self._began = event.at if self._began is None else self._began
        self._taken += 1
        self._lines.append(line)
        if event.side == "client":
            exchange = (event.key, event.id)
            if event.step == "ask":
                self._pending[exchange] = line
            elif event.step == "answer":
                self._pending.pop(exchange, None)

    def pending(self, now: float) -> list[str]:
        """The requests that have no answer yet, each with how long it has waited by ``now`` (monotonic seconds)."""
        return [f"{line.who} {line.text} - for {now - line.at:.1f} s" for line in self._pending.values()]

    def steps(self, most: int = KEPT_STEPS) -> list[str]:
        """The last steps, each with the milliseconds since the first and who took it."""
        lines = list(self._lines)[-most:]
        width = max((len(line.who) for line in lines), default=0)
        began = self._began or 0.0
        return [f"{(line.at - began) * 1000:7.0f}  {line.who:<{width}}  {line.text}" for line in lines]

    def report(self, now: float, most: int = KEPT_STEPS) -> str:
        """The pending requests and the last steps."""
        return "\n".join(self._report(now, most))

    def _report(self, now: float, most: int) -> Iterator[str]:
        pending = self.pending(now)
        yield "pending requests:" if pending else "no request is pending"
        yield from (f"  {line}" for line in pending)
        steps = self.steps(most)
        if not steps:
            yield "nothing passed yet"
            return
        shown = f"the last {len(steps)} of {self._taken} steps" if len(steps) < self._taken else "all steps"
        yield f"{shown} (milliseconds, who, what):"
        yield from steps


def _sentence(event: TraceEvent) -> str:
    template = _SENTENCES[event.step]
    if event.error is not None:
        template = _FAILURES.get(event.step, template)
    error = f"{event.error} ({event.detail})" if event.detail else str(event.error)
    return template.format(
        key=event.key or "a message",
        payload="" if event.payload is NOTHING else f" {shortened(event.payload)}",
        peer=event.peer or "nobody",
        detail=event.detail,
        error=error,
        after="" if event.ms is None else f" after {event.ms:.0f} ms",
    )


def shortened(value: object, most: int = SHOWN_CHARACTERS) -> str:
    """A value as JSON, or as Python writes it where it is none, cut to so many characters."""
    text = ""
    with contextlib.suppress(InvalidPayloadError):
        text = encode_json(value)
    text = text or repr(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
