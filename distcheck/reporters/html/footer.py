"""What stands at the end of a page: code to paste, what was not checked, facts, probes, and who made the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distcheck.core.model import NotChecked, Report, merge_not_checked, to_plain
from distcheck.core.patterns import lazy
from distcheck.reporters import measurements, unseen
from distcheck.reporters.text_parts import brief

from .parts import code_link, command, cut, definitions, folded, lines, marked_table, section, table, text

#: Up to this many reasons are shown; more are folded.
_REASONS = 12
_CODE = lazy(r"[A-Z]+[0-9]+")


def to_paste(report: Report) -> Iterator[str]:
    """Yield the methods that make an object picklable, if they were requested."""
    closing = "\n".join(str(line) for line in report.subject.get("closing", ())).strip("\n")
    if closing and "object" in report.subject:
        yield from section("to-paste", "To paste", [command(closing)])


def not_checked(report: Report) -> Iterator[str]:
    """Yield what could not be checked, by reason."""
    if not report.not_checked:
        return
    items = merge_not_checked(report.not_checked)
    body = "".join(
        marked_table("Not checked does not mean passed", ("why", "what"), map(_row, items), flush_left=(0, 1))
    )
    shown = body if len(items) <= _REASONS else folded(f"{len(items):,} reasons", body)
    yield from section("not-checked", "Not checked", [shown], count=unseen(report))


def _row(item: NotChecked) -> tuple[str, str]:
    what = (code_link(part) if _CODE.fullmatch(part) else text(part) for part in item.what.split(", "))
    return text(item.why), ", ".join(what)


def facts(report: Report) -> Iterator[str]:
    """What was read, each fact folded."""
    if not report.facts:
        return
    yield from section("facts", "Facts", (_fact(name, to_plain(value)) for name, value in report.facts.items()))


def _fact(name: str, plain: object) -> str:
    members = plain.items() if isinstance(plain, Mapping) else [("", plain)]
    rows = definitions((text(key), text(cut(brief(part)))) for key, part in members if part not in (None, "", [], {}))
    return folded(text(name), rows or '<p class="soft">nothing to show</p>')


def probes(report: Report) -> Iterator[str]:
    """What ran and how long it took; tracebacks of what failed."""
    if not report.probes:
        return
    rows = [(probe.name, probe.status, measurements.time_text(probe.elapsed_s)) for probe in report.probes]
    body = "".join(table("What ran, and how long it took", ("name", "status", "time"), rows, flush_left=(0, 1)))
    for probe in report.probes:
        if probe.traceback:
            body += f"<p>{text(probe.name)}</p><pre>{lines(probe.traceback)}</pre>"
    yield from section("probes", "Probes and readers", [folded(f"{len(report.probes):,} of them", body)])


def footer(report: Report) -> Iterator[str]:
    """Who made the page."""
    from distcheck._version import __version__

    yield f"<footer>distcheck {text(__version__)}, {text(report.command)}</footer>"
