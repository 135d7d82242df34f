"""JUnit XML: read by junitparser and by a parser of XML, whatever the texts are."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from distcheck.core.model import Report, Severity
from distcheck.reporters import escape, render

from .any_report import reports
from .invented import BLIND, CLEAN, COLLECTIVE, ENV, LINT, LOG, PICKLE, SAMPLES, UNDECIDED


def suite_of(report: Report) -> TestSuite:
    (suite,) = JUnitXml.fromstring(render(report, "junit").encode())
    assert isinstance(suite, TestSuite)
    return suite


def cases_of(report: Report) -> dict[str, TestCase]:
    cases = {str(case.name): case for case in suite_of(report)}
    assert len(cases) == suite_of(report).tests  # names differ
    return cases


@pytest.mark.parametrize("name", SAMPLES)
def test_junitparser_counts_what_the_document_says(name: str) -> None:
    suite = suite_of(SAMPLES[name])
    said = (suite.tests, suite.failures, suite.errors, suite.skipped)
    suite.update_statistics()
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == said


def test_where_all_is_well_one_case_passes() -> None:
    (case,) = suite_of(CLEAN)
    assert case.is_passed
    assert case.name == "distcheck env"


def test_where_nothing_could_be_looked_at_nothing_passes() -> None:
    cases = list(suite_of(BLIND))
    assert len(cases) == 2
    assert all(case.is_skipped for case in cases)
    # where something was checked, it does
    checked = list(suite_of(BLIND._replace(checked=frozenset({"DC401"}))))
    assert [case.is_passed for case in checked] == [True, False, False]


def test_errors_and_warnings_fail_and_info_does_not() -> None:
    cases = cases_of(LINT)
    outcomes = {name: type(case.result[0]).__name__ if case.result else "passed" for name, case in cases.items()}
    assert list(outcomes.values()).count("Failure") == 6
    assert outcomes["DC208 rank-env-read-without-launcher (train.py)"] == "passed"
    (failure,) = cases["DC209 env-compared-with-int (train.py, <module>)"].result
    assert isinstance(failure, Failure)
    assert failure.type == "error"
    assert failure.message == "os.environ[\"RANK\"] is compared with the number 0: '==' is always false"
    assert "fix (in the code): convert it" in str(failure.text)
    assert "https://distcheck.readthedocs.io/rules/DC209/" in str(failure.text)
    only_info = LINT._replace(findings=LINT.findings[-1:])
    assert [case.is_passed for case in suite_of(only_info)] == [True, True]


def test_what_broke_in_distcheck_is_an_error_and_so_is_an_unknown_cause() -> None:
    by_code = {name.split()[0]: case.result for name, case in cases_of(ENV).items()}
    assert isinstance(by_code["DC901"][0], Error)
    assert isinstance(by_code["DC401"][0], Failure)
    ((unknown, *rest),) = [case.result for case in suite_of(UNDECIDED) if str(case.name).startswith("undecided")]
    assert isinstance(unknown, Error)
    assert not rest


def test_a_run_that_was_cut_off_does_not_pass() -> None:
    (case,) = suite_of(CLEAN._replace(out_of_time=True))
    (error,) = case.result
    assert isinstance(error, Error)
    assert case.name == "distcheck env: out of time"


def test_what_was_not_checked_is_skipped_each_rule_by_itself() -> None:
    skipped = {name: case for name, case in cases_of(ENV).items() if case.is_skipped}
    assert list(skipped) == [
        "DC301 nproc-exceeds-gpus: not checked",
        "DC302 gpus-left-idle: not checked",
        "local rank 2: not checked",
    ]
    (reason,) = skipped["DC301 nproc-exceeds-gpus: not checked"].result
    assert isinstance(reason, Skipped)
    assert reason.message == "not checked: NVML <did> not answer & was left"


def test_names_stay_when_lines_move() -> None:
    moved = LINT._replace(
        findings=tuple(item._replace(where=item.where._replace(line=99, column=3)) for item in LINT.findings)
    )
    assert list(cases_of(moved)) == list(cases_of(LINT))
    assert "DC720 unguarded-save (train.py, <module>) #2" in cases_of(LINT)
    offset = PICKLE.findings[0]._replace(where=PICKLE.findings[0].where._replace(offset=99))
    assert list(cases_of(PICKLE._replace(findings=(offset, PICKLE.findings[1])))) == list(cases_of(PICKLE))


def test_files_and_lines_are_attributes() -> None:
    tree = ElementTree.fromstring(render(LINT, "junit"))
    cases = {case.get("name"): case for case in tree.iter("testcase")}
    first = cases["DC209 env-compared-with-int (train.py, <module>)"]
    assert (first.get("file"), first.get("line")) == ("train.py", "7")
    cell = cases["DC201 global-rank-as-device (explore.ipynb, cell 4)"]
    assert (cell.get("file"), cell.get("line")) == ("explore.ipynb", None)
    assert "at explore.ipynb:cell 4:3:1" in "".join(cell.itertext())


def test_the_story_and_the_measurements_stand_beside_the_cases() -> None:
    said = [
        ElementTree.fromstring(render(report, "junit")).findtext("testsuite/system-out") for report in (LOG, COLLECTIVE)
    ]
    assert "fabric manager is not ready (802)" in str(said[0])
    assert "what    rank 2 on gpu07" in str(said[0])
    assert "all_reduce     1 KiB" in str(said[1])
    assert "bus bandwidth at 1 GiB" in str(said[1])


@settings(max_examples=30)
@given(reports())
def test_no_text_breaks_the_document(report: Report) -> None:
    text = render(report, "junit")
    assert text.isascii()
    tree = ElementTree.fromstring(text)
    suite = suite_of(report)
    loud = [finding for finding in report.findings if finding.severity > Severity.INFO]
    assert suite.failures + suite.errors == len(loud)
    broken = [finding.code == "DC901" for finding in loud]
    assert suite.errors == sum(broken)
    assert suite.tests == len(list(tree.iter("testcase")))
    assert math.isclose(float(suite.time or 0), report.elapsed_s, abs_tol=0.001)
    messages = [element.get("message") for kind in ("failure", "error") for element in tree.iter(kind)]
    wanted = ["\n".join(map(escape, finding.message.split("\n"))) for finding in loud]
    assert sorted(map(str, messages)) == sorted(wanted)


def test_a_name_is_one_line_whatever_the_file_is_called() -> None:
    where = LINT.findings[0].where._replace(path="a\nb\x1b[31m.py", cell=None)
    case = ElementTree.fromstring(render(LINT._replace(findings=(LINT.findings[0]._replace(where=where),)), "junit"))
    name = case.find(".//testcase").get("name")  # type: ignore[union-attr]
    assert name is not None and "(a\\nb\\x1b[31m.py" in name and "\n" not in name
