"""The smoke test on a page: what ran, how it ended, what was wrong; then the pictures of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.core.model import Report, size_text
from distcheck.reporters import measurements as measured

from . import curves, ranks
from .parts import definitions, folded, lines, table, text

#: Rows of the table of wrong results, and ranks whose state is shown.
ROWS = 10


def measurements(report: Report) -> Iterator[str]:
    """All that a smoke test measured."""
    plain = report.measurements
    facts = [
        ("checked", measured.subject_text(plain)),
        ("phases", measured.phases_text(plain)),
        ("correctness", measured.correctness_text(plain)),
    ]
    yield '<section aria-labelledby="run"><h2 id="run">The run</h2>'
    yield definitions((name, text(shown)) for name, shown in facts if shown)
    yield from _failure(plain)
    yield from _wrong(plain)
    skipped = measured.skipped_parts(report)
    if skipped:
        yield "<p>Skipped:</p><ul>"
        yield from (f"<li>{text(what)}: {text(why)}</li>" for what, why in skipped)
        yield "</ul>"
    yield "</section>"
    yield from curves.bandwidth(plain)
    yield from ranks.ranks(plain)
    yield from ranks.pairs(plain)


def _failure(plain: Mapping[str, Any]) -> Iterator[str]:
    failure = measured.part(plain, "failure")
    if not failure:
        return
    yield '<article class="finding error"><h3 class="title">Ended early</h3>'
    yield f'<p class="message">{text(measured.failure_text(plain))}</p>'
    if failure.get("error"):
        yield f"<pre>{lines(str(failure['error']))}</pre>"
    for state in measured.items(failure, "states")[:ROWS]:
        yield f"<p>{text(measured.state_text(state))}</p>"
        inside = [
            (name, shown)
            for name, shown in (
                ("Python stack, innermost last", str(state.get("stack") or "")),
                (
                    "last entries of the flight recorder",
                    "\n".join(str(entry) for entry in measured.items(state, "recorder")),
                ),
            )
            if shown
        ]
        yield from (folded(name, f"<pre>{lines(shown)}</pre>") for name, shown in inside)
    yield "</article>"


def _wrong(plain: Mapping[str, Any]) -> Iterator[str]:
    rows = measured.items(measured.part(plain, "proof"), "mismatches")
    if not rows:
        return
    more = f" (the first {ROWS} of {len(rows):,})" if len(rows) > ROWS else ""
    yield from table(
        f"Wrong results{more}",
        ("rank", "collective", "dtype", "size", "wrong elements", "first at", "expected", "seen"),
        [
            (
                row.get("rank"),
                row.get("collective"),
                row.get("dtype"),
                size_text(row.get("size_bytes") or 0),
                f"{row.get('wrong') or 0:,} of {row.get('elements') or 0:,}",
                row.get("first_index"),
                row.get("expected"),
                row.get("seen"),
            )
            for row in rows[:ROWS]
        ],
    )
