"""Detects hangs from the positions of all ranks: which ranks wait in which call, for which ranks, and why.

All functions are pure. Only a certain hang counts: a rank that computes can still arrive, however long it takes, and so
the ranks that wait for it can continue, directly or through others. All other waits are for ranks that have exited,
that are stopped, or that wait themselves, in a circle.

How a finding names a rank: :func:`waits` groups ranks by the call in which they wait, with the ranks that are missing
there. :func:`deadlocks` drops the waits that can still end. :func:`every_wait_can_end` selects the wait to report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Rule, rank_names, rank_ranges
from distcheck.core.registry import probe

from .call_mismatch import (
    BRANCH,
    FORWARD,
    LOOP,
    Divergence,
    Side,
    divergence_of,
    in_ddp_forward,
    is_in_branch_on_rank,
    sides_of,
    skipped_a_branch_of_a_loop,
    stands_in_a_branch_on_the_rank,
)
from .call_signatures import OBJECTS, agreed
from .locations import where_of
from .model import ANY_RANK, SETUP, STORE, UNSEEN, CallMismatch, CollectiveCall, Position, Positions, pair_key
from .pair_counts import direction_of, has_other_side

#: States of a rank that will make no further call, as far as known.
ABSENT = ("left", "raised", "stopped", "silent")
#: A collective that all ranks have entered may take this many hang timeouts, and at least this many seconds: groups
#: take long to make on a busy machine, and with thousands of ranks.
_LONG, _LONG_S, _LONG_SETUP_S = 6.0, 60.0, 300.0
#: The same, if no rank that waits used CPU time or moved data for that long.
_LONG_IDLE, _LONG_IDLE_S = 2.0, 5.0
#: Missing ranks that a message describes one by one.
_SHOWN = 3


class WaitingCall(NamedTuple):
    """One call in which ranks wait."""

    call: CollectiveCall
    waiting: tuple[int, ...]
    #: ranks of its group that are not on their way to it
    missing: tuple[int, ...]
    #: of the longest wait; where calls differ, of the last rank that arrived
    since_s: float
    #: the ranks made calls that differ
    differs: bool = False
    #: one of the missing ranks is enough to end it
    any_one: bool = False
    #: each rank for which it waits has made its part
    complete: bool = False
    #: seconds in which no rank that waits used CPU time or moved data
    idle_s: float = 0.0


def waits(positions: Positions) -> tuple[WaitingCall, ...]:
    """Return all calls in which ranks wait, the longest wait first."""
    by_rank = positions.by_rank
    apart = differing_calls(positions)
    found: dict[tuple[object, ...], list[Position]] = {}
    for position in positions.ranks:
        call = position.awaited_call
        if call is not None:
            key = (call.group, call.number) if call.number else (call.group, 0, position.rank)
            found.setdefault(key, []).append(position)
    made = []
    for there in found.values():
        first = max(there, key=lambda position: position.since_s)
        call = first.call or CollectiveCall(0, "")
        waiting = tuple(sorted(position.rank for position in there))
        if (call.group, call.number) in apart:
            made.append(_differing_wait(call, waiting, by_rank, positions))
        else:
            missing = _missing(call, there, by_rank, positions)
            any_one = call.group == STORE or (bool(call.nth) and call.peer is None)
            complete = not missing and (bool(call.number) or bool(call.nth)) and not any_one
            idle_s = min(position.idle_s for position in there)
            made.append(WaitingCall(call, waiting, missing, first.since_s, False, any_one, complete, idle_s))
    return tuple(sorted(made, key=lambda wait: (-wait.since_s, wait.waiting)))


def differing_calls(positions: Positions) -> frozenset[tuple[str, int]]:
    """Return group and number of the calls that differ and can hang: torch does not compare reductions."""
    return frozenset(
        (mismatch.group, call.number)
        for mismatch in positions.mismatches
        if len({agreed(call._replace(reduce="")) for _, call in mismatch.calls}) > 1
        for _, call in mismatch.calls
    )


def _differing_wait(
    call: CollectiveCall, waiting: tuple[int, ...], by_rank: dict[int, Position], positions: Positions
) -> WaitingCall:
    """Return the wait of a call that differs; a rank that passed it was in another call and counts as missing."""
    missing = tuple(rank for rank in positions.ranks_of(call.group) if rank not in waiting)
    seen = [by_rank[rank] for rank in (*waiting, *missing) if rank in by_rank]
    since_s = min(position.since_s for position in seen if position.state == "waiting")
    return WaitingCall(call, waiting, missing, since_s, differs=True)


def _missing(
    call: CollectiveCall, there: Sequence[Position], by_rank: dict[int, Position], positions: Positions
) -> tuple[int, ...]:
    """Return the ranks for which a call waits: the peer of a send or receive, or members that have not entered it."""
    if call.group == STORE:
        return tuple(rank for rank in range(positions.world_size) if rank != there[0].rank)
    if not call.number:
        return _missing_in_pair(call, there[0], by_rank, positions)
    present = {position.rank for position in there}
    return tuple(
        rank
        for rank in positions.ranks_of(call.group)
        if rank not in present and not (rank in by_rank and _arrived(by_rank[rank], call))
    )


def _missing_in_pair(
    call: CollectiveCall, position: Position, by_rank: dict[int, Position], positions: Positions
) -> tuple[int, ...]:
    """Return the ranks for which a send or receive waits: those that have not posted the other side."""
    if call.peer is None:
        others = [rank for rank in positions.ranks_of(call.group) if rank != position.rank]
        return tuple(others) if call.nth and not _received_from_any(call, position, others, by_rank) else ()
    peer = by_rank.get(call.peer)
    if call.nth and peer is not None and peer.posted is not None:
        return () if has_other_side(call, position.rank, peer.posted) else (call.peer,)
    other = None if peer is None else peer.awaited_call
    # a send and a receive that wait for each other match; two receives never do
    return () if other is not None and _match(call, other) else (call.peer,)


def _received_from_any(
    call: CollectiveCall, position: Position, others: Sequence[int], by_rank: dict[int, Position]
) -> bool:
    """Return whether other ranks have posted as many sends as a rank has posted receives, or that is unknown."""
    mine = position.posted
    theirs = [by_rank[rank].posted if rank in by_rank else None for rank in others]
    if mine is None or None in theirs:
        return True
    sent = sum(
        posted.get(pair_key(call.group, "send", position.rank, call.tag), 0) for posted in theirs if posted is not None
    )
    received = sum(mine.get(pair_key(call.group, "recv", rank, call.tag), 0) for rank in others)
    return sent >= received + call.nth


def _match(call: CollectiveCall, other: CollectiveCall) -> bool:
    return not other.number and not ("recv" in call.operation and "recv" in other.operation)


def _arrived(position: Position, call: CollectiveCall) -> bool:
    """Return whether a rank has entered that call, or a later one of the same group."""
    return position.entered.get(call.group, 0) >= call.number


def deadlocks(positions: Positions) -> tuple[WaitingCall, ...]:
    """Return the waits that cannot end, as far as known."""
    free = {position.rank for position in positions.ranks if position.state not in (*ABSENT, "waiting")}
    if positions.over:
        free.clear()
    left = list(waits(positions))
    while True:
        ends = [wait for wait in left if _may_end(wait, free, positions)]
        if not ends:
            break
        for wait in ends:
            free.update(wait.waiting)
        left = [wait for wait in left if wait not in ends]
    return tuple(left)


def _may_end(wait: WaitingCall, free: set[int], positions: Positions) -> bool:
    if wait.differs:
        # torch lets some calls differ: they end once the last rank has arrived
        return any(rank in free for rank in wait.missing)
    if wait.any_one and wait.missing:
        return any(rank in free for rank in wait.missing)
    if wait.call.group == STORE:
        return False  # the only rank of the job waits for itself
    return all(rank in free for rank in wait.missing) and not _too_long(wait, positions)


def hangs(positions: Positions) -> tuple[WaitingCall, ...]:
    """Return the deadlocks that have lasted for the hang timeout."""
    return tuple(wait for wait in deadlocks(positions) if wait.since_s >= positions.hang_timeout_s)


def cause_of(stuck: Sequence[WaitingCall], positions: Positions) -> CollectiveCall | None:
    """Return the first call that differs, if such calls are the cause of all these waits."""
    apart = differing_calls(positions)
    setup = next((mismatch for mismatch in positions.mismatches if mismatch.group.startswith(SETUP)), None)
    if stuck and setup is not None:
        # ranks wait in groups that others do not have; none may have kept the calls that made them
        return setup.calls[0][1] if setup.calls else CollectiveCall(setup.number, "new_group", setup.group)
    last = {position.rank: position.call for position in positions.ranks}
    causes = []
    for wait in stuck:
        # an exited rank may have lost its peer in such a call
        calls = [wait.call, *(last.get(rank) for rank in wait.missing)]
        found = next((call for call in calls if call is not None and (call.group, call.number) in apart), None)
        if found is None:
            return None
        causes.append(found)
    return causes[0] if causes else None


def mismatched_waits(positions: Positions) -> tuple[CallMismatch, ...]:
    """Return waits at one number of one group that cannot be the same call: C++ made one, so no record shows it."""
    found: dict[tuple[str, int], list[tuple[int, CollectiveCall]]] = {}
    for position in positions.ranks:
        call = position.awaited_call
        if call is not None and call.number and call.operation in _FAMILY:
            found.setdefault((call.group, call.number), []).append((position.rank, call))
    sides = {key: sides_of(calls, lambda call: _FAMILY[call.operation]) for key, calls in found.items()}
    return tuple(CallMismatch(*key, calls) for key, calls in sides.items() if len(calls) > 1)


#: The basic collective of each name, in torch's Python and in the flight recorder (torch 2.13).
_FAMILY = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_reduce_coalesced": "all_reduce",
    "broadcast": "broadcast", "broadcast_object_list": "broadcast", "reduce": "reduce",
    "all_gather": "all_gather", "all_gather_object": "all_gather", "all_gather_single": "all_gather",
    "all_gather_into_tensor": "all_gather", "_all_gather_base": "all_gather", "all_gather_base": "all_gather",
    "reduce_scatter": "reduce_scatter", "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "barrier": "barrier",
}  # fmt: skip


def suspicious(positions: Positions) -> bool:
    """Return whether to request details.

    All ranks have waited for the hang timeout, no rank made progress, or one waits in a call with an unknown number.
    """
    if hangs(positions):
        return True
    waiting = [position for position in positions.ranks if position.state == "waiting"]
    long = [position for position in waiting if position.since_s >= positions.hang_timeout_s]
    unseen = any(item.call is not None and item.call.operation == UNSEEN and not item.call.number for item in long)
    return unseen or len(long) == positions.world_size


def _too_long(wait: WaitingCall, positions: Positions) -> bool:
    """Return whether all ranks have entered a call that still does not end."""
    if not wait.complete:
        return False
    if min(wait.since_s, wait.idle_s) >= max(_LONG_IDLE * positions.hang_timeout_s, _LONG_IDLE_S):
        return True
    least_s = _LONG_SETUP_S if wait.call.group.startswith(SETUP) else _LONG_S
    return bool(wait.call.number) and wait.since_s >= max(_LONG * positions.hang_timeout_s, least_s)


def is_hung(positions: Positions) -> bool:
    """Return whether there is something to report: a mismatch, or a hang."""
    return bool(positions.mismatches or hangs(positions))


@probe(rules.DC517, rules.DC706, rules.DC709, rules.DC701, rules.DC519, rules.DC704)
def ranks_make_the_same_calls(positions: Positions) -> Iterator[Finding]:
    """Report calls of one group with one number that differ between its ranks."""
    for mismatch in positions.mismatches:
        if not mismatch.calls:
            yield rules.DC517.found(
                f"up to call {mismatch.number} of {group_name(mismatch.group)} not all ranks have called the same; "
                "which one differs was not kept",
                evidence={"group": mismatch.group, "number": mismatch.number},
                fix=Fix(
                    "run 'distcheck rehearse -- train.py': it compares operation, sizes and dtypes before each call "
                    "and names the first that differs",
                    where="launch-line",
                ),
            )
            continue
        divergence = divergence_of(mismatch, positions)
        if divergence is not None:
            yield _divergence_finding(divergence, mismatch)
            continue
        ranks, first = mismatch.calls[-1]
        difference = _difference(mismatch)
        rule = rules.DC709 if _is_first_at_line(mismatch, positions) else _RULES.get(difference, rules.DC517)
        yield rule.found(
            f"call #{mismatch.number} of {group_name(mismatch.group)} differs in {difference}: "
            f"{_calls_text(mismatch.calls)}",
            where=where_of(first.place, ranks),
            evidence=_evidence(mismatch),
            fix=Fix(_SAME[difference], where="code"),
            severity=max(rule.severities),
        )


def _divergence_finding(side: Divergence, mismatch: CallMismatch) -> Finding:
    one = len(side.ranks) == 1
    rule, why = _CAUSES[side.why]
    did = {
        LOOP: f"{'has' if one else 'have'} left the loop, and {'calls' if one else 'call'}",
        BRANCH: f"{'stands' if one else 'stand'} in a branch that the others have not taken, and "
        f"{'calls' if one else 'call'}",
        FORWARD: f"{'is' if one else 'are'} in the forward of a DDP model, which calls",
    }[side.why]
    return rule.found(
        f"{rank_names(side.ranks)} {did} {side.call.text_with_place}; {_calls_text(side.others)}",
        where=where_of(side.others[0][1].place if side.why == LOOP else side.call.place, side.ranks),
        evidence=_evidence(mismatch),
        fix=Fix(why, where="code"),
        # the job hangs, so the worst severity applies
        severity=max(rule.severities),
    )


def _calls_text(sides: Sequence[Side]) -> str:
    return "; ".join(
        f"{rank_names(ranks)} {'calls' if len(ranks) == 1 else 'call'} {call.text_with_place}" for ranks, call in sides
    )


def _evidence(mismatch: CallMismatch) -> dict[str, object]:
    calls = [f"{rank_names(ranks)}: {call.text_with_place}" for ranks, call in mismatch.calls]
    return {"group": mismatch.group, "number": mismatch.number, "calls": calls}


_EVEN = (
    "let all ranks take the same number of steps: DistributedSampler, drop_last, all_reduce of the length with "
    "ReduceOp.MIN, or 'with Join([ddp]):'; where one rank ends the loop, broadcast its decision"
)
_ON_ALL = "call the collective on all ranks, and put into the branch only what one rank does with its result"
_BARE = "call the wrapped model on all ranks, or give the one rank the bare model (model.module)"

_CAUSES = {LOOP: (rules.DC519, _EVEN), BRANCH: (rules.DC701, _ON_ALL), FORWARD: (rules.DC704, _BARE)}

#: The rule of a difference, where it is not DC517.
_RULES = {"ranks": rules.DC706, "root": rules.DC709, "number of objects": rules.DC709}
_SAME = {
    "operation": "make every rank call the same collectives in the same order: find a branch on the rank, or on "
    "data that differs, above the lines named",
    "sizes": "give all ranks tensors of one size: pad them, or gather the sizes first",
    "dtypes": "convert the tensors to one dtype on all ranks before the call",
    "reduction": "pass the same op= on all ranks; torch never compares it, and the result is silently wrong",
    "ranks": "make the same groups with the same ranks in the same order on all ranks, also those that a rank is not "
    "in",
    "root": "pass the same src= or dst= on all ranks",
    "number of objects": "pass lists of one length on all ranks, for example with one object that holds the others",
}


def _is_first_at_line(mismatch: CallMismatch, positions: Positions) -> bool:
    """Return whether all ranks are in the same operation at one line that none of them has completed before.

    Then no rank is one turn of a loop ahead, and only the arguments differ.
    """
    calls = [call for _, call in mismatch.calls]
    if (
        len({(call.operation, call.place) for call in calls}) > 1
        or not calls[0].place
        or calls[0].group.startswith(SETUP)
    ):
        return False
    by_rank = positions.by_rank
    before = [by_rank[rank].places for ranks, _ in mismatch.calls for rank in ranks if rank in by_rank]
    known = mismatch.number == 1 or all(before)
    return known and not any(places.get(calls[0].place) for places in before)


def _difference(mismatch: CallMismatch) -> str:
    calls = [call for _, call in mismatch.calls]
    if len({call.operation for call in calls}) > 1:
        return "operation"
    if len({call.dtypes for call in calls}) > 1:
        return "dtypes"
    if len({call.reduce for call in calls}) > 1:
        return "reduction"
    if len({call.peer for call in calls}) > 1:
        return "root"
    if calls[0].group.startswith(SETUP):
        return "ranks"
    return "number of objects" if OBJECTS in calls[0].dtypes else "sizes"


@probe(rules.DC701, rules.DC702, rules.DC519, rules.DC704, rules.DC511, rules.DC709, rules.DC716)
def every_wait_can_end(positions: Positions) -> Iterator[Finding]:
    """Report ranks that wait for ranks that will not arrive."""
    if positions.mismatches:
        return  # a hang that follows from a mismatch is no second cause
    by_rank = positions.by_rank
    stuck = list(deadlocks(positions))
    pairs = [wait for wait in stuck if _is_pair(wait.call) and wait.call.nth]
    # exited ranks explain a circle of waits, then a collective in a branch on the rank, then a message without its
    # other side; the order of arrival explains nothing
    causes = [wait for wait in stuck if any(_is_absent(by_rank.get(rank)) for rank in wait.missing)]
    causes = causes or [wait for wait in stuck if _is_in_branch_on_rank(wait, by_rank, positions)][:1]
    causes = causes or [wait for wait in pairs if _stray_message(wait, by_rank)][:1] or pairs[:1] or stuck[:1]
    for wait in causes[:_SHOWN]:
        yield _finding(wait, by_rank, positions)


def _is_in_branch_on_rank(wait: WaitingCall, by_rank: dict[int, Position], positions: Positions) -> bool:
    """Return whether the waiting ranks took a branch on the rank that the missing ones did not take.

    Messages are always between some ranks only.
    """
    if _is_pair(wait.call):
        return False
    mismatch = _mismatch(wait, by_rank.get(wait.missing[0]) if wait.missing else None)
    return mismatch is not None and is_in_branch_on_rank(mismatch, positions)


def _mismatch(wait: WaitingCall, missing: Position | None) -> CallMismatch | None:
    """Return the two calls in which ranks wait for each other, or None if the missing rank does not wait."""
    call = None if missing is None else missing.awaited_call
    if call is None:
        return None
    return CallMismatch(wait.call.group, wait.call.number, ((wait.waiting, wait.call), (wait.missing, call)))


def _is_absent(position: Position | None) -> bool:
    return position is None or position.state in ABSENT


def _finding(wait: WaitingCall, by_rank: dict[int, Position], positions: Positions) -> Finding:
    waiting = by_rank[wait.waiting[0]]
    outside = f"is not in {group_name(wait.call.group)}"
    missing = [by_rank.get(rank, Position(rank, state="silent")) for rank in wait.missing]
    call = wait.call.text_with_place
    if not missing:
        passed = [rank for rank in positions.ranks_of(wait.call.group) if rank not in wait.waiting]
        who = rank_names(wait.waiting) if passed else f"all ranks of {group_name(wait.call.group)}"
        being = "is" if passed and len(wait.waiting) == 1 else "are"
        others = f", and {rank_names(passed)} made the same call before" if passed and wait.call.number else ""
        if wait.call.nth:
            others = f", and rank {wait.call.peer} has made the other side"
        return rules.DC511.found(
            f"{who} {being} in {call} for {wait.since_s:.0f} s, and it does not end{others}",
            where=where_of(wait.call.place, ()),
            evidence={
                "call": call,
                "waiting": rank_ranges(wait.waiting),
                "since_s": round(wait.since_s, 1),
                "idle_s": round(wait.idle_s, 1),
            },
            fix=Fix(
                "test the links between the ranks: the report names the pair that fails",
                command="distcheck collective --pairs",
                where="host",
            ),
        )
    rule, why = _rule(wait, waiting, missing, positions)
    descriptions = [_described(ranks, position) for ranks, position in _alike(missing)]
    if rule is rules.DC709:
        stray = _stray_message(wait, by_rank)
        descriptions = [*descriptions, stray] if stray else [f"{rank_names(wait.missing)} {outside}"]
    more = len(descriptions) - _SHOWN
    descriptions = descriptions[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
    verb = "waits" if len(wait.waiting) == 1 else "wait"
    if positions.over:
        verb = "waited"
    return rule.found(
        f"{rank_names(wait.waiting)} {verb} in {call}; {'; '.join(descriptions)}",
        where=where_of(wait.call.place, _circle(wait, by_rank) if rule is rules.DC716 else wait.missing),
        evidence={
            "call": call,
            "waiting": rank_ranges(wait.waiting),
            "missing": rank_ranges(wait.missing),
            "since_s": round(wait.since_s, 1),
        },
        fix=Fix(why, where="host" if rule is rules.DC511 else "code"),
        # the job hangs, so the worst severity applies
        severity=max(rule.severities),
    )


def _rule(wait: WaitingCall, waiting: Position, missing: Sequence[Position], positions: Positions) -> tuple[Rule, str]:
    first = missing[0]
    if _is_pair(wait.call) and first.rank not in positions.ranks_of(wait.call.group):
        return rules.DC709, (
            "send to, and receive from, ranks of the group only: omit the message at the end of a chain, or take "
            "the rank modulo the number of ranks"
        )
    if any(position.state == "stopped" for position in missing):
        return rules.DC511, (
            "see who stops processes there: Ctrl-Z, a debugger, 'scontrol suspend', a frozen container; "
            "'kill -CONT PID' lets one go on"
        )
    if any(position.state == "raised" for position in missing):
        return rules.DC511, "fix the exception on the rank that raised it; the others only wait for it"
    if any(position.state == "silent" or _was_killed(position) for position in missing):
        return rules.DC511, (
            "see what became of the process: its log, 'dmesg -T' for the out-of-memory killer, os._exit() in the script"
        )
    if wait.call.group == STORE:
        return rules.DC511, "set the key on another rank before it waits, under the same name and in the same store"
    apart = _mismatch(wait, first)
    if _is_pair(wait.call):
        if _stray_message(wait, positions.by_rank):
            return (
                rules.DC709,
                "use the rank, group and tag of the other side; ranks are global unless group_dst= is used",
            )
        other = None if apart is None else apart.calls[1][1]
        if other is not None and _is_pair(other) and _is_symmetric(wait.call, other):
            return rules.DC716, "start one of the two with isend() or irecv(), or use batch_isend_irecv()"
        if wait.call.nth or other is None or _is_pair(other):
            return rules.DC511, (
                "give each send one receive on the other rank, with the same group, tag and order, before the next "
                "collective of both; ranks are global unless group_dst= or group_src= is used"
            )
    explained = None if apart is None else divergence_of(apart, positions)
    # one that has been at this line, or that is known to be elsewhere, did not skip the forward alone
    if in_ddp_forward(waiting.stack) and not first.places.get(wait.call.place) and _is_forward(explained):
        return rules.DC704, _BARE
    if apart is not None and (is_in_branch_on_rank(apart, positions) or skipped_a_branch_of_a_loop(apart, positions)):
        return _CAUSES[BRANCH]
    if first.places.get(wait.call.place) or (first.places.get(UNSEEN) and _in_backward(waiting)):
        return rules.DC519, _EVEN
    if first.state == "left" and stands_in_a_branch_on_the_rank(waiting, positions):
        return rules.DC701, _ON_ALL
    if first.state == "left":
        return rules.DC702, "move the collective above the exit, or let all ranks leave together"
    if apart is not None:
        if explained is not None:
            return _CAUSES[explained.why]
        if all(_in_other_order(position.call, wait.call) for position in missing):
            return rules.DC517, (
                "use the groups, and sends and receives, in one order on all ranks, or let each call end before the "
                "next one begins"
            )
    return rules.DC701, _ON_ALL


def _is_forward(explained: Divergence | None) -> bool:
    """Return whether nothing explains a mismatch, or the forward of DDP does."""
    return explained is None or explained.why == FORWARD


def _is_symmetric(call: CollectiveCall, other: CollectiveCall) -> bool:
    """Return whether both ranks send first, or both receive first at one line; elsewhere a send may be missing."""
    direction = direction_of(call)
    return direction == direction_of(other) and (direction == "send" or call.place == other.place)


def _circle(wait: WaitingCall, by_rank: dict[int, Position]) -> tuple[int, ...]:
    """Return the ranks that wait for each other, from one that waits in a send or receive."""
    found = list(wait.waiting)
    while (call := by_rank[found[-1]].awaited_call) is not None and call.peer in by_rank and call.peer not in found:
        found.append(call.peer)
    return tuple(sorted(found))


def _is_pair(call: CollectiveCall) -> bool:
    """Return whether a call is a send or receive with one other side."""
    return not call.number and call.peer is not None


def _stray_message(wait: WaitingCall, by_rank: dict[int, Position]) -> str:
    """Return what the peer of a send or receive did instead of its other side, which no rank matches; "": nothing.

    A message to another rank, or with another tag or in another group.
    """
    call, me = wait.call, wait.waiting[0]
    peer = by_rank.get(-1 if call.peer is None else call.peer)
    if not _is_pair(call) or peer is None or peer.posted is None:
        return ""
    direction, matching = ("recv", "send") if direction_of(call) == "send" else ("send", "recv")
    did = "sent to" if direction == "send" else "receives from"
    for key, count in peer.posted.items():
        group, made, other, tag = key.rsplit(" ", 3)
        if made != direction or not other.isdigit():
            continue
        there = by_rank.get(int(other))
        if there is None or there.posted is None:
            continue
        any_rank = there.posted.get(pair_key(group, matching, ANY_RANK, int(tag)), 0)
        if count <= there.posted.get(pair_key(group, matching, peer.rank, int(tag)), 0) + any_rank:
            continue
        if int(other) != me and (group, int(tag)) == (call.group, call.tag):
            return f"rank {peer.rank} {did} rank {other} instead, where nothing matches it"
        if int(other) == me and (group, int(tag)) != (call.group, call.tag):
            return f"rank {peer.rank} {did} rank {me} with tag {tag} in {group_name(group)} instead"
    return ""


def _was_killed(position: Position) -> bool:
    """Return whether a process ended by a signal or for an unknown reason, not by its script."""
    return position.state == "left" and (position.status is None or position.status < 0)


def _in_backward(position: Position) -> bool:
    """Return whether a rank waits for gradients, which C++ reduces."""
    return any(frame.function.endswith("_engine_run_backward") for frame in position.stack)


def _in_other_order(call: CollectiveCall | None, other: CollectiveCall) -> bool:
    """Return whether two calls could both end if each rank made them in the same order."""
    return call is not None and (call.group != other.group or not call.number or not other.number)


def _alike(missing: Sequence[Position]) -> list[tuple[tuple[int, ...], Position]]:
    """Return missing ranks with the same description, together."""
    groups: dict[tuple[object, ...], list[Position]] = {}
    for position in missing:
        key = (position.state, position.call, position.own_frame, position.status, position.detail)
        groups.setdefault(key, []).append(position)
    return [(tuple(item.rank for item in group), group[0]) for group in groups.values()]


def _described(ranks: Sequence[int], position: Position) -> str:
    who, one = rank_names(ranks), len(ranks) == 1
    # a silent rank may have made further calls
    seen = "last heard of" if position.state in ("stopped", "silent") or _was_killed(position) else "last"
    last = f", {seen} in {position.call.text_with_place}" if position.call is not None else ""
    if position.state == "left":
        status = "" if position.status is None else f" with status {position.status}"
        detail = f" ({position.detail})" if position.detail else ""
        return f"{who} {'has' if one else 'have'} ended{status}{detail}{last}"
    if position.state == "raised":
        frame = position.own_frame
        return f"{who} raised {position.detail}" + (f" in {frame.text}" if frame else "")
    if position.state == "stopped":
        return f"{who} {'is' if one else 'are'} stopped{f' ({position.detail})' if position.detail else ''}{last}"
    if position.state == "silent":
        return f"{who} {'gives' if one else 'give'} no word{f' ({position.detail})' if position.detail else ''}{last}"
    frame = position.own_frame
    inside = f" in {frame.text}" if frame else ""
    if position.awaited_call is not None:
        return f"{who} {'waits' if one else 'wait'} in {position.awaited_call.text_with_place}"
    return f"{who} {'is' if one else 'are'} elsewhere{inside}"


def group_name(name: str) -> str:
    """Return the name of a group in a message."""
    if name.startswith(SETUP):
        return "the job"
    return "the default group" if name == "0" else f"group {name}"
