"""The main job of ``distcheck log`` as functions: files in, a timeline; a timeline in, a report with the cause first.

The command line, ``distcheck run``, the tests and the Python API all call these.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from distcheck import rules
from distcheck.core.checker import Checker, load_plug_ins, make_selection
from distcheck.core.model import Finding, Fix, NotChecked, Report, Severity, Where, placement_of
from distcheck.rules import Selection

from .model import LogReading, Timeline
from .own_lines import with_blocks
from .ranking import rank_findings
from .reading import read
from .summary import summarize
from .timeline import join

PROBE_MODULE = "distcheck.checks.logs"
#: What is not known where the outcome is one of these.
_UNSEEN = {
    "unnamed": "a failure is in this text, and no rule names it",
    "consequences": "this text holds only what others died of",
}


def diagnose_log(
    *paths: str | os.PathLike[str],
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    every_event: bool = False,
    jobs: int = 1,
) -> Report:
    """What ``distcheck log`` does, as a report: the cause first among its findings, the story in ``report.story``.

    :param paths: files, folders, or ``-`` for standard input
    :param select: rules that may speak, as in the option; by default all
    :param ignore: rules that keep silent
    :param every_event: have ``report.story["events"]`` hold all that testifies to something
    :param jobs: processes, for several files
    :raises UnknownRule: for a code or name that is none

    What can't be read is a finding DC904, never an exception.
    """
    timeline = read_timeline([os.fspath(path) for path in paths], jobs=jobs)
    return diagnose(timeline, selection=make_selection(select, (), ignore), every_event=every_event)


def read_timeline(
    paths: Sequence[str], *, jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> Timeline:
    """Return one timeline of files, folders and ``-``.

    :param jobs: processes, for several files
    :param progress: called with the bytes that are read, and all
    """
    # they bring texts to search for
    load_plug_ins()
    return timeline_of(read(paths, jobs=jobs, progress=progress))


def timeline_of(readings: Sequence[LogReading]) -> Timeline:
    """The timeline of what was read so far."""
    return with_blocks(join(readings))


def diagnose(timeline: Timeline, *, selection: Selection | None = None, every_event: bool = False) -> Report:
    """Judge a timeline: findings with the cause first, and the story.

    :param selection: the rules to report; the others still separate causes from consequences
    :param every_event: include events that no finding is about
    """
    began = time.monotonic()
    # the cause is searched with all rules, whichever are selected: an unselected cause is no reason to report its
    # consequence as one
    report = Checker(modules=(PROBE_MODULE,)).plan(Timeline, command="log", closed=True).run(timeline)
    own = [finding for finding in report.findings if finding.code.startswith("DC9")]
    ranked = rank_findings(timeline, [finding for finding in report.findings if finding not in own])
    known = rules.known()
    not_checked = list(report.not_checked)
    if ranked.outcome in _UNSEEN:
        not_checked.append(NotChecked("the cause", _UNSEEN[ranked.outcome]))
    return report._replace(
        findings=tuple(
            finding
            for finding in (*ranked.findings, *own, *_unread(timeline))
            if selection is None or selection.takes(known[finding.code])
        ),
        not_checked=tuple(not_checked),
        # the summary shows the timeline; as a fact it would be as long as the log
        facts={},
        subject={**report.subject, "placement": placement_of(_host_of_each_rank(timeline))},
        story=summarize(timeline, ranked, every_event=every_event),
        elapsed_s=time.monotonic() - began,
    )


def _host_of_each_rank(timeline: Timeline) -> dict[int, str]:
    """Return rank → host, without ranks that moved between two starts."""
    hosts: dict[int, set[str]] = {}
    for stream in timeline.rank_streams:
        if stream.who.rank is not None and stream.who.host is not None:
            hosts.setdefault(stream.who.rank, set()).add(stream.who.host)
    return {rank: names.pop() for rank, names in hosts.items() if len(names) == 1}


def is_undecided(report: Report) -> bool:
    """Whether a failure was seen and its cause was not."""
    return report.story.get("outcome") in _UNSEEN


def _unread(timeline: Timeline) -> list[Finding]:
    """A finding for each file that could not be read, or not to its end."""
    return [
        rules.DC904.found(
            f"{source.path}: {source.problem}",
            where=Where(path=source.path),
            evidence={"why": source.problem, "lines_read": source.lines},
            fix=Fix("see that it is a text log that this user may read; the others were read", where="host"),
            severity=Severity.INFO if any(other.lines for other in timeline.sources) else Severity.ERROR,
        )
        for source in timeline.sources
        if source.problem
    ]
