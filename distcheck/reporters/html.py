"""One page that stands alone: what was found, what happened, what was measured, what was not checked.

It needs no network and no second file, so that it can be mailed and archived, and no script to be read; a policy in its
head holds browsers to that. It follows the reader's colour scheme and can be printed. All values are escaped. It judges
nothing: what is marked as standing out stands out among its peers, verdicts are the findings.

Each topic has a module beside this one: the parts that pages are made of (``html_parts``), the looks (``html_style``),
the head of the page, findings, the story of a log, verdicts about files, measurements, and what stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Report
from . import Style, html_findings, html_rest, html_top
from .html_parts import text
from .html_style import SCRIPT, SCRIPT_HASH, STYLE

_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{SCRIPT_HASH}'"


def render(report: Report, style: Style = Style()) -> str:
    """The report as one HTML page; facts and probes folded in it with ``-v``."""
    return "\n".join([*_head(report), *_body(report, style)]) + "\n"


def _head(report: Report) -> Iterator[str]:
    title = f"distcheck {report.command}: {html_top.headline(report)}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{text(title)}</title>"
    yield f"<style>{STYLE}</style></head>"


def _body(report: Report, style: Style) -> Iterator[str]:
    yield "<body>"
    yield from html_top.top(report)
    yield "<main>"
    yield from html_top.notes(report)
    if report.story:
        from . import html_story

        yield from html_story.story(report)
    if "verdicts" in report.subject:
        from . import html_verdicts

        yield from html_verdicts.verdicts(report)
    yield from html_findings.findings(report)
    if report.measurements:
        from . import html_measurements

        yield from html_measurements.measurements(report)
    yield from html_rest.to_paste(report)
    yield from html_rest.not_checked(report)
    if style.verbose:
        yield from html_rest.facts(report)
        yield from html_rest.probes(report)
    yield "</main>"
    yield from html_rest.footer(report)
    yield f"<script>{SCRIPT}</script>"
    yield "</body></html>"
