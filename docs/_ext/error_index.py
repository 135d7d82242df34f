"""The index of error messages: the exact texts that people paste into a search box, each with the rules it leads to.

They come from the pages of the rules (``Error messages``, where … stands for what varies) and from the signatures'
examples, which are lines of logs as they stand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from distcheck import rules
from distcheck.rules.messages import MESSAGES
from distcheck.rules.signatures import Kind, every
from tools.make_rules import FAMILIES

#: Lines of these kinds report that something failed; the others are worth knowing, or a fact about the job.
_FAILURES = (Kind.CAUSE, Kind.FAILURE, Kind.TIMEOUT, Kind.LOST, Kind.SIGNAL)

HEAD = """# Error messages

{.error-finder}
Paste what you see, or search with Ctrl-F: these are the exact texts, and `…` stands for what varies. In a terminal,
`distcheck explain "the text"` does the same, and `distcheck log train.log` reads the whole log and shows which of its
lines came first.

"""
LAST = """## Failures without a rule of their own

They report that something failed, and not why. [`distcheck log`](log.md) finds the line that does, from all ranks.

"""


def messages() -> dict[str, tuple[str, ...]]:
    """Return each text with the codes of its rules, the likeliest first; no code where only the whole log shows it."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for rule in rules.ALL:
        for message in MESSAGES.get(rule.code, ()):
            found[_without_ticks(message)][rule.code] = None
    for row in every():
        if row.codes or row.kind in _FAILURES:
            for example in row.examples:
                found[" ".join(example.split())].update(dict.fromkeys(row.codes))
    return {text: tuple(codes) for text, codes in found.items()}


def error_page() -> str:
    """The document, by the hundred of each text's first rule, then by text."""
    groups: dict[str, list[tuple[str, Sequence[str]]]] = defaultdict(list)
    for text, codes in messages().items():
        groups[codes[0][2] if codes else ""].append((text, codes))
    parts = [HEAD]
    for digit, title in FAMILIES.items():
        if groups[digit]:
            parts.append(f"## {title}\n\n{_entries(groups[digit])}\n")
    parts.append(LAST + _entries(groups[""]))
    return "\n".join(parts)


def _entries(found: list[tuple[str, Sequence[str]]]) -> str:
    lines = []
    for text, codes in sorted(found, key=lambda item: (item[0].lower().lstrip("[( "), item[0])):
        links = [f"[{code} {rules.find(code).name}](rules/{code}.md)" for code in codes]
        lines.append(f"- {code_span(text)}" + (f"\n  {', '.join(links)}" if links else ""))
    return "\n".join(lines) + "\n"


def code_span(text: str) -> str:
    """A text as inline code of Markdown, whatever it holds."""
    ticks = "`"
    while ticks in text:
        ticks += "`"
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _without_ticks(message: str) -> str:
    """A message whose page had to double the backticks, because it holds some."""
    return message[1:-1].strip() if message.startswith("`") and message.endswith("`") else message
