"""Findings, fixes, reports: what can't be made, and what adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.model import (
    Edit,
    Finding,
    Fix,
    NotChecked,
    Report,
    Severity,
    Where,
    merge_findings,
    rank_ranges,
)

FIX = Fix("type this", command="true", edits=(Edit("a.sh", 1, 1, 1, 4, "x"),))


def test_a_finding_needs_a_fix() -> None:
    with pytest.raises(TypeError):
        rules.DC401.found("taken")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="fix"):
        rules.DC401.found("taken", fix=Fix("  "))
    with pytest.raises(ValueError, match="message"):
        rules.DC401.found(" ", fix=FIX)
    with pytest.raises(ValueError, match="launch-line"):
        rules.DC401.found("taken", fix=Fix("do", where="somewhere"))


def test_a_severity_is_one_that_the_catalogue_lists() -> None:
    assert rules.DC320.found("small", fix=FIX).severity is Severity.WARNING
    assert rules.DC320.found("small", fix=FIX, severity=Severity.ERROR).severity is Severity.ERROR
    assert rules.DC401.found("taken", fix=FIX, severity=Severity.INFO).severity is Severity.INFO
    with pytest.raises(ValueError, match="warning is not in the catalogue"):
        rules.DC401.found("taken", fix=FIX, severity=Severity.WARNING)


def test_a_finding_survives_json() -> None:
    finding = rules.DC401.found("taken", fix=FIX, where=Where(variable="MASTER_PORT", rank=3), evidence={"port": 29500})
    assert Finding.from_dict(finding.as_dict()) == finding


def test_equal_findings_of_several_ranks_become_one() -> None:
    found = [rules.DC203.found("one GPU", fix=FIX, where=Where(rank=rank, local_rank=rank)) for rank in (0, 1, 2, 5)]
    (merged,) = merge_findings(found)
    assert merged.where == Where(ranks="0-2,5")


def test_different_findings_stay_apart_and_the_worst_is_first() -> None:
    low = rules.DC330.found("no torch", fix=FIX)
    high = rules.DC401.found("taken", fix=FIX)
    assert [item.code for item in merge_findings([low, high, low])] == ["DC401", "DC330"]


def test_reports_add_up() -> None:
    left = Report("env", findings=(rules.DC330.found("no torch", fix=FIX),), checked=frozenset({"DC330"}), elapsed_s=1)
    right = Report("env", not_checked=(NotChecked("DC301", "no driver"),), checked=frozenset({"DC401"}), elapsed_s=2)
    both = left + right
    assert both.findings == left.findings
    assert both.not_checked == right.not_checked
    assert both.checked == {"DC330", "DC401"}
    assert both.elapsed_s == 2
    with pytest.raises(TypeError):
        left + 1


def test_counts() -> None:
    report = Report("env", findings=(rules.DC401.found("taken", fix=FIX), rules.DC330.found("no torch", fix=FIX)))
    assert (report.count(Severity.ERROR), report.count(Severity.WARNING), report.count(Severity.INFO)) == (1, 0, 1)
    assert report.worst is Severity.ERROR
    assert [item.code for item in report.at_least(Severity.WARNING)] == ["DC401"]
    assert Report("env").worst is None


@given(st.sets(st.integers(0, 200)))
def test_rank_ranges_name_exactly_the_ranks(ranks: set[int]) -> None:
    named = set()
    for part in filter(None, rank_ranges(ranks).split(",")):
        low, _, high = part.partition("-")
        named.update(range(int(low), int(high or low) + 1))
    assert named == ranks


def test_severities_are_read() -> None:
    assert Severity.parse("Warning") is Severity.WARNING
    with pytest.raises(ValueError, match="fatal"):
        Severity.parse("fatal")


def test_reports_add_up_in_any_order() -> None:
    def of(rank: int) -> Report:
        return Report("env", findings=(rules.DC203.found("one GPU", fix=FIX, where=Where(rank=rank)),))

    for total in (of(0) + of(1) + of(2), of(2) + (of(0) + of(1)), of(1).merge(of(0), of(2))):
        assert [finding.where.ranks for finding in total.findings] == ["0-2"]


def test_one_reason_is_listed_once() -> None:
    reports = [Report("env", not_checked=(NotChecked(what, "no driver"),)) for what in ("DC302, DC301", "DC301, DC309")]
    assert (reports[0] + reports[1]).not_checked == (NotChecked("DC301, DC302, DC309", "no driver"),)
