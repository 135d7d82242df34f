"""Compare pinned versions with a public list of known holes: ``tox -e audit``, and a part of ``tox -e full``.

    python tools/audit.py [FILE …]     # tools/one_file.txt and tools/lock.txt; needs pip-audit and the network

The exit status is 1 if a version has a hole that a release fixes, and 3 if some could not be checked: the list was not
reached, or does not know them. A hole that no release fixes is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

TOOLS = Path(__file__).resolve().parent
FILES = (TOOLS / "one_file.txt", TOOLS / "lock.txt")
HOLES, NOT_CHECKED = 1, 3


class Audit(NamedTuple):
    """What the list has about the versions of a file: a line each."""

    checked: int = 0
    #: holes with a release that fixes them, and without one
    fixed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The exit status."""
        return HOLES if self.fixed else NOT_CHECKED if self.not_checked or not self.checked else 0


def audit(path: Path) -> Audit:
    """Return the holes of what a file of requirements pins."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    # the pins and no others: nothing is resolved or downloaded
    command += ["--no-deps", "--disable-pip", "--requirement", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    try:
        found = json.loads(ended.stdout)["dependencies"]
    except (ValueError, KeyError):
        return Audit(not_checked=((ended.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1],))
    return judged(found)


def judged(dependencies: list[dict[str, Any]]) -> Audit:
    """Return what `pip-audit --format json` found."""
    fixed: list[str] = []
    unfixed: list[str] = []
    missed = []
    for each in dependencies:
        if "skip_reason" in each:
            missed.append(f"{each['name']}: {each['skip_reason']}")
        for hole in each.get("vulns", ()):
            line = f"{each['name']} {each['version']}: {hole['id']}"
            releases = ", ".join(hole["fix_versions"])
            (fixed if releases else unfixed).append(f"{line}, fixed in {releases}" if releases else line)
    return Audit(len(dependencies) - len(missed), tuple(fixed), tuple(unfixed), tuple(missed))


def main(paths: list[Path]) -> int:
    """Print the holes of each file; return the exit status."""
    statuses = set()
    for path in paths:
        found = audit(path)
        statuses.add(found.status)
        print(f"{path.name}: {found.checked} checked, {len(found.fixed) + len(found.open)} holes")
        for line in (*found.fixed, *found.open):
            print(f"  {line}")
        if found.not_checked:
            print(f"  not checked: {len(found.not_checked)}, the first is {found.not_checked[0]}")
    return HOLES if HOLES in statuses else max(statuses)


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]] or list(FILES)))
