"""The report of a rehearsal: what its probes find, what the outputs of failing ranks mean, and lint's findings."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distcheck.core.checker import Checker
from distcheck.core.configuration import Configuration
from distcheck.core.model import (
    Finding,
    NotChecked,
    Report,
    Severity,
    expand_ranges,
    merge_not_checked,
    placement_of,
    rank_ranges,
    sort_findings,
)
from distcheck.rules import Selection
from distcheck.runtime.coordination.locations import split_place
from distcheck.runtime.coordination.model import Positions
from distcheck.runtime.coordination.stack_report import plain_job
from distcheck.runtime.rehearsal.fake_cuda import CANNOT
from distcheck.runtime.rehearsal.simulation import outcome, trackers
from distcheck.runtime.rehearsal.simulation.launcher import HUNG, NO_STORE, TIME, RehearsalResult
from distcheck.runtime.rehearsal.simulation.plan import Rehearsal, RehearsalPlan, module_file

from .failure_findings import findings_of_failure

if TYPE_CHECKING:
    from distcheck.runtime.rehearsal.simulation.cli_args import ParsedCommand

    from .lint_run import LintResult

_SHARED = ("hang_detector", "sample_checks", "epochs", "splits", "worker_calls", "reductions")
_TOPICS = (
    "samples", "batch_counts", "devices", "gradients", "groups", "pickling", "files", "console_output", "buffers",
    "messages", "training", "models", "inputs", "reductions", "dropouts", "reference", "failed_calls",
)  # fmt: skip
#: Rules whose findings explain why replicas differ.
_CAUSES_OF_DRIFT = frozenset({"DC713", "DC750", "DC751", "DC756", "DC757", "DC758", "DC759", "DC764"})
#: Where the probes stand.
PROBE_MODULES = (
    *(f"distcheck.runtime.coordination.{topic}" for topic in _SHARED),
    *(f"distcheck.runtime.rehearsal.simulation.{topic}" for topic in _TOPICS),
)


#: Rules about calls and messages that don't match.
_CALLS_THAT_DIFFER = frozenset({"DC701", "DC702", "DC706", "DC709"})


def report_of(
    parsed: ParsedCommand, result: RehearsalResult, selection: Selection, configuration: Configuration
) -> Report:
    """The whole of it."""
    rehearsal = result.rehearsal
    plan = rehearsal.plan
    positions = result.verdict or Positions((), plan.world_size)
    judge = Checker(selection, modules=PROBE_MODULES).plan(Rehearsal, Positions, command="rehearse", closed=True)
    report = judge.run(rehearsal, positions)
    diagnosed = _diagnosed(result, selection)
    # what a probe has seen happen is surer than the text that it led to
    seen = [item for item in report.findings if item.severity > Severity.INFO]
    known = {item.code for item in seen} | {(item.where.path, item.where.line) for item in seen if item.where.path}
    if known & _CALLS_THAT_DIFFER:
        # what the transport prints of them, in the words of a collective
        known.add("DC517")
    news = [item for item in diagnosed if not {item.code, (item.where.path, item.where.line)} & known]
    found = [*_without_consequences(report.findings, news, result), *news]
    linted = _lint(parsed, found, configuration)
    found, others = _apply_comments(
        [*found, *_missing_results(linted, result), *_explained(linted, result, found)], linted
    )
    failed = _failed(result, explained=any(item.severity is Severity.ERROR for item in found))
    missed = [NotChecked(what, why) for what, why in parsed.left_out]
    return report._replace(
        findings=sort_findings(_with_source(item) for item in found),
        not_checked=merge_not_checked((*report.not_checked, *missed, *outcome.not_checked(result))),
        subject=_subject(result, failed, others, linted),
        facts={"Rehearsal": rehearsal},
        elapsed_s=result.elapsed_s,
    )


def _without_consequences(
    findings: Iterable[Finding], diagnosed: Sequence[Finding], result: RehearsalResult
) -> list[Finding]:
    """Drop findings that are only consequences of another one: ranks wait for one whose failure is explained, or whose
    data has come to its end before theirs."""
    found = list(findings)
    known = {f"{one.where.path}:{one.where.line}" for one in (*found, *diagnosed) if one.severity > Severity.INFO}
    for failure in outcome.failures(result.rehearsal.ends):
        if failure.ends[0].place in known:
            found = [one for one in found if not set(_ranks(one, "missing")).intersection(failure.ranks)]
    if any(map(_explains_drift, found)):
        found = [one for one in found if one.code != "DC763" or _explains_drift(one)]
    found = [one for one in found if not _is_known_before(one, found)]
    for cause in [one for one in found if one.code == "DC519" and one.evidence.get("batches")]:
        batches = {int(rank): count for rank, count in cause.evidence["batches"].items()}
        found = [one for one in found if one is cause or not _follows(one, batches, result.verdict)]
    return found


def _explains_drift(finding: Finding) -> bool:
    """Whether a finding names why replicas differ: a rule of a cause, or a rank that changed its copy after DDP."""
    return finding.code in _CAUSES_OF_DRIFT or (finding.code == "DC763" and "wrapped_at" in finding.evidence)


def _is_known_before(finding: Finding, found: Sequence[Finding]) -> bool:
    """Whether equal inputs, or copies that drift apart, are known from what makes them so."""
    if "copies_of" in finding.evidence:
        return any(one.code in ("DC763", finding.code) and "copies_of" not in one.evidence for one in found)
    return "equal_inputs_of" in finding.evidence and any(
        one.code in ("DC732", "DC735", "DC736") and "equal_inputs_of" not in one.evidence for one in found
    )


def _follows(finding: Finding, batches: Mapping[int, int], verdict: Positions | None) -> bool:
    """Whether ranks wait, or call something else, just because they have more batches than others."""
    if waiting := _ranks(finding, "waiting"):
        missing = _ranks(finding, "missing")
        return (
            bool(missing)
            and {*waiting, *missing} <= batches.keys()
            and (min(batches[rank] for rank in waiting) > max(batches[rank] for rank in missing))
        )
    for mismatch in () if verdict is None else verdict.mismatches:
        if finding.evidence.get("number") == mismatch.number and finding.evidence.get("group") == mismatch.group:
            sides = [{batches.get(rank) for rank in ranks} for ranks, _ in mismatch.calls]
            alike = all(len(side) == 1 and None not in side for side in sides)
            return alike and len(set().union(*sides)) == len(sides) > 1
    return False


def _ranks(finding: Finding, name: str) -> list[int]:
    """The ranks that its evidence names: ``0-2,5``."""
    return expand_ranges(str(finding.evidence.get(name) or ""))


def _subject(result: RehearsalResult, failed: str, others: int, linted: LintResult | None) -> dict[str, Any]:
    plan = result.rehearsal.plan
    each = _ranks_of_a_node(result.rehearsal)
    shape = f"{plan.nnodes} node{'s' * (plan.nnodes > 1)} x {each} rank{'s' * (each != 1)}"
    steps = outcome.steps_of(result.rehearsal)
    line = [plan.target, f"{shape} ({plan.launcher})", f"{steps} step{'s' * (steps != 1)}"]
    line.append(f"{result.elapsed_s:.0f} s")
    closing = outcome.failure_lines(result)
    if result.written:
        closing.append(f"the script {result.written}")
    if offline := trackers.offline_note(result.rehearsal.rows):
        closing.append(offline)
    if others and linted is not None:
        command = f"distcheck lint {' '.join(linted.files)}"
        closing.append(f"lint, which only reads, has {others} more finding{'s' * (others > 1)}: {command}")
    subject: dict[str, Any] = {
        "line": line,
        "closing": [*closing, ""] if closing else [],
        "failed": failed,
        "ended": result.why,
        "steps": steps,
        "ends": [end._asdict() for end in result.rehearsal.ends],
    }
    if plan.launcher != "script":
        subject["placement"] = placement_of({rank: plan.node_name(rank) for rank in range(plan.world_size)})
    # a failed rank is reported with its last lines
    if result.verdict is not None and result.verdict.ranks and not outcome.failures(result.rehearsal.ends):
        subject["jobs"] = [_job(result.verdict, plan)]
    return subject


def _ranks_of_a_node(rehearsal: Rehearsal) -> int:
    plan = rehearsal.plan
    return (len(rehearsal.ends) if plan.launcher == "script" else plan.world_size) // plan.nnodes


def _job(verdict: Positions, plan: RehearsalPlan) -> dict[str, Any]:
    seen = "their calls differ" if verdict.mismatches else f"no progress for {verdict.hang_timeout_s:g} s"
    return plain_job(plan.target, verdict, seen=seen, interval_s=verdict.hang_timeout_s)


def _failed(result: RehearsalResult, *, explained: bool) -> str:
    """Return why the rehearsal reports less than it should, where no finding does; one line."""
    bad = outcome.failures(result.rehearsal.ends)
    if bad and f"CannotSimulateError: {CANNOT}" in bad[0].ends[0].detail:
        return "GPUs can't be simulated with this torch; --gpus-per-node 0 rehearses the script without them"
    if bad and "CannotSimulateError" in bad[0].ends[0].detail:
        return "the script needs what only a real GPU has, and could not go on; --real-gpus is for machines with some"
    if bad and not explained and result.why != HUNG:
        return "the script itself failed, and no rule knows why"
    if result.why == NO_STORE:
        return "the store of the ranks could not be served"
    if result.why == TIME and not outcome.steps_of(result.rehearsal):
        return "time was up before the first step; --seconds gives it more"
    return ""


# what the text of a failing rank means


def _diagnosed(result: RehearsalResult, selection: Selection) -> list[Finding]:
    """What ``distcheck log`` finds in the outputs of ranks that failed by themselves, at the line that raised."""
    found = []
    for failure in outcome.failures(result.rehearsal.ends):
        end = failure.ends[0]
        text = "".join(outcome.outputs_of(result, failure))
        if text.strip():
            found += findings_of_failure(text, end.place, failure.ranks, end.detail, selection)
    enough = _gpus_for_all(result.rehearsal)
    return [one for one in found if not (enough and one.code == "DC301")]


def _gpus_for_all(rehearsal: Rehearsal) -> bool:
    """Return whether ranks requested GPUs that do not exist, and yet see one for each rank of their node."""
    refused = [row.data["visible"] for row in rehearsal.of_ranks("devices.refused")]
    return bool(refused) and min(refused) >= _ranks_of_a_node(rehearsal)


# lint


def _lint(parsed: ParsedCommand, findings: Iterable[Finding], configuration: Configuration) -> LintResult | None:
    """Lint the script, and the files that something was found in; None where there is none."""
    import sys

    import click

    from distcheck.reporters.progress import Progress

    from . import lint_inputs, lint_run
    from .lint import command as lint_command
    from .lint import lint_options

    plan = parsed.plan
    script = module_file(plan.target) if plan.module else plan.target
    paths = [script, *(finding.where.path for finding in findings)]
    files = list(dict.fromkeys(path for path in paths if path and path.endswith(".py") and os.path.isfile(path)))
    if not files:
        return None
    words = ["--no-cache", "-j", "1", "--", *files]
    given = dict(lint_command.make_context("lint", words, auto_envvar_prefix=None).params)
    try:
        options = lint_options(given, configuration)
    except click.UsageError:  # what is selected can't be seen by reading
        options = lint_options(given, Configuration())
    with Progress(sys.stderr) as line:
        return lint_run.look(
            options, lint_inputs.inputs_of(options), {}, lint_inputs.DelayedProgress(line, float("inf"))
        )


def _missing_results(linted: LintResult | None, result: RehearsalResult) -> Iterator[Finding]:
    """Return lint's findings about the None of a collective (DC710) where a rank raised because of that None."""
    for failure in outcome.failures(result.rehearsal.ends):
        path, line = split_place(failure.ends[0].place)
        if linted is None or path is None or line is None or "NoneType" not in failure.ends[0].detail:
            continue
        for finding in linted.report.findings:
            if finding.code == "DC710" and finding.where.path == path and _uses(path, line, finding.where.line or 0):
                yield finding._replace(
                    message=f"{finding.message}; {failure.text}",
                    where=finding.where._replace(ranks=rank_ranges(failure.ranks)),
                    evidence={**finding.evidence, "raised": failure.text},
                )


