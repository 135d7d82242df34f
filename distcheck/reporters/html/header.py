"""The top of the page: what was checked, the headline, and the number of findings."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck.core.model import Report, Severity
from distcheck.reporters import log_summary, measurements, pickle_verdicts, sentence, unseen
from distcheck.reporters.text_parts import first_line

from .parts import count_text, text

#: Where the findings of a severity stand on the page.
SECTIONS = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.INFO: "info"}


def headline(report: Report) -> str:
    """The page in one line: the run's own sentence where it has one, else how much was found."""
    if lines := sentence(report) or measurements.failure_text(report.measurements):
        return lines
    if report.story:
        return log_summary.nothing(report.story) if report.story["outcome"] == "clean" else str(report.story["why"])
    if "verdicts" in report.subject:
        return pickle_verdicts.in_short(report.subject["verdicts"])
    if not report.findings:
        return "No findings in what was checked"
    counts = [count_text(report.count(severity), severity.word) for severity in SECTIONS if report.count(severity)]
    if report.worst is Severity.INFO:
        counts.insert(0, "no errors, no warnings")
    return ", ".join(counts)


def top(report: Report) -> Iterator[str]:
    """The head of the page."""
    name, *about = first_line(report).split(" · ")
    yield f'<header class="top {_mood(report)}"><div class="inside">'
    yield f'<p class="about">{"&nbsp;· ".join([f"<strong>{text(name)}</strong>", *map(text, about)])}</p>'
    yield f"<h1>{text(headline(report))}</h1>"
    yield f'<nav aria-label="Summary"><ul class="tally">{"".join(_tally(report))}</ul></nav></div></header>'


def notes(report: Report) -> Iterator[str]:
    """Yield the closing lines of the text: hosts that sent nothing, hosts to exclude."""
    lines = [str(line) for line in report.subject.get("closing", ()) if line]
    if lines and "object" not in report.subject:
        yield f'<div class="note">{"".join(f"<p>{text(line)}</p>" for line in lines)}</div>'


def _mood(report: Report) -> str:
    """The colour of the page's edge: of the worst that was found; ``good`` only where nothing was left unseen."""
    if report.worst in (Severity.ERROR, Severity.WARNING):
        return report.worst.word
    if report.story and report.story["outcome"] != "clean":
        return "warning"
    unsafe = any(file["verdict"] != "safe" for file in report.subject.get("verdicts", ()))
    return "plain" if unsafe or report.not_checked or report.out_of_time else "good"


def _tally(report: Report) -> Iterator[str]:
    lead = log_summary.lead_of(report) if report.story else None
    for severity, section in SECTIONS.items():
        number = report.count(severity)
        # the root cause of a log is only in the summary
        alone = number == 1 and lead is not None and lead.severity is severity
        yield _tile(number, severity.word, severity.word, "story" if alone else section)
    yield _tile(unseen(report), "not checked", "unseen", "not-checked")
    yield f'<li><span class="none">in <b>{report.elapsed_s:.2f} s</b></span></li>'


def _tile(number: int, noun: str, kind: str, section: str) -> str:
    label = count_text(number, noun).removeprefix(f"{number:,} ") if noun != "not checked" else noun
    inside = f"<b>{number:,}</b> {label}"
    if not number:
        return f'<li><span class="none">{inside}</span></li>'
    return f'<li><a class="{kind}" href="#{section}">{inside}</a></li>'
