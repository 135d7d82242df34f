"""The text of a merged report: as much of each finding as fits on a screen, for any number of hosts.

It names what it drops, and ``-v`` prints everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from distcheck.core.model import Finding, NotChecked, Report, Severity

from . import Style, escape
from .text_parts import command_lines, counts_line, first_line, severity_text, where_parts, wrapped

#: Lines of the whole text: a terminal of 24 lines shows them below the command.
MOST_LINES = 20
#: Longest list of hosts of a finding, in characters; the whole list is in the JSON and with -v.
_LONGEST_HOSTS = 44


def render(report: Report, style: Style = Style()) -> str:
    """Return the report as text of at most MOST_LINES lines, unless the required parts need more."""
    width = max(style.width, 40)
    everyone = str(report.subject.get("host"))
    head = wrapped(first_line(report), width, "", "  ")
    closing = [escape(str(line)) for line in report.subject.get("closing", ())]
    loud = [finding for finding in report.findings if finding.severity > Severity.INFO]
    quiet = [finding for finding in report.findings if finding.severity is Severity.INFO]
    # a blank line before the last lines, and the last line itself
    room = MOST_LINES - len(head) - len(closing) - 2
    body = _findings(loud, room - bool(quiet) - bool(loud), style, width, everyone)
    body += _info(quiet, room - bool(loud) - len(body), width, everyone)
    if loud:
        body.insert(0, "")
    # hosts that sent nothing are in the last lines
    unchecked = [item for item in report.not_checked if item.what != report.subject.get("silent")]
    body += _not_checked(unchecked, room - len(body), width)
    return "\n".join([*head, *body, "", *closing, counts_line(report, style)]) + "\n"


def _findings(findings: Sequence[Finding], room: int, style: Style, width: int, everyone: str) -> list[str]:
    """Return the findings within a number of lines, worst first, each as long as there is room."""
    sizes = [[_shown(finding, level, style, width, everyone) for level in range(4)] for finding in findings]
    kept = len(findings)
    if kept > room:
        kept = max(room - 1, 0)
    levels = [0] * kept
    left = room - kept - (kept < len(findings))
    for level in (1, 2, 3):
        for number in range(kept):
            more = len(sizes[number][level]) - len(sizes[number][levels[number]])
            if more <= left:
                left -= more
                levels[number] = level
    lines = [line for number in range(kept) for line in sizes[number][levels[number]]]
    if kept < len(findings):
        lines.append(_rest(findings[kept:]))
    return lines


def _shown(finding: Finding, level: int, style: Style, width: int, everyone: str) -> list[str]:
    """Return a finding in one line (0), with one for its fix (1), up to two each for both (2), or complete (3)."""
    word = severity_text(finding, style)
    place = _place(finding, everyone)
    if level < 2:
        plain = f"{finding.severity.word} {finding.code} {place}: {finding.message}"
        line = _cut(plain, width, "").replace(finding.severity.word, word, 1)
        return [line] if level == 0 else [line, _cut(f"  fix: {finding.fix.text}", width, "")]
    most = 2 if level == 2 else None
    message = _most(finding.message, most, width, "  ", "  ")
    fix = _most(f"fix: {finding.fix.text}", most, width, "  ", "       ")
    return [
        f"{word} {finding.code} {finding.name}  ({place})",
        *message,
        *fix,
        *(command_lines(finding.fix.command, style, 6) if level == 3 else ()),
    ]


def _place(finding: Finding, everyone: str) -> str:
    where = finding.where
    if where.host is not None:
        where = where._replace(host=_hosts(finding, everyone))
    parts = [*([where.path] if where.path is not None else []), *where_parts(where)]
    return escape(", ".join(parts)) or "the job"


def _hosts(finding: Finding, everyone: str) -> str:
    text = finding.where.host or ""
    if text == everyone:
        return "all hosts"
    if len(text) <= _LONGEST_HOSTS:
        return text
    count = finding.evidence.get("hosts")
    kept = text[:_LONGEST_HOSTS].rpartition(",")[0] or text[:_LONGEST_HOSTS]
    return f"{kept},… {count:,} hosts" if isinstance(count, int) else f"{kept},…"


def _info(findings: Sequence[Finding], room: int, width: int, everyone: str) -> list[str]:
    """Return info findings in one line. Those of some hosts have their own lines if there is room."""
    if not findings:
        return []
    apart = [finding for finding in findings if finding.where.host != everyone]
    if len(apart) + (len(apart) < len(findings)) > room:
        apart = []
    lines = [_cut(f"info {item.code} {_place(item, everyone)}: {item.message}", width, "") for item in apart]
    codes = dict.fromkeys(finding.code for finding in findings if finding not in apart)
    return [*lines, *([_cut(f"info: {', '.join(codes)} (-v shows them)", width, "")] if codes else [])]


def _rest(findings: Sequence[Finding]) -> str:
    tally = Counter((finding.severity, finding.code) for finding in findings)
    named = [f"{severity.word} {code}" for severity, code in list(tally)[:3]]
    more = "" if len(tally) <= 3 else " …"
    return f"and {len(findings)} more: {', '.join(named)}{more}; -v shows all"


def _not_checked(items: Sequence[NotChecked], room: int, width: int) -> list[str]:
    """Return what was not checked, as far as there is room; the last line has its number."""
    if not items or room < 2:
        return []
    kept = list(items) if len(items) <= room - 1 else list(items[: room - 2])
    lines = ["not checked", *(_cut(f"  {_codes(item.what)}: {item.why}", width, "    ") for item in kept)]
    if len(kept) < len(items):
        lines.append(f"  and for {len(items) - len(kept)} more reasons; -v shows all")
    return lines


def _codes(what: str) -> str:
    codes = what.split(", ")
    return what if len(codes) <= 3 else f"{', '.join(codes[:2])} and {len(codes) - 2} more"


def _most(text: str, lines: int | None, width: int, first: str, rest: str) -> list[str]:
    """Return wrapped text of at most so many lines, with a mark if it is cut."""
    every = wrapped(text, width, first, rest)
    if lines is None or len(every) <= lines:
        return every
    kept = every[:lines]
    room = width - 2
    words = kept[-1]
    while len(words) > room and " " in words.strip():
        words = words.rpartition(" ")[0]
    kept[-1] = words.rstrip(" ,;:(") + " …"
    return kept


def _cut(text: str, width: int, rest: str) -> str:
    return _most(text, 1, width, "", rest)[0]
