"""The parts of the text formats: the first line, findings, what was not checked, and the closing lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.core.model import Finding, NotChecked, Report, Severity, Where, size_text, to_plain

from . import Style, counts, escape, flow_of, inside, position, sentence, source_of, unseen
from .excerpt import excerpt


def wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    """Return a text in lines, escaped; words are not broken."""
    return textwrap.wrap(
        escape(text),
        max(width, 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def paint(text: str, code: str, style: Style) -> str:
    """Return a text in a color, if the style has colors."""
    return f"\x1b[{code}m{text}\x1b[0m" if style.color else text


COLORS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}
PLACES = {
    "launch-line": "in the launch line",
    "job-script": "in the job script",
    "each-task": "in each task",
    "this-shell": "in this shell",
    "host": "on this host",
    "code": "in the code",
}
BY = {"user": "", "admin": ", by an administrator", "site": ", by the site's administrators"}


def not_checked_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield what could not be checked, and why."""
    if report.not_checked:
        yield ""
        yield paint("not checked", "1", style)
        for item in _shown(report.not_checked, style):
            yield from wrapped(f"{item.what}: {item.why}", style.width, "  ", "      ")


def closing_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield facts and probes with ``-vv``, and the last lines."""
    if style.verbose > 1 and report.facts:
        yield ""
        yield from _facts(report.facts)
    if style.verbose > 1 and report.probes:
        yield ""
        yield from _probes(report)
    yield ""
    yield from (escape(str(line)) for line in report.subject.get("closing", ()))
    yield from last_lines(report, style)


def first_line(report: Report) -> str:
    """Return what was checked, in one line."""
    parts = [f"distcheck {report.command}"]
    if report.stage:
        parts.append(f"stage {report.stage}")
    parts.extend(str(value) for value in report.subject.get("line", ()))
    return " · ".join(parts)


def severity_text(finding: Finding, style: Style) -> str:
    """Return the severity of a finding in its color."""
    return paint(finding.severity.word, COLORS[finding.severity] + ";1", style)


def finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    """Yield a finding with its fix, and with its line of source if it has one."""
    yield from (_finding_in_code if in_code(finding) else _finding)(finding, style)


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    place = escape(place_text(finding))
    yield severity_text(finding, style) + f" {finding.code} {finding.name}" + (f"  ({place})" if place else "")
    yield from wrapped(finding.message, style.width, "  ", "  ")
    if seen := _evidence(finding.evidence):
        yield from wrapped(f"seen: {seen}", style.width, "  ", "        ")
    fix = finding.fix
    yield from wrapped(f"fix ({PLACES[fix.where]}{BY[fix.by]}): {fix.text}", style.width, "  ", "       ")
    yield from command_lines(fix.command, style, 6)
    if fix.risk:
        yield from wrapped(f"note: {fix.risk}", style.width, "  ", "        ")


def command_lines(command: str | None, style: Style, indent: int) -> Iterator[str]:
    """Yield a command to type, which is never wrapped."""
    for line in (command or "").splitlines():
        yield " " * indent + paint(escape(line), "1", style)


def in_code(finding: Finding) -> bool:
    """Return whether a finding is in a script or a launch file, and fixed there."""
    return finding.where.path is not None and (finding.fix.where == "code" or "source" in finding.evidence)


def _finding_in_code(finding: Finding, style: Style) -> Iterator[str]:
    """Yield the marked line of source, the fix, and the data-flow path if it has more than one step."""
    place = escape(position(finding.where) + inside(finding.where))
    yield f"{severity_text(finding, style)} {finding.code} {finding.name}  ({place})"
    yield from wrapped(finding.message, style.width, "  ", "  ")
    source = source_of(finding)
    if source is not None and finding.where.line is not None:
        yield from _source(finding, source, style)
    yield from wrapped(f"help: {finding.fix.text}", style.width, "  ", "        ")
    yield from command_lines(finding.fix.command, style, 8)
    if finding.fix.risk:
        yield from wrapped(f"note: {finding.fix.risk}", style.width, "  ", "        ")
    # one step repeats what the message states
    flow = flow_of(finding)
    for number, step in enumerate(flow if len(flow) > 1 else ()):
        yield from wrapped(step, style.width, "        " if number else "  flow: ", "          ")
    rest = {name: value for name, value in finding.evidence.items() if name not in ("source", "flow")}
    if style.verbose and (seen := _evidence(rest)):
        yield from wrapped(f"seen: {seen}", style.width, "  ", "        ")


def _source(finding: Finding, source: str, style: Style) -> Iterator[str]:
    """Yield a line of source with its number, and carets below the marked part."""
    number = str(finding.where.line)
    line = excerpt(source, finding.where, max(style.width - len(number) - 6, 20), "…" if style.unicode else "...")
    bar = paint(f"  {number} |", "2", style)
    yield f"{bar} {line.before}{line.marked}{line.behind}"
    if finding.where.column is not None:
        gutter = paint(f"  {' ' * len(number)} |", "2", style)
        marks = paint("^" * max(line.width, 1), COLORS[finding.severity] + ";1", style)
        yield f"{gutter} {' ' * line.indent}{marks}"


def info_lines(finding: Finding, style: Style) -> Iterator[str]:
    """Yield a line for an info finding, with its fix if ``-v`` is given."""
    host = f" ({finding.where.host})" if style.verbose and finding.where.host else ""
    first, *rest = wrapped(f"info {finding.code} {finding.message}{host}", style.width, "", "     ")
    yield paint("info", COLORS[Severity.INFO], style) + first.removeprefix("info")
    yield from rest
    if style.verbose:
        yield from wrapped(f"fix: {finding.fix.text}", style.width, "     ", "          ")
        yield from (" " * 9 + escape(line) for line in (finding.fix.command or "").splitlines())


def place_text(finding: Finding) -> str:
    """Return file and line, host, ranks, GPU and more; empty for a finding without a location."""
    where = finding.where
    offset = [] if where.offset is None else [f"byte {where.offset}"]
    return ", ".join([*([position(where)] if where.path is not None else []), *where_parts(where), *offset])


def where_parts(where: Where) -> Iterator[str]:
    """Yield host, ranks, GPU, variable and object, as far as the finding has them."""
    if where.host is not None:
        yield where.host
    if where.ranks is not None:
        yield f"ranks {shortened(where.ranks)}"
    elif where.rank is not None:
        yield f"rank {where.rank}"
    if where.gpu is not None:
        yield f"GPU {where.gpu}"
    yield from (part for part in (where.variable, where.object) if part is not None)


def shortened(ranges: str, longest: int = 60) -> str:
    """Return ``0-2,5,…``: long ranges are cut at a comma."""
    return ranges if len(ranges) <= longest else f"{ranges[:longest].rpartition(',')[0]},…"


def _evidence(evidence: Mapping[str, Any]) -> str:
    shown = []
    for name, value in evidence.items():
        # the states of ranks are at the end of a smoke test's text, and roles order the findings of a log
        if value is None or value is False or value in ("", [], {}) or name in ("states", "role"):
            continue
        shown.append(in_words(name, value))
    return "; ".join(shown)


#: The unit that the end of a field's name stands for.
_UNITS = {
    "_s": "s", "_ms": "ms", "_c": "°C", "_gbytes_per_s": "GB/s", "_gbit_per_s": "Gbit/s", "_mbit_per_s": "Mbit/s",
}  # fmt: skip


def in_words(name: str, value: Any) -> str:
    """Return a field and its value in words: ``free_bytes`` 67108864 is ``free 64 MiB``."""
    if value is True:
        return name.replace("_", " ")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name.endswith("_bytes"):
            return f"{name.removesuffix('_bytes').replace('_', ' ')} {size_text(value)}"
        for end, unit in sorted(_UNITS.items(), key=lambda item: -len(item[0])):
            if name.endswith(end) and not name.isupper():
                return f"{name.removesuffix(end).replace('_', ' ')} {value:g} {unit}"
    return f"{name if name.isupper() else name.replace('_', ' ')} {brief(value)}"


def _pair(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{name.removesuffix('_bytes')}={size_text(value)}"
    return name if value is True else f"{name}={brief(value)}"


def brief(value: Any) -> str:
    """Return a plain value in one line."""
    if isinstance(value, Mapping):
        # unknown and false values are only in the JSON; a zero is a value
        known = ((key, part) for key, part in value.items() if part is not None and part is not False)
        return ", ".join(_pair(key, part) for key, part in known)
    if isinstance(value, (list, tuple)):
        return ", ".join(brief(part) for part in value)
    return escape(str(value))


def _shown(items: tuple[NotChecked, ...], style: Style) -> Iterator[NotChecked]:
    for item in items:
        codes = item.what.split(", ")
        if style.verbose or len(codes) <= 6:
            yield item
        else:
            yield item._replace(what=f"{', '.join(codes[:5])} and {len(codes) - 5} more")


def _sentence(report: Report, style: Style) -> list[str]:
    """Return the result of a smoke test in one line, or with backend and device on a second line if it is long."""
    text = sentence(report)
    lines = wrapped(text, style.width, "", "")
    head, end, tail = text.rpartition("; ")
    if len(lines) > 1 and end:
        lines = [line for part in (f"{head};", tail) for line in wrapped(part, style.width, "", "")]
    return [paint(line, "1", style) for line in lines]


def counts_line(report: Report, style: Style) -> str:
    """Return the number of findings of each severity, of rules that were not checked, and the seconds."""
    worst = report.worst
    color = COLORS[worst] if worst is not None and worst > Severity.INFO else "32"
    return paint(f"{counts(report)}, {unseen(report)} not checked · {report.elapsed_s:.2f} s", color, style)


def last_lines(report: Report, style: Style) -> list[str]:
    """Return the counts and the sentence of a smoke test, which is the last line of its report."""
    parts = (_sentence(report, style), [counts_line(report, style)])
    return [line for part in (parts[::-1] if report.command == "collective" else parts) for line in part]


#: Longest value that the text shows of one fact, in characters; JSON has all of it.
_LONGEST_CELL = 60


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    from tabulate import tabulate

    for name, value in facts.items():
        plain = to_plain(value)
        rows = [(key, _cell(part)) for key, part in plain.items() if part not in (None, [], {}, "")]
        yield name if rows else f"{name}: nothing to show"
        if rows:
            yield textwrap.indent(tabulate(rows, tablefmt="plain", disable_numparse=True), "  ")


def _cell(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "\n".join(
            cut(brief({key: part for key, part in row.items() if part not in (None, [], {}, "")}), _LONGEST_CELL)
            for row in value
        )
    return cut(brief(value), _LONGEST_CELL)


def cut(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _probes(report: Report) -> Iterator[str]:
    from tabulate import tabulate

    rows = [(probe.name, probe.status, f"{probe.elapsed_s * 1000:.2f} ms") for probe in report.probes]
    yield "probes and readers"
    yield textwrap.indent(tabulate(rows, tablefmt="plain"), "  ")
