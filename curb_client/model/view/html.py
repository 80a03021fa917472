"""A recording as one page that needs nothing else: a request a column, what changed highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from curb_client.model.recording import RecordedRequest
from curb_client.model.steps import ledger
from curb_client.model.view.sections import Section, sections

__all__ = ["html_page"]

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --new: #2a8a3e; --gone: #b3392f; --soft: #8882; }
* { box-sizing: border-box; }
body { margin: 0; font: 14px/1.45 system-ui, sans-serif; }
header { padding: 12px 16px; border-bottom: 1px solid var(--line); }
h1 { font-size: 17px; margin: 0 0 2px; } header p { margin: 0; opacity: .75; }
main { display: flex; align-items: flex-start; overflow-x: auto; }
article { flex: 0 0 380px; padding: 12px 16px; border-right: 1px solid var(--line); min-height: 90vh; }
h2 { font-size: 15px; margin: 0; } article > p { margin: 0 0 8px; opacity: .75; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 8px 0; }
summary { padding: 5px 9px; cursor: pointer; background: var(--soft); border-radius: 6px; }
summary b { font-weight: 600; } summary span { float: right; opacity: .75; }
ul { list-style: none; margin: 0; padding: 4px 0; font: 12.5px/1.45 ui-monospace, monospace; }
li { padding: 2px 9px; white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid transparent; }
li.new { border-color: var(--new); background: #2a8a3e26; }
li.gone { border-color: var(--gone); background: #b3392f1f; text-decoration: line-through; opacity: .8; }
li.new::before { content: "+ "; } li.gone::before { content: "- "; }
.legend i { font-style: normal; padding: 0 6px; border-left: 3px solid; margin-left: 10px; }
"""


def html_page(recorded: Sequence[RecordedRequest], title: str = "What the model received") -> str:
    """The page, whole."""
    requests = [each.request for each in recorded]
    steps = ledger(requests)
    columns = []
    for number, (each, request, step) in enumerate(zip(recorded, requests, steps, strict=True)):
        made = sections(request, requests[number - 1] if number else None)
        called = f", after {', '.join(step.called)}" if step.called else ""
        head = f"<h2>{number + 1}. {escape(' '.join(step.said.split())) or '(nothing said)'}</h2>"
        about = f"<p>{escape(_about(each, request.model, made))}{escape(called)}</p>"
        columns.append(f"<article>{head}{about}{''.join(map(_section, made))}</article>")
    count = f"{len(recorded)} request{'' if len(recorded) == 1 else 's'}"
    legend = '<i style="border-color:var(--new)">new</i><i style="border-color:var(--gone)">gone</i>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f'<header><h1>{escape(title)}</h1><p class="legend">{count}, each compared with the one before it:{legend}</p>'
        f"</header><main>{''.join(columns)}</main></body></html>\n"
    )


def _about(each: RecordedRequest, model: str, made: list[Section]) -> str:
    tokens = f"about {sum(section.tokens for section in made)} tokens"
    minutes, seconds = divmod(each.at // 1000, 60)
    at = f"{minutes // 60 % 24:02}:{minutes % 60:02}:{seconds:02}" if each.at else ""
    status = "" if each.status == 200 else f"status {each.status}"
    return ", ".join(part for part in (model, at, tokens, status) if part)


def _section(section: Section) -> str:
    is_open = section.has_changed or section.name in ("context", "problems")
    lines = "".join(f'<li class="{line.mark}">{escape(line.text)}</li>' for line in section.lines)
    tokens = f"<span>~{section.tokens} tokens</span>" if section.tokens else ""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary><b>{section.name}</b>{tokens}</summary><ul>{lines}</ul></details>"
