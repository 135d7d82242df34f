"""The text of verdicts on files: a line each with findings below, a table of many, and nothing of it elsewhere."""

from __future__ import annotations

import json

import jsonschema
import pytest

from distcheck import rules
from distcheck.checks.pickles.api import FileReport, failed, summarise, unreadable
from distcheck.checks.pickles.trace import Global
from distcheck.checks.pickles.verdict import Danger
from distcheck.core.model import Fix, Report, Severity, Where
from distcheck.reporters import FORMATS, Style, render

from .test_reporters import REPORT, SCHEMA

SAFE = FileReport("ok.pt", "torch zip", 1000, "safe", "loads with weights_only=True", "accept")
DANGER = Danger("archive/data.pkl", 45, "os.system('id')", "it runs a shell command", Global("os", "system"))
CALLS = rules.DC610.found(
    "loading it calls os.system('id'): it runs a shell command",
    where=Where(path="bad.pt", object="archive/data.pkl", offset=45),
    evidence={"call": "os.system('id')"},
    fix=Fix("do not load this file", where="code"),
)
PREFIX = rules.DC614.found(
    "12 of 12 keys begin with module. (module.weight)",
    where=Where(path="bad.pt", object="module."),
    fix=Fix("take it away", command="consume(state_dict)", where="code"),
)
BAD = FileReport(
    "bad.pt",
    "torch zip",
    1200,
    "dangerous",
    "dangerous: os.system('id')",
    "never",
    dangerous=(DANGER,),
    locations={"cuda:0": 3},
    prefixes={"module.": 12},
    report=Report("pickle", findings=(CALLS, PREFIX), checked=frozenset({"DC610", "DC614"})),
)


def test_a_line_for_each_file_with_its_findings_below() -> None:
    text = render(summarise((SAFE, BAD), elapsed_s=0.02), "full")
    assert text == (
        "distcheck pickle · 2 files\n"
        "\n"
        "bad.pt: torch zip, dangerous\n"
        "error DC610 dangerous-global  (bad.pt, archive/data.pkl, byte 45)\n"
        "  loading it calls os.system('id'): it runs a shell command\n"
        "  help: do not load this file\n"
        "info DC614 wrapper-prefix  (bad.pt, module.)\n"
        "  12 of 12 keys begin with module. (module.weight)\n"
        "  help: take it away\n"
        "        consume(state_dict)\n"
        "\n"
        "ok.pt: torch zip, loads with weights_only=True\n"
        "\n"
        "dangerous  1  bad.pt\n"
        "safe       1\n"
        "\n"
        "1 error, 0 warnings, 1 info, 0 not checked · 0.02 s\n"
    )


def test_where_no_finding_says_why_the_line_does() -> None:
    text = render(summarise((BAD._replace(report=Report("pickle")),)), "full")
    assert "bad.pt: torch zip, dangerous: os.system('id')\n" in text


def many() -> Report:
    safe = [SAFE._replace(path=f"safe{number:04}.pt") for number in range(1200)]
    bad = [
        BAD._replace(
            path=f"bad{number}.pt",
            report=BAD.report._replace(
                findings=tuple(
                    finding._replace(where=finding.where._replace(path=f"bad{number}.pt"))
                    for finding in BAD.report.findings
                )
            ),
        )
        for number in range(5)
    ]
    return summarise((*safe, *bad))


def test_of_many_files_those_that_are_fine_are_counted() -> None:
    text = render(many(), "full")
    assert "safe0001.pt" not in text
    assert text.count("error DC610") == 5
    assert "dangerous      5  bad0.pt, bad1.pt, bad2.pt and 2 more\n" in text
    assert "safe       1,200\n" in text
    # what is worth knowing is a line each
    assert "consume(state_dict)" not in text
    assert "safe0001.pt: torch zip, loads with weights_only=True" in render(many(), "full", Style(verbose=True))
    assert len(text.splitlines()) < 60


def test_quiet_is_one_line() -> None:
    assert len(render(many(), "full", Style(quiet=True)).splitlines()) == 1


@pytest.mark.parametrize("output_format", FORMATS)
def test_what_a_file_says_can_not_steer_a_terminal(output_format: str) -> None:
    evil = "a\x1b[2Jb\rc\x07"
    report = BAD._replace(
        path=f"{evil}.pt",
        sentence=f"dangerous: {evil}",
        format=evil,
        report=Report(
            "pickle",
            findings=(CALLS._replace(message=evil, where=Where(path=f"{evil}.pt", object=evil, offset=4)),),
        ),
    )
    text = render(summarise((report,)), output_format, Style(verbose=True))
    assert not [char for char in text if not char.isprintable() and char != "\n"]


def test_json_has_it_all_and_is_valid() -> None:
    plain = json.loads(render(summarise((SAFE, BAD)), "json"))
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    first, second = plain["subject"]["verdicts"]
    assert (first["path"], second["path"]) == ("bad.pt", "ok.pt")
    assert first["dangers"] == [
        {
            "member": "archive/data.pkl",
            "offset": 45,
            "call": "os.system('id')",
            "why": "it runs a shell command",
            "global": "os.system",
        }
    ]
    assert (first["locations"], first["prefixes"]) == ({"cuda:0": 3}, {"module.": 12})
    assert second["weights_only"]["answer"] == "accept"
    assert plain["subject"]["verdict_counts"]["dangerous"] == 1


def test_json_lines_have_a_line_a_file() -> None:
    rows = [json.loads(line) for line in render(summarise((SAFE, BAD)), "json-lines").splitlines()]
    assert [row["type"] for row in rows] == ["finding", "finding", "file", "file", "summary"]
    assert rows[2]["path"] == "bad.pt"
    assert "verdicts" not in rows[-1]["subject"]


def test_concise_keeps_the_path_in_front() -> None:
    first, second = render(summarise((BAD,)), "concise").splitlines()
    assert first == (
        "bad.pt: DC610 error: loading it calls os.system('id'): it runs a shell command (archive/data.pkl, byte 45)"
    )
    assert second.startswith("bad.pt: DC614 info: ")


def test_github_names_the_place_in_the_message() -> None:
    text = render(summarise((BAD,)), "github")
    assert text.startswith("::error file=bad.pt,title=DC610 dangerous-global::loading it calls os.system")
    assert "(archive/data.pkl, byte 45)" in text


def test_nothing_of_it_is_in_other_reports() -> None:
    plain = json.loads(render(REPORT, "json"))
    assert "verdicts" not in plain["subject"]
    assert "object" not in plain["subject"]


def test_a_file_that_could_not_be_looked_at_is_not_checked_and_never_fine() -> None:
    lost = failed("x.pt", "KeyError: 7")
    closed = unreadable("y.pt", "Permission denied")
    report = summarise((SAFE, lost, closed))
    assert [finding.code for finding in report.findings] == ["DC904", "DC901"]
    assert {item.what for item in report.not_checked} == {"x.pt", "y.pt"}
    assert report.count(Severity.ERROR) == 1
    assert [file["verdict"] for file in report.subject["verdicts"]] == ["incomplete", "incomplete", "safe"]
    assert "not read completely" in render(report, "full")


def test_probes_of_many_files_are_added_up() -> None:
    from distcheck.core.model import ProbeRun

    one = SAFE._replace(report=Report("pickle", probes=(ProbeRun("p", "ran", 0.5),), checked=frozenset({"DC610"})))
    two = one._replace(path="b.pt", report=one.report._replace(checked=frozenset()))
    report = summarise((one, two))
    assert report.probes == (ProbeRun("p", "ran", 1.0),)
    assert "DC610" not in report.checked, "what was not looked for in one file was not looked for"
