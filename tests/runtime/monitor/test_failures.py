"""What an exception that ends a watched script means: a rule, or nothing."""

from __future__ import annotations

import pytest

from distcheck.cli.watch import failure_report_of
from distcheck.core.model import Severity
from distcheck.rules import Selection
from distcheck.runtime.coordination.model import Frame
from distcheck.runtime.coordination.run_script import ScriptExit, how_it_ended


def ended(text: str, *, own: bool = True) -> ScriptExit:
    """The script raised ValueError with this text at train.py:12."""
    frames = (
        Frame("torch/distributed/distributed_c10d.py", 9, "_get_default_group"),
        Frame("train.py", 12, "main", own),
    )
    trace = f'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    f()\nValueError: {text}\n'
    return ScriptExit("raised", 1, f"ValueError: {text}", frames, trace)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Default process group has not been initialized, please make sure to call init_process_group.", "DC740"),
        ("trying to initialize the default process group twice!", "DC741"),
        ("Pair is not connected ([127.0.0.1]:23469$0 <--> [none])", "DC709"),
        ("ProcessGroupGloo::scatter: invalid tensor size at index 2 (expected (4), got (3))", "DC709"),
        ("ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length 3, got 2)", "DC709"),
    ],
)
def test_bad_a_rule_explains_it(text: str, code: str) -> None:
    report = failure_report_of(ended(text), 3, Selection())
    assert report is not None
    (finding,) = report.findings
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert (finding.where.path, finding.where.line, finding.where.rank) == ("train.py", 12, 3)
    assert finding.evidence["raised"] == f"ValueError: {text}"


@pytest.mark.parametrize(
    "end",
    [
        ended("no such split"),
        # it only lost another rank
        ended("Connection closed by peer [10.0.0.1]:4711"),
        # a library's own code, and no frame of the user's
        ended("trying to initialize the default process group twice!", own=False),
    ],
)
def test_good_no_rule_explains_it(end: ScriptExit) -> None:
    """Neither DC740 nor DC741."""
    assert failure_report_of(end, 0, Selection()) is None
    # a process whose rank is not known yet
    assert failure_report_of(ended("trying to initialize the default process group twice!"), -1, Selection()) is None


def test_the_traceback_holds_the_causes() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        end = how_it_ended(error)
    assert end.detail == "ValueError: second"
    assert end.traceback.index("KeyError: 'first'") < end.traceback.index("ValueError: second")
