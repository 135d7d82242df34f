"""Markdown for the summary of a job: the verdict, a table of the findings, and folded below it what to do about each.

Made for ``$GITHUB_STEP_SUMMARY``, and fit for a comment or an issue. It is short on purpose: what does not fit into the
limits is counted, and the count is shown. No text of a finding is taken for markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck.core.model import Finding, Report, Severity, page_url
from distcheck.core.patterns import lazy

from . import Style, counts, escape, flow_of, inside, position, sentence, source_of, unseen
from .locations import UNDECIDED, has_file, shown, words
from .plain import visible
from .text_parts import BY, PLACES, cut, first_line

#: Rows of the table, and fixes below it. GitHub refuses a summary of more than 1 MiB, and more would not be read.
ROWS = 100
#: Longest text of one finding, in characters: the source of a line, a command, a message.
_LONGEST = 1500
#: Codes in one line of what was not checked.
_CODES = 8
_SIGNS = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.INFO: "ℹ️"}
#: What has a meaning in CommonMark, GitHub's tables and formulas, wherever it stands.
_MARKUP = lazy(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
#: Where a line would begin a heading or a list: before the sign, or between a number and its dot.
_AT_START = lazy(r"^\s*(?:\d+(?=[.)])|(?=[#+=-]))")
#: What a message marks as code.
_CODE_SPAN = lazy(r"(?<!`)`([^`\s](?:[^`|]*[^`|\s])?)`(?!`)")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
#: Columns of a story or of measurements, which stand in a block of text.
_WIDTH = 100


def render(report: Report, style: Style = Style()) -> str:
    """A heading, and what belongs below it."""
    return "\n".join(_lines(report, style)).rstrip("\n") + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    found = shown(report)
    yield f"## {_sign(found, report, style)}distcheck {_plain(report.command)}: {_verdict(found, report)}"
    yield ""
    # the first words stand in the heading
    if subject := first_line(report).partition(" · ")[2]:
        yield _plain(subject)
        yield ""
    if text := sentence(report):
        yield f"**{_plain(text)}**"
        yield ""
    if report.story:
        from . import log_summary

        yield from _block("\n".join(log_summary.lines_of(report, Style(width=_WIDTH))), "text")
        yield ""
    if found and not style.quiet:
        yield from _table(found, style)
        yield ""
        yield from _fixes(found)
    if report.measurements and not style.quiet:
        from . import measurements

        text = "\n".join(measurements.lines(report, Style(width=_WIDTH))).strip("\n")
        yield from _folded("What was measured", _block(text, "text"))
    if report.subject.get("jobs") and not style.quiet:
        from . import ranks

        text = "\n".join(ranks.lines(report, Style(width=_WIDTH))).strip("\n")
        yield from _folded("State of the ranks", _block(text, "text"))
    if report.not_checked and not style.quiet:
        yield from _folded(f"Not checked: {unseen(report)}", _not_checked(report))
    if closing := "\n".join(map(str, report.subject.get("closing", ()))).strip("\n"):
        yield from _block(closing, "text")


def _verdict(found: Sequence[Finding], report: Report) -> str:
    """The counts, and what is not known."""
    text = counts(report._replace(findings=tuple(found)))
    number = unseen(report)
    return f"{text}, {number} not checked" if number else text


def _sign(found: Sequence[Finding], report: Report, style: Style) -> str:
    """Return the sign before the heading; none for what is fine where nothing could be checked."""
    if not style.unicode:
        return ""
    worst = max((finding.severity for finding in found), default=Severity.INFO)
    if worst > Severity.INFO:
        return f"{_SIGNS[worst]} "
    return "" if report.not_checked and not report.checked else "✅ "


def _table(found: Sequence[Finding], style: Style) -> Iterator[str]:
    yield "| | rule | where | what |"
    yield "| --- | --- | --- | --- |"
    for finding in found[:ROWS]:
        sign = f"{_SIGNS[finding.severity]} " if style.unicode else ""
        # in a table a bar ends the cell even in code
        place = _code(text).replace("|", "\\|") if (text := _place(finding)) else ""
        yield f"| {sign}{finding.severity.word} | {_rule(finding)} | {place} | {_plain(finding.message)} |"
    if len(found) > ROWS:
        yield f"| | | | and {len(found) - ROWS:,} more: `--output-format json` has all of them |"


def _rule(finding: Finding) -> str:
    name = f"{_plain(finding.code)} {_plain(finding.name)}"
    return name if finding.code == UNDECIDED else f"[{name}]({page_url(finding.code)})"


def _place(finding: Finding) -> str:
    """File and line, or what else it is about."""
    where = finding.where
    if not has_file(where):
        return words(where)
    text = position(where) + inside(where)
    # ranks and hosts of a log
    parts = [where.host, None if where.rank is None else f"rank {where.rank}"]
    parts += [None if where.ranks is None else f"ranks {where.ranks}"]
    return escape(", ".join([text, *(part for part in parts if part is not None)]))


def _fixes(found: Sequence[Finding]) -> Iterator[str]:
    """What to do about each, folded."""
    for finding in found[:ROWS]:
        if finding.severity is Severity.INFO and len(found) > 1:
            continue
        place = f" ({_html(_place(finding))})" if _place(finding) else ""
        yield from _folded(f"{_html(finding.code)} {_html(finding.name)}{place}", _fix(finding))
    quiet = [finding for finding in found[:ROWS] if finding.severity is Severity.INFO]
    if quiet and len(found) > 1:
        yield from _folded(f"Worth knowing: {len(quiet)}", (line for finding in quiet for line in _item(finding)))


def _fix(finding: Finding) -> Iterator[str]:
    fix = finding.fix
    source = (source_of(finding) or "").strip()
    if source:
        yield from _block(cut(source, _LONGEST), "text")
        yield ""
    yield f"**Fix** ({PLACES[fix.where]}{BY[fix.by]}): {_plain(fix.text)}"
    if fix.command:
        yield ""
        yield from _block(fix.command, "bash")
    if fix.risk:
        yield ""
        yield f"**Note**: {_plain(fix.risk)}"
    flow = flow_of(finding)
    if flow:
        yield ""
        yield "How it comes to that:"
        yield ""
        yield from (f"1. {_plain(step)}" for step in flow)


def _item(finding: Finding) -> Iterator[str]:
    """What is only worth knowing, in a line."""
    command = f" {_code(finding.fix.command)}" if finding.fix.command else ""
    yield f"- {_rule(finding)}: {_plain(finding.fix.text)}{command}"


def _not_checked(report: Report) -> Iterator[str]:
    for item in report.not_checked[:ROWS]:
        parts = item.what.split(", ")
        what = ", ".join(parts[:_CODES]) + (f" and {len(parts) - _CODES} more" if len(parts) > _CODES else "")
        yield f"- {_plain(what)}: {_plain(item.why)}"
    if len(report.not_checked) > ROWS:
        yield f"- and {len(report.not_checked) - ROWS:,} more reasons"


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    """A part that is closed at first; the blank lines let what is inside be Markdown."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
    yield ""


