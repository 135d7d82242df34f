"""Findings, fixes, reports: what can't be made, and what adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.core.model import (
    Edit,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    ProbeRun,
    Report,
    Severity,
    Unavailable,
    Where,
    expand_ranges,
    merge_findings,
    rank_ranges,
    size_text,
    sort_findings,
    to_plain,
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


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((), ""), ((3,), "3"), ((0, 1), "0-1"), ((2, 0), "0,2"), ((5, 4, 4, 1, 0, 9), "0-1,4-5,9")],
)
def test_ranks_in_short(ranks: tuple[int, ...], text: str) -> None:
    assert rank_ranges(ranks) == text


@pytest.mark.parametrize(
    ("text", "below", "numbers"),
    [
        ("0-2,5", 100, [0, 1, 2, 5]),
        (" 7 , x, -3, 4-", 100, [7, 4]),
        ("0-9,3", 4, [0, 1, 2, 3, 3]),
        ("4,5-6", 4, []),
        ("", 4, []),
    ],
)
def test_ranges_are_expanded_up_to_a_bound(text: str, below: int, numbers: list[int]) -> None:
    assert expand_ranges(text, below) == numbers


def test_findings_are_ordered_by_severity_then_path_line_code_and_message() -> None:
    def of(code: str, severity: Severity, path: str | None, line: int | None, message: str) -> Finding:
        return Finding(code, "name", severity, message, FIX, Where(path=path, line=line))

    ordered = [
        of("DC9", Severity.ERROR, None, None, "a"),
        of("DC1", Severity.ERROR, "a.py", 2, "a"),
        of("DC1", Severity.ERROR, "a.py", 10, "a"),
        of("DC1", Severity.ERROR, "a.py", 10, "b"),
        of("DC2", Severity.ERROR, "a.py", 10, "a"),
        of("DC1", Severity.ERROR, "b.py", 1, "a"),
        of("DC1", Severity.WARNING, None, None, "a"),
        of("DC1", Severity.INFO, "a.py", None, "a"),
        of("DC1", Severity.INFO, "a.py", 1, "a"),
    ]
    assert list(sort_findings(reversed(ordered))) == ordered


@pytest.mark.parametrize(
    ("wheres", "merged"),
    [
        ([Where(rank=2, local_rank=2)], Where(rank=2, local_rank=2)),
        ([Where(rank=2, local_rank=2)] * 2, Where(rank=2, local_rank=2)),
        ([Where()] * 2, Where()),
        ([Where(ranks="0-1"), Where(ranks="2,5")], Where(ranks="0-2,5")),
        ([Where(rank=0), Where()], Where(rank=0)),
    ],
)
def test_the_ranks_of_equal_findings_add_up(wheres: list[Where], merged: Where) -> None:
    (finding,) = merge_findings(rules.DC203.found("one GPU", fix=FIX, where=where) for where in wheres)
    assert finding.where == merged


@pytest.mark.parametrize(
    ("where", "key"),
    [
        (Where(), "DC401:taken"),
        (Where(line=3, host="a", rank=1, ranks="1-2", local_rank=1, offset=9), "DC401:taken"),
        (Where(path="a.py", cell=0, line=3), "DC401:a.py:0"),
        (Where(variable="V", gpu="0", peer="b", phase="p", object="o"), "DC401:V:0:b:p:o"),
    ],
)
def test_the_key_of_a_finding_names_no_line_host_or_rank(where: Where, key: str) -> None:
    assert rules.DC401.found("taken", fix=FIX, where=where).key == key


@pytest.mark.parametrize(
    "fix", [FIX._replace(by="nobody"), FIX._replace(where="nowhere"), FIX._replace(text=""), "text"]
)
def test_a_fix_says_who_and_where(fix: Fix) -> None:
    with pytest.raises(ValueError, match="a fix"):
        rules.DC401.found("taken", fix=fix)


def test_merged_reports_keep_what_any_had() -> None:
    one = Report("env", elapsed_s=3.0, out_of_time=True, probes=(ProbeRun("a", "ran"),))
    other = Report("env", elapsed_s=1.0, probes=(ProbeRun("b", "ran"),))
    for both in (one + other, other + one):
        assert (both.elapsed_s, both.out_of_time, len(both.probes)) == (3.0, True, 2)
    assert not (other + other).out_of_time


def test_facts_as_plain_values() -> None:
    plain = to_plain({1: {"b", "a"}, "why": Unavailable("lost"), "no": NotApplicable("none"), "place": Where(rank=1)})
    assert (plain["1"], plain["why"], plain["no"]) == (["a", "b"], {"unavailable": "lost"}, {"not_applicable": "none"})
    assert plain["place"]["rank"] == 1
    assert Unavailable("a") == Unavailable("a") != Unavailable("b")
    assert len({Unavailable("a"), Unavailable("a"), NotApplicable("a")}) == 1
    assert Unavailable("a") != "a"


def test_measurements_story_and_facts_are_in_the_json_where_there_are_some() -> None:
    assert not {"measurements", "story", "facts"} & set(Report("env").as_dict())
    plain = Report("env", measurements={"a": 1}, story={"b": 2}, facts={"C": Where(rank=1)}).as_dict(with_facts=True)
    assert (plain["measurements"], plain["story"], plain["facts"]["C"]["rank"]) == ({"a": 1}, {"b": 2}, 1)
    counted = Report("env", findings=(rules.DC401.found("taken", fix=FIX),) * 2, elapsed_s=1.23456).as_dict()["summary"]
    assert counted == {"error": 2, "warning": 0, "info": 0, "elapsed_s": 1.2346}


@pytest.mark.parametrize(
    ("size", "text"),
    [(12, "12 B"), (1264, "1.2 KiB"), (1536, "1.5 KiB"), (4 << 20, "4 MiB"), (1 << 30, "1 GiB"), (1.26 * (1 << 30), "1.3 GiB")],
)  # fmt: skip
def test_a_size_has_one_decimal_at_most(size: float, text: str) -> None:
    assert size_text(size) == text
