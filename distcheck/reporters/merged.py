"""The text of a merged report: as many whole sentences as fit on a screen, for any number of hosts.

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
    """Return the findings within a number of lines, worst first, each with as many whole sentences as fit."""
    sizes = [[_shown(finding, level, style, width, everyone) for level in range(4)] for finding in findings]
    kept = len(findings)
    while kept and sum(len(size[0]) for size in sizes[:kept]) + (kept < len(findings)) > room:
        kept -= 1
    levels = [0] * kept
    left = room - sum(len(size[0]) for size in sizes[:kept]) - (kept < len(findings))
    for level in (1, 2, 3):
        for number in range(kept):
            more = len(sizes[number][level]) - len(sizes[number][levels[number]])
            if more <= left and levels[number] == level - 1:
                left -= more
                levels[number] = level
    lines = [line for number in range(kept) for line in sizes[number][levels[number]]]
    if kept < len(findings):
        lines.append(_rest(findings[kept:]))
    return lines


def _shown(finding: Finding, level: int, style: Style, width: int, everyone: str) -> list[str]:
    """Return the name of a finding (0), with its message (1), its fix (2), and its command (3); no sentence is cut."""
    place = _place(finding, everyone)
    head = f"{finding.severity.word} {finding.code} {finding.name}  ({place})"
    message = wrapped(finding.message, width, "  ", "  ") if level else []
    short = f"{finding.severity.word} {finding.code} {place}: {escape(finding.message)}"
    if level in (1, 2) and len(short) <= width:
        head, message = short, []
    return [
        head.replace(finding.severity.word, severity_text(finding, style), 1),
        *message,
        *(wrapped(f"fix: {finding.fix.text}", width, "  ", "       ") if level > 1 else ()),
        *(command_lines(finding.fix.command, style, 6) if level > 2 else ()),
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
    """Return info findings as codes. Those of some hosts have their own sentences if there is room."""
    if not findings:
        return []
    apart = [finding for finding in findings if finding.where.host != everyone]
    lines = [
        line
        for item in apart
        for line in wrapped(f"info {item.code} {_place(item, everyone)}: {item.message}", width, "", "  ")
    ]
    if len(lines) + (len(apart) < len(findings)) > room:
        apart, lines = [], []
    codes = dict.fromkeys(finding.code for finding in findings if finding not in apart)
    return [*lines, *(wrapped(f"info: {', '.join(codes)} (-v shows them)", width, "", "  ") if codes else ())]


def _rest(findings: Sequence[Finding]) -> str:
    tally = Counter((finding.severity, finding.code) for finding in findings)
    named = [f"{severity.word} {code}" for severity, code in list(tally)[:3]]
    more = "" if len(tally) <= 3 else " …"
    return f"and {len(findings)} more: {', '.join(named)}{more}; -v shows all"


def _not_checked(items: Sequence[NotChecked], room: int, width: int) -> list[str]:
    """Return what was not checked, as far as there is room; the last line has its number."""
    if not items or room < 2:
        return []
    lines = ["not checked"]
    for number, item in enumerate(items):
        more = wrapped(f"{_codes(item.what)}: {item.why}", width, "  ", "      ")
        rest = len(items) - number
        if len(lines) + len(more) + (rest > 1) > room:
            return [*lines, f"  {rest} {'more ' * bool(number)}reason{'s' * (rest > 1)}; -v shows all"]
        lines += more
    return lines


def _codes(what: str) -> str:
    codes = what.split(", ")
    return what if len(codes) <= 3 else f"{', '.join(codes[:2])} and {len(codes) - 2} more"
