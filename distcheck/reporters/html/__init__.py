"""A self-contained HTML page: findings, root cause, measurements, and what was not checked.

It needs no network, no second file and no script, so that it can be mailed and archived. A content security policy
enforces that. It follows the reader's color scheme and can be printed. All values are escaped. It judges nothing:
verdicts are findings.

Each topic has its own module. Plain functions yield the markup: Jinja2 would be a new dependency for users without
torch, and its import takes longer than that of this whole package.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck.core.model import Report
from distcheck.reporters import Style

from . import findings, footer, header
from .parts import text
from .style import SCRIPT, SCRIPT_HASH, STYLE

_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{SCRIPT_HASH}'"


def render(report: Report, style: Style = Style()) -> str:
    """Return the report as one HTML page, with folded facts and probes if ``-vv`` is given."""
    return "\n".join([*_head(report), *_body(report, style)]) + "\n"


def _head(report: Report) -> Iterator[str]:
    title = f"distcheck {report.command}: {header.headline(report)}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{text(title)}</title>"
    yield f"<style>{STYLE}</style></head>"


def _body(report: Report, style: Style) -> Iterator[str]:
    yield "<body>"
    yield from header.top(report)
    yield "<main>"
    yield from header.notes(report)
    if report.story:
        from . import log_summary

        yield from log_summary.story(report)
    if "verdicts" in report.subject:
        from . import pickle_verdicts

        yield from pickle_verdicts.verdicts(report)
    yield from findings.findings(report)
    if "jobs" in report.subject:
        from . import jobs

        yield from jobs.jobs(report)
    if report.measurements:
        from . import measurements

        yield from measurements.measurements(report)
    yield from footer.to_paste(report)
    yield from footer.not_checked(report)
    if style.verbose > 1:
        yield from footer.facts(report)
        yield from footer.probes(report)
    yield "</main>"
    yield from footer.footer(report)
    yield f"<script>{SCRIPT}</script>"
    yield "</body></html>"
