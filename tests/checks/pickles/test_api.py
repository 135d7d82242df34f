"""Pickling as Python calls: what a report holds, what is raised, and what an import costs."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import distcheck
from distcheck.checks.pickles.api import Scanner, report_of
from distcheck.checks.pickles.source_bytes import ScanLimits
from distcheck.checks.pickles.verdict import Policy
from tests.cli.test_cli import environment
from tests.cli.test_pickle import DANGEROUS, ON_A_GPU, SEVEN_ZIP, STATE, WITH_ARGUMENTS, WRAPPED


def test_the_report_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(STATE)
    for given in (path, str(path), STATE):
        report = distcheck.scan_pickle(given)
        assert (report.verdict, report.weights_only, report.complete) == ("safe", "accept", True)
        assert report.path == ("<bytes>" if given is STATE else str(path))
        assert (report.allowlist, report.dangerous, report.findings, report.distributed) == ((), (), (), ())
        assert (report.size, report.format) == (len(STATE), "torch zip")
    assert "loads with weights_only=True" in str(distcheck.scan_pickle(path))


def test_what_a_report_says_beside_the_verdict() -> None:
    assert distcheck.scan_pickle(ON_A_GPU).locations == {"cuda:7": 1}
    assert distcheck.scan_pickle(WRAPPED).prefixes == {"module.": 2}
    report = distcheck.scan_pickle(WITH_ARGUMENTS)
    assert (report.weights_only, report.allowlist, report.imports) == (
        "allowlist",
        ("argparse.Namespace",),
        ("import argparse",),
    )
    assert distcheck.scan_pickle(WITH_ARGUMENTS, allow=["argparse.Namespace"]).weights_only == "accept"
    assert distcheck.scan_pickle(WITH_ARGUMENTS, purpose="pickle").verdict == "safe"


def test_a_dangerous_file() -> None:
    report = distcheck.scan_pickle(DANGEROUS)
    assert report.verdict == "dangerous"
    assert report.dangerous[0].call.startswith("os.system('touch")
    assert [finding.code for finding in report.findings] == ["DC610"]
    assert report.report.worst is distcheck.Severity.ERROR
    assert "os.system" in str(report)
    assert "\x1b" not in str(report)


def test_a_budget_that_ran_out_is_never_fine() -> None:
    content = pickle.dumps(list(range(5000)))
    report = Scanner(Policy(), limits=ScanLimits(opcodes=100)).scan(content)
    assert (report.verdict, report.complete) == ("incomplete", False)
    assert report.unopened
    assert report.report.not_checked
    assert "not all of it" in report.sentence
    assert not distcheck.scan_pickle(SEVEN_ZIP).complete


def test_danger_before_the_budget_is_still_danger() -> None:
    content = DANGEROUS[:-2] + b"".join(b"I1\n0" for _ in range(5000)) + DANGEROUS[-2:]
    assert Scanner(Policy(), limits=ScanLimits(opcodes=200)).scan(content).verdict == "dangerous"


def test_a_fault_of_ours_is_a_finding_and_the_file_is_not_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("distcheck.checks.pickles.verdict.judge", broken)
    report = distcheck.scan_pickle(STATE)
    assert (report.verdict, report.complete, report.weights_only) == ("incomplete", False, None)
    (finding,) = report.findings
    assert finding.code == "DC901"
    assert "KeyError" in finding.message
    (run,) = report.report.probes
    assert run.status == "failed"
    assert "in broken" in (run.traceback or "")


def test_what_can_not_be_read_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        distcheck.scan_pickle(tmp_path / "nowhere.pt")
    with pytest.raises(IsADirectoryError):
        distcheck.scan_pickle(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"torch_version": "two"}, "2.13"),
        ({"allow": ["Namespace"]}, "module.Name"),
        ({"purpose": "torch"}, "weights-only"),
        ({"gpus": -1}, "-1"),
    ],
)
def test_arguments_that_can_not_be_read(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        distcheck.scan_pickle(STATE, **arguments)  # type: ignore[arg-type]


def test_find_unpicklable_and_its_report() -> None:
    found = distcheck.find_unpicklable({"lock": threading.Lock(), "a": 1}, name="state")
    assert not found.ok
    assert [offender.path for offender in found.offenders] == ["state['lock']"]
    report = report_of(found)
    assert [finding.code for finding in report.findings] == ["DC601"]
    assert report.subject["object"]["ok"] is False
    assert distcheck.find_unpicklable({"a": 1}).ok


def test_what_a_limit_ended_is_not_checked() -> None:
    report = report_of(distcheck.find_unpicklable([[number] for number in range(1000)], limit=10))
    assert report.subject["object"]["complete"] is False
    assert any("limit" in item.why for item in report.not_checked)


def test_assert_picklable() -> None:
    distcheck.assert_picklable({"a": [1, 2, 3]})
    with pytest.raises(AssertionError, match=r"state\['lock'\]"):
        distcheck.assert_picklable({"lock": threading.Lock()}, name="state")
    with pytest.raises(AssertionError):
        distcheck.assert_picklable([[number] for number in range(1000)], limit=10)


def test_an_import_costs_nothing_and_a_scan_imports_no_parser_of_options() -> None:
    program = (
        "import sys, distcheck\n"
        "loaded = {name for name in sys.modules if name.startswith('distcheck.')}\n"
        "assert not loaded, loaded\n"
        "distcheck.scan_pickle(b'\\x80\\x04N.')\n"
        "heavy = {'click', 'torch', 'numpy', 'inspect', 'dataclasses', 'pickle', 'subprocess', 'tempfile', 'socket'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert not [name for name in sys.modules if name.startswith(('distcheck.checks.host', 'distcheck.checks.source'))]\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert result.returncode == 0, result.stderr


def test_what_pickle_will_load_is_not_judged_by_torch() -> None:
    """The line on a plain pickle says what it runs, and not that torch.load refuses it."""
    report = distcheck.scan_pickle(b"\x80\x02cmy_project.config\nSettings\n)\x81.")
    assert report.verdict == "needs-allow-listing"
    assert report.sentence == "runs code that is not on the trusted list: my_project.config.Settings"
