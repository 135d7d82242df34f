"""Every lint rule on its cases: the bad ones are found on the lines that they mark, the good ones stay silent."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Rule
from distcheck.rules import Selection

from .cases import Case, all_cases, compared, expectations, explain

CASES = all_cases()
LINT_RULES = [rule for rule in rules.ALL if "lint" in rule.ways and not rule.code.startswith("DC9")]
#: How many cases each rule has at least; the good ones are its traps.
FEWEST_BAD, FEWEST_GOOD = 1, 3


def judge(case: Case, folder: Path) -> list[Finding]:
    """What all rules that are on by default, and the one of the case, say about it; run where paths are relative."""
    from distcheck.checks.source.engine import SourceFile, analyse

    case.copy_to(folder)
    program = analyse([SourceFile(path, (folder / path).read_bytes) for path in case.paths], whole=True)
    problems = {path: facts.problem for path, facts in program.files.items() if facts.problem}
    assert not problems, f"a case must be valid Python: {problems}"
    checker = Checker(Selection(extend_select=(case.code,)), modules=("distcheck.checks.source",), plug_ins=False)
    report = checker.plan(type(program), command="lint", closed=True).run(program)
    assert not [run for run in report.probes if run.status == "failed"], [run.traceback for run in report.probes]
    return list(report.findings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_gives_what_it_marks(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = case.expected()
    findings = judge(case, tmp_path)
    found = compared(findings, case, expected)
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    assert not missing and not extra, explain(case, findings, sorted(missing), sorted(extra))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_well_made(case: Case) -> None:
    for path in case.paths:
        ast.parse(case.text(path), feature_version=(3, 10))
    own = [item for item in case.expected() if item.code == case.code]
    level = case.rule.severity.word
    if case.bad:
        assert own, f"a bad case marks at least one line with '# expect: {case.code}'"
    else:
        assert not [item for item in own if item.severity == level], f"a good case marks no {case.code}"


@pytest.mark.parametrize("case", [case for case in CASES if case.bad], ids=lambda case: case.name)
def test_a_bad_case_passes_the_prefilter(case: Case) -> None:
    """One file at least by its bytes; what it imports, and what imports it, follows from that."""
    from distcheck.checks.source import prefilter

    assert any(prefilter.passes(case.text(path).encode()) for path in case.paths)


@pytest.mark.parametrize("rule", LINT_RULES, ids=lambda rule: rule.code)
def test_a_rule_has_bad_and_good_cases(rule: Rule) -> None:
    cases = all_cases(rule.code)
    assert sum(case.bad for case in cases) >= FEWEST_BAD, f"{rule.code} has too few bad cases"
    assert sum(not case.bad for case in cases) >= FEWEST_GOOD, f"{rule.code} has too few good cases"


def test_no_folder_is_named_like_no_rule() -> None:
    folders = {case.code for case in CASES}
    assert folders <= {rule.code for rule in LINT_RULES}


def test_expectations_are_read_from_comments_only() -> None:
    text = 'a = "# expect: DC701"\nb = 1  # noqa  # expect: DC201=error, DC720\n'
    assert [tuple(item) for item in expectations("x.py", text)] == [
        ("x.py", 2, "DC201", "error"),
        ("x.py", 2, "DC720", "warning"),
    ]
    with pytest.raises(ValueError, match="no CODE"):
        expectations("x.py", "a = 1  # expect: nothing\n")
