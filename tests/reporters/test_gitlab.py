"""The code quality report: what GitLab demands of each entry, for all kinds of places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from distcheck.core.model import Report
from distcheck.reporters import render

from .any_report import reports
from .invented import CLEAN, ENV, LINT, MERGED, PLACES, SAMPLES

#: What docs.gitlab.com (CI/CD, code quality, "Code Quality report format") lists as required, in its own words' shape.
DEMANDED = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1, "pattern": "^[^\\n]*$"},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "minLength": 1, "not": {"pattern": "^\\./"}},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}


def issues_of(report: Report) -> list[dict[str, Any]]:
    issues: list[dict[str, Any]] = json.loads(render(report, "gitlab"), parse_constant=pytest.fail)
    jsonschema.validate(issues, DEMANDED)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    return issues


@pytest.mark.parametrize("name", SAMPLES)
def test_every_entry_has_what_gitlab_demands(name: str) -> None:
    issues = issues_of(SAMPLES[name])
    assert len(issues) == len(SAMPLES[name].findings) + (name == "undecided")


def test_an_empty_report_is_an_empty_array() -> None:
    assert issues_of(CLEAN) == []


def test_severities_and_lines() -> None:
    issues = issues_of(LINT)
    assert [issue["severity"] for issue in issues] == [
        "critical", "major", "major", "major", "critical", "major", "info",
    ]  # fmt: skip
    assert issues[0]["location"] == {"path": "train.py", "lines": {"begin": 7, "end": 7}}
    assert issues[0]["description"].startswith("DC209 env-compared-with-int: os.environ")
    assert issues[0]["content"]["body"].startswith("fix (in the code): convert it")


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        ("cell", "explore.ipynb", "(cell 4, line 3)"),
        ("member", "models/evil.pt", "(archive/data.pkl, byte 35)"),
        ("byte", "models/cut.pkl", "(byte 4294967296)"),
        ("object", "distcheck-pickle", "(trainer.lock)"),
        ("variable", "distcheck-env", "(MASTER_PORT)"),
        ("GPU", "distcheck-env", "(local rank 3, GPU 3)"),
        ("host", "distcheck-env", "(gpu39)"),
        ("peer", "distcheck-collective", "(node1, rank 2, peer rank 5, phase stragglers)"),
    ],
)
def test_what_has_no_line_stands_in_line_1_and_says_where_it_is(kind: str, path: str, said: str) -> None:
    command, finding = PLACES[kind]
    (issue,) = issues_of(Report(command, findings=(finding,)))
    assert issue["location"] == {"path": path, "lines": {"begin": 1}}
    assert issue["description"].endswith(said)


def test_paths_are_seen_from_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path / "jobs")
    assert issues_of(LINT)[0]["location"]["path"] == "jobs/train.py"
    assert issues_of(ENV)[3]["location"]["path"] == "/etc/nccl.conf"
    assert issues_of(MERGED)[0]["location"]["path"] == "distcheck-env"


@settings(max_examples=30)
@given(reports())
def test_no_text_breaks_it(report: Report) -> None:
    assert len(issues_of(report)) == len(report.findings)
