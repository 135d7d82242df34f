"""The diagnosis of log files: which were not read, and whether the cause was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.logs.diagnose import diagnose_log, is_undecided
from distcheck.core.model import Severity

LOST = "[rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
UNNAMED = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "train.py", line 3, in <module>\n'
    "[rank0]: ValueError: a fault of the script\n"
)


def log(folder: Path, text: str, name: str = "train.log") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("text", "outcome", "undecided"),
    [("step 1 loss 2.0\n", "clean", False), (LOST, "consequences", True), (UNNAMED, "unnamed", True)],
)
def test_a_cause_that_is_not_in_the_text_is_not_checked(
    text: str, outcome: str, undecided: bool, tmp_path: Path
) -> None:
    report = diagnose_log(log(tmp_path, text))
    assert (report.command, report.story["outcome"], dict(report.facts)) == ("log", outcome, {})
    assert is_undecided(report) is undecided
    assert ("the cause" in {each.what for each in report.not_checked}) is undecided


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4711 RUNNING AT node01", "consequences"),
        ("flux-job: task(s) exited with exit code 1", "consequences"),
        ("flux-job: task(s) exited with exit code 0", "clean"),
        ("ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 2] was aborted.", "consequences"),
        ("launch.py:263] Local processes completed.", "clean"),
    ],
)
def test_a_launcher_that_reports_a_failure_ends_no_job_well(line: str, outcome: str, tmp_path: Path) -> None:
    assert diagnose_log(log(tmp_path, f"step 4 loss 0.3\n{line}\n")).story["outcome"] == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("step 4 loss 0.3\nERROR: shard 3 is empty\n", "unnamed"),
        ("step 4 loss 0.3\nERROR:root:shard 3 is empty\n", "unnamed"),
        ("step 4 loss 0.3\nCRITICAL:train.data:no shard\n", "unnamed"),
        ("step 4 loss 0.3\nERROR:root:no accuracy of class 7\nstep 5 loss 0.3\n", "clean"),
        ("step 4 loss 0.3\nRESULT_ERROR:a:b\n", "clean"),
        # the training began after it
        ("ERROR: pip's dependency resolver does not take into account all packages\nstep 1 loss 2.0\n", "clean"),
        ("ERROR: the cache is empty\n" + "loading a shard\n" * 80, "clean"),
    ],
)
def test_a_line_that_begins_with_error(text: str, outcome: str, tmp_path: Path) -> None:
    assert diagnose_log(log(tmp_path, text)).story["outcome"] == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("train.py: error: argument --lr: invalid float value: 'x'\nJob finished at Mon Nov 30 11:02:03\n", "unnamed"),
        ("run.sh: line 3: torchrun: command not found\nDone.\n", "unnamed"),
        ("step 4\nrun.sh: line 9: 4711 Segmentation fault (core dumped) python x.py\nThis job is done\n", "unnamed"),
        # the program goes on below it, or reports its own end
        ("train.py: error: no metric\nstep 5 loss 0.3\nJob finished at Mon Nov 30 11:02:03\n", "clean"),
        ("train.py: error: no metric\nTraining completed in 00:12:31\n", "clean"),
        ("step 4 loss 0.3\nJob finished at Mon Nov 30 11:02:03\n", "clean"),
    ],
)
def test_the_last_line_of_a_job_script_is_no_sign_of_life(text: str, outcome: str, tmp_path: Path) -> None:
    assert diagnose_log(log(tmp_path, text)).story["outcome"] == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Training completed\nwandb: ERROR Failed to sync 1 file\n", "clean"),
        ("ERROR: pip's dependency resolver does not currently take into account all the packages\n", "clean"),
        ("Training completed\nERROR: the model could not be saved\n", "unnamed"),
        (
            "wandb: ERROR Run initialization timed out\nTraceback (most recent call last):\n"
            '  File "/w/train.py", line 3, in <module>\n    wandb.init()\nwandb.errors.CommError: no answer\n',
            "unnamed",
        ),
    ],
)
def test_errors_of_tools_are_no_failures_of_the_job(text: str, outcome: str, tmp_path: Path) -> None:
    assert diagnose_log(log(tmp_path, text)).story["outcome"] == outcome


_SPAWN = "/opt/env/lib/python3.7/site-packages/torch/multiprocessing/spawn.py"
_OF_A_PARENT = """Traceback (most recent call last):
  File "train.py", line 20, in <module>
    {call}
  File "{path}", line 118, in join
    raise Exception(msg)
Exception:

"""
_OF_A_CHILD = """-- Process 3 terminated with the following error:
Traceback (most recent call last):
  File "train.py", line 12, in run
    for batch in loader:
"""


@pytest.mark.parametrize(
    ("text", "guilty"),
    [
        (_OF_A_PARENT.format(call="mp.spawn(run)", path=_SPAWN) + _OF_A_CHILD, {"rank": 3, "local_rank": 3}),
        (
            _OF_A_PARENT.format(call="mp.spawn(run)", path=_SPAWN) + _OF_A_CHILD + "KeyError: 4\n",
            {"rank": 3, "local_rank": 3},
        ),
        (
            _OF_A_PARENT.format(call="mp.spawn(run)", path=_SPAWN) + _OF_A_CHILD.split("\n", 1)[0] + "\nKeyError: 4\n",
            {"rank": 3},
        ),
        # an exception of the script that only looks like the parent's
        (_OF_A_PARENT.format(call="join()", path="pool.py"), {}),
    ],
)
def test_the_traceback_of_a_parent_only_reports_its_process(text: str, guilty: dict[str, int], tmp_path: Path) -> None:
    story = diagnose_log(log(tmp_path, text)).story
    assert (story["outcome"], story["guilty"]) == ("unnamed", guilty)


@pytest.mark.parametrize(("others", "severity"), [(["step 1\n"], Severity.INFO), ([], Severity.ERROR)])
def test_a_file_that_cannot_be_read_is_a_finding(others: list[str], severity: Severity, tmp_path: Path) -> None:
    missing = str(tmp_path / "no.log")
    report = diagnose_log(missing, *(log(tmp_path, text) for text in others))
    (finding,) = report.findings
    assert (finding.code, finding.where.path, finding.severity) == ("DC904", missing, severity)
    assert finding.evidence["why"] in finding.message
    assert finding.evidence["lines_read"] == 0
    assert diagnose_log(missing, ignore=["DC904"]).findings == ()
    assert diagnose_log(missing, select=["DC1"]).findings == ()
