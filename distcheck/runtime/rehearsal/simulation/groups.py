"""The default process group of each rank: made, and destroyed or not when the script ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Where, grouped, rank_names, rank_ranges
from distcheck.core.registry import fact, probe
from distcheck.rules import shared_fixes
from distcheck.runtime.coordination.worker_calls import WorkerCall, WorkerCalls

from .plan import Rehearsal, where


class Made(NamedTuple):
    """The line that made the default group of a rank."""

    path: str | None
    line: int | None
    #: ``nccl``, ``cpu:gloo,cuda:nccl``
    backend: str
    #: by the script's own code, and not by a library
    direct: bool


class Groups(NamedTuple):
    """The default groups of all ranks, as they were left."""

    #: rank → the line that made its group
    made: Mapping[int, Made]
    #: ranks that have destroyed theirs
    destroyed: frozenset[int]
    #: ranks whose script ended by itself, and without an exception
    finished: frozenset[int]


@fact(of_this_host=False)
def read_groups(rehearsal: Rehearsal) -> Groups:
    """From what the ranks wrote down."""
    made = {
        row.rank: Made(*row.path_and_line, str(row.data["devices"] or row.data["backend"]), bool(row.data["direct"]))
        for row in rehearsal.of("groups.made")
        if row.rank is not None
    }
    if not made:
        raise NotApplicable("no process group was made")
    return Groups(
        made,
        frozenset(row.rank for row in rehearsal.of("groups.destroyed") if row.rank is not None),
        frozenset(end.rank for end in rehearsal.ends if end.how == "finished" and end.status == 0),
    )


class Joins(NamedTuple):
    """The rank as which each process joined the default group of all: its own rank → that one, and the line."""

    ranks: Mapping[int, tuple[int, str]]


@fact(of_this_host=False)
def read_joins(rehearsal: Rehearsal) -> Joins:
    """From what the ranks wrote down before they waited for each other."""
    joins: dict[int, tuple[int, str]] = {}
    for row in rehearsal.of_ranks("groups.joins"):
        # a part of the ranks may be a job of its own
        if row.rank is not None and row.data["size"] == rehearsal.plan.world_size:
            joins.setdefault(row.rank, (row.data["joined_as"], row.place))
    if rehearsal.plan.launcher == "script" or not joins:
        raise NotApplicable("no rank of a launcher made a process group of all ranks")
    return Joins(joins)


@probe(rules.DC502)
def each_rank_joins_once(joins: Joins) -> Iterator[Finding]:
    """Report ranks of the launcher that join with one number, where the launcher gave them different ones."""
    for number, pairs in grouped(joins.ranks.items(), lambda pair: pair[1][0]).items():
        ranks = [rank for rank, _ in pairs]
        if len(ranks) < 2:
            continue
        wrong = next(place for rank, (_, place) in pairs if rank != number)
        yield rules.DC502.found(
            f"{rank_names(ranks)} of the launcher join as rank {number}, so other ranks are missing",
            where=where(wrong, ranks),
            evidence={"joined_as": number, "ranks": rank_ranges(ranks)},
            fix=Fix("take the rank from the launcher: rank=int(os.environ['RANK']), or no rank= at all", where="code"),
        )


@fact(of_this_host=False)
def read_worker_calls(rehearsal: Rehearsal) -> WorkerCalls:
    """The collectives that children of ranks made; the rehearsal ended these children."""
    calls = dict.fromkeys(
        WorkerCall(str(row.data["operation"]), row.place, row.function, outcome=": it can't end, and was not made")
        for row in rehearsal.of("groups.in_worker")
    )
    if not calls:
        raise NotApplicable("no child of a rank made a collective")
    return WorkerCalls(tuple(calls))


@probe(rules.DC743)
def groups_are_destroyed(groups: Groups) -> Iterator[Finding]:
    """A script that ends by itself destroys NCCL's group."""
    left = sorted(
        rank
        for rank, made in groups.made.items()
        if made.direct and "nccl" in made.backend and rank in groups.finished - groups.destroyed
    )
    if not left:
        return
    made = groups.made[left[0]]
    some = f" on {rank_names(left)}" if groups.destroyed else ""
    yield rules.DC743.found(
        f"the script ended, and the process group that it made here was not destroyed{some}",
        where=Where(path=made.path, line=made.line, ranks=rank_ranges(left)),
        fix=shared_fixes.DESTROY_THE_GROUP,
        severity=Severity.INFO,
        evidence={"backend": made.backend, "destroyed_by": rank_ranges(groups.destroyed)},
    )