#: Rules about a test that is always true: ranks raise in the branch after it.
_OF_TESTS = frozenset({"DC222"})
#: Rules about names that some ranks lack → beginnings or parts of what these ranks raise.
_OF_NAMES = {"DC708": ("NameError", "UnboundLocalError", "NoneType")}


def _explained(linted: LintResult | None, result: RehearsalResult, found: Sequence[Finding]) -> Iterator[Finding]:
    """Return lint's findings about the statement that raised, or the test around it, if nothing else explains it."""
    known = {(one.where.path, one.where.line) for one in found} | {(None, None)}
    for failure in outcome.failures(result.rehearsal.ends):
        path, line = split_place(failure.ends[0].place)
        if linted is None or path is None or line is None or (path, line) in known:
            continue
        first, last = _statement(path, line)
        for finding in linted.report.findings:
            at = finding.where.line or 0
            proven = finding.severity is Severity.ERROR and first <= at <= last
            guards = finding.code in _OF_TESTS and any(
                isinstance(node, ast.If)
                and node.lineno == at
                and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
                for node in _statements(path)
            )
            lacks = first <= at <= last and any(
                sign in failure.ends[0].detail for sign in _OF_NAMES.get(finding.code, ())
            )
            if finding.where.path == path and finding.code != "DC710" and (proven or guards or lacks):
                yield finding._replace(
                    message=f"{finding.message}; {failure.text}",
                    where=finding.where._replace(ranks=rank_ranges(failure.ranks)),
                    evidence={**finding.evidence, "raised": failure.text},
                )


