"""Reads the case files of the lint rules: what stands below ``tests/lint/<CODE>/``, and which findings it asks for.

A case is a file ``bad_<what>.py`` or ``good_<what>.py``, or a folder of that name with several files. The line where
a finding is to be reported ends with ``# expect: DC701``; several codes are separated by commas, and ``DC201=error``
asks for a severity that is not the default of the rule.
"""

from __future__ import annotations

import io
import re
import shutil
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Rule, Severity

FOLDER = Path(__file__).parent
_EXPECT = re.compile(r"#\s*expect:\s*(?P<codes>[^#]+)")
_ENTRY = re.compile(r"(?P<code>[A-Z]+\d+)(?:=(?P<severity>error|warning|info))?")


class Expected(NamedTuple):
    """One finding: the path relative to the case, the line, the code and the severity."""

    path: str
    line: int
    code: str
    severity: str


class Case(NamedTuple):
    """One case: where it stands, and the rule of the folder that it stands in."""

    place: Path
    code: str

    @property
    def name(self) -> str:
        """``DC701-bad_early_return``: the id of its test."""
        return f"{self.code}-{self.place.stem}"

    @property
    def bad(self) -> bool:
        """Whether the rule must speak."""
        return self.place.name.startswith("bad_")

    @property
    def rule(self) -> Rule:
        """The rule of the folder."""
        return rules.find(self.code)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, relative to the folder that the case stands in, in order."""
        files = [self.place] if self.place.is_file() else sorted(self.place.rglob("*.py"))
        return tuple(path.relative_to(self.place.parent).as_posix() for path in files)

    def copy_to(self, folder: Path) -> None:
        """Put the case into another folder, where nothing tells that it belongs to tests."""
        if self.place.is_file():
            shutil.copy(self.place, folder)
        else:
            shutil.copytree(self.place, folder / self.place.name)

    def text(self, path: str) -> str:
        """The text of one of its files."""
        return (self.place.parent / path).read_text(encoding="utf-8")

    def expected(self) -> list[Expected]:
        """What the comments ask for, in order."""
        return sorted(item for path in self.paths for item in expectations(path, self.text(path)))


def expectations(path: str, text: str) -> list[Expected]:
    """The findings that the comments of one file ask for; raises ValueError for a comment that can't be read."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or (match := _EXPECT.search(token.string)) is None:
            continue
        for part in match["codes"].split(","):
            entry = _ENTRY.fullmatch(part.strip())
            if entry is None:
                raise ValueError(f"{path}:{token.start[0]}: {part.strip()!r} is no CODE or CODE=severity")
            rule = rules.find(entry["code"])
            found.append(Expected(path, token.start[0], rule.code, entry["severity"] or rule.severity.word))
    return found


def all_cases(code: str | None = None) -> list[Case]:
    """The cases of all rules, or of one."""
    folders = [FOLDER / code] if code else sorted(FOLDER.glob("DC*"))
    return [
        Case(place, folder.name)
        for folder in folders
        if folder.is_dir()
        for place in sorted(folder.iterdir())
        if place.name.startswith(("bad_", "good_")) and (place.suffix == ".py" or place.is_dir())
    ]


def compared(findings: Sequence[Finding], case: Case, expected: Sequence[Expected]) -> list[Expected]:
    """The findings that count: all above info; at info those of a rule that is no louder, and those asked for."""
    asked = {item for item in expected if item.severity == "info"}
    found = []
    for finding in findings:
        item = Expected(finding.where.path or "", finding.where.line or 0, finding.code, finding.severity.word)
        own = finding.code == case.code and case.rule.severity is Severity.INFO
        if finding.severity > Severity.INFO or own or item in asked:
            found.append(item)
    return sorted(found)


def explain(case: Case, findings: Sequence[Finding], missing: Sequence[Expected], extra: Sequence[Expected]) -> str:
    """What is wrong, with the messages and the flow, for whoever mends the probe."""
    lines = [f"{case.place}"]
    lines += [f"  missing  {item.path}:{item.line} {item.code}={item.severity}" for item in missing]
    lines += [f"  extra    {item.path}:{item.line} {item.code}={item.severity}" for item in extra]
    lines.append("  findings:" if findings else "  no findings")
    for finding in findings:
        where = finding.where
        lines.append(f"    {where.path}:{where.line}:{where.column} {finding.code}={finding.severity.word}")
        lines.append(f"      {finding.message}")
        lines += [f"      flow: {step}" for step in finding.evidence.get("flow", ())]
    return "\n".join(lines)
