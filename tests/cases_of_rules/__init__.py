"""A bad and a good case of each rule, for each check that can find it. A case runs through the public command.

:func:`run` calls the command line in this process and returns the codes it reports. Where a command needs a live job
(``collective``, ``watch``, ``stuck``), a case gives recorded facts to the function that makes the command's report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from distcheck.cli.main import group
from distcheck.core.model import Report, Severity


class Said(NamedTuple):
    """What one run reports."""

    #: the worst severity of each code
    codes: Mapping[str, Severity]
    not_checked: frozenset[str] = frozenset()
    #: names of the probes that ran to their end
    ran: frozenset[str] = frozenset()


class Case(NamedTuple):
    """One input with its name. ``said`` gets a new folder and returns what the command reports."""

    name: str
    said: Callable[[Path], Said]


class Cases(NamedTuple):
    """The cases of a rule for one check.

    The likeliest case of each comes first. Look-alikes that a rule reports at a lower level may be among the good.
    """

    bad: Sequence[Case]
    good: Sequence[Case]


def run(folder: Path, *arguments: str) -> Said:
    """Call the command line with these arguments. The current folder does not change."""
    path = folder / "report.json"
    words = [*arguments[:1], "--output-format", "json", "-o", str(path), *arguments[1:]]
    result = CliRunner().invoke(group, words, standalone_mode=False, env={"NO_COLOR": "1"})
    if result.exception is not None:
        raise AssertionError(f"distcheck {' '.join(words)}: {result.exception!r}") from result.exception
    assert path.exists(), f"distcheck {' '.join(words)} wrote no report: {result.output}"
    return read(json.loads(path.read_text(encoding="utf-8")))


def said_by(report: Report) -> Said:
    """What a report says; for commands whose facts come from a live job."""
    return read(report.as_dict())


def read(plain: Mapping[str, Any]) -> Said:
    """What the JSON of a report says. A probe that failed is an error of the test."""
    failed = [probe for probe in plain["probes"] if probe["status"] == "failed"]
    assert not failed, failed
    codes: dict[str, Severity] = {}
    for finding in plain["findings"]:
        severity = Severity.parse(finding["severity"])
        codes[finding["code"]] = max(severity, codes.get(finding["code"], severity))
    return Said(
        codes,
        frozenset(code for item in plain["not_checked"] for code in item["what"].split(", ")),
        frozenset(probe["name"] for probe in plain["probes"] if probe["status"] == "ran"),
    )
