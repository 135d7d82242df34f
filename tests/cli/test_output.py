"""The exit status, and how a report is written: what scripts that call distcheck rely on."""

from __future__ import annotations

import os
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distcheck import rules
from distcheck.cli import output
from distcheck.core.model import Finding, Fix, NotChecked, Report, Severity
from distcheck.rules import Selection


def finding(severity: Severity | None) -> tuple[Finding, ...]:
    """A finding of DC320, which may have each severity, or none."""
    return () if severity is None else (rules.DC320.found("small", fix=Fix("do it"), severity=severity),)


INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
LACKS = (NotChecked("DC301", "no driver"),)


@pytest.mark.parametrize(
    ("worst", "fail_on", "status"),
    [
        (None, "info", 0),
        (INFO, "info", 1), (INFO, "warning", 0), (INFO, "error", 0), (INFO, "never", 0),
        (WARNING, "info", 1), (WARNING, "warning", 1), (WARNING, "error", 0), (WARNING, "never", 0),
        (ERROR, "info", 1), (ERROR, "warning", 1), (ERROR, "error", 1), (ERROR, "never", 0),
    ],
)  # fmt: skip
def test_a_finding_at_or_above_the_level_is_status_1(worst: Severity | None, fail_on: str, status: int) -> None:
    report = Report("env", findings=finding(worst))
    assert output.exit_status(report, fail_on=fail_on, must_check=None, strict=False) == (status, None)


@pytest.mark.parametrize(
    ("facts", "must_check", "strict", "status", "line"),
    [
        ({}, None, True, 0, None),
        ({"not_checked": LACKS}, None, False, 0, None),
        ({"not_checked": LACKS}, None, True, 3, "--strict"),
        ({"out_of_time": True}, None, False, 3, "time limit"),
        ({"checked": frozenset({"DC301"})}, ("DC301",), False, 0, None),
        ({"checked": frozenset({"DC302"})}, ("DC301", "DC302"), False, 3, "were not: DC301"),
        ({"out_of_time": True, "not_checked": LACKS}, ("DC301",), True, 3, "were not: DC301"),
    ],
)
def test_what_had_to_be_checked_and_was_not_is_status_3(
    facts: dict[str, Any], must_check: tuple[str, ...] | None, strict: bool, status: int, line: str | None
) -> None:
    selection = None if must_check is None else Selection(select=must_check)
    found, said = output.exit_status(Report("env", **facts), fail_on="error", must_check=selection, strict=strict)
    assert found == status
    assert said is None if line is None else said is not None and line in said
    if said is not None:
        assert "DC302" not in said


def test_a_finding_counts_more_than_what_was_not_checked() -> None:
    report = Report("env", findings=finding(ERROR), not_checked=LACKS, out_of_time=True)
    must_check = Selection(select=("DC301",))
    assert output.exit_status(report, fail_on="error", must_check=must_check, strict=True) == (1, None)