def _uses(path: str, line: int, assigned: int) -> bool:
    """Return whether the statement in a line reads a name that the statement in another line assigns, or is that."""
    statements = [node for node in _statements(path) if not hasattr(node, "body")]
    here = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
    there = [node for node in statements if node.lineno <= assigned <= (node.end_lineno or 0)]
    read, stored = ({name.id for node in nodes for name in ast.walk(node)
                     if isinstance(name, ast.Name) and isinstance(name.ctx, context)}
                    for nodes, context in ((here, ast.Load), (there, ast.Store)))  # fmt: skip
    return here == there or bool(read & stored)


def _apply_comments(findings: Sequence[Finding], linted: LintResult | None) -> tuple[list[Finding], int]:
    """Findings that no comment silences, with those confirmed that lint has too; how many more lint has."""
    if linted is None:
        return list(findings), 0
    from distcheck.checks.source.suppressions import apply_suppressions

    files = linted.files
    comments = {path: facts.comments for path, facts in files.items() if facts.problem is None}
    kept = apply_suppressions(findings, comments).kept
    # the rehearsal shows what lint could not know, such as a second node: it confirms an info finding, too
    read = [*linted.report.findings, *linted.report.hidden]
    confirmed: set[int] = set()
    reported = []
    for finding in kept:
        same = [index for index, other in enumerate(read) if _same_statement(finding, other)]
        confirmed.update(same)
        reported.append(_confirmed(finding) if same else finding)
    return reported, len(set(range(len(linted.report.findings))) - confirmed)


