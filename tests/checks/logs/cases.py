"""Labelled logs: ``<CODE>/bad_*`` must be told with that cause first, ``good_*`` are look-alikes that must not.

A case is a file, or a folder of several files. It begins (a folder: in a file ``expect``) with lines that are taken
away before it is read:

``#expect: DC401 rank=0``
    the code that is told first and the rank that is to blame; ``none``: a failure whose cause no rule names; ``clean``:
    no failure
``#also: DC106 DC115``
    codes that may stand beside it above ``info``; whatever else does is a false alarm
``#never: DC518``
    codes that may not be reported at all
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from distcheck.checks.logs.diagnose import diagnose, read_timeline
from distcheck.core.model import Report, Severity

FOLDER = Path(__file__).parent
_HEADER = re.compile(r"^#(?P<word>expect|also|never):[ \t]*(?P<rest>.*)$")
_CODE = re.compile(r"^[A-Z]+\d+$")


class Expectation(NamedTuple):
    """What a case must be told as."""

    cause: str
    rank: int | None = None
    also: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


class Case(NamedTuple):
    """One case: the rule whose folder it stands in, and its path."""

    code: str
    path: Path

    @property
    def name(self) -> str:
        return f"{self.code}/{self.path.name}"

    @property
    def is_bad(self) -> bool:
        return self.path.name.startswith("bad")


def every_case() -> list[Case]:
    """All cases, sorted."""
    return [
        Case(folder.name, path)
        for folder in sorted(FOLDER.iterdir())
        if folder.is_dir() and _CODE.match(folder.name)
        for path in sorted(folder.iterdir())
        if path.name.startswith(("bad", "good"))
    ]


def read_case(case: Case) -> tuple[Expectation, dict[str, bytes]]:
    """The expectation, and the texts by their name relative to the case."""
    if case.path.is_dir():
        head = (case.path / "expect").read_bytes()
        texts = {
            str(path.relative_to(case.path)): path.read_bytes()
            for path in sorted(case.path.rglob("*"))
            if path.is_file() and path != case.path / "expect"
        }
        return expectation_of(head)[0], texts
    expectation, body = expectation_of(case.path.read_bytes())
    return expectation, {case.path.name: body}


def expectation_of(data: bytes) -> tuple[Expectation, bytes]:
    """The lines at the beginning that say what is expected, and the rest."""
    words: dict[str, str] = {}
    lines = data.split(b"\n")
    while lines and (match := _HEADER.match(lines[0].decode("utf-8", "replace").rstrip("\r"))):
        words[match["word"]] = match["rest"]
        lines.pop(0)
    cause, *rest = words["expect"].split()
    rank = next((int(part.removeprefix("rank=")) for part in rest if part.startswith("rank=")), None)
    return (
        Expectation(cause, rank, frozenset(words.get("also", "").split()), frozenset(words.get("never", "").split())),
        b"\n".join(lines),
    )


def write_texts(texts: dict[str, bytes], folder: Path) -> list[str]:
    """Put the texts of a case where they can be read; returns what to name on a command line."""
    if folder.exists():
        shutil.rmtree(folder)
    for name, data in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return [str(folder)] if len(texts) > 1 else [str(folder / next(iter(texts)))]


def told(texts: dict[str, bytes], folder: Path) -> Report:
    """What distcheck says of these texts."""
    return diagnose(read_timeline(write_texts(texts, folder)))


def complaints(expected: Expectation, report: Report) -> Iterator[str]:
    """What is not as it must be, a sentence each."""
    outcome = report.story["outcome"]
    code = report.story.get("code")
    loud = {finding.code for finding in report.findings if finding.severity > Severity.INFO}
    if expected.cause == "clean":
        if outcome != "clean":
            first = report.story.get("first") or {}
            yield f"no failure is in it, and {code or outcome} is told: {first.get('text')}"
    elif expected.cause == "none":
        if outcome not in ("unnamed", "consequences"):
            yield f"no rule names the cause, and {code or outcome} is told"
    elif code != expected.cause:
        yield f"{expected.cause} is the cause, and {code or outcome} is told ({sorted(loud)} were found)"
    if expected.rank is not None and expected.cause not in ("clean",):
        guilty = report.story.get("guilty", {}).get("rank")
        if guilty != expected.rank:
            yield f"rank {expected.rank} is to blame, and {guilty} is named ({report.story.get('guilty')})"
    alarms = loud - expected.also - {expected.cause}
    if alarms:
        yield f"false alarms: {sorted(alarms)}"
    reported = {finding.code for finding in report.findings}
    if reported & expected.never:
        yield f"must not be reported: {sorted(reported & expected.never)}"
