"""Measures how often ``distcheck log`` and ``distcheck explain`` name the settled cause of failures in public threads.

docs/precision.md explains the procedure:

    python tools/measure_logs.py                what is not held back: for development
    python tools/measure_logs.py --held         what is held back: only for figures
    python tools/measure_logs.py -v             also each answer that is not right

``tests/precision/threads.jsonl`` has the decisive lines of a log in each row, ``lines.jsonl`` one line. Both name the
thread, and what was expected before the text was given to distcheck:

- a rule; of several, each one is right;
- ``none``: a failure that no rule describes, or a text that holds only consequences of another one;
- ``rank``: the failed rank, ``null`` if it can't be known from the text;
- ``consequence`` and ``notice`` in ``lines.jsonl``: that the line only follows from another failure, or ends no job.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from distcheck.checks.logs.diagnose import diagnose, read_timeline  # noqa: E402 - the checkout's own package
from distcheck.cli.explain_text import UnknownText, explain_text  # noqa: E402
from distcheck.core.model import Severity  # noqa: E402

FOLDER = ROOT / "tests" / "precision"
#: From the best answer to the worst.
GRADES = ("right first", "right, not first", "nothing", "another code", "invented")
#: How a verdict of ``distcheck explain`` begins, and what it is called in the file.
VERDICTS = {
    "The text is a consequence": "consequence",
    "The text is a notice": "notice",
    "No rule describes": "none",
    "The text shows that something failed": "none",
}

Row = dict[str, Any]


class Graded(NamedTuple):
    """An answer and how right it is."""

    source: str
    grade: str
    expected: str
    answer: str
    #: whether the failed rank is right; None where the row names none
    rank_is_right: bool | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held", action="store_true", help="measure what is held back")
    parser.add_argument("-v", "--verbose", action="store_true", help="show each answer that is not right")
    options = parser.parse_args()
    for name, graded in (("threads", graded_threads), ("lines", graded_lines)):
        _print(name, list(graded(options.held)), options.verbose)
    return 0


def rows_of(name: str, held: bool) -> Iterator[Row]:
    """Return the rows of a file that are held back, or the others."""
    for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row.get("held", False) is held:
            yield row


def graded_threads(held: bool) -> Iterator[Graded]:
    """Return how right ``distcheck log`` is about each text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        for row in rows_of("threads", held):
            path.write_text(row["lines"], "utf-8")
            report = diagnose(read_timeline([str(path)]))
            loud = [finding.code for finding in report.findings if finding.severity > Severity.INFO]
            # a text without an end may hold only a warning
            first = report.story.get("code") or (loud[0] if report.story["outcome"] == "clean" and loud else "none")
            rank = report.story.get("guilty", {}).get("rank") == row["rank"] if "rank" in row else None
            yield _graded(row, first, {finding.code for finding in report.findings}, rank)


def graded_lines(held: bool) -> Iterator[Graded]:
    """Return how right ``distcheck explain`` is about each line."""
    for row in rows_of("lines", held):
        try:
            answer = explain_text(row["line"])
        except UnknownText:
            yield _graded(row, "none", set())
            continue
        codes = [rule.code for rule in answer.rules]
        verdict = next((name for start, name in VERDICTS.items() if answer.verdict.startswith(start)), "")
        yield _graded(row, verdict or codes[0], set(codes))


def _graded(row: Row, answer: str, every: set[str], rank_is_right: bool | None = None) -> Graded:
    expected = row["expected"]
    if answer in expected:
        grade = "right first"
    elif every & set(expected):
        grade = "right, not first"
    elif not answer.startswith("DC"):
        grade = "nothing"
    else:
        grade = "another code" if any(code.startswith("DC") for code in expected) else "invented"
    return Graded(row["source"], grade, " ".join(expected), answer, rank_is_right)


def _print(name: str, graded: list[Graded], verbose: bool) -> None:
    counts = Counter(row.grade for row in graded)
    total = max(1, len(graded))
    print(f"{name}: {len(graded)}")
    for grade in GRADES:
        print(f"  {grade:18} {counts[grade]:4}  {100 * counts[grade] / total:3.0f} %")
    ranks = [row.rank_is_right for row in graded if row.rank_is_right is not None]
    if ranks:
        print(f"  {'failed rank':18} {sum(ranks)} of {len(ranks)}")
    if verbose:
        for row in graded:
            if row.grade != GRADES[0] or row.rank_is_right is False:
                wrong_rank = ", another rank" if row.rank_is_right is False else ""
                print(f"    {row.source}: {row.answer} for {row.expected}: {row.grade}{wrong_rank}")


if __name__ == "__main__":
    sys.exit(main())
