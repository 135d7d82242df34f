"""Reads the case files of launch files: what stands below ``tests/launch/``, and which findings it asks for.

A case is a file ``bad_<what>.<suffix>`` or ``good_<what>.<suffix>`` below the code of its rule, or a folder of that name
with several files; below ``jobs/`` every file and folder is one. The line where a finding is to be reported ends with
``# expect: DC804``; several codes are separated by blanks, and ``DC112=warning`` asks for a severity that is not the
default of the rule. Where a line can't end with a comment (it goes on in the next one, or stands in a Dockerfile), a
line of its own says ``# expect-at 12: DC804``; for JSON, which has no comments, a file ``case.expect`` in the folder
holds lines of ``path:line CODE``. ``# node-facts: gpus=4 cpus=64`` states the nodes that the job will run on.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.launch_files import engine
from distcheck.checks.launch_files.model import LaunchFile, LaunchFiles, Nodes
from distcheck.core.checker import Checker
from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, NotApplicable, Rule, Severity
from distcheck.rules import Selection
from tests.lint.cases import Expected

FOLDER = Path(__file__).parent
JOBS = "jobs"
#: Says of files without comments what is expected in them.
EXPECTATIONS = "case.expect"
_CODES = r"(?P<codes>[A-Z]+\d+(?:=\w+)?(?:[ \t]+[A-Z]+\d+(?:=\w+)?)*)[ \t]*(?:-->)?[ \t]*\r?$"
_EXPECT = re.compile(r"#[ \t]*expect:[ \t]*" + _CODES)
_EXPECT_AT = re.compile(r"#[ \t]*expect-at[ \t]+(?P<line>\d+):[ \t]*" + _CODES)
_SAYS_EXPECT = re.compile(r"#[ \t]*expect\b")
_ENTRY = re.compile(r"(?P<code>[A-Z]+\d+)(?:=(?P<severity>error|warning|info))?")
_NODE_FACTS = re.compile(r"(?m)^#[ \t]*node-facts:(?P<values>(?:[ \t]+\w+=\d+)+)[ \t]*$")


class Case(NamedTuple):
    """One case: where it stands, and the folder that it stands in: the code of a rule, or ``jobs``."""

    place: Path
    code: str

    @property
    def name(self) -> str:
        """``DC804-bad_four_of_two.sbatch``: the id of its test."""
        return f"{self.code}-{self.place.name}"

    @property
    def bad(self) -> bool:
        """Whether the rule must speak."""
        return self.place.name.startswith("bad_")

    @property
    def rule(self) -> Rule | None:
        """The rule of the folder; a job belongs to none."""
        return None if self.code == JOBS else rules.find(self.code)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, relative to the folder that the case stands in, in order."""
        files = [self.place] if self.place.is_file() else sorted(self.place.rglob("*"))
        return tuple(
            path.relative_to(self.place.parent).as_posix()
            for path in files
            if path.is_file() and path.name != EXPECTATIONS and "__pycache__" not in path.parts
        )

    def files(self) -> dict[str, bytes]:
        """The bytes of its files, by path."""
        return {path: (self.place.parent / path).read_bytes() for path in self.paths}

    def copy_to(self, folder: Path) -> None:
        """Put the case into another folder, where nothing tells that it belongs to tests."""
        if self.place.is_file():
            shutil.copy(self.place, folder)
        else:
            shutil.copytree(self.place, folder / self.place.name, ignore=shutil.ignore_patterns(EXPECTATIONS))

    def expected(self) -> list[Expected]:
        """What the comments ask for, in order."""
        found = [
            item for path, data in self.files().items() for item in expectations(path, data.decode("utf-8", "replace"))
        ]
        beside = self.place / EXPECTATIONS
        if beside.is_file():
            found.extend(_from_file(beside, self.place.name))
        return sorted(found)

    def nodes(self) -> Nodes | None:
        """The nodes that a comment of the case states."""
        for data in self.files().values():
            match = _NODE_FACTS.search(data.decode("utf-8", "replace"))
            if match is not None:
                values = {name: int(value) for name, _, value in (p.partition("=") for p in match["values"].split())}
                return Nodes("nodes.json", values.get("gpus"), values.get("cpus"), values.get("memory_bytes"))
        return None


def expectations(path: str, text: str) -> list[Expected]:
    """The findings that the comments of one file ask for; raises ValueError for a comment that can't be read."""
    found: list[Expected] = []
    for number, line in enumerate(text.split("\n"), 1):
        if _SAYS_EXPECT.search(line) is None:
            continue
        match = _EXPECT.search(line) or _EXPECT_AT.search(line)
        if match is None:
            raise ValueError(f"{path}:{number}: {line.strip()!r} names no CODE or CODE=severity")
        found.extend(_entries(path, int(match.groupdict().get("line") or number), match["codes"]))
    return found


