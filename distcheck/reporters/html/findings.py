"""The findings of a page, by severity: location, message, line of source, data-flow path, values, and fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.core.model import Finding, Fix, Report, Severity, grouped_pairs, size_text, to_plain
from distcheck.reporters import flow_of, log_summary, rank_grid, source_of
from distcheck.reporters.excerpt import excerpt
from distcheck.reporters.text_parts import BY, PLACES, brief, in_code, place_text

from .header import SECTIONS
from .parts import (
    LONGEST,
    badge,
    code_link,
    command,
    cut,
    definitions,
    folded,
    marked_table,
    prose,
    rank_table,
    section,
    text,
)

#: From this many findings on, a table of the rules stands in front of them.
_MANY = 12
#: Columns of a line of source: what is 1,040 pixels wide on the screen, and paper 182 mm wide, have room for.
_COLUMNS = 96
_TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Info"}
#: Evidence that is shown in its own way, or belongs to another part of the report.
_APART = ("source", "flow", "states", "role")


def findings(report: Report) -> Iterator[str]:
    """Yield all findings, worst first, without the root cause of a log, which has its own section."""
    lead = log_summary.lead_of(report) if report.story else None
    numbered = [
        (number, _of_all(finding, report)) for number, finding in enumerate(report.findings, 1) if finding is not lead
    ]
    if len(numbered) >= _MANY:
        yield from _overview(numbered)
    for severity, identifier in SECTIONS.items():
        group = [(number, finding) for number, finding in numbered if finding.severity is severity]
        if not group:
            continue
        title = f"Other {_TITLES[severity].lower()}" if lead is not None else _TITLES[severity]
        cards = (card(finding, f"finding-{number}", report) for number, finding in group)
        yield from section(identifier, title, cards, count=len(group))


def _of_all(finding: Finding, report: Report) -> Finding:
    """Return a finding; if all hosts of a merged report have it, it shows "all hosts"."""
    where = finding.where
    if "merged_hosts" not in report.subject or where.host is None or where.host != report.subject.get("host"):
        return finding
    return finding._replace(where=where._replace(host="all hosts"))


def _overview(numbered: Sequence[tuple[int, Finding]]) -> Iterator[str]:
    """How often which rule is broken."""
    groups = grouped_pairs(((finding.severity, finding.code, finding.name), number) for number, finding in numbered)
    table = marked_table(
        "How often each was broken",
        ("rule", "severity", "findings"),
        [
            (
                f'<a href="#finding-{numbers[0]}">{text(code)}</a> <span class="name">{text(name)}</span>',
                badge(severity.word, severity.word),
                f"{len(numbers):,}",
            )
            for (severity, code, name), numbers in sorted(groups.items(), key=lambda item: -item[0][0])
        ],
        flush_left=(0, 1),
    )
    yield from section("rules", "Rules", table)


def card(finding: Finding, identifier: str, report: Report) -> str:
    """Return one finding; an info finding is folded."""
    word = finding.severity.word
    title = _title(finding)
    grid = rank_table(rank_grid.of_finding(finding, report))
    body = "".join([*_source(finding), *_flow(finding), *grid, *_seen_and_fix(finding)])
    if finding.severity is Severity.INFO:
        summary = f'<h3 class="title">{title}</h3><span class="message">{prose(finding.message)}</span>'
        return f'<details class="finding info" id="{identifier}"><summary>{summary}</summary>{body}</details>'
    return (
        f'<article class="finding {word}" id="{identifier}"><h3 class="title">{title}</h3>'
        f'<p class="message">{prose(finding.message)}</p>{body}</article>'
    )


def _title(finding: Finding) -> str:
    word, place = finding.severity.word, place_text(finding)
    parts = [badge(word, word), code_link(finding.code), f'<span class="name">{text(finding.name)}</span>']
    if place:
        parts.append(f'<span class="place">{text(place)}</span>')
    return " ".join(parts)


def _source(finding: Finding) -> Iterator[str]:
    """The line with what is meant marked, and carets below it, for who sees no colours."""
    source, where = source_of(finding), finding.where
    if source is None or where.line is None:
        return
    number = str(where.line)
    line = excerpt(source, where, _COLUMNS - len(number))
    marked = text(line.marked)
    # how wide a browser draws a wide letter depends on its fonts: carets would stand elsewhere
    even = (line.indent, line.width) == (len(line.before), len(line.marked))
    if marked and where.column is not None:
        marked = f"<mark>{marked}</mark>" if even else f'<mark class="underlined">{marked}</mark>'
    rows = [f'<span class="number">{number} | </span>{text(line.before)}{marked}{text(line.behind)}']
    if even and where.column is not None:
        gutter = f'<span class="number">{" " * len(number)} | </span>'
        rows.append(f'{gutter}<span class="carets">{" " * line.indent}{"^" * max(line.width, 1)}</span>')
    body = "\n".join(rows)
    yield f'<pre class="source" role="region" tabindex="0" aria-label="line {number}"><code>{body}</code></pre>'


def _flow(finding: Finding) -> Iterator[str]:
    steps = flow_of(finding)
    if steps:
        yield '<div class="flow"><p class="label">What leads there</p><ol>'
        yield from (f"<li>{prose(step)}</li>" for step in steps)
        yield "</ol></div>"


def _seen_and_fix(finding: Finding) -> Iterator[str]:
    """Yield the observed values and the fix; values next to a line of source are folded."""
    rows = definitions(values(finding.evidence))
    if rows and not in_code(finding):
        yield rows
    yield from fix(finding.fix, finding)
    if rows and in_code(finding):
        yield folded("Values seen", rows)


def values(evidence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Evidence as names and values, both markup."""
    for name, value in to_plain(evidence).items():
        if value in (None, "", [], {}) or name in _APART:
            continue
        label = name if name.isupper() else name.replace("_", " ")
        if isinstance(value, list) and isinstance(value[0], dict):
            shown = "<br>".join(text(cut(brief(part))) for part in value)
        elif name.endswith("_bytes") and isinstance(value, int) and value >= 1024:
            label, shown = label.removesuffix(" bytes"), f"{size_text(value)} ({value:,} bytes)"
        else:
            shown = text(cut(brief(value)))
        yield text(label), shown


