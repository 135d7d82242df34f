"""The options that several commands share: selection, configuration, output, verdict.

An option has the same name and meaning in each command. What happens with the report is in :mod:`.output`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from distcheck.core.checker import make_selection
from distcheck.core.configuration import Configuration, ConfigurationError, load
from distcheck.core.model import Finding
from distcheck.core.world import World
from distcheck.reporters import FORMATS
from distcheck.rules import Selection, UnknownRule, known

Function = TypeVar("Function", bound=Callable[..., Any])
SEVERITIES = ("error", "warning", "info", "never")
#: Sections of the help of several commands.
RULES = {"Which rules": ("select", "extend_select", "ignore")}
VERDICT: dict[str, tuple[str, ...]] = {"Output and verdict": ()}
HOW_IT_RUNS = ("config", "isolated")


class GroupedCommand(click.Command):
    """A command whose help shows its options in sections."""

    #: title of each section, in order, and its parameters; the one section without any has all other options
    sections: Mapping[str, tuple[str, ...]] = {"Options": ()}

    def section_of(self, name: str | None) -> str:
        """Return the title of the section of a parameter."""
        others = next(title for title, names in self.sections.items() if not names)
        return next((title for title, names in self.sections.items() if name in names), others)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in self.sections}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and not isinstance(parameter, click.Argument):
                groups[self.section_of(parameter.name)].append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=30)


def grouped(sections: Mapping[str, tuple[str, ...]]) -> type[GroupedCommand]:
    """Return the class of a command with these sections in its help."""
    return type("Command", (GroupedCommand,), {"sections": sections})


class Codes(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Rules by code, prefix or name, separated by commas. The option may be repeated."""

    name = "codes"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return value

    def shell_complete(self, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        from distcheck.rules import ALL

        return [CompletionItem(rule.code, help=rule.name) for rule in ALL if rule.code.startswith(incomplete.upper())]


class _WithOldName(click.Option):
    """An option whose last name is current. The others are old names, which work but are not in the help."""

    def get_help_record(self, context: click.Context) -> tuple[str, str] | None:
        names, self.opts = self.opts, self.opts[-1:]
        try:
            return super().get_help_record(context)
        finally:
            self.opts = names


def hang_timeout_option(command: str, default_s: float, text: str) -> Callable[[Function], Function]:
    """Return the option ``--hang-timeout``, with its old name ``--patience``."""
    prefix = f"DISTCHECK_{command.upper()}"
    return click.option(
        "--patience", "--hang-timeout", "hang_timeout", cls=_WithOldName, type=click.FloatRange(0.5, 86400.0),
        default=default_s, show_default=True, metavar="S", help=text,
        envvar=[f"{prefix}_HANG_TIMEOUT", f"{prefix}_PATIENCE"],
    )  # fmt: skip


def _options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return one decorator that adds these options in this order."""

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


selection_options = _options(
    click.option(
        "--select", type=Codes(), multiple=True, metavar="CODES",
        help="Only these rules: codes (DC401), prefixes (DC4), names (master-port-in-use), or ALL.",
    ),
    click.option(
        "--extend-select", type=Codes(), multiple=True, metavar="CODES",
        help="Rules to add to those that are on by default.",
    ),
    click.option("--ignore", type=Codes(), multiple=True, metavar="CODES", help="Rules to switch off."),
)  # fmt: skip
configuration_options = _options(
    click.option(
        "--config", metavar="FILE", help="Read this file instead of the nearest pyproject.toml, setup.cfg or tox.ini."
    ),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
)
verdict_options = _options(
    click.option(
        "--fail-on", type=click.Choice(SEVERITIES),
        help="Exit with 1 at findings of this severity or worse.  [default: error]",
    ),
    click.option(
        "--must-check", type=Codes(), multiple=True, metavar="CODES",
        help="Exit with 3 if one of these rules could not be checked.",
    ),
    click.option("--strict", is_flag=True, help="Exit with 3 if anything could not be checked."),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings. Usage errors give 2."),
)  # fmt: skip
output_options = _options(
    click.option(
        "--output-format", type=click.Choice(list(FORMATS)), default="full", show_default=True,
        help="How to write the report.",
    ),
    click.option("-o", "--output-file", metavar="FILE", help="Write the report to this file."),
    click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto",
        help="Colors. auto: on a terminal; NO_COLOR and FORCE_COLOR override it.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print one line."),
    click.option(
        "-v", "--verbose", count=True,
        help="Show info findings and more evidence; -vv: also facts, and each probe with its time.",
    ),
)  # fmt: skip
baseline_options = _options(
    click.option("--baseline", metavar="FILE", help="Report only findings that are not in this file."),
    click.option(
        "--write-baseline", metavar="FILE", allow_from_autoenv=False,
        help="Write all findings to this file, and exit with 0.",
    ),
)  # fmt: skip
jobs_option = click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one for each core]"
)
#: Options of commands that combine several hosts (``--merge``).
wait_options = _options(
    click.option("--wait", metavar="TIME", help="How long to wait for other hosts: 30s, 2m.  [default: 30s]"),
    click.option("--expect", metavar="HOSTS|N", help="The hosts that must send something: 'gpu[01-40]', or how many."),
)


def configuration_of(world: World, config: str | None, *, isolated: bool) -> Configuration:
    """Return the configuration that applies; raises UsageError if a file is not valid."""
    if isolated:
        return Configuration()
    try:
        return load(world, config)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def selection_and_configuration(world: World, given: Mapping[str, Any]) -> tuple[Selection, Configuration]:
    """Return the rules that the options and the configuration select, and the configuration; raises UsageError."""
    configuration = configuration_of(world, given["config"], isolated=given["isolated"])
    return selected_rules(given, configuration), configuration


def selected_rules(given: Mapping[str, Any], configuration: Configuration) -> Selection:
    """Return the rules that the options and the configuration select; raises UsageError for an unknown rule."""
    return selection_of(
        given["select"] or configuration.values("select"),
        (*given["extend_select"], *configuration.values("extend-select")),
        (*given["ignore"], *configuration.values("ignore")),
    )


def refuse_empty_selection(selection: Selection, command: str, *checks: str) -> None:
    """Raise UsageError if no rule of these checks is selected: the report would look like a sound job's.

    :param checks: by default the command's name
    """
    checks = checks or (command,)
    if not any(selection.takes(rule) for rule in known().values() if set(checks) & set(rule.ways)):
        listing = " or ".join(f"'distcheck rules --way {check}'" for check in checks)
        raise click.UsageError(f"the selection leaves no rule that {command} can see; list them with {listing}")


def selection_of(select: Iterable[str], extend_select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """Return a selection from the options; the UsageError for an unknown rule names the nearest one."""
    try:
        return make_selection(select, extend_select, ignore)
    except UnknownRule as error:
        raise click.UsageError(str(error)) from None


def parse_seconds(text: str) -> float | None:
    """Return ``30``, ``30s`` or ``2m`` in seconds; None for any other text."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)", text.strip())
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else None


