"""Write the report of a command, and decide the exit status.

This module does not import click. The options of the command line are in :mod:`.options`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from distcheck.core.model import Report, Severity
from distcheck.core.redaction import mask_forms
from distcheck.reporters import Style, render
from distcheck.rules import Selection, known

if TYPE_CHECKING:
    from distcheck.core.configuration import Configuration

#: Exit statuses, as in the help of the group.
CLEAN, FOUND, MISUSED, NOT_CHECKED = 0, 1, 2, 3


def say(text: str) -> None:
    """Print lines on standard error, with credentials masked and control characters visible."""
    from distcheck.reporters.plain import visible

    sys.stderr.write(f"{visible(mask_forms(text))}\n")
    sys.stderr.flush()


def make_style(color: str, *, verbose: int, quiet: bool, to_file: bool) -> Style:
    """Return the style from the options, the terminal, and NO_COLOR (no-color.org) or FORCE_COLOR."""
    colored = color == "always"
    if color == "auto" and not to_file:
        forced = os.environ.get("FORCE_COLOR", "") not in ("", "0")
        colored = (forced or sys.stdout.isatty()) and not os.environ.get("NO_COLOR")
    unicode = to_file or _shows_unicode()
    return Style(color=colored, width=80 if to_file else _width(), verbose=verbose, quiet=quiet, unicode=unicode)


def style_of(given: Mapping[str, Any]) -> Style:
    """Return the style of the report that the options request."""
    to_file = given["output_file"] not in (None, "-")
    return make_style(given["color"], verbose=given["verbose"], quiet=given["quiet"], to_file=to_file)


def _shows_unicode() -> bool:
    """Return whether standard output accepts more than ASCII; files are always UTF-8."""
    try:
        "⣿█µ".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _width() -> int:
    """Return the columns of the terminal, between 40 and 120; 80 without a terminal."""
    try:
        return min(max(os.get_terminal_size(sys.stdout.fileno()).columns, 40), 120)
    except (OSError, ValueError):
        return 80


def emit(report: Report, output_format: str, output_file: str | None, style: Style) -> bool:
    """Write the report. Return False if the file can't be written; the report is then on standard output."""
    text = render(report, output_format, style)
    if output_file is not None and output_file != "-":
        try:
            write_file(output_file, text)
        except OSError as error:
            say(f"distcheck: {output_file} can't be written ({error.strerror}); the report follows")
            to_stdout(text)
            return False
        return True
    to_stdout(text)
    return True


def to_stdout(text: str) -> None:
    """Print a text; a reader may close the pipe early (``| head``), and a name may hold what no encoding has."""
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_link_out_of_checkout(path: str) -> None:
    """Raise PermissionError if a path is a link in the checkout, or below the working folder, that leads out of it."""
    if not os.path.islink(path):
        return
    from distcheck.reporters.locations import repository

    place = repository().place
    target = os.path.realpath(path)
    # a folder above may be a link that the user made
    link = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    if place(link).inside and not place(target).inside:
        raise PermissionError(errno.EACCES, f"it is a link to {target}, outside of the checkout; name that file itself")


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all; a device or pipe is written directly. Raises OSError."""
    from distcheck.core.files import refuse_foreign_link, remove_dead_drafts, write_whole

    refuse_foreign_link(path)
    refuse_link_out_of_checkout(path)
    target = os.path.realpath(path)
    device = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    if device or (os.path.exists(target) and not os.path.isfile(target)):
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return
    remove_dead_drafts([os.path.dirname(target)])
    write_whole(path, text.encode("utf-8", "backslashreplace"))


def exit_status(report: Report, *, fail_on: str, must_check: Selection | None, strict: bool) -> tuple[int, str | None]:
    """Return the exit status, and a line for standard error that explains it, or None.

    1 comes before 3: findings count more than what could not be checked.
    """
    if fail_on != "never" and report.at_least(Severity.parse(fail_on)):
        return FOUND, None
    if must_check is not None:
        every = known().values()
        missed = [rule.code for rule in every if must_check.matches(rule) and rule.code not in report.checked]
        if missed:
            return NOT_CHECKED, f"distcheck: these rules must be checked and were not: {', '.join(missed)}"
    if report.out_of_time:
        return NOT_CHECKED, "distcheck: the time limit ended before everything was checked"
    if strict and report.not_checked:
        return NOT_CHECKED, "distcheck: not everything could be checked, and --strict is given"
    return CLEAN, None


def conclude(
    report: Report, given: Mapping[str, Any], *, written: bool, fail_on: str, must_check: Selection | None
) -> int:
    """Return the exit status after the report is written, and print the line that explains it.

    :param written: whether the report was written to the requested file
    """
    status, line = exit_status(
        report,
        fail_on=fail_on,
        must_check=must_check,
        strict=given["strict"],
    )
    if line is not None:
        say(line)
    if not written:
        return MISUSED
    return CLEAN if given["exit_zero"] else status


def finish(
    report: Report,
    given: Mapping[str, Any],
    configuration: Configuration | None,
    *,
    fail_on: str,
    must_check: Selection | None,
    output_format: str | None = None,
) -> int:
    """Write the report as the options request, and return the exit status.

    :param configuration: its selection of rules is shown in the first line; None if it was not read
    :param output_format: a format instead of the requested one
    """
    if configuration is not None:
        report = with_settings_line(report, given, configuration)
    written = emit(report, output_format or given["output_format"], given["output_file"], style_of(given))
    return conclude(report, given, written=written, fail_on=fail_on, must_check=must_check)


def or_not_checked(status: int, given: Mapping[str, Any], why: str | None) -> int:
    """Return the exit status; NOT_CHECKED if nothing was found, but not all could be checked.

    :param why: the line that explains it, without ``distcheck:`` in front; empty if all was checked
    """
    if status != CLEAN or given["exit_zero"] or not why:
        return status
    say(f"distcheck: {why}")
    return NOT_CHECKED


def with_settings_line(report: Report, given: Mapping[str, Any], configuration: Configuration) -> Report:
    """Return the report with all options, variables and settings that hide rules in its first line."""
    hidden = [f"--{name} {','.join(given[name])}" for name in ("select", "ignore") if given[name]]
    hidden += [
        f"{entry.name} {','.join(entry.values)} ({entry.origin})"
        for entry in configuration.entries
        if entry.name == "ignore" or (entry.name == "select" and not given["select"])
    ]
    if not hidden:
        return report
    subject = dict(report.subject)
    subject["line"] = [*subject.get("line", ()), *hidden]
    return report._replace(subject=subject)


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
