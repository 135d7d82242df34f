"""Every labelled log is told as it must be; every rule that a log can show has bad and good ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck import rules
from distcheck.core.model import Rule

from .cases import Case, complaints, every_case, read_case, told

CASES = every_case()
SEEN = [rule for rule in rules.ALL if "log" in rule.ways and not rule.code.startswith("DC9")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_log_is_told_as_it_must_be(case: Case, tmp_path: Path) -> None:
    expected, texts = read_case(case)
    report = told(texts, tmp_path / "log")
    assert not [finding for finding in report.findings if finding.code.startswith("DC9")], report.findings
    assert not list(complaints(expected, report))


@pytest.mark.parametrize("rule", SEEN, ids=lambda rule: rule.code)
def test_a_rule_has_bad_and_good_logs(rule: Rule) -> None:
    mine = [case for case in CASES if case.code == rule.code]
    assert sum(case.is_bad for case in mine) >= 2, f"{rule.code} needs two bad logs"
    assert sum(not case.is_bad for case in mine) >= 1, f"{rule.code} needs a good log"


@pytest.mark.parametrize("case", [case for case in CASES if case.is_bad], ids=lambda case: case.name)
def test_a_bad_log_shows_the_rule_of_its_folder(case: Case, tmp_path: Path) -> None:
    _, texts = read_case(case)
    assert case.code in {finding.code for finding in told(texts, tmp_path / "log").findings}
