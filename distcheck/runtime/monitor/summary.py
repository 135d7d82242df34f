"""Summarizes a job that ended: which rank came last, what waiting cost, and where.

A collective ends for all ranks at once. The rank that spent the least time in the calls of one call site reached them
last, in sum. Clocks of different hosts need not agree, and ranks exchange nothing meanwhile. This holds if a call lasts
until its collective has ended: with gloo it does, with NCCL a call returns as soon as it is queued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotChecked, Severity, grouped, rank_names, rank_ranges
from distcheck.core.registry import probe
from distcheck.rules import shared_fixes
from distcheck.runtime.coordination.ledger import _TOGETHER, CallSiteTotals, Summary
from distcheck.runtime.coordination.locations import where_of
from distcheck.runtime.coordination.long_waits import LongWait

#: Backends whose calls last until the collective has ended.
_ON_CPU = ("gloo", "mpi")
#: Required for a straggler: ranks, calls of one call site, seconds in all, part of the job that the others waited for
#: it, and distance from the others as a multiple of their spread.
_LEAST_RANKS, _LEAST_CALLS, _LEAST_S, _LEAST_PART, _APART = 3, 100, 10.0, 0.05, 3.0


class Arrival(NamedTuple):
    """The rank that came last to the calls that all ranks made."""

    #: rank → seconds in those calls
    in_calls_s: Mapping[int, float]
    calls: int
    #: the call site with the longest waits
    most: CallSiteTotals
    #: rank-seconds lost there, and in all
    most_lost_s: float
    lost_s: float

    @property
    def last(self) -> int:
        return min(self.in_calls_s, key=lambda rank: (self.in_calls_s[rank], rank))

    @property
    def late_s(self) -> float:
        """Return how much later than the median the last rank came, all calls together."""
        others = [seconds for rank, seconds in self.in_calls_s.items() if rank != self.last]
        return median(others) - self.in_calls_s[self.last]

    @property
    def apart(self) -> float:
        """Return how far the last rank is from the next, as a multiple of the distance of that one from the median."""
        ordered = sorted(self.in_calls_s.values())
        return self.late_s / max(median(ordered[1:]) - ordered[1], 1e-9)


# made


# judgement


def arrival(summary: Summary, *, least_calls: int = 1) -> Arrival | None:
    """Return the rank that came last; None if no call shows it: all ranks made none, or none lasted until its end."""
    sites: dict[tuple[str, str, str], list[tuple[int, CallSiteTotals]]] = {}
    for ledger in summary.ledgers:
        for site in ledger.sites:
            backend = ledger.backends.get(site.group, "")
            if site.waits and site.operation in _TOGETHER and backend in _ON_CPU and site.calls >= least_calls:
                sites.setdefault((site.place, site.operation, site.group), []).append((ledger.rank, site))
    common = [
        there for there in sites.values()
        if len(there) == summary.world_size > 1 and len({site.calls for _, site in there}) == 1
    ]  # fmt: skip
    if not common:
        return None
    in_calls: dict[int, float] = {}
    lost: list[tuple[float, CallSiteTotals]] = []
    for there in common:
        least = min(site.total_s for _, site in there)
        lost.append((sum(site.total_s - least for _, site in there), there[0][1]))
        for rank, site in there:
            # one long wait does not show a slow rank
            in_calls[rank] = in_calls.get(rank, 0.0) + site.total_s - (site.longest_s if site.calls > 1 else 0.0)
    most_lost_s, most = max(lost, key=lambda item: item[0])
    return Arrival(
        in_calls, sum(there[0][1].calls for there in common), most, most_lost_s, sum(item for item, _ in lost)
    )


def crowded(summary: Summary) -> str:
    """Return a host whose ranks have fewer cores than there are ranks; "" if there is none."""
    there = grouped(summary.ledgers, lambda ledger: ledger.host)
    return next((host for host, items in there.items() if len(items) > max(item.cores for item in items)), "")


@probe(rules.DC514)
def no_rank_comes_last(summary: Summary) -> Iterator[Finding]:
    """Report a rank for which all others wait at most of the calls."""
    found = arrival(summary, least_calls=_LEAST_CALLS)
    if found is None or summary.world_size < _LEAST_RANKS or crowded(summary):
        return
    late_s = found.late_s
    if late_s < max(_LEAST_S, _LEAST_PART * summary.span_s) or found.apart < _APART:
        return
    last = found.last
    host = next((item.host for item in summary.ledgers if item.rank == last), "")
    yield rules.DC514.found(
        f"rank {last} on {host} comes last: the others waited {late_s:.0f} s for it in {found.calls} calls, "
        f"{late_s / summary.span_s:.0%} of the job, most in {found.most.text}",
        where=where_of(found.most.place, [last])._replace(host=host or None),
        evidence={
            "late_s": round(late_s, 1), "calls": found.calls, "span_s": round(summary.span_s, 1),
            "lost_rank_s": round(found.lost_s, 1),
        },
        fix=Fix(
            "check what that rank does in addition between these calls (logging, saving, more data). Check its "
            "host: clocks, other processes, cores for its loaders. The smoke test measures each rank alone",
            command="distcheck collective",
            where="host",
        ),
    )  # fmt: skip


@probe(rules.DC726)
def no_long_wait_for_one_rank(summary: Summary) -> Iterator[Finding]:
    """Report ranks that worked for minutes while others waited for them."""
    for wait in summary.long:
        yield slow_rank(wait)


def slow_rank(wait: LongWait, *, now: bool = False) -> Finding:
    """Return a long wait for a rank that computes, while it lasts or afterwards."""
    end = f"; {wait.limit}" if wait.limit else "; nothing hangs" if now else ""
    return rules.DC726.found(
        f"{wait.text('now' if now else 'then')}{end}",
        where=where_of(wait.place, [int(wait.missing)] if wait.missing.isdigit() else ()),
        evidence={
            "call": wait.call, "waiting": wait.waiting, "missing": wait.missing, "since_s": round(wait.since_s, 1),
            **({"timeout_s": wait.timeout_s} if wait.timeout_s else {}),
        },
        severity=Severity.WARNING if wait.near else Severity.INFO,
        fix=Fix(
            "do that work before the job, divide it among the ranks, or give the group the time that it needs: "
            "init_process_group(timeout=timedelta(hours=2))",
            where="code",
        ),
    )  # fmt: skip


@probe(rules.DC743)
def groups_are_destroyed(summary: Summary) -> Iterator[Finding]:
    """Report processes that ended with their process group."""
    kept = [item.rank for item in summary.ledgers if item.kept_group]
    if kept:
        yield rules.DC743.found(
            f"{'all ranks' if len(kept) == summary.world_size else rank_names(kept)} ended without "
            "destroy_process_group()",
            where=where_of("", kept),
            evidence={"ranks": rank_ranges(kept)},
            fix=shared_fixes.DESTROY_THE_GROUP,
        )


def not_checked(summary: Summary) -> tuple[NotChecked, ...]:
    """Return what the records of calls cannot show."""
    missed = []
    backends = {backend for item in summary.ledgers for backend in item.backends.values()}
    other = sorted(backend for backend in backends if backend not in _ON_CPU)
    if other:
        missed.append(
            NotChecked(
                f"{rules.DC514.code}, waiting in groups of {', '.join(other)}",
                "calls return before their collectives have ended",
            )
        )
    elif host := crowded(summary):
        missed.append(NotChecked(rules.DC514.code, f"more ranks than cores on {host}: they wait for each other"))
    if summary.replicas_unchecked:
        missed.append(NotChecked(rules.DC763.code, summary.replicas_unchecked))
    if summary.samples_unchecked:
        missed.append(NotChecked(f"{rules.DC732.code}, the samples of ranks", summary.samples_unchecked))
    silent = [item.rank for item in summary.ledgers if not item.recorder]
    if silent:
        missed.append(
            NotChecked(
                f"collectives of C++ on {rank_names(silent)}", "the flight recorder is off (TORCH_FR_BUFFER_SIZE=0)"
            )
        )
    ledger = next((item for item in summary.ledgers if item.error), None)
    if ledger is not None:
        missed.append(NotChecked(f"some calls of rank {ledger.rank}", ledger.error))
    return tuple(missed)


# texts


def sentence(summary: Summary) -> str:
    """Return ``8 ranks, 72 min; 3,120 calls of collectives took 3% (rank 5, which came last) to 12% (rank 0) …``."""
    calls = max((item.calls for item in summary.ledgers), default=0)
    ranks = f"{summary.world_size} rank{'s' * (summary.world_size != 1)}"
    counted = f"{calls:,} call{'s' * (calls != 1)} of collectives"
    return f"{ranks}, {_time(summary.span_s)}; {counted}{_took(summary)}"


def _took(summary: Summary) -> str:
    found = arrival(summary)
    shares = {rank: seconds / summary.span_s for rank, seconds in found.in_calls_s.items()} if found else {}
    opened = {item.rank: item.open_looks / item.looks for item in summary.ledgers if item.looks >= _LOOKS}
    on_cpu = all(backend in _ON_CPU for item in summary.ledgers for backend in item.backends.values())
    if len(opened) == summary.world_size > 1 and on_cpu and max(opened.values()) > 2 * max(shares.values(), default=0):
        # DDP's reducer and other callers in C++: only samples show them
        return f", and those of C++, were under way in {_span(opened)} of the time"
    if found is None or found.lost_s < _REPORTED_PART * summary.span_s:
        return ""
    return f" took {_span(shares)} of the time; ranks waited for others most in {found.most.text}"


def numbers(summary: Summary) -> dict[str, Any]:
    """Return the figures of the sentence, as plain JSON values."""
    found = arrival(summary)
    known = (
        {}
        if found is None
        else {
            "last": found.last,
            "late_s": round(found.late_s, 3),
            "lost_rank_s": round(found.lost_s, 3),
            "most": {"call": found.most.text, "lost_rank_s": round(found.most_lost_s, 3)},
        }
    )
    return {
        "span_s": round(summary.span_s, 3),
        **known,
        "ranks": [
            {
                "rank": item.rank,
                "host": item.host,
                "calls": item.calls,
                "in_calls_s": round(item.in_calls_s, 3),
                "open_part": round(item.open_looks / item.looks, 3) if item.looks else None,
            }
            for item in summary.ledgers
        ],
    }


#: Samples from which on their share is reported, and part of the job from which on lost time is.
_LOOKS, _REPORTED_PART = 30, 0.01


def _span(shares: Mapping[int, float]) -> str:
    """Return ``3 % (rank 5) to 12 % (rank 0)``."""
    least, most = min(shares, key=lambda rank: shares[rank]), max(shares, key=lambda rank: shares[rank])
    if round(shares[least], 2) == round(shares[most], 2):
        return f"{shares[most]:.0%}"
    return f"{shares[least]:.0%} (rank {least}, which came last) to {shares[most]:.0%} (rank {most})"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