def _from_file(file: Path, folder: str) -> Iterator[Expected]:
    for line in file.read_text(encoding="utf-8").splitlines():
        place, _, codes = line.partition(" ")
        path, _, number = place.rpartition(":")
        yield from _entries(f"{folder}/{path}", int(number), codes)


def _entries(path: str, line: int, codes: str) -> Iterator[Expected]:
    for part in codes.split():
        entry = _ENTRY.fullmatch(part)
        if entry is None:
            raise ValueError(f"{path}:{line}: {part!r} is no CODE or CODE=severity")
        rule = rules.find(entry["code"])
        yield Expected(path, line, rule.code, entry["severity"] or rule.severity.word)


def all_cases(code: str | None = None) -> list[Case]:
    """The cases of all rules, or of one; with ``jobs`` those that belong to none."""
    if code == JOBS:
        return [Case(place, JOBS) for place in sorted((FOLDER / JOBS).iterdir())]
    folders = [FOLDER / code] if code else sorted(FOLDER.glob("DC*"))
    return [
        Case(place, folder.name)
        for folder in folders
        if folder.is_dir()
        for place in sorted(folder.iterdir())
        if place.name.startswith(("bad_", "good_"))
    ]


class Judged(NamedTuple):
    """What was read, and what was found in it."""

    files: tuple[LaunchFile, ...]
    findings: tuple[Finding, ...]


def judge(files: Mapping[str, bytes], *, select: Sequence[str] = (), nodes: Nodes | None = None) -> Judged:
    """What the launch rules say of files that stand in memory, the Python files that they start included.

    :param select: rules beside those that are on by default
    """
    from distcheck.checks.launch_files.scripts import Started, find_started
    from distcheck.checks.source.engine import SourceFile, analyse
    from distcheck.checks.source.program import Program

    look_up = engine.look_up_below(str(FOLDER / "nowhere"), files)
    sources = [
        engine.LaunchSource(path, lambda limit, data=data: data[:limit])
        for path, data in files.items()
        if not path.endswith(".py")
    ]
    launch_files = engine.read_launch_files(sources, look_up=look_up, include_markdown=True)
    program = analyse(
        [SourceFile(path, lambda data=data: data) for path, data in files.items() if path.endswith(".py")]
    )
    started = find_started(launch_files, program)
    checker = Checker(
        Selection(extend_select=tuple(select)), modules=("distcheck.checks.launch_files",), plug_ins=False
    )
    plan = checker.plan(LaunchFiles, Started, command="lint", closed=True)
    facts: dict[type, object] = {
        Program: program,
        Configuration: Configuration(),
        Nodes: NotApplicable("nothing says which nodes") if nodes is None else nodes,
    }
    report = plan.run(launch_files, started, facts=facts)
    failed = [run.traceback for run in report.probes if run.status == "failed"]
    assert not failed, "\n".join(str(trace) for trace in failed)
    return Judged(launch_files.files, report.findings)


def judge_case(case: Case, files: Mapping[str, bytes] | None = None) -> Judged:
    """As :func:`judge`, with what the case says of its nodes.

    :param files: what stands in place of the case's own files
    """
    return judge(case.files() if files is None else files, nodes=case.nodes())


def compared(findings: Sequence[Finding], case: Case, expected: Sequence[Expected]) -> list[Expected]:
    """The findings that count: all above info; at info those of a rule that is never louder, and those asked for."""
    asked = {item for item in expected if item.severity == "info"}
    found = []
    for finding in findings:
        item = Expected(finding.where.path or "", finding.where.line or 0, finding.code, finding.severity.word)
        own = case.rule is not None and finding.code == case.code and _is_quiet(case.rule)
        if finding.severity > Severity.INFO or own or item in asked:
            found.append(item)
    return sorted(found)


def _is_quiet(rule: Rule) -> bool:
    """Whether findings of a rule are never more than information."""
    return max(rule.severities) is Severity.INFO


def explain(case: Case, judged: Judged, missing: Sequence[Expected], extra: Sequence[Expected]) -> str:
    """What is wrong, with the messages and with what was read, for whoever fixes the reader or the probe."""
    lines = [f"{case.place}"]
    lines += [f"  missing  {item.path}:{item.line} {item.code}={item.severity}" for item in missing]
    lines += [f"  extra    {item.path}:{item.line} {item.code}={item.severity}" for item in extra]
    lines.append("  findings:" if judged.findings else "  no findings")
    for finding in judged.findings:
        where = finding.where
        lines.append(f"    {where.path}:{where.line}:{where.column} {finding.code}={finding.severity.word}")
        lines.append(f"      {finding.message}")
    for file in judged.files:
        lines.append(f"  {file.path} is {file.kind}")
        lines += [f"    problem: {why}:{line}:{column}" for why, line, column in file.problems]
        for site in file.sites:
            words = " ".join(word.text for word in site.words)
            lines.append(f"    {site.span.line}: {site.command.launcher} by {site.command.wrappers}: {words[:160]}")
    return "\n".join(lines)
