"""``distcheck ci``: run all checks that apply, in one report with one exit status, within a time limit.

The profiles of a CI runner, a login node, a GPU node and a container are in :mod:`.ci_profiles`, and their parts in
:mod:`.ci_parts`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from distcheck.core.model import Report
from distcheck.core.world import World
from distcheck.reporters import FORMATS, escape, render
from distcheck.reporters.locations import checkout_of

from . import ci_profiles, output
from . import options as shared
from .ci_profiles import PARTS, PROFILES, CiEnvironment, Profile, ProfileChoice
from .ci_report import CiOptions, PartStatus, against, joined

if TYPE_CHECKING:
    from distcheck.reporters.progress import Progress

    from .ci_parts import PartResult

_SECTIONS = {
    "What to check": ("profile", "show_profile", "parts", "with_pickle", "budget"),
    **shared.RULES,
    "Known findings": ("baseline", "write_baseline"),
    **shared.VERDICT,
    "How it runs": shared.HOW_IT_RUNS,
}
#: The least seconds that a part needs: importing torch takes a few, and a part that is stopped midway has no result.
_LEAST_S = {"lint": 0.3, "env": 0.05, "smoke": 5.0, "pickle": 0.3}
#: The command that runs a part alone and shows all of its output.
_ALONE = {"lint": "distcheck lint", "smoke": "distcheck collective --quick", "pickle": "distcheck pickle"}
#: Seconds reserved for a part that follows, so that a large repository does not take all of them; and the largest
#: share of the remaining time to reserve, because the first parts matter more.
_KEPT_S, _MOST_KEPT = {"lint": 5.0, "env": 1.0, "smoke": 15.0, "pickle": 5.0}, 0.25
#: Files in the top folder of a project, even if it was copied without its repository.
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")

EPILOG = """\b
Examples:
  distcheck ci                                      what applies here, within a minute
  distcheck ci src/ launch/ --budget 2m
  distcheck ci --profile gpu-node                   before a node takes jobs
  distcheck ci --show-profile                       what would run here, and why; --profile NAME for another profile
  distcheck ci --output-format github --summary "$GITHUB_STEP_SUMMARY"
  distcheck ci --also sarif=distcheck.sarif --also junit=distcheck.xml
  distcheck ci --write-baseline known.json          accept today's findings; later: --baseline known.json

'distcheck init' writes the file that runs this in GitHub, GitLab or pre-commit.

Each option can be given as a variable: DISTCHECK_CI_PROFILE=login-node.
"""


class CiCommand(shared.GroupedCommand):
    """A command whose help shows its options in sections, and its profiles."""

    sections = _SECTIONS

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(context, formatter)
        with formatter.section("Profiles (--show-profile --profile NAME shows all of one)"):
            formatter.write_dl(
                [(item.name, f"{item.text}: {', '.join(item.parts)}") for item in PROFILES.values()], col_max=30
            )


def _time(text: str) -> float:
    """Return ``90``, ``90s`` or ``2m`` in seconds."""
    seconds = shared.parse_seconds(text) or 0.0
    if not 1.0 <= seconds <= 86400.0:
        raise click.BadParameter(f"{text!r} is not a time limit; expected a time such as 60s, 90 or 2m, from 1s to 24h")
    return seconds


def _parts(text: str) -> tuple[str, ...]:
    """Return the parts that a text names, separated by commas."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    wrong = [name for name in names if name not in PARTS]
    if wrong or not names:
        raise click.BadParameter(f"{(wrong or [text])[0]!r} is not a part; expected some of {', '.join(PARTS)}")
    return names


def _also(text: str) -> tuple[str, str]:
    """Return ``FORMAT=FILE`` as a format and a file: the same report in another format."""
    chosen, equals, path = text.partition("=")
    if not equals or not path or chosen not in FORMATS:
        raise click.BadParameter(f"{text!r}: expected FORMAT=FILE, with a format of {', '.join(FORMATS)}")
    return chosen, path