def _confirmed(finding: Finding) -> Finding:
    return finding._replace(
        message=f"{finding.message}; lint also reports it: confirmed in rehearsal",
        evidence={**finding.evidence, "confirmed_in_rehearsal": True},
    )


def _same_statement(finding: Finding, read: Finding) -> bool:
    mine, other = finding.where, read.where
    if finding.code != read.code or mine.path is None or mine.path != other.path:
        return False
    if mine.line is None or other.line is None:
        return False
    first, last = _statement(mine.path, mine.line)
    return first <= other.line <= last or other.line <= mine.line <= (other.end_line or other.line)


def _statement(path: str, line: int) -> tuple[int, int]:
    """The lines of the statement that a line belongs to: of one with a body, its head."""
    best = (line, line)
    for node in _statements(path):
        body: Sequence[ast.AST] = getattr(node, "body", ()) or getattr(node, "cases", ())
        last = node.end_lineno or node.lineno
        if body:
            last = max(node.lineno, getattr(body[0], "lineno", last) - 1)
        if node.lineno <= line <= last:
            best = (node.lineno, last)
    return best


def _statements(path: str) -> list[ast.stmt]:
    """The statements of a file, outer ones before inner ones; none if it can't be read."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def _with_source(finding: Finding) -> Finding:
    """With its line of source, for those formats that show it."""
    where = finding.where
    if where.path is None or where.line is None or "source" in finding.evidence:
        return finding
    try:
        with open(where.path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return finding
    if not 1 <= where.line <= len(lines):
        return finding
    from .lint_launch_files import without_credentials

    evidence: Mapping[str, Any] = {**finding.evidence, "source": without_credentials(lines[where.line - 1])}
    return finding._replace(evidence=evidence)