def working_folder() -> str:
    """Return the working folder; raises UsageError if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        raise click.UsageError("the working folder was removed; change to an existing folder") from None


def why_absent(path: str) -> str:
    """Return why nothing can be read at a path: it does not exist, or a parent folder can't be searched."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass
    except OSError as error:
        return f"it can't be reached: {error.strerror}"
    return "there is no such file or folder"


def check_output_file(path: str | None, option: str = "-o") -> None:
    """Raise UsageError for a file that can't be written, before any check runs."""
    if path is None or path == "-":
        return
    if not path:
        raise click.UsageError(f"{option} needs the name of a file")
    if os.path.isdir(path):
        raise click.UsageError(f"{option} {path}: it is a folder; name a file")
    from .output import refuse_link_out_of_checkout

    try:
        refuse_link_out_of_checkout(path)
    except OSError as error:
        raise click.UsageError(f"{option} {path}: it can't be written: {error.strerror}") from None
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise click.UsageError(f"{option} {path}: the folder {folder} does not exist; make it, or name another file")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise click.UsageError(f"{option} {path}: it can't be written by this user; name another file")


def write_file_of(option: str, path: str, text: str) -> None:
    """Write the file that an option names; raises UsageError if that fails."""
    from .output import write_file

    try:
        write_file(path, text)
    except OSError as error:
        raise click.UsageError(f"{option} {path}: it can't be written: {error.strerror}") from None


def write_baseline(path: str, findings: Iterable[Finding]) -> None:
    """Write the findings that are known from now on; raises UsageError if that fails."""
    from distcheck.core.baseline import dump_baseline

    folder = os.path.dirname(os.path.abspath(path))
    write_file_of("--write-baseline", path, dump_baseline(findings, folder))


def must_check_of(given: Mapping[str, Any], configuration: Configuration) -> Selection | None:
    """Return the rules that must be checked, from the option or the configuration; None if neither names any."""
    must = given["must_check"] or configuration.values("must-check")
    return selection_of(must) if must else None


def fail_on_of(configuration: Configuration) -> str:
    """Return the severity that the configuration fails on, by default ``error``."""
    word = configuration.word("fail-on") or "error"
    if word not in SEVERITIES:
        raise click.UsageError(
            f"{configuration.origin('fail-on')}: fail-on is {word!r}; expected error, warning, info or never"
        )
    return word
