"""The options that all checking commands share, and what they mean: selection, output, verdict.

One vocabulary: an option has the same name and the same meaning in every command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from ..checker import make_selection
from ..configuration import Configuration, ConfigurationError, load
from ..model import Report, Severity
from ..registry import plug_in_rules
from ..reporters import FORMATS, Style, render
from ..rules import Selection, UnknownRule, known
from ..world import World

Function = TypeVar("Function", bound=Callable[..., Any])

#: Exit statuses, as in the help of the group.
CLEAN, FOUND, MISUSED, NOT_CHECKED = 0, 1, 2, 3


class Codes(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Rules by code, prefix or name, separated by commas; the option may be repeated."""

    name = "codes"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return value

    def shell_complete(self, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        from ..rules import ALL

        return [CompletionItem(rule.code, help=rule.name) for rule in ALL if rule.code.startswith(incomplete.upper())]


def selection_options(function: Function) -> Function:
    """``--select``, ``--extend-select``, ``--ignore``."""
    for name, text in (
        ("--ignore", "Rules that keep silent."),
        ("--extend-select", "Rules to add to those that are on by default."),
        ("--select", "Only these rules: codes (DC401), prefixes (DC4), names (master-port-in-use), or ALL."),
    ):
        function = click.option(name, type=Codes(), multiple=True, metavar="CODES", help=text)(function)
    return function


def configuration_options(function: Function) -> Function:
    """``--config``, ``--isolated``."""
    function = click.option("--isolated", is_flag=True, help="Read no configuration file.")(function)
    return click.option(
        "--config", metavar="FILE", help="Read this file instead of the nearest pyproject.toml, setup.cfg or tox.ini."
    )(function)


def configuration_of(world: World, config: str | None, *, isolated: bool) -> Configuration:
    """The configuration that applies; a usage error where a file is not right."""
    if isolated:
        return Configuration()
    try:
        return load(world, config)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def verdict_options(function: Function) -> Function:
    """``--fail-on``, ``--must-check``, ``--strict``, ``--exit-zero``."""
    function = click.option(
        "--exit-zero", is_flag=True, help="Exit with 0 whatever is found (not where it was used wrongly)."
    )(function)
    function = click.option("--strict", is_flag=True, help="Exit with 3 if anything could not be checked.")(function)
    function = click.option(
        "--must-check",
        type=Codes(),
        multiple=True,
        metavar="CODES",
        help="Exit with 3 if one of these rules could not be checked.",
    )(function)
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "info", "never"]),
        help="Exit with 1 at findings of this severity or worse.  [default: error]",
    )(function)


def output_options(function: Function) -> Function:
    """``--output-format``, ``-o``, ``--color``, ``-q``, ``-v``."""
    function = click.option(
        "-v", "--verbose", is_flag=True, help="Show more: info findings, facts, each probe and its time."
    )(function)
    function = click.option("-q", "--quiet", is_flag=True, help="Print one line.")(function)
    function = click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colours; auto: on a terminal, and as NO_COLOR and FORCE_COLOR say.",
    )(function)
    function = click.option("-o", "--output-file", metavar="FILE", help="Write the report to this file.")(function)
    return click.option(
        "--output-format",
        type=click.Choice(list(FORMATS)),
        default="full",
        show_default=True,
        help="How to write the report.",
    )(function)


