"""Judge ranks that print the same lines, or each start a tracker run, from the rows of all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, grouped, rank_ranges
from distcheck.core.registry import fact, probe

from .plan import Rehearsal, RehearsalPlan, where

#: Steps in which a line must have come: a banner comes once.
_STEPS = 2


class PrintedLine(NamedTuple):
    """Something that a rank has printed."""

    rank: int
    place: str
    #: optimizer steps that were done
    step: int
    digest: int
    #: ``print`` or ``logging``
    how: str = "print"


class TrackerRun(NamedTuple):
    """A rank starts a run of a tracker."""

    rank: int
    place: str
    #: ``wandb.init``
    tracker: str
    #: digest of the arguments
    given: int = 0
    #: switched off on this rank
    off: bool = False
    #: with arguments for several processes
    several: bool = False


class Printed(NamedTuple):
    """What all ranks have printed, and which trackers they started."""

    plan: RehearsalPlan
    lines: tuple[PrintedLine, ...] = ()
    starts: tuple[TrackerRun, ...] = ()


@fact(of_this_host=False)
def read_printed(rehearsal: Rehearsal) -> Printed:
    """Return what the ranks logged."""
    lines = tuple(row.fill(PrintedLine) for row in rehearsal.of_ranks("prints.line"))
    starts = tuple(row.fill(TrackerRun) for row in rehearsal.of_ranks("trackers.start"))
    if not lines and not starts:
        raise NotApplicable("no rank has printed a line or started a tracker")
    return Printed(rehearsal.plan, lines, starts)


@probe(rules.DC721)
def one_rank_prints(printed: Printed) -> Iterator[Finding]:
    """No line is printed by all ranks in step after step."""
    for place, lines in grouped(printed.lines, lambda line: line.place).items():
        ranks = sorted({line.rank for line in lines})
        if len(ranks) < 2 or _one_per_node(printed.plan, ranks):
            continue
        if len(_steps_alike(lines, ranks)) >= _STEPS:
            how = lines[0].how
            yield rules.DC721.found(
                f"ranks {rank_ranges(ranks)} {'print' if how == 'print' else 'log'} the same line here in each step",
                where=where(place, ranks),
                fix=Fix(
                    "print on one rank: `if dist.get_rank() == 0:`, or name the rank in the text"
                    if how == "print"
                    else "give the loggers of all ranks but the first a higher level: "
                    "`logger.setLevel(logging.WARNING)` where dist.get_rank() > 0",
                    where="code",
                ),
                severity=Severity.INFO,
                evidence={"ranks": rank_ranges(ranks), "call": how},
            )


def _steps_alike(lines: Iterable[PrintedLine], ranks: Sequence[int]) -> set[int]:
    """Return the steps in which every rank printed the same there, and nothing else."""
    digests: dict[int, dict[int, list[int]]] = {}
    for line in lines:
        digests.setdefault(line.step, {}).setdefault(line.rank, []).append(line.digest)
    return {
        step
        for step, by_rank in digests.items()
        if len(by_rank) == len(ranks) and len({tuple(digests) for digests in by_rank.values()}) == 1
    }


@probe(rules.DC721)
def one_rank_starts_the_tracker(printed: Printed) -> Iterator[Finding]:
    """One rank starts the tracker run, or every rank passes arguments for several processes."""
    by_place: dict[tuple[str, str], dict[int, TrackerRun]] = {}
    for start in printed.starts:
        if not start.off and not start.several:
            by_place.setdefault((start.place, start.tracker), {}).setdefault(start.rank, start)
    for (place, name), by_rank in by_place.items():
        ranks = sorted(by_rank)
        alike = {start.given for start in by_rank.values()}
        if len(ranks) < 2 or len(alike) > 1:
            continue  # a name, a folder or a mode of its own
        apart = _one_per_node(printed.plan, ranks)
        yield rules.DC721.found(
            f"ranks {rank_ranges(ranks)} each start {name}() here with the same arguments: "
            f"the job has {len(ranks)} runs instead of one",
            where=where(place, ranks),
            fix=Fix(_tracker_fix(name, apart), where="code"),
            severity=Severity.WARNING,
            evidence={"ranks": rank_ranges(ranks), "call": name},
        )


def _tracker_fix(name: str, apart: bool) -> str:
    if apart:
        return f"compare the global rank (`dist.get_rank() == 0`) around {name}(), not the local one"
    if name == "wandb.init":
        return 'disable it on other ranks: wandb.init(…, mode="online" if dist.get_rank() == 0 else "disabled")'
    return f"start it on one rank: `{name}(…) if dist.get_rank() == 0 else None`, or give each a name with its rank"


def _one_per_node(plan: RehearsalPlan, ranks: Sequence[int]) -> bool:
    return len({plan.node_of(rank) for rank in ranks}) == len(ranks)
