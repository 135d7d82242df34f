"""Measures how many findings of ``distcheck lint`` are right, on public code that its rules were not tuned on.

A person reads each finding in the source and judges it. docs/precision.md explains the procedure:

    python tools/measure_precision.py draw FOLDER --draw 2026-11-a > sample.jsonl
    python tools/measure_precision.py show FOLDER sample.jsonl
    python tools/measure_precision.py record sample.jsonl 17 right "all ranks write one file"
    python tools/measure_precision.py table
    python tools/measure_precision.py pages

FOLDER has one checkout for each repository, named ``owner+name``. Nothing of a checkout is run. A sample and the file
of judgements hold no code: they name repository, commit, path and line.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from distcheck.core.model import Rule  # noqa: E402 - the checkout's own package, not an installed one
from distcheck.core.rule_page import parse_page  # noqa: E402

JUDGED = ROOT / "tests" / "precision" / "judged.jsonl"
PAGES = ROOT / "distcheck" / "rules" / "pages"
VERDICTS = ("right", "wrong", "arguable")
LOUD = ("error", "warning")
#: Findings of one rule in one repository: the same idiom, repeated, is one observation.
MOST_ALIKE = 3
#: Draws that served to find causes, the second from repositories that were chosen for what some rules report: they
#: decide no level.
DEVELOPMENT = frozenset({"2026-11-g", "2026-12-a"})
#: A rule with fewer decided findings has no figure.
FEWEST = 8
#: A rule keeps its level in folders if so many of its findings were decided, and such a share of them was right, in all
#: draws or in the last ones. 10 % is what users of an analyzer accept: Sadowski et al., "Lessons from Building Static
#: Analysis Tools at Google", CACM 61(4), 2018.
EARNED_BY, EARNED_SHARE, LAST_DRAWS = 5, 0.9, 4
#: A rule is a note if a smaller share of at least ``FEWEST`` decided findings was right.
NOTE_SHARE = 0.25
#: What a finding must share with a judged one to be the same.
IDENTITY = ("repository", "commit", "path", "line", "code")

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="lint all checkouts, and print a random sample of findings as JSON lines")
    draw.add_argument("folder", type=Path)
    draw.add_argument("--draw", required=True, help="name of this sample; it seeds the choice, and the table shows it")
    draw.add_argument("--count", type=int, default=200, help="findings [default: 200]")
    draw.add_argument("--severity", nargs="+", default=LOUD, help="[default: error warning]")
    draw.add_argument("--repositories", nargs="+", help="only these, as owner/name")
    draw.add_argument(
        "--preview", action="store_true",
        help="at the own level of the rules, so that one that is info in large projects can earn its level",
    )  # fmt: skip
    draw.add_argument("--notes", nargs="+", default=(), metavar="CODE", help="and these at theirs, which are notes")
    show = commands.add_parser("show", help="print each finding of a sample with its source")
    show.add_argument("folder", type=Path)
    show.add_argument("sample", type=Path)
    show.add_argument("--lines", type=int, default=12, help="lines of source on each side [default: 12]")
    record = commands.add_parser("record", help="add a judgement to the file of judged findings")
    record.add_argument("sample", type=Path)
    record.add_argument("number", type=int, help="number of the finding in the sample, from 1")
    record.add_argument("verdict", choices=VERDICTS)
    record.add_argument("reason", help="one sentence, without code of the repository")
    commands.add_parser("table", help="print the figures of all judged findings")
    commands.add_parser("pages", help="write the figures of the last draw into the pages of the rules")
    options = parser.parse_args()
    if options.command == "draw":
        return _draw(options)
    if options.command == "show":
        return _show(options)
    if options.command == "record":
        return _record(options)
    if options.command == "pages":
        return _write_pages()
    print("\n".join(table(_read(JUDGED))))
    return 0


def _draw(options: argparse.Namespace) -> int:
    folders = sorted(path for path in options.folder.iterdir() if "+" in path.name and path.is_dir())
    if options.repositories:
        names = {name.replace("/", "+") for name in options.repositories}
        folders = [path for path in folders if path.name in names]
    if not folders:
        print(f"no folder named owner+name in {options.folder}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(2) as pool:
        every = pool.map(lambda folder: _findings(folder, preview=options.preview, notes=options.notes), folders)
        rows = [row for found in every for row in found if row["severity"] in options.severity]
    known = {tuple(row[key] for key in IDENTITY) for row in _read(JUDGED)}
    fresh = [row for row in rows if tuple(row[key] for key in IDENTITY) not in known]
    for row in choose(fresh, options.count, options.draw):
        print(json.dumps({**row, "draw": options.draw}))
    return 0


def choose(rows: Iterable[Row], count: int, seed: str) -> list[Row]:
    """Return ``count`` of the rows at random, at most ``MOST_ALIKE`` of a rule in a repository; a seed repeats it."""
    order = sorted(rows, key=lambda row: tuple(str(row[key]) for key in IDENTITY))
    random.Random(seed).shuffle(order)
    alike: Counter[tuple[str, str]] = Counter()
    chosen = []
    for row in order:
        alike[row["repository"], row["code"]] += 1
        if alike[row["repository"], row["code"]] <= MOST_ALIKE:
            chosen.append(row)
    return chosen[:count]


def _findings(folder: Path, *, preview: bool, notes: Iterable[str]) -> list[Row]:
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "distcheck", "lint", "--isolated", "--no-cache", "--output-format", "json", "."]
    command += [*["--preview"] * preview, *(f"--extend-select={code}" for code in notes)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"distcheck lint in {folder} exited with status {ended.returncode}: {ended.stderr}")
    return [
        {
            "repository": folder.name.replace("+", "/", 1),
            "commit": head.stdout.strip(),
            "path": finding["where"]["path"],
            "line": finding["where"].get("line"),
            "code": finding["code"],
            "severity": finding["severity"],
            "message": finding["message"],
            "fix": finding["fix"]["text"] if finding["fix"] else None,
            "flow": finding["evidence"].get("flow", []),
        }
        for finding in json.loads(ended.stdout)["findings"]
        if finding["where"].get("path")
    ]


def _show(options: argparse.Namespace) -> int:
    for number, row in enumerate(_read(options.sample), 1):
        path = options.folder / row["repository"].replace("/", "+", 1) / row["path"]
        print(f"\n=== {number}: {row['repository']} {row['path']}:{row['line']} {row['code']} {row['severity']}")
        print(f"{row['message']}\nfix: {row['fix']}")
        for step in row["flow"]:
            print(f"  {step}")
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        first = max(1, (row["line"] or 1) - options.lines)
        for line in range(first, min(len(lines), first + 2 * options.lines) + 1):
            print(f"{'>' if line == row['line'] else ' '}{line:5} {lines[line - 1][:160]}")
    return 0


def _record(options: argparse.Namespace) -> int:
    rows = _read(options.sample)
    if not 1 <= options.number <= len(rows):
        print(f"finding {options.number} is not in the sample: it has 1 to {len(rows)}", file=sys.stderr)
        return 2
    row = rows[options.number - 1]
    kept = {key: row[key] for key in (*IDENTITY, "severity", "draw")}
    JUDGED.parent.mkdir(exist_ok=True)
    with JUDGED.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**kept, "verdict": options.verdict, "reason": options.reason}) + "\n")
    return 0


def measured(rows: list[Row]) -> dict[str, str]:
    """Return ``27 right, 1 wrong`` for each rule of the last draw that is a measurement."""
    last = max((row["draw"] for row in rows if row["draw"] not in DEVELOPMENT), default="")
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["draw"] == last:
            counts[row["code"]][row["verdict"]] += 1
    return {
        code: ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])
        for code, found in counts.items()
    }


def earned(rows: list[Row]) -> set[str]:
    """Return the rules that have earned their level: of at least 5 decided findings, 90 % were right.

    All draws count, or the last four where a rule was better there, because it was fixed.
    """
    rows = [row for row in rows if row["draw"] not in DEVELOPMENT]
    last = sorted({row["draw"] for row in rows})[-LAST_DRAWS:]
    found = set()
    for chosen in (rows, [row for row in rows if row["draw"] in last]):
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row in chosen:
            counts[row["code"]][row["verdict"]] += 1
        for code, verdicts in counts.items():
            decided = verdicts["right"] + verdicts["wrong"]
            if decided >= EARNED_BY and verdicts["right"] >= EARNED_SHARE * decided:
                found.add(code)
    return found


def mostly_wrong(rows: list[Row]) -> dict[str, set[str]]:
    """Return the rules that are right in less than a quarter of at least eight decided errors, or warnings.

    An error is certain and a warning is not, so that one shows nothing about the other: each rule with the severities
    that are mostly wrong, and ``warning`` as well where too few warnings were judged to show that they are better.
    """
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["draw"] not in DEVELOPMENT and row["verdict"] != "arguable":
            found[row["code"], row["severity"]][row["verdict"]] += 1
    wrong: dict[str, set[str]] = {}
    for (code, severity), verdicts in found.items():
        if verdicts.total() >= FEWEST and verdicts["right"] < NOTE_SHARE * verdicts.total():
            wrong.setdefault(code, set()).add(severity)
    for code, severities in wrong.items():
        if found[code, "warning"].total() < FEWEST:
            severities.add("warning")
    return wrong


def default_of(rule: Rule, rows: list[Row]) -> str:
    """Return the ``default`` of a rule's page, which depends on its findings if it is of lint and not off."""
    if {"lint", "launch"}.isdisjoint(rule.ways) or not rule.on_by_default or rule.code.startswith("DC9"):
        return ""
    if rule.code in earned(rows):
        return ""
    if wrong := mostly_wrong(rows).get(rule.code):
        return "note" if "warning" in wrong else "warning"
    if rule.in_folders == "info":
        return "info"
    return "many" if any(row["code"] == rule.code for row in rows) else "unjudged"