@pytest.mark.parametrize(
    ("report", "written", "exit_zero", "status", "lines"),
    [
        (Report("env"), True, False, 0, 0),
        (Report("env", findings=finding(ERROR)), True, False, 1, 0),
        (Report("env", findings=finding(ERROR)), True, True, 0, 0),
        (Report("env", findings=finding(ERROR)), False, False, 2, 0),
        (Report("env", findings=finding(ERROR)), False, True, 2, 0),
        (Report("env", out_of_time=True), True, False, 3, 1),
        (Report("env", out_of_time=True), True, True, 0, 1),
        (Report("env", out_of_time=True), False, False, 2, 1),
    ],
)
def test_the_status_of_a_command(
    report: Report, written: bool, exit_zero: bool, status: int, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"strict": False, "exit_zero": exit_zero}
    assert output.conclude(report, given, written=written, fail_on="error", must_check=None) == status
    assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize(
    ("status", "exit_zero", "why", "expected"),
    [
        (0, False, "2 files were not read", 3),
        (0, True, "2 files were not read", 0),
        (0, False, "", 0),
        (0, False, None, 0),
        (1, False, "2 files were not read", 1),
        (2, True, "2 files were not read", 2),
    ],
)
def test_what_was_not_checked_counts_where_nothing_was_found(
    status: int, exit_zero: bool, why: str | None, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert output.or_not_checked(status, {"exit_zero": exit_zero}, why) == expected
    assert capsys.readouterr().err == (f"distcheck: {why}\n" if expected == 3 else "")


@pytest.mark.parametrize(
    ("color", "variables", "terminal", "to_file", "colored"),
    [
        ("always", {"NO_COLOR": "1"}, False, True, True),
        ("never", {"FORCE_COLOR": "1"}, True, False, False),
        ("auto", {}, True, False, True),
        ("auto", {}, False, False, False),
        ("auto", {}, True, True, False),
        ("auto", {"NO_COLOR": "1"}, True, False, False),
        ("auto", {"NO_COLOR": ""}, True, False, True),
        ("auto", {"FORCE_COLOR": "1"}, False, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False, False),
        ("auto", {"FORCE_COLOR": ""}, False, False, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False, False),
    ],
)
def test_when_a_report_has_colors(
    color: str,
    variables: dict[str, str],
    terminal: bool,
    to_file: bool,
    colored: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert output.make_style(color, verbose=False, quiet=False, to_file=to_file).color is colored


@pytest.mark.parametrize(
    ("columns", "to_file", "width"),
    [(10, False, 40), (41, False, 41), (119, False, 119), (500, False, 120), (None, False, 80), (100, True, 80)],
)
def test_how_wide_a_report_is(columns: int | None, to_file: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(_: int) -> SimpleNamespace:
        if columns is None:
            raise OSError("no terminal")
        return SimpleNamespace(columns=columns)

    monkeypatch.setattr(os, "get_terminal_size", size)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=lambda: 1, isatty=lambda: True, encoding="utf-8"))
    assert output.make_style("auto", verbose=False, quiet=False, to_file=to_file).width == width


@pytest.mark.parametrize(
    ("encoding", "to_file", "unicode"),
    [
        ("utf-8", False, True),
        ("ascii", False, False),
        (None, False, False),
        ("no-such", False, False),
        ("ascii", True, True),
    ],
)
def test_a_terminal_without_unicode_gets_ascii(
    encoding: str | None, to_file: bool, unicode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SimpleNamespace(fileno=StringIO().fileno, isatty=lambda: False, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    assert output.make_style("auto", verbose=False, quiet=False, to_file=to_file).unicode is unicode


@pytest.mark.parametrize(("file", "to_file"), [(None, False), ("-", False), ("report.txt", True)])
def test_the_options_say_how_to_write(file: str | None, to_file: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_width", lambda: 100)
    style = output.style_of({"output_file": file, "color": "never", "verbose": True, "quiet": False})
    assert (style.width, style.verbose, style.quiet) == (80 if to_file else 100, True, False)


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    target, link = tmp_path / "report.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    output.write_file(str(link), "new \udcff")
    assert target.read_text() == "new \\udcff"
    assert link.is_symlink()
    assert target.stat().st_mode & 0o7777 == 0o640
    output.write_file(str(tmp_path / "first.txt"), "made")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.txt", "link.txt", "report.txt"]


def test_a_file_that_cannot_be_replaced_stays_and_no_draft_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.txt"
    target.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="full"):
        output.write_file(str(target), "new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]
    assert target.read_text() == "old"


@pytest.mark.parametrize(
    ("file", "status", "on_stdout"),
    [(None, 0, True), ("-", 0, True), ("report.txt", 0, False), ("#1.txt", 0, False), ("no/such.txt", 2, True)],
)
def test_a_report_is_written_to_the_file_or_to_standard_output(
    file: str | None,
    status: int,
    on_stdout: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"output_file": file, "output_format": "json", "color": "never", "verbose": False, "quiet": False}
    given |= {"strict": False, "exit_zero": False}
    written_with = output.finish(
        report=Report("env"), given=given, configuration=None, fail_on="error", must_check=None
    )
    assert written_with == status
    written = capsys.readouterr()
    assert written.out.startswith("{") is on_stdout
    assert ("can't be written" in written.err) is (status == 2)
    assert [path.name for path in tmp_path.iterdir()] == ([] if on_stdout else [file])


@pytest.mark.parametrize(
    ("select", "ignore", "entries", "line"),
    [
        ((), (), [], []),
        (("DC3", "DC4"), (), [], ["--select DC3,DC4"]),
        ((), ("DC301",), [], ["--ignore DC301"]),
        ((), (), [("ignore", "site.toml")], ["ignore DC320 (site.toml)"]),
        ((), (), [("select", "site.toml")], ["select DC320 (site.toml)"]),
        # the option replaces the file's selection
        (("DC3",), (), [("select", "site.toml")], ["--select DC3"]),
        (("DC3",), (), [("ignore", "site.toml")], ["--select DC3", "ignore DC320 (site.toml)"]),
        ((), (), [("extend-select", "site.toml")], []),
    ],
)
def test_the_first_line_names_what_hides_findings(
    select: tuple[str, ...], ignore: tuple[str, ...], entries: list[tuple[str, str]], line: list[str]
) -> None:
    settings: Any = SimpleNamespace(
        entries=[SimpleNamespace(name=name, values=("DC320",), origin=origin) for name, origin in entries]
    )
    report = Report("env", subject={"line": ["host"]})
    shown = output.with_settings_line(report, {"select": select, "ignore": ignore}, settings)
    assert shown.subject["line"] == ["host", *line]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output.write_file(str(pipe), "report")
        assert os.read(reader, 100) == b"report"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(("counted", "cores"), [(None, 1), (1, 1), (6, 6)])
def test_cores_where_no_process_is_bound(counted: int | None, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    assert output.cores() == cores


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_text_that_no_encoding_has_is_printed(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may hold half of a surrogate pair: it ended in a traceback."""
    import io

    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding, write_through=True))
    output.to_stdout("a\ud800b\n")
    output.to_stdout("plain\n")
    assert written.getvalue() == b"a\\ud800b\nplain\n"
