"""The parts of a tree that ``distcheck lint`` judges apart: files that belong together, and the verdict on them.

A part is linked, judged and dropped, so that a run over many projects costs the sum of runs over each, and the memory
that the largest one takes. Parts are judged in several processes where that pays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from distcheck.core.checker import Plan
from distcheck.core.internal_rules import DC901
from distcheck.core.model import Finding, Fix, NotChecked, ProbeRun, Where, grouped, grouped_pairs, merge_not_checked

from .lint_places import as_one_source, in_place

if TYPE_CHECKING:
    from distcheck.checks.launch_files.model import LaunchFile, LaunchSite
    from distcheck.checks.source.engine import ReadFiles
    from distcheck.checks.source.link import FileFacts
    from distcheck.checks.source.project_texts import Answer, ProjectTexts, Question
    from distcheck.core.project_roots import RootFinder

    from .lint_inputs import PartAnswers
    from .lint_launch_files import LaunchJudge, LaunchSide

#: Bytes of summaries above which a second process pays for its start.
_WORTH_A_PROCESS = 400_000


class LintUnit(NamedTuple):
    """Files that belong together, by their numbers in the input."""

    files: tuple[int, ...]
    #: the launch files of this part; None if the input has none at all
    launch: LaunchSide | None
    #: which of the Python files each of its launch lines starts
    starts: tuple[tuple[LaunchFile, LaunchSite, str], ...]
    #: bytes of the summaries
    size: int
    #: by what findings about its launch files alone are kept, empty if they are not
    launch_key: str = ""


class UnitVerdict(NamedTuple):
    """What was found in a part, before options about single files are applied."""

    #: findings that no comment silences, and DC905 for comments that silence nothing
    kept: tuple[Finding, ...] = ()
    unused: tuple[Finding, ...] = ()
    silenced: int = 0
    #: (path, line, what) of suppressions that name no rule
    unknown: tuple[tuple[str, int, str], ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    probes: tuple[ProbeRun, ...] = ()
    #: codes of the rules that were checked
    checked: frozenset[str] = frozenset()
    #: the same result is to be expected from the same files
    #: what was searched in all files of a repository, and the answers
    searched: tuple[tuple[Question, Answer], ...] = ()
    repeatable: bool = True


def partition(read: ReadFiles, launch: LaunchSide | None, roots: RootFinder) -> list[LintUnit]:
    """Return the parts of the input: each file is in one of them."""
    from distcheck.checks.source.components import join_files
    from distcheck.checks.source.link import Components

    components = Components()
    join_files(components, read.files, [roots.of_file(file.path).project for file in read.files])
    starts: list[tuple[LaunchFile, LaunchSite, str]] = []
    if launch is not None:
        from distcheck.checks.launch_files.scripts import started_files

        for file in launch.files.files:
            components.join(("project", roots.of_file(file.path).project), ("launch", file.path))
        starts = started_files(launch.files, (file.path for file in read.files))
        for launch_file, _, path in starts:
            components.join(("launch", launch_file.path), path)
        for path in launch.scripts:
            # read for the sake of the launch files only, and imported by the scripts that they start
            components.join(("project", roots.of_file(path).project), path)
    members = grouped_pairs((components.root(facts.path), number) for number, facts in enumerate(read.files))
    launch_members = grouped(
        () if launch is None else launch.files.files, lambda file: components.root(("launch", file.path))
    )
    units = []
    for root in dict.fromkeys([*members, *launch_members]):
        files = tuple(members.get(root, ()))
        side = None if launch is None else launch.part(launch_members.get(root, ()))
        own = tuple(start for start in starts if components.root(("launch", start[0].path)) == root)
        units.append(LintUnit(files, side, own, sum(len(read.files[number].stored) for number in files)))
    return units


def judge_unit(
    unit: LintUnit,
    files: Sequence[FileFacts],
    plan: Plan,
    launch_judge: LaunchJudge | None,
    texts: ProjectTexts | None = None,
    kept: PartAnswers | None = None,
) -> UnitVerdict:
    """Link and judge the files of a part.

    :param kept: what earlier runs have found out about single files
    """
    from distcheck.checks.source.certain_failures import with_failures
    from distcheck.checks.source.engine import without_cycle_search
    from distcheck.checks.source.option_paths import with_needs
    from distcheck.checks.source.program import Program
    from distcheck.checks.source.reach import with_reach
    from distcheck.checks.source.several_ranks import with_scripts
    from distcheck.checks.source.suppressions import apply_suppressions

    with without_cycle_search():
        program = Program((files[number] for number in unit.files), texts=texts, kept=kept)
        report = plan.run(program)
        found = with_failures(program, with_scripts(program, report.findings))
        found = with_reach(program, with_needs(program, found))
        report = report._replace(findings=tuple(found))
        launch = unit.launch
        if launch is not None and launch_judge is not None:
            known = None if kept is None or not unit.launch_key else (kept, unit.launch_key)
            launch, report = launch_judge.judge(launch, unit.starts, program, report, known)
    comments = {path: facts.comments for path, facts in program.files.items() if facts.problem is None}
    heard = apply_suppressions(
        [as_one_source(finding, program.files) for finding in report.findings],
        comments if launch is None else {**comments, **launch.comments()},
        checked_rule=report.checked.__contains__,
        lines_of=None if launch is None else launch.lines_of,
    )
    not_requested = frozenset() if launch is None else launch.not_requested
    lines: dict[str, list[str]] = {}

    def placed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        shown = (in_place(finding, program.files, lines) for finding in findings)
        return tuple(shown if launch is None else (launch.in_place(finding) for finding in shown))

    verdict = UnitVerdict(
        placed(heard.kept),
        placed(finding for finding in heard.unused if finding.where.path not in not_requested),
        len(heard.silenced),
        tuple(item for item in heard.unknown if item[0] not in not_requested),
        report.not_checked,
        report.probes,
        report.checked,
        tuple(program.searched.items()),
        all(probe.status != "failed" for probe in report.probes),
    )
    program.forget()
    for number in unit.files[:1]:
        files[number].shelf.clear()
    return verdict


def judge_units(
    units: Sequence[LintUnit],
    files: Sequence[FileFacts],
    plan: Plan,
    launch_judge: LaunchJudge | None,
    texts: ProjectTexts | None,
    *,
    jobs: int,
    progress: Callable[[int, int], None],
    kept: PartAnswers | None = None,
) -> list[UnitVerdict]:
    """Return the verdicts on some parts, in their order; made in up to ``jobs`` processes if that pays.

    :param kept: see :func:`judge_unit`; a run in several processes neither reads nor writes it
    """
    order = sorted(range(len(units)), key=lambda number: -units[number].size)
    # a second process shortens the run by what is not in the largest part
    shared = sum(units[number].size for number in order[1:])
    if jobs > 1 and len(units) > 1 and shared > _WORTH_A_PROCESS and hasattr(os, "fork"):
        from distcheck.core.process_pool import in_processes

        def lost(number: int, why: str) -> UnitVerdict:
            paths = [files[one].path for one in units[number].files]
            more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
            finding = DC901.found(
                f"the rules for {paths[0] if paths else 'launch files'}{more} did not run: {why}",
                where=Where(object="lint"),
                fix=Fix("run it again with -j 1; report it to the authors of distcheck if that fails", where="host"),
            )
            return UnitVerdict((finding,), repeatable=False)

        made = in_processes(
            lambda number, _: judge_unit(units[number], files, plan, launch_judge, texts),
            order,
            jobs=jobs,
            lost=lost,
            progress=lambda done, _: progress(done, len(units)),
        )
        return [made[number] for number in range(len(units))]
    verdicts = []
    for number, unit in enumerate(units):
        progress(number, len(units))
        verdicts.append(judge_unit(unit, files, plan, launch_judge, texts, kept))
    return verdicts


def joined(verdicts: Sequence[UnitVerdict]) -> UnitVerdict:
    """Return one verdict for all parts."""
    runs: dict[str, ProbeRun] = {}
    for verdict in verdicts:
        for run in verdict.probes:
            known = runs.get(run.name)
            if known is not None:
                worse = known if _STATUSES.index(known.status) >= _STATUSES.index(run.status) else run
                run = worse._replace(elapsed_s=round(known.elapsed_s + run.elapsed_s, 6))
            runs[run.name] = run
    kept: dict[object, Finding] = {}
    for verdict in verdicts:
        for finding in verdict.kept:
            # a broken probe fails in many parts, and a finding about a file occurs in the part of that file only
            about_all = finding.where.path is None
            kept.setdefault((finding.code, finding.message, finding.where.object) if about_all else len(kept), finding)
    checked: set[str] = set().union(*(verdict.checked for verdict in verdicts))
    for verdict in verdicts:
        for item in verdict.not_checked:
            checked.difference_update(set(item.what.split(", ")) - verdict.checked)
    return UnitVerdict(
        tuple(kept.values()),
        tuple(finding for verdict in verdicts for finding in verdict.unused),
        sum(verdict.silenced for verdict in verdicts),
        tuple(item for verdict in verdicts for item in verdict.unknown),
        merge_not_checked(item for verdict in verdicts for item in verdict.not_checked),
        tuple(runs.values()),
        frozenset(checked),
        (),
        all(verdict.repeatable for verdict in verdicts),
    )


#: Of a probe that ran in several parts, the last of these is reported.
_STATUSES = ("not-applicable", "ran", "not-checked", "timed-out", "failed")