def with_figure(page: str, figure: str | None, default: str = "") -> str:
    """Return a page whose front matter has this figure or none.

    :param default: ``info``, ``note``, ``warning``, or ``many`` or ``unjudged`` of a rule that is info in many files
    """
    head, line, rest = page.partition("\n---\n")
    head = re.sub(r"\n(measured|default): (?!off).*", "", head)
    lines = {"default": default, "measured": figure}
    return "".join((head, *(f"\n{key}: {value}" for key, value in lines.items() if value), line, rest))


def _write_pages() -> int:
    rows = _read(JUDGED)
    figures = measured(rows)
    for path in sorted(PAGES.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        rule = parse_page(old).rule
        new = with_figure(old, figures.get(rule.code), default_of(rule, rows))
        if new != old:
            path.write_text(new, encoding="utf-8")
    return 0


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of the figures, by draw and severity, then by rule. Arguable findings are not decided."""
    yield f"{len(rows)} findings of {len({row['repository'] for row in rows})} repositories"
    yield f"\n{'draw':14} {'severity':8} {'right':>6} {'wrong':>6} {'arguable':>8} {'right of decided':>17}"
    draws: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    rules: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        draws[row["draw"], row["severity"]][row["verdict"]] += 1
        draws[row["draw"], "all"][row["verdict"]] += 1
        rules[row["code"]][row["verdict"]] += 1
    for (draw, severity), counts in sorted(draws.items()):
        yield f"{draw:14} {severity:8} {_figures(counts)}"
    yield f"\n{'rule':23} {'right':>6} {'wrong':>6} {'arguable':>8} {'right of decided':>17}"
    for code, counts in sorted(rules.items()):
        yield f"{code:23} {_figures(counts)}"


def _figures(counts: Counter[str]) -> str:
    decided = counts["right"] + counts["wrong"]
    share = f"{100 * counts['right'] / decided:.0f} %" if decided else "-"
    few = " (few)" if decided < FEWEST else ""
    return f"{counts['right']:6} {counts['wrong']:6} {counts['arguable']:8} {share:>17}{few}"


if __name__ == "__main__":
    sys.exit(main())
