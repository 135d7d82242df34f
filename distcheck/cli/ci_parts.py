"""The parts of ``distcheck ci``: each gives a report of its own, made by the functions of the command it stands for.

``env`` keeps a time limit by itself and looks at this very process; the others are called in a Python of their own
(see :mod:`.apart`), so that none can take longer than it may, whatever it reads. torch is imported there only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from distcheck import rules
from distcheck.checks.host.examine import examine
from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, Report, Rule, Severity
from distcheck.core.world import World
from distcheck.launch.reader import LaunchOptions, make_launch
from distcheck.rules import Selection

from .ci_profiles import Profile

#: The ways by which the rules of each part are seen.
WAYS = {"lint": ("lint", "launch"), "env": ("env",), "smoke": ("live",), "pickle": ("pickle",)}
#: Ranks of the smoke test without GPUs: the fewest that have something to say to each other.
FEW_RANKS = 2
#: Longest time of a phase of the smoke test, in seconds: one that hangs is named while there is time to say it. Two
#: ranks with gloo take less than one; the first collective of NCCL on eight GPUs takes a few.
_PHASE_S = 20.0
#: Phases that may hang one after another before the limit of the whole part is over.
_PHASES = 2.0


class PartResult(NamedTuple):
    """What a part gave."""

    report: Report
    #: in a few words: what it looked at
    detail: str
    #: why not all that it is for could be looked at; "" where it could
    lacking: str = ""


def rules_of(part: str) -> list[Rule]:
    """The rules that a part can see."""
    return [rule for rule in rules.known().values() if set(WAYS[part]) & set(rule.ways)]


def look_at_this_host(
    profile: Profile, gpus: int, world: World, configuration: Configuration, selection: Selection, budget_s: float, *,
    every_fact: bool, all_info: bool,
) -> PartResult:  # fmt: skip
    """The report of ``distcheck env`` as the profile wants it.

    :param every_fact: keep the facts, also those that no rule asked for
    :param all_info: keep the findings of level info
    """
    launch = make_launch(world.environ, options=launch_options(profile, gpus), host_name=world.host_name())
    own = (*selection.select, *selection.extend_select)
    report = examine(
        launch,
        world,
        facts={Configuration: configuration},
        selection=with_silence(selection, profile, gpus),
        budget_s=budget_s,
        every_fact=every_fact,
    )
    shown = tuple(item for item in report.findings if all_info or item.severity > Severity.INFO or _is_named(item, own))
    hidden = len(report.findings) - len(shown)
    detail = "this host" + (f", {hidden} info not shown (-v)" if hidden else "")
    return PartResult(report._replace(findings=shown, facts=report.facts if every_fact else {}), detail)


def with_silence(selection: Selection, profile: Profile, gpus: int) -> Selection:
    """The selection without the rules that keep silent here; an entry of the caller counts more than the same one."""
    own = (*selection.select, *selection.extend_select)
    silent = tuple(code for code in profile.ignored(gpus) if code not in own)
    return selection._replace(ignore=(*selection.ignore, *silent))


def launch_options(profile: Profile, gpus: int) -> LaunchOptions:
    """The launch that ``env`` judges."""
    if profile.ranks == "gpu" or (profile.ranks and gpus):
        return LaunchOptions(nproc_per_node="gpu", nnodes="1")
    if profile.ranks:
        return LaunchOptions(nproc_per_node=str(FEW_RANKS), nnodes="1", backend="gloo")
    return LaunchOptions()


def _is_named(finding: Finding, entries: Sequence[str]) -> bool:
    rule = rules.known().get(finding.code)
    return rule is not None and Selection(tuple(entries)).matches(rule)


def lint(words: Sequence[str], configuration: Configuration) -> PartResult:
    """The report of ``distcheck lint`` with these options and paths; runs in a Python of its own.

    The baseline is left to the caller, who has one for all parts.
    """
    import sys

    from distcheck.reporters.progress import Progress

    from . import lint_inputs, lint_run
    from .lint import command as lint_command
    from .lint import lint_options
    from .lint_results import described, warn_about_inputs

    without = Configuration(tuple(entry for entry in configuration.entries if entry.name != "baseline"))
    options = lint_options(_parsed(lint_command, "lint", words), without)
    inputs = lint_inputs.inputs_of(options)
    with Progress(sys.stderr) as line:
        result = lint_run.look(options, inputs, {}, lint_inputs.DelayedProgress(line, time.monotonic()))
    lint_run.save_cache(options)
    warn_about_inputs(options, inputs, result)
    unmarked = options._replace(given={**options.given, "select": (), "ignore": ()})
    report = described(result, inputs, unmarked, Configuration())
    files = report.subject["files"]
    lacking = "" if files or inputs.problems else "there are no Python files and no launch files"
    return PartResult(report, ", ".join(report.subject["line"]), lacking)


def scan(words: Sequence[str], configuration: Configuration) -> PartResult:
    """The report of ``distcheck pickle`` with these options and paths; runs in a Python of its own."""
    from distcheck.checks.pickles.api import Scanner

    from . import pickle_scan
    from .pickle import asked_of
    from .pickle import command as pickle_command

    options = asked_of(_parsed(pickle_command, "pickle", words), configuration)
    found = pickle_scan.discover(options.paths, options.excludes)
    scanner = Scanner(options.policy, selection=options.selection)
    reports = pickle_scan.scan(scanner, found.files, jobs=options.jobs)
    reports = [report for report in reports if report.path in options.paths or pickle_scan.is_of_ours(report)]
    report = pickle_scan.joined(found, reports, scanner, elapsed_s=0.0)
    verdicts = report.subject["verdicts"]
    unseen = [file["path"] for file in verdicts if not file["complete"]]
    lacking = ""
    if unseen:
        more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
        lacking = f"not all of {unseen[0]}{more} could be looked at: not known to be safe"
    number = len(verdicts)
    return PartResult(report, f"{number} file{'s' * (number != 1)}", lacking)


def prove(nccl_ranks: int, selection: Selection, limit_s: float) -> PartResult:
    """The report of ``distcheck collective --quick`` on this host; runs in a Python of its own.

    :param nccl_ranks: ranks with NCCL, one a GPU; 0: two with gloo
    :raises Broken: torch is there, and can't be imported
    """
    from distcheck.runtime.smoke_test.run import SmokeTorchMissing

    from . import collective
    from .subprocess_call import Broken

    kept: list[Report] = []

    class Timekeeper:
        """Stands where the command prints."""

        def status(self, report: Report) -> int:
            kept.append(report)
            return 0

    words = ["--quick", "--continue", "--timeout", str(round(max(1.0, min(_PHASE_S, limit_s / _PHASES)), 1))]
    words += ["--nproc", str(nccl_ranks or FEW_RANKS), "--backend", "nccl" if nccl_ranks else "gloo"]
    words += ["--device", "cuda" if nccl_ranks else "cpu"]
    given = _parsed(collective.command, "collective", words)
    finish: Any = Timekeeper()
    # this host is judged by the part that is for it: here speaks what only a live group shows
    live = tuple(rule.code for rule in rules_of("smoke") if selection.takes(rule))
    try:
        collective.run_here(given, collective.ask_of(given, Selection(live), first=True), finish)
    except SmokeTorchMissing as error:
        raise Broken(str(error)) from None
    (report,) = kept
    failure = dict(report.measurements).get("failure")
    detail = f"{nccl_ranks or FEW_RANKS} ranks, {'NCCL' if nccl_ranks else 'gloo'}"
    # what was not asked for is nothing that could not be looked at
    wanted = tuple(item for item in report.not_checked if "--quick" not in item.why)
    # a finding says it better
    ends_early = failure and not report.findings
    lacking = f"the smoke test did not come to its end: {report.measurements['sentence']}" if ends_early else ""
    return PartResult(report._replace(facts={}, not_checked=wanted), detail, lacking)


def _parsed(command: click.Command, name: str, words: Sequence[str]) -> dict[str, Any]:
    """A command's options with their defaults, as it would be given them; no variable of it counts."""
    # DISTCHECK_LINT_SELECT is about 'distcheck lint'
    return dict(command.make_context(name, list(words), auto_envvar_prefix=None).params)