def fix(remedy: Fix, finding: Finding | None = None) -> Iterator[str]:
    """What to do, where, and by whom.

    :param finding: what is fixed, where its line is to be shown as it will be
    """
    yield '<div class="fix">'
    yield f'<p><strong>Fix</strong> <span class="by">({PLACES[remedy.where]}{BY[remedy.by]})</span>'
    yield f" {prose(remedy.text)}</p>"
    if remedy.command:
        yield command(remedy.command)
    if finding is not None:
        yield from _edit(finding)
    if remedy.risk:
        yield f'<p class="risk"><strong>Note</strong> {prose(remedy.risk)}</p>'
    yield "</div>"


def _edit(finding: Finding) -> Iterator[str]:
    """The line as it is and as ``distcheck lint --fix`` makes it, where all edits are in it and it can be read."""
    old, where, edits = source_of(finding), finding.where, finding.fix.edits
    if old is None or not edits or where.cell is not None or len(old) > LONGEST:
        return
    if any((edit.path, edit.line, edit.end_line) != (where.path, where.line, where.line) for edit in edits):
        return
    new = old
    for edit in sorted(edits, key=lambda item: item.column, reverse=True):
        new = new[: edit.column - 1] + edit.text + new[edit.end_column - 1 :]
    option = "--fix" if finding.fix.safe else "--fix --unsafe-fixes"
    yield f'<p class="label">With <code>distcheck lint {option}</code></p>'
    yield '<pre class="change" role="region" tabindex="0" aria-label="the change"><code>'
    yield f"<del>- {_lines(old)}</del>\n<ins>+ {_lines(new)}</ins></code></pre>"


def _lines(value: str) -> str:
    return "\n  ".join(text(line.replace("\t", "    ")) for line in value.rstrip().splitlines())


def details(finding: Finding) -> Iterator[str]:
    """Yield the line, data-flow path and values of a finding, which the root-cause summary lacks."""
    yield from _source(finding)
    yield from _flow(finding)
    rows = definitions(values(finding.evidence))
    if rows:
        yield folded("Values seen", rows)
