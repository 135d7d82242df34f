"""The parts of ``distcheck ci``. Each returns a report, made by the functions of its command.

``env`` has its own time limit and checks this process. The other parts run in their own Python with a deadline (see
:mod:`.subprocess_call`). Only those import torch.
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

#: The checks of each part, as rules name them.
WAYS = {"lint": ("lint", "launch"), "env": ("env",), "smoke": ("live",), "pickle": ("pickle",)}
#: Ranks of the smoke test without GPUs: the fewest that communicate.
FEW_RANKS = 2
#: Time limit of a phase of the smoke test, in seconds, so that a hang is reported within the budget. Two ranks with
#: gloo need less than one second; the first collective of NCCL on eight GPUs needs a few.
_PHASE_S = 20.0
#: Phases that may hang one after another within the limit of the part.
_PHASES = 2.0


class PartResult(NamedTuple):
    """The result of a part."""

    report: Report
    #: what it checked, in a few words
    detail: str
    #: why not everything could be checked; "" if it could
    lacking: str = ""


def rules_of(part: str) -> list[Rule]:
    """Return the rules that a part can detect."""
    return [rule for rule in rules.known().values() if set(WAYS[part]) & set(rule.ways)]


def look_at_this_host(
    profile: Profile, gpus: int, world: World, configuration: Configuration, selection: Selection, budget_s: float, *,
    every_fact: bool, all_info: bool,
) -> PartResult:  # fmt: skip
    """Return the report of ``distcheck env`` for the profile.

    :param every_fact: keep the facts, also those that no rule needs
    :param all_info: show the findings of level info
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
    by_shown: dict[bool, list[Finding]] = {True: [], False: []}
    for item in report.findings:
        by_shown[all_info or item.severity > Severity.INFO or _is_named(item, own)].append(item)
    report = report._replace(
        findings=tuple(by_shown[True]), hidden=tuple(by_shown[False]), facts=report.facts if every_fact else {}
    )
    return PartResult(report, "this host")


def with_silence(selection: Selection, profile: Profile, gpus: int) -> Selection:
    """Return the selection without the rules that the profile switches off, unless the caller selects them by code."""
    own = (*selection.select, *selection.extend_select)
    silent = tuple(code for code in profile.ignored(gpus) if code not in own)
    return selection._replace(ignore=(*selection.ignore, *silent))


def launch_options(profile: Profile, gpus: int) -> LaunchOptions:
    """Return the options of the launch that ``env`` checks."""
    if profile.ranks == "gpu" or (profile.ranks and gpus):
        return LaunchOptions(nproc_per_node="gpu", nnodes="1")
    if profile.ranks:
        return LaunchOptions(nproc_per_node=str(FEW_RANKS), nnodes="1", backend="gloo")
    return LaunchOptions()


def _is_named(finding: Finding, entries: Sequence[str]) -> bool:
    rule = rules.known().get(finding.code)
    return rule is not None and Selection(tuple(entries)).matches(rule)


def lint(words: Sequence[str], configuration: Configuration) -> PartResult:
    """Return the report of ``distcheck lint`` with these options and paths; runs in its own Python.

    The caller applies the baseline, which is one for all parts.
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
    """Return the report of ``distcheck pickle`` with these options and paths; runs in its own Python."""
    from distcheck.checks.pickles.api import Scanner

    from . import pickle_scan
    from .pickle import command as pickle_command
    from .pickle import scan_options

    options = scan_options(_parsed(pickle_command, "pickle", words), configuration)
    found = pickle_scan.discover(options.paths, options.excludes)
    scanner = Scanner(options.policy, selection=options.selection)
    reports = pickle_scan.scan(scanner, found.files, jobs=options.jobs)
    reports = [report for report in reports if report.path in options.paths or pickle_scan.is_of_ours(report)]
    report = pickle_scan.joined(found, reports, scanner, elapsed_s=0.0)
    verdicts = report.subject["verdicts"]
    number = len(verdicts)
    return PartResult(report, f"{number} file{'s' * (number != 1)}", pickle_scan.incomplete(verdicts))


def run_smoke_test(nccl_ranks: int, selection: Selection, limit_s: float) -> PartResult:
    """Return the report of ``distcheck collective --quick`` on this host; runs in its own Python.

    :param nccl_ranks: ranks with NCCL, one per GPU; 0: two with gloo
    :raises Broken: torch is installed but can't be imported
    """
    from distcheck.runtime.smoke_test.run import SmokeTorchMissing

    from . import collective
    from .subprocess_call import Broken

    kept: list[Report] = []

    class Timekeeper:
        """Keep the report that the command would print."""

        def status(self, report: Report) -> int:
            kept.append(report)
            return 0

    words = ["--quick", "--continue", "--timeout", str(round(max(1.0, min(_PHASE_S, limit_s / _PHASES)), 1))]
    words += ["--nproc", str(nccl_ranks or FEW_RANKS), "--backend", "nccl" if nccl_ranks else "gloo"]
    words += ["--device", "cuda" if nccl_ranks else "cpu"]
    given = _parsed(collective.command, "collective", words)
    finish: Any = Timekeeper()
    # the part 'env' checks this host: this part reports only what needs a live process group
    live = tuple(rule.code for rule in rules_of("smoke") if selection.takes(rule))
    try:
        collective.run_here(given, collective.ask_of(given, Selection(live), first=True), finish)
    except SmokeTorchMissing as error:
        raise Broken(str(error)) from None
    (report,) = kept
    failure = dict(report.measurements).get("failure")
    detail = f"{nccl_ranks or FEW_RANKS} ranks, {'NCCL' if nccl_ranks else 'gloo'}"
    # what --quick skips was not requested
    wanted = tuple(item for item in report.not_checked if "--quick" not in item.why)
    # a finding is more exact
    ends_early = failure and not report.findings
    lacking = f"the smoke test did not finish: {report.measurements['sentence']}" if ends_early else ""
    return PartResult(report._replace(facts={}, not_checked=wanted), detail, lacking)


def _parsed(command: click.Command, name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return a command's options with their defaults, without the variables of that command."""
    # DISTCHECK_LINT_SELECT is about 'distcheck lint'
    return dict(command.make_context(name, list(words), auto_envvar_prefix=None).params)
