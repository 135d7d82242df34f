"""The file of ``--output-file`` holds the findings of all reports of a job, and none of an earlier job."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.cli import watch
from distcheck.core.model import Finding, Fix, Report, Where
from distcheck.rules import Selection
from distcheck.runtime.coordination.rank_monitor import HANG_TIMEOUT_S


def report_about(line: int) -> Report:
    found: Finding = rules.DC763.found("replicas differ", fix=Fix("average"), where=Where(path="train.py", line=line))
    return Report(stage="rank", command="watch", findings=(found,))


def lines_in(path: Path) -> list[int]:
    return [found["where"]["line"] for found in json.loads(path.read_text())["findings"]]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(watch, "_written", [])
    return tmp_path / "found.json"


def write(file: Path, line: int, output_format: str | None = None) -> None:
    options = watch.WatchOptions(
        "train.py",
        hang_timeout_s=HANG_TIMEOUT_S,
        selection=Selection(),
        output_format=output_format,
        output_file=str(file),
    )
    watch._write(options, report_about(line))


def test_a_later_report_adds_to_the_file(file: Path) -> None:
    for line in (3, 5, 3):
        write(file, line)
    assert sorted(lines_in(file)) == [3, 5]


def test_a_line_may_have_several_findings(file: Path) -> None:
    both = [
        report_about(3).findings[0]._replace(message=f"{what} differs at step 4") for what in ("gradient", "buffer")
    ]
    options = watch.WatchOptions(
        "train.py", hang_timeout_s=HANG_TIMEOUT_S, selection=Selection(), output_format=None, output_file=str(file)
    )
    watch._write(options, report_about(3)._replace(findings=tuple(both)))
    again = [one._replace(message=one.message.replace("4", "8.5")) for one in both]
    watch._write(options, report_about(3)._replace(findings=tuple(again)))
    messages = [found["message"] for found in json.loads(file.read_text())["findings"]]
    assert messages == ["gradient differs at step 8.5", "buffer differs at step 8.5"]


def test_findings_of_another_rank_stay_in_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, 3)
    monkeypatch.setattr(watch, "_written", [])
    write(file, 5)
    assert sorted(lines_in(file)) == [3, 5]


def test_findings_of_an_earlier_job_do_not_stay(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, 3)
    os.utime(file, (0, 0))
    monkeypatch.setattr(watch, "_written", [])
    write(file, 5)
    assert lines_in(file) == [5]


OF_ANOTHER_TOOL = '{"findings": [{"code": 1, "name": "", "severity": 3, "message": "", "fix": {}, "where": {}}]}'


@pytest.mark.parametrize("before", ["", "{", "[]", "no JSON", '{"findings": [{}]}', OF_ANOTHER_TOOL])
def test_a_file_that_is_no_report_is_replaced(file: Path, before: str) -> None:
    file.write_text(before)
    write(file, 5)
    assert lines_in(file) == [5]


def test_a_text_holds_all_findings_of_this_rank(file: Path) -> None:
    write(file, 3, "full")
    write(file, 5, "full")
    assert all(place in file.read_text() for place in ("train.py:3", "train.py:5"))