@click.command("ci", cls=CiCommand, epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_CI"})
@click.argument("paths", metavar="[PATH]…", nargs=-1)
@click.option("--profile", type=click.Choice(list(PROFILES)), help="The kind of host.  [default: detected]")
@click.option("--show-profile", is_flag=True, help="Show what would run and which rules are off, and exit.")
@click.option("--parts", type=_parts, metavar="NAMES", help=f"Exactly these parts, in this order: {', '.join(PARTS)}.")
@click.option("--pickle", "with_pickle", is_flag=True, help="Also check the checkpoints and pickles of the repository.")
@click.option(
    "--budget", type=_time, default="60s", show_default=True, metavar="TIME",
    help="For all parts together; what does not fit is not checked.",
)  # fmt: skip
@shared.baseline_options
@click.option("--summary", metavar="FILE", help="Append the report to this file, as Markdown.")
@click.option(
    "--also",
    type=_also,
    multiple=True,
    metavar="FORMAT=FILE",
    help="Write the report in another format as well.",
)
@shared.selection_options
@shared.output_options
@shared.verdict_options
@shared.configuration_options
def command(**given: Any) -> int:
    """Run all checks that apply here, in one report with one exit status: for CI, and before a node takes jobs.

    It lints the repository, checks this host, and verifies all collectives on two ranks if torch is installed. The
    profile selects the parts and switches rules off. PATHs are files and folders to lint, by default the working
    folder. It never takes longer than its time limit.
    """
    began = time.monotonic()
    shared.working_folder()
    world = World()
    _refuse_contradictions(given)
    selection, configuration = shared.selection_and_configuration(world, given)
    from distcheck.runtime.smoke_test.run import usable_gpus

    gpus = usable_gpus(world)
    choice = _choice(given["profile"], world, gpus)
    if given["show_profile"]:
        return show(choice, gpus)
    from .lint import baseline_of

    baseline = baseline_of(given, configuration)
    fail_on = given["fail_on"] or shared.fail_on_of(configuration)
    options = CiOptions(given, world, configuration, selection, choice, gpus, began + given["budget"], fail_on)
    done = _run(options, parts_of(given, choice.profile))
    report = joined(done, options, time.monotonic() - began)
    if given["write_baseline"] is not None:
        return _write_baseline(report, done, given)
    report = against(report, baseline)
    return _finish(report, done, options)


def parts_of(given: Mapping[str, Any], profile: Profile) -> tuple[str, ...]:
    """Return the requested parts, in order."""
    if given["parts"] is not None:
        return tuple(given["parts"])
    # named files are linted even if the profile has no lint part
    named = ("lint",) if given["paths"] and "lint" not in profile.parts else ()
    return (*named, *profile.parts, *(("pickle",) if given["with_pickle"] else ()))


def _refuse_contradictions(given: Mapping[str, Any]) -> None:
    for option in ("output_file", "write_baseline", "summary"):
        shared.check_output_file(given[option], {"output_file": "-o"}.get(option, f"--{option.replace('_', '-')}"))
    if "-" in (given["write_baseline"], given["summary"]):
        raise click.UsageError("--summary and --write-baseline need the name of a file")
    for _, path in given["also"]:
        if path == "-":
            raise click.UsageError("--also needs the name of a file; --output-format selects what is printed")
        shared.check_output_file(path, "--also")
    _refuse_one_file_for_two(given)
    if given["parts"] is not None and given["with_pickle"] and "pickle" not in given["parts"]:
        raise click.UsageError("--pickle adds to the profile's parts, --parts names all of them; give one of them")
    if given["parts"] is not None and given["paths"] and not {"lint", "pickle"} & set(given["parts"]):
        raise click.UsageError(f"{given['paths'][0]} is a file to check, but --parts has neither lint nor pickle")
    for path in given["paths"]:
        if path == "-":
            raise click.UsageError("standard input can't be checked here; 'distcheck lint -' reads it")
        if not os.path.lexists(path):
            raise click.UsageError(f"{path}: {shared.why_absent(path)}")


def _refuse_one_file_for_two(given: Mapping[str, Any]) -> None:
    """Raise UsageError if two reports have the same file: the first would be lost."""
    wanted = [given["output_file"], given["summary"], given["write_baseline"], *(path for _, path in given["also"])]
    seen = set()
    for path in wanted:
        target = os.path.realpath(path) if path not in (None, "-") else None
        # a device or a pipe accepts several
        if target is None or (os.path.exists(target) and not os.path.isfile(target)):
            continue
        if target in seen:
            raise click.UsageError(
                f"{path} is named for two reports, and would hold only the last; give each its own file"
            )
        seen.add(target)


# where it runs


def _choice(name: str | None, world: World, gpus: int) -> ProfileChoice:
    if name is not None:
        return ProfileChoice(PROFILES[name], "")
    return ci_profiles.choose(surroundings(world, os.environ, gpus))


def surroundings(world: World, environ: Mapping[str, str], gpus: int) -> CiEnvironment:
    """Return the facts that the choice of a profile depends on."""
    from distcheck.checks.host.platform import read_platform
    from distcheck.launch.schedulers import scheduler_of

    detail = [name for name in ci_profiles.CI_VARIABLES if environ.get(name, "").lower() not in ("", "false", "0")]
    submitter = None
    scheduler = scheduler_of(world.environ)
    if scheduler is None or scheduler.job_id is None:
        submitter = next((name for name in ci_profiles.SUBMITTERS if shutil.which(name)), None)
    container = read_platform(world).container
    return CiEnvironment(detail[0] if detail else None, gpus, submitter, container, _in_a_repository())


def _in_a_repository() -> bool:
    from distcheck.checks.source.discovery import SUFFIXES

    # a folder with scripts is a project: a report must not pass because they were not read
    try:
        names = os.listdir()
    except PermissionError:
        names = []
    is_a_project = any(name in _PROJECT_FILES or name.lower().endswith(SUFFIXES) for name in names)
    return is_a_project or checkout_of(os.getcwd()) is not None


def show(choice: ProfileChoice, gpus: int) -> int:
    """Print what a profile runs here."""
    import textwrap

    from tabulate import tabulate

    profile = choice.profile
    table = [
        (name, "\n".join(textwrap.wrap(text, 72, break_on_hyphens=False))) for name, text in ci_profiles.rows(profile)
    ]
    head = f"profile {profile.name}" + (f", since {choice.why}" if choice.why else "")
    here = f"{gpus} GPU{'s' * (gpus != 1)} can be used here; torch is {'' if _has_torch() else 'not '}installed"
    output.to_stdout(f"{head}\n{tabulate(table, tablefmt='plain', disable_numparse=True)}\n{here}\n")
    return output.CLEAN


def _has_torch() -> bool:
    """Return whether torch is installed for this Python, without an import; a folder named torch does not count."""
    found = importlib.util.find_spec("torch")
    return found is not None and found.origin is not None


# the parts


def _run(options: CiOptions, parts: Sequence[str]) -> list[PartStatus]:
    """Run all parts in order. Each may use the remaining time, except for what the next ones need."""
    from distcheck.reporters.progress import Progress

    from .ci_parts import rules_of

    useful = [part for part in parts if any(options.selection.takes(rule) for rule in rules_of(part))]
    if not useful:
        raise click.UsageError(
            f"the selection leaves no rule that {' or '.join(parts)} can see; 'distcheck rules' lists all of them"
        )
    done = []
    with Progress(sys.stderr) as line:
        for number, part in enumerate(parts):
            if part not in useful:
                done.append(PartStatus(part, "left-out", 0.0, detail="the selection leaves no rule that it can see"))
                continue
            kept_s = sum(_KEPT_S[name] for name in parts[number + 1 :] if name in useful and _can_begin(name))
            done.append(_one(part, options, line, kept_s))
    return done


def _can_begin(part: str) -> bool:
    return part != "smoke" or _has_torch()


def _one(part: str, options: CiOptions, line: Progress, kept_s: float) -> PartStatus:
    """Run one part.

    :param kept_s: seconds that the following parts need
    """
    from .subprocess_call import Broken, Overdue

    began = time.monotonic()
    named = options.given["parts"] is not None
    left = options.until - began
    if not _can_begin(part):
        why = f"torch is not installed for {sys.executable}"
        return PartStatus(part, "left-out", 0.0, detail=why, lacking=why if named else "")
    if left < _LEAST_S[part]:
        detail = f"{max(left, 0.0):.1f} s of --budget were left, and it needs {_LEAST_S[part]:g} s"
        return PartStatus(part, "cut", 0.0, detail=detail)
    try:
        seen = _look(part, options, left - min(kept_s, left * _MOST_KEPT), lambda: line.show("ci", part))
    except Overdue:
        took = time.monotonic() - began
        return PartStatus(
            part, "cut", took, detail=f"its time limit ended after {took:.1f} s; a larger --budget gives it more"
        )
    except Broken as broken:
        detail = f"{broken}; '{_ALONE[part]}' runs it alone" if part in _ALONE else str(broken)
        return PartStatus(part, "broken", time.monotonic() - began, detail=detail, lacking=detail)
    finally:
        line.clear()
    elapsed = time.monotonic() - began
    lacking = seen.lacking
    if part == "lint" and lacking:
        # a repository without files to lint is not an error
        named = named or bool(options.given["paths"])
        return PartStatus(part, "left-out", elapsed, None, lacking, lacking if named else "")
    return PartStatus(part, "ran", elapsed, seen.report, seen.detail, lacking)


def _look(part: str, options: CiOptions, limit_s: float, progress: Callable[[], None]) -> PartResult:
    from . import ci_parts
    from .subprocess_call import call

    given = options.given
    profile = options.choice.profile
    if part == "env":
        return ci_parts.look_at_this_host(
            profile, options.gpus, options.world, options.configuration, options.selection, limit_s,
            every_fact=given["verbose"], all_info=options.all_info,
        )  # fmt: skip
    if part == "smoke":
        ranks = options.gpus if profile.nccl and options.gpus > 1 else 0
        selection = ci_parts.with_silence(options.selection, profile, options.gpus)
        smoke: PartResult = call(ci_parts.run_smoke_test, (ranks, selection, limit_s), limit_s, progress).value
        return smoke
    words = _selecting(given)
    if part == "lint":
        words += ["--verbose"] * options.all_info + ["--quiet"] * given["quiet"]
        answer = call(ci_parts.lint, ([*words, "--", *given["paths"]], options.configuration), limit_s, progress)
    else:
        from distcheck.checks.source.discovery import DEFAULT_EXCLUDES

        words += ["--exclude", ",".join(DEFAULT_EXCLUDES)]
        paths = given["paths"] or (".",)
        answer = call(ci_parts.scan, ([*words, "--", *paths], options.configuration), limit_s, progress)
    if answer.text and not given["quiet"]:
        sys.stderr.write(answer.text)
    seen: PartResult = answer.value
    return seen


def _selecting(given: Mapping[str, Any]) -> list[str]:
    """Return the options of the selection, for another command."""
    return [
        word for name in ("select", "extend_select", "ignore") for codes in given[name]
        for word in (f"--{name.replace('_', '-')}", codes)
    ]  # fmt: skip


# known findings


def _write_baseline(report: Report, done: Sequence[PartStatus], given: Mapping[str, Any]) -> int:
    path = given["write_baseline"]
    cut = [item for item in done if item.status in ("cut", "broken")]
    if cut:
        output.say(f"distcheck: no baseline is written: {cut[0].part} did not finish: {cut[0].detail}")
        return output.NOT_CHECKED
    shared.write_baseline(path, report.findings)
    number = len(report.findings)
    output.say(f"distcheck: {path} holds {number} finding{'s' * (number != 1)}; compare with it by --baseline")
    return output.CLEAN


# the end


def _finish(report: Report, done: Sequence[PartStatus], options: CiOptions) -> int:
    """Write the report to all requested files, and return the exit status."""
    given = options.given
    report = output.with_settings_line(report, given, options.configuration)
    style = output.style_of(given)
    written = output.emit(report, given["output_format"], given["output_file"], style)
    to_file = output.make_style("never", verbose=given["verbose"], quiet=False, to_file=True)
    for chosen, path in given["also"]:
        written = _to_file(path, partial(render, report, chosen, to_file), output.write_file) and written
    if given["summary"] is not None:
        written = _to_file(given["summary"], partial(render, report, "markdown", to_file), _append) and written
    own = options.choice.profile.must_check
    requested = given["must_check"] or options.configuration.values("must-check")
    must = shared.selection_of([*requested, *_required(own, done, options)])
    status = output.conclude(
        report, given, written=written, fail_on=options.fail_on, must_check=must if must.select else None
    )
    if status != output.CLEAN or given["exit_zero"]:
        return status
    lacking = [f"{item.part}: {item.lacking}" for item in done if item.lacking]
    for text in lacking:
        output.say(f"distcheck: {escape(text)}")
    return output.NOT_CHECKED if lacking else output.CLEAN


def _required(codes: Iterable[str], done: Sequence[PartStatus], options: CiOptions) -> list[str]:
    """Return the rules that the profile requires, if their part was requested and they are selected."""
    from .ci_parts import rules_of

    wanted = {rule.code: rule for item in done for rule in rules_of(item.part)}
    return [code for code in codes if code in wanted and options.selection.takes(wanted[code])]


def _to_file(path: str, make: Callable[[], str], write: Callable[[str, str], None]) -> bool:
    """Write a text to a file; return False if that fails."""
    try:
        write(path, make())
    except OSError as error:
        output.say(f"distcheck: {path} can't be written: {error.strerror}")
        return False
    return True


def _append(path: str, text: str) -> None:
    """Append a text to a CI system's summary file, which other steps also write."""
    with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
