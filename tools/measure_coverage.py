"""Print how much of the judging packages the quick tests run, as a table, and which lines they miss.

Run from the root of a checkout: ``tox -e coverage``. docs/quality.md holds the table and, for what is not run, the
reason; ``--check`` compares the page with the figures, which may not fall below it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "quality.md"
#: What judges: the model, who runs the probes, and the packages that hold them.
PACKAGES = (
    "core/model.py",
    "core/registry.py",
    "core/checker.py",
    "checks/host",
    "checks/cluster",
    "checks/launch_files",
    "checks/source",
    "checks/pickles",
    "checks/logs",
    "runtime",
)


def measure(arguments: list[str]) -> dict[str, dict[str, list[int]]]:
    """Lines that were run and that were not, by file."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        common = ["--data-file", str(data)]
        tests = arguments or ["-q", "-m", "not torch and not numpy and not slow"]
        run = [sys.executable, "-m", "coverage", "run", *common, "--source", "distcheck", "-m", "pytest", *tests]
        if subprocess.run(run, cwd=ROOT).returncode:
            sys.exit("the tests are not green: their figures would mean nothing")
        report = Path(folder) / "coverage.json"
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", *common, "-o", str(report), "-q"], cwd=ROOT, check=True
        )
        files = json.loads(report.read_text())["files"]
    return {
        str(Path(path).relative_to("distcheck")): {"run": found["executed_lines"], "not": found["missing_lines"]}
        for path, found in files.items()
    }


def table(files: dict[str, dict[str, list[int]]]) -> str:
    """Package, lines, lines run, per cent."""
    rows = ["| package | lines | run by the quick tests | % |", "| --- | ---: | ---: | ---: |"]
    for package in PACKAGES:
        own = [found for path, found in files.items() if path == package or path.startswith(f"{package}/")]
        ran, missed = sum(len(found["run"]) for found in own), sum(len(found["not"]) for found in own)
        rows.append(f"| `{package}` | {ran + missed} | {ran} | {100 * ran / max(1, ran + missed):.1f} |")
    return "\n".join(rows)


def missing(files: dict[str, dict[str, list[int]]]) -> str:
    """The lines that were not run, by file."""
    lines = []
    for path, found in sorted(files.items()):
        if found["not"] and any(path == package or path.startswith(f"{package}/") for package in PACKAGES):
            lines.append(f"{path}: {ranges(found['not'])}")
    return "\n".join(lines)


def ranges(numbers: list[int]) -> str:
    """``3, 7-9``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number - found[-1][1] <= 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in found)


def below(text: str, made: str) -> list[str]:
    """Rooms whose figure has fallen by more than half a per cent below that of the page."""
    row = re.compile(r"^\| `(\S+)` \| \d+ \| \d+ \| ([\d.]+) \|$", re.MULTILINE)
    before, now = dict(row.findall(text)), dict(row.findall(made))
    return [package for package in PACKAGES if float(now[package]) < float(before.get(package, 0)) - 0.5]


def main() -> None:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a package has fallen below docs/quality.md")
    options, arguments = parser.parse_known_args()
    files = measure(arguments)
    made = table(files)
    print(made, missing(files), sep="\n\n")
    if options.check and (fallen := below(PAGE.read_text(encoding="utf-8"), made)):
        sys.exit(f"below docs/quality.md: {', '.join(fallen)}")


if __name__ == "__main__":
    main()