def selection_of(select: Iterable[str], extend_select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """A selection from the options; a usage error names the nearest rule."""
    try:
        return make_selection(select, extend_select, ignore)
    except UnknownRule as error:
        raise click.UsageError(str(error)) from None


def make_style(color: str, *, verbose: bool, quiet: bool, to_file: bool) -> Style:
    """How to write, from the options, the terminal and NO_COLOR (no-color.org) or FORCE_COLOR."""
    colored = color == "always"
    if color == "auto" and not to_file:
        forced = os.environ.get("FORCE_COLOR", "") not in ("", "0")
        colored = (forced or sys.stdout.isatty()) and not os.environ.get("NO_COLOR")
    unicode = to_file or _shows_unicode()
    return Style(color=colored, width=80 if to_file else _width(), verbose=verbose, quiet=quiet, unicode=unicode)


def _shows_unicode() -> bool:
    """Whether standard output can be written more than ASCII to; files are always UTF-8."""
    try:
        "⣿█µ".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _width() -> int:
    """Columns to write in: the terminal's, between 40 and 120; 80 where there is none."""
    try:
        return min(max(os.get_terminal_size(sys.stdout.fileno()).columns, 40), 120)
    except (OSError, ValueError):
        return 80


def check_output_file(path: str | None, option: str = "-o") -> None:
    """Refuse a file that can't be written before anything is looked at; raises click.UsageError."""
    if path is None or path == "-":
        return
    if os.path.isdir(path):
        raise click.UsageError(f"{option} {path}: it is a folder; name a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise click.UsageError(f"{option} {path}: the folder {folder} does not exist; make it, or name another file")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise click.UsageError(f"{option} {path}: it can't be written by this user; name another file")


def emit(report: Report, output_format: str, output_file: str | None, style: Style) -> bool:
    """Write the report. False where it could not be written; it is then on standard output, so that nothing is lost."""
    text = render(report, output_format, style)
    if output_file is not None and output_file != "-":
        try:
            write_file(output_file, text)
        except OSError as error:
            click.echo(f"distcheck: {output_file} can't be written ({error.strerror}); the report follows", err=True)
            to_stdout(text)
            return False
        return True
    to_stdout(text)
    return True


def to_stdout(text: str) -> None:
    """Print; whoever closes the pipe early (``| head``) has read enough."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all; a device or pipe is written directly. Raises OSError."""
    from pathlib import Path

    # a link stays a link: what it leads to is written
    target = Path(os.path.realpath(path))
    device = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    if device or (target.exists() and not target.is_file()):
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")
        if mode is not None:
            draft.chmod(mode)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def exit_status(report: Report, *, fail_on: str, must_check: Selection | None, strict: bool) -> tuple[int, str | None]:
    """The exit status, and a line for standard error where it needs one.

    1 before 3: what was found counts more than what could not be looked at.
    """
    if fail_on != "never" and report.at_least(Severity.parse(fail_on)):
        return FOUND, None
    if must_check is not None:
        every = known(plug_in_rules()).values()
        missed = [rule.code for rule in every if must_check.matches(rule) and rule.code not in report.checked]
        if missed:
            return NOT_CHECKED, f"distcheck: had to be checked, and was not: {', '.join(missed)}"
    if report.out_of_time:
        return NOT_CHECKED, "distcheck: the time limit was over before everything was looked at"
    if strict and report.not_checked:
        return NOT_CHECKED, "distcheck: --strict, and not everything could be checked"
    return CLEAN, None


def conclude(
    report: Report, given: Mapping[str, Any], *, written: bool, fail_on: str, must_check: Selection | None
) -> int:
    """The exit status of a command whose report is out, and the line on standard error that explains it.

    :param written: whether the report could be written where it was asked for
    """
    status, line = exit_status(
        report,
        fail_on=fail_on,
        must_check=must_check,
        strict=given["strict"],
    )
    if line is not None:
        click.echo(line, err=True)
    if not written:
        return MISUSED
    return CLEAN if given["exit_zero"] else status


def fail_on_of(configuration: Configuration) -> str:
    """The severity that the configuration fails on; ``error`` without one."""
    word = configuration.word("fail-on") or "error"
    if word not in ("error", "warning", "info", "never"):
        raise click.UsageError(
            f"{configuration.origin('fail-on')}: fail-on is {word!r}; expected error, warning, info or never"
        )
    return word


def with_settings_line(report: Report, given: Mapping[str, Any], configuration: Configuration) -> Report:
    """Say in the first line what hides findings: rules selected or ignored by an option, a variable or a file."""
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
