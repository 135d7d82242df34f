"""Judges a snapshot of a running job: which ranks wait, for which ranks, and whether that can end.

All functions are pure. If a rank exited or is stopped, or all are in different collectives, the wait cannot end: an
error. If the others only run their own code, it may be a long step: a warning, and an error after the
hang timeout of *watch*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.cluster.hostlist import place_hosts, place_ranks
from distcheck.core.model import Finding, Fix, NotChecked, Rule, Severity, Where, rank_names, rank_ranges
from distcheck.core.registry import probe
from distcheck.core.wording import is_or_are
from distcheck.runtime.coordination.locations import few_rank_names, split_place
from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position
from distcheck.runtime.coordination.rank_monitor import HANG_TIMEOUT_S

from .collective_numbers import is_decided, is_numbered
from .snapshot import Snapshot

#: Ranges of ranks in one sentence.
_RANGES = 4
_LONGER = "distcheck stuck --hang-timeout 30"
#: Calls that do not identify the collective, or whose other side makes another call on purpose.
_VAGUE = frozenset({"backward", "cuda.synchronize", "send", "recv", "isend", "irecv", "batch_isend_irecv"})
_AGAIN = Fix(
    "inspect again for longer: a rank without progress then hangs, and is in no long step",
    command=_LONGER,
    where="host",
)


class _JobState(NamedTuple):
    """The ranks of a snapshot by their state."""

    snapshot: Snapshot
    waiting: tuple[Position, ...]
    #: in their own code, or unknown
    others: tuple[Position, ...]
    left: tuple[Position, ...]
    stopped: tuple[Position, ...]

    @property
    def long(self) -> bool:
        """Return whether the snapshot lasted for the hang timeout of *watch*."""
        return self.snapshot.interval_s >= HANG_TIMEOUT_S

    @property
    def since(self) -> str:
        """Return ``no progress for 2 s``."""
        return f"no progress for {self.snapshot.interval_s:.0f} s"


def _case(snapshot: Snapshot) -> _JobState:
    ranks = snapshot.positions.ranks
    by = {
        state: tuple(item for item in ranks if item.state == state)
        for state in ("waiting", "left", "stopped", "raised")
    }
    others = tuple(item for item in ranks if item.state == "computing")
    return _JobState(snapshot, by["waiting"], others, by["left"] + by["raised"], by["stopped"])


@probe(rules.DC502)
def one_process_a_rank(snapshot: Snapshot) -> Iterator[Finding]:
    """Report ranks that two processes claim: an earlier start left one of them, which holds its port or its GPU."""
    for rank, pids in snapshot.surplus.items():
        newest = next((item.pid for item in snapshot.positions.ranks if item.rank == rank), None)
        older = ", ".join(map(str, pids))
        yield rules.DC502.found(
            f"rank {rank} of {snapshot.job} is claimed by process {newest} and by {older}, which was started before",
            where=Where(host=_host(snapshot), rank=rank),
            evidence={"processes": [newest, *pids]},
            fix=Fix(
                f"see what process {older} is ('ps -fp {pids[0]}'): one that an earlier start has left holds memory of "
                "a GPU and perhaps the port; end it if it is yours",
                where="host",
            ),
        )


@probe(rules.DC702)
def no_rank_waits_for_an_exited_rank(snapshot: Snapshot) -> Iterator[Finding]:
    """Report ranks that exited while others wait in a collective."""
    case = _case(snapshot)
    if not case.left or not case.waiting:
        return
    one = len(case.left) == 1
    yield rules.DC702.found(
        f"{_who(case.left)} {'has' if one else 'have'} ended, and {_waits(case.waiting)} "
        f"for {'it' if one else 'them'}: that never ends",
        where=_where(snapshot, case.left, case.waiting[0].call),
        evidence=_evidence(case),
        fix=Fix(
            "read in its log or error file how it ended. With status 0 it left the loop before the others, by an early "
            "return or with fewer batches (DC519). Make every rank take the same number of steps, or use "
            "torch.distributed.algorithms.join.Join",
            where="code",
        ),
        severity=Severity.ERROR,
    )


@probe(rules.DC511)
def no_rank_is_stopped(snapshot: Snapshot) -> Iterator[Finding]:
    """Report stopped ranks, ranks blocked in the kernel, and collectives that all have entered and that do not end."""
    case = _case(snapshot)
    held = [item for item in case.others if item.detail == "blocked in the kernel"]
    if case.stopped:
        pids = [str(item.pid) for item in case.stopped if item.pid]
        traced = any("traces" in item.detail for item in case.stopped)
        yield rules.DC511.found(
            f"{_who(case.stopped)} {is_or_are(case.stopped)} stopped {case.stopped[0].detail}"
            + (f", and {_waits(case.waiting)}" if case.waiting else ""),
            where=_where(snapshot, case.stopped, None),
            evidence=_evidence(case),
            fix=Fix(
                "let the debugger go on, or detach it" if traced
                else "see who stops it (Ctrl-Z, 'scontrol suspend', a frozen container), and let it go on",
                command=None if traced or not pids else f"kill -CONT {' '.join(pids)}",
                where="host",
            ),
        )  # fmt: skip
    if held and case.waiting:
        yield rules.DC511.found(
            f"{_who(held)} {is_or_are(held)} blocked in the kernel{_at(held[0])}, and {_waits(case.waiting)}; "
            f"{case.since}",
            where=_where(snapshot, held, None),
            evidence=_evidence(case),
            fix=Fix(
                "a file system or a device does not answer there: see 'dmesg -T', and whether 'ls' of the folder that "
                "it reads comes back",
                where="host",
            ),
            severity=None if case.long else Severity.INFO,
        )
    others = case.others or case.left or case.stopped or snapshot.unseen
    if case.waiting and not others and not is_decided(snapshot):
        yield from _all_wait(case)


def _all_wait(case: _JobState) -> Iterator[Finding]:
    """Report a wait in which no rank of this host is missing: the others are on other hosts, or a link fails."""
    snapshot = case.snapshot
    if len({_operation(item) for item in case.waiting}) > 1 and not is_numbered(snapshot):
        return  # this is a mismatch
    if snapshot.elsewhere:
        yield rules.DC511.found(
            f"all {len(case.waiting)} ranks here wait: {_waits(case.waiting)}; {case.since}, and "
            f"{_number(snapshot.elsewhere)} on other hosts were not inspected",
            where=_where(snapshot, case.waiting, case.waiting[0].call),
            evidence=_evidence(case),
            fix=_inspect_other_hosts(snapshot),
            severity=Severity.INFO,
        )
        return
    places = {_place(item) for item in case.waiting}
    if len(places) > 1 and "" not in places and not is_numbered(snapshot):
        yield _at_several_lines(case)
        return
    # a correct loop is there too, in most of its steps
    synchronizes = _operation(case.waiting[0]) == "cuda.synchronize"
    yield rules.DC511.found(
        f"all {len(case.waiting)} ranks have come: {_waits(case.waiting)}; {case.since}: what is between them does not "
        "carry it, or it is long",
        where=_where(snapshot, case.waiting, case.waiting[0].call),
        evidence=_evidence(case),
        fix=Fix(
            "test the links between the ranks after this job: the report names the pair that fails",
            command="distcheck collective --pairs",
            where="launch-line",
        )
        if case.long
        else _AGAIN,
        severity=None if case.long and not synchronizes else Severity.INFO,
    )


def _at_several_lines(case: _JobState) -> Finding:
    """Return whether one operation has several lines: of two groups, two steps, or the two arms of a branch."""
    by_place: dict[str, list[Position]] = {}
    for item in case.waiting:
        by_place.setdefault(_place(item), []).append(item)
    described = "; ".join(_waits(there) for there in list(by_place.values())[:_RANGES])
    return rules.DC511.found(
        f"all {len(case.waiting)} ranks wait, at different lines: {described}; {case.since}: they are in one "
        "collective, or in two groups in another order",
        where=_where(case.snapshot, case.waiting, case.waiting[0].call),
        evidence=_evidence(case),
        fix=Fix(
            "see whether both lines use the same group, and whether all ranks use the groups in one order", where="code"
        )
        if case.long
        else _AGAIN,
        severity=None if case.long else Severity.INFO,
    )


@probe(rules.DC517)
def all_wait_in_the_same(snapshot: Snapshot) -> Iterator[Finding]:
    """Report ranks that wait in different collectives."""
    case = _case(snapshot)
    kinds = _kinds(case.waiting)
    if len(kinds) < 2 or case.others or case.left or case.stopped or snapshot.unseen or is_numbered(snapshot):
        return  # with numbers it is known whether these are one call
    several = snapshot.positions.groups and len(snapshot.positions.groups) > 1
    vague = any(_is_vague(item) for item in case.waiting)
    certain = not snapshot.elsewhere and not several and not vague
    described = ", ".join(f"{_who(ranks)} in {_call(ranks[0])}" for ranks in kinds[:_RANGES])
    yield rules.DC517.found(
        f"ranks wait in different collectives: {described}; {case.since}"
        + ("" if certain else ": if they are of one group, none of them can end"),
        where=_where(snapshot, kinds[0], kinds[0][0].call),
        evidence=_evidence(case),
        fix=Fix(
            "make every rank call the same collectives in the same order. Check the branch above these lines, and "
            "what an exception or an early exit skipped",
            where="code",
        ),
        severity=None if certain else Severity.INFO,
    )


@probe(rules.DC701, rules.DC726)
def no_rank_is_elsewhere(snapshot: Snapshot) -> Iterator[Finding]:
    """Report ranks that wait in a collective for ranks that are elsewhere."""
    case = _case(snapshot)
    away = [item for item in case.others if item.detail not in ("moves on", "blocked in the kernel")]
    if not case.waiting or case.stopped or case.left or is_decided(snapshot):
        return
    if not away:
        yield from _on_its_way(case)
        return
    alone = [item.rank for item in away] == [0] and not snapshot.elsewhere
    barrier = {_operation(item) for item in case.waiting} <= {"barrier", "monitored_barrier"}
    rule = rules.DC726 if alone and barrier else rules.DC701
    # one long call into a library is at one line for minutes, and returns; so does the work of a child
    hangs = case.long and len(_idle(away, snapshot)) == len(away)
    yield rule.found(
        f"{_who(away)} {is_or_are(away)}{_at(away[0])} and {_does(away, snapshot)}; {_waits(case.waiting)}; "
        f"{case.since}",
        where=_where(snapshot, away, case.waiting[0].call, away[0].own_frame),
        evidence=_evidence(case),
        fix=_come(rule) if case.long else _AGAIN,
        severity=Severity.ERROR if hangs else Severity.WARNING,
    )


def _on_its_way(case: _JobState) -> Iterator[Finding]:
    """Report a long wait for ranks that compute, as they can still arrive."""
    movers = [item for item in case.others if item.detail == "moves on"]
    if not case.long or not movers or len(movers) != len(case.others):
        return
    yield rules.DC701.found(
        f"{_waits(case.waiting)}, for {case.snapshot.interval_s:.0f} s by now; {_who(movers)} "
        f"{is_or_are(movers)}{_at(movers[0])} and go{'es' * (len(movers) == 1)} on there",
        where=_where(case.snapshot, movers, case.waiting[0].call, movers[0].own_frame),
        evidence=_evidence(case),
        fix=_come(rules.DC701),
        severity=Severity.INFO,
    )


def _come(rule: Rule) -> Fix:
    if rule is rules.DC726:
        return Fix("do it on all ranks, before the collective, or give the group a longer timeout", where="code")
    return Fix(
        "find out why it does not reach the collective: a branch of some ranks only, a loop of another length, "
        "or a swallowed exception. Run 'distcheck lint' to find most of these",
        where="code",
    )


def _idle(away: Sequence[Position], snapshot: Snapshot) -> list[Position]:
    """Return ranks without any work: neither in the main thread nor in another, nor in a child."""
    working = {*snapshot.busy, *snapshot.helped}
    return [item for item in away if item.rank not in working and item.detail != "polls"]


def _does(away: Sequence[Position], snapshot: Snapshot) -> str:
    one = len(away) == 1
    idle = _idle(away, snapshot)
    if len(idle) == len(away):
        return f"sleep{'s' * one}"
    if idle:
        return f"{_who(idle)} of them sleep{'s' * (len(idle) == 1)}"
    if {item.rank for item in away} <= set(snapshot.helped):
        return f"{'waits' if one else 'wait'} for {'its' if one else 'their'} own threads or children, which work"
    if all(item.detail == "polls" for item in away):
        return f"ask{'s' * one} for something again and again, at one line"
    return f"use{'s' * one} the processor"


def not_checked(snapshot: Snapshot) -> Iterator[NotChecked]:
    """Return what was not checked of a job, and why."""
    if snapshot.elsewhere:
        several = len(snapshot.elsewhere) > 1
        yield NotChecked(
            rank_names(snapshot.elsewhere),
            f"{'they are' if several else 'it is'} on other hosts, or in containers that can't be seen from here; "
            "srun --overlap --jobid=JOB --ntasks-per-node=1 distcheck stuck --merge inspects all",
        )
    reasons: dict[str, list[int]] = {}
    for rank, why in snapshot.unseen.items():
        reasons.setdefault(why, []).append(rank)
    for why, ranks in reasons.items():
        yield NotChecked(f"the stack{'s' * (len(ranks) > 1)} of {rank_names(ranks)}", why)
    for rank, why in snapshot.unrecorded.items():
        yield NotChecked(f"the flight recorder of rank {rank}", why)


def stands_still(snapshot: Snapshot) -> bool:
    """Report a job in which no rank makes progress, in waits or in their own code."""
    case = _case(snapshot)
    living = [item for item in (*case.waiting, *case.others) if item.rank not in snapshot.unseen]
    return bool(living) and all(item.rank in snapshot.still for item in living)


# texts


def _who(positions: Sequence[Position]) -> str:
    return few_rank_names(item.rank for item in positions)


def _number(ranks: Sequence[int]) -> str:
    return f"{len(ranks)} rank{'s' * (len(ranks) > 1)}"


def _waits(waiting: Sequence[Position]) -> str:
    """Return ``ranks 0,2-3 wait in all_reduce at train.py:88``: the collective in which most of them wait."""
    most = max(_kinds(waiting), key=len)
    return f"{_who(most)} wait{'s' * (len(most) == 1)} in {_call(most[0])}"


def _call(position: Position) -> str:
    if position.call is None:
        return "a call that is not known"
    place = _place(position)
    return position.call.text + (f" at {place}" if place else "")


def _place(position: Position) -> str:
    """Return the line that waits."""
    if position.call is not None and position.call.place:
        return position.call.place
    return position.own_frame.place if position.own_frame else ""


def _operation(position: Position) -> str:
    return position.call.operation if position.call is not None else ""


def _is_vague(position: Position) -> bool:
    return _operation(position) in _VAGUE or "." in _operation(position)


def _kinds(waiting: Iterable[Position]) -> list[tuple[Position, ...]]:
    """Return the ranks that wait, by collective, the smallest group first."""
    groups: dict[tuple[str, str], list[Position]] = {}
    for item in waiting:
        place = item.call.place if item.call is not None and item.call.operation in ("Work.wait", "backward") else ""
        groups.setdefault((_operation(item), place), []).append(item)
    return sorted((tuple(group) for group in groups.values()), key=len)


def _at(position: Position) -> str:
    frame = position.own_frame or next(iter(position.stack), None)
    return "" if frame is None else f" in {frame.text}"


def _where(
    snapshot: Snapshot, ranks: Sequence[Position], call: CollectiveCall | None, frame: Frame | None = None
) -> Where:
    path, line = (frame.path, frame.line) if frame is not None else split_place("" if call is None else call.place)
    one = len(ranks) == 1
    hosts = sorted({item.host for item in ranks if item.host})
    return Where(
        path=path or None,
        line=line,
        host=place_hosts(hosts) if hosts else None,
        rank=ranks[0].rank if one else None,
        ranks=None if one else place_ranks(item.rank for item in ranks),
    )


def _host(snapshot: Snapshot) -> str | None:
    return place_hosts(sorted(snapshot.hosts)) if snapshot.hosts else None


def _evidence(case: _JobState) -> dict[str, object]:
    return {
        "job": case.snapshot.job,
        "interval_s": round(case.snapshot.interval_s, 1),
        "waiting": rank_ranges([item.rank for item in case.waiting]),
        "processes": {str(item.rank): item.pid for item in (*case.others, *case.stopped) if item.pid},
    }


def _inspect_other_hosts(snapshot: Snapshot) -> Fix:
    return Fix(
        "inspect the other hosts too: 'srun --overlap --jobid=JOB --ntasks-per-node=1 distcheck stuck --merge', or "
        "'distcheck stuck' on each of them",
        where="host",
    )