def _block(text: str, language: str) -> Iterator[str]:
    """A block of text as it is; its fence is longer than any in it."""
    shown_text = visible(text)
    fence = "`" * max(3, _longest_run(shown_text) + 1)
    yield f"{fence}{language}"
    yield from shown_text.split("\n")
    yield fence


def _code(text: str) -> str:
    """A text as code in a line."""
    line = escape(text)
    fence = "`" * (_longest_run(line) + 1)
    # a blank keeps a backtick at an end apart from the fence, and is not shown
    pad = " " if line.startswith("`") or line.endswith("`") or not line.strip() else ""
    return fence + pad + line + pad + fence


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _plain(text: str) -> str:
    """A text in one line, none of it taken for markup but what our own texts put between backticks: that is code."""
    pieces = _CODE_SPAN.split(escape(cut(" ".join(text.split("\n")), _LONGEST)))
    # every second piece stood between backticks
    line = "".join(_code(piece).replace("|", "\\|") if odd % 2 else _quoted(piece) for odd, piece in enumerate(pieces))
    return _AT_START.sub(lambda found: found[0] + "\\", line)


def _quoted(text: str) -> str:
    return _MARKUP.sub(lambda found: "\\" + found[0], text.translate(_ENTITIES))


def _html(text: str) -> str:
    """A text in a line of HTML."""
    return escape(text).translate(_ENTITIES)
