"""How a process of ours ends, and how it handles signals until then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from distcheck.cli import collective
from distcheck.cli.exit_status import end_with, signal_handlers
from distcheck.core.configuration import Configuration, ConfigurationEntry

from .test_cli import environment


@pytest.mark.parametrize("device", [True, False])
def test_closed_streams_leave_the_status(device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not device:
        monkeypatch.setattr(os, "devnull", "/proc/no-such-device")
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    ended: list[int] = []

    def run() -> int:
        print("what nobody reads")
        return 3

    end_with(run, ended.append)
    assert ended == [3]


@pytest.mark.parametrize(
    ("outcome", "status", "line"),
    [
        (0, 0, ""),
        (3, 3, ""),
        (None, 0, ""),
        ("text", 0, ""),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (OSError(28, "No space left on device"), 2, "distcheck: the output can't be written: No space left on device"),
    ],
)
def test_the_status_that_a_process_ends_with(
    outcome: object, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> object:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    ended: list[int] = []
    end_with(run, ended.append)
    assert ended == [status]
    assert capsys.readouterr().err.strip() == line


def test_a_reader_that_closed_the_pipe_is_no_failure() -> None:
    code = (
        "import os, sys; from distcheck.cli.exit_status import end_with, leave; os.close(0); reader, writer = os.pipe();"
        "os.dup2(writer, 1); os.close(reader); end_with(lambda: print('x' * 100000) or 1, leave)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_where_the_pipe_of_the_output_is_closed_errors_can_still_be_printed() -> None:
    code = (
        "import os, sys; from distcheck.cli.exit_status import end_with; reader, writer = os.pipe();"
        "os.dup2(writer, 1); os.close(reader);"
        "end_with(lambda: print('x' * 100000), lambda status: sys.stderr.write('left'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "left")


def test_what_was_printed_before_an_interrupt_is_not_lost() -> None:
    code = (
        "from distcheck.cli.exit_status import end_with, leave\n"
        "def run():\n    print('so far')\n    raise KeyboardInterrupt\n"
        "end_with(run, leave)"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "so far\n", "Interrupted.\n")


@pytest.mark.parametrize(
    ("before", "handled"),
    [(signal.SIG_DFL, True), (lambda *_: None, True), (signal.SIG_IGN, False)],
    ids=["the default", "another handler", "ignored"],
)
def test_signals_are_handled_unless_ignored_and_then_as_before(before: Any, handled: bool) -> None:
    def handler(*_: object) -> None:
        """Do nothing."""

    original = signal.signal(signal.SIGUSR1, before)
    try:
        with signal_handlers({"SIGUSR1": handler, "SIG_OF_NO_PLATFORM": handler}):
            assert signal.getsignal(signal.SIGUSR1) is (handler if handled else before)
        assert signal.getsignal(signal.SIGUSR1) is before
    finally:
        signal.signal(signal.SIGUSR1, original)


@pytest.mark.parametrize(
    ("option", "configured", "bound", "expected"),
    [
        ((), (), None, None),
        ((), ("DC301",), None, ("DC301",)),
        (("DC302",), ("DC301",), None, ("DC302",)),
        ((), ("DC301",), 400.0, ("DC301", "DC513")),
    ],
    ids=["none", "the configuration", "the option counts more", "with a bound"],
)
def test_rules_that_must_be_checked(
    option: tuple[str, ...], configured: tuple[str, ...], bound: float | None, expected: tuple[str, ...] | None
) -> None:
    configuration = Configuration((ConfigurationEntry("must-check", configured, "pyproject.toml"),))
    given = {"must_check": option, "min_busbw": bound, "baseline": None, "fail_on": "error"}
    must_check = collective._Finish(given, configuration).must_check
    assert (None if must_check is None else must_check.select) == expected
