"""Baselines: what is known stays known wherever it moves, and one more is new."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.core.baseline import BaselineError, compare, dump_baseline, load_baseline
from distcheck.core.model import Finding, Fix, Where


def finding(path: str | None, line: int, function: str = "main") -> Finding:
    where = Where(path=path, line=line, object=function)
    return rules.DC201.found("it is wrong", where=where, fix=Fix("x", where="code"))


def known(*findings: Finding, folder: str = "/project") -> dict[str, int]:
    return load_baseline(dump_baseline(findings, folder))


def new(findings: list[Finding], baseline: dict[str, int], folder: str = "/project") -> list[Finding]:
    return list(compare(findings, baseline, folder=folder, checked_paths=["/project/train.py"]).new)


def test_lines_do_not_matter_and_numbers_do() -> None:
    baseline = known(finding("/project/train.py", 3), finding("/project/train.py", 9))
    moved = [finding("/project/train.py", line) for line in (5, 50, 51)]
    assert new(moved, baseline) == moved[2:]
    assert new([finding("/project/train.py", 3, "other")], baseline) != []
    assert new([finding("/project/other.py", 3)], baseline) != []


def test_paths_are_relative_to_the_baseline(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    baseline = known(finding("sub/train.py", 3), folder=str(tmp_path))
    assert list(baseline) == ["DC201:sub/train.py:main"]
    os.mkdir("sub")
    monkeypatch.chdir("sub")
    assert new([finding("train.py", 4)], baseline, str(tmp_path)) == []


def test_only_what_was_looked_at_can_be_gone() -> None:
    baseline = known(finding("/project/train.py", 3), finding("/project/other.py", 3), finding("/project/other.py", 4))
    assert compare([], baseline, folder="/project", checked_paths=["/project/train.py"]).gone == 1
    assert compare([], baseline, folder="/project", checked_paths=["/project/other.py"]).gone == 2
    assert compare([], baseline, folder="/project", checked_paths=[]).gone == 0


def test_the_text_is_in_an_order_of_its_own() -> None:
    one, two = finding("/project/a.py", 3), finding("/project/b.py", 3)
    assert dump_baseline([one, two], "/project") == dump_baseline([two, one], "/project")


def test_a_count_that_no_project_has_is_refused() -> None:
    """Python makes no decimal text of the sum of two such numbers."""
    text = '{"distcheck_baseline": 1, "findings": {"DC1:a.py:x": %s, "DC1:a.py:y": %s}}' % ((10**4299 * 9,) * 2)
    with pytest.raises(BaselineError, match="no table from keys to numbers"):
        load_baseline(text)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    with pytest.raises(BaselineError):
        load_baseline(text)


@given(st.lists(st.builds(finding, st.sampled_from(["/project/a.py", "b.py", None]), st.integers(1, 9))))
def test_what_was_written_is_known(findings: list[Finding]) -> None:
    baseline = known(*findings)
    assert new(findings, baseline) == []
    extra = finding("/project/a.py", 99, "another")
    assert new([*findings, extra], baseline) == [extra]
