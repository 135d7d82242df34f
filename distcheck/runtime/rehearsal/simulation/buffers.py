"""Tensors of calls that a script uses too early, reads where the call did nothing, passes twice, or drops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, rank_names
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination.digests import Digest

from .plan import End, Rehearsal, where

#: Values of ``BufferUse.what``.
_KINDS = ("used", "outside", "no_handle", "shared", "unwaited")
#: What a script raises that takes None for a handle.
_OF_NONE = re.compile(r"'NoneType' object has no attribute '(wait|is_completed|get_future|result)'")


class BufferUse(NamedTuple):
    """A tensor of one call, and what was wrong with it, on all ranks that did the same."""

    what: str
    ranks: tuple[int, ...]
    #: the line of the call
    place: str
    operation: str
    #: the line that used the tensor
    at: str = ""
    #: that line writes it
    write: bool = False
    #: the script still held the handle
    kept: bool = False


class LostResult(NamedTuple):
    """The tensor of one call on one rank that ended with the call."""

    rank: int
    place: str
    operation: str
    group: str
    number: int
    #: before the call
    digest: Digest


class Buffers(NamedTuple):
    """The tensors of calls that were used wrongly."""

    uses: tuple[BufferUse, ...] = ()
    lost: tuple[LostResult, ...] = ()
    #: how the ranks ended
    ends: tuple[End, ...] = ()


@fact(of_this_host=False)
def read_buffers(rehearsal: Rehearsal) -> Buffers:
    """From what the ranks wrote down."""
    found: dict[BufferUse, set[int]] = {}
    for kind in _KINDS:
        for row in rehearsal.of_ranks(f"buffers.{kind}"):
            use = row.fill(BufferUse, what=kind, ranks=())
            found.setdefault(use, set()).add(row.rank or 0)
    lost = tuple(row.fill(LostResult, digest=Digest(*row.data["digest"])) for row in rehearsal.of_ranks("buffers.lost"))
    if not (found or lost):
        raise NotApplicable("no tensor of a call was used wrongly")
    return Buffers(
        tuple(use._replace(ranks=tuple(sorted(ranks))) for use, ranks in found.items()), lost, rehearsal.ends
    )


@probe(rules.DC713, rules.DC717)
def buffers_are_used_after_the_wait(buffers: Buffers) -> Iterator[Finding]:
    """Report tensors that the script uses while an asynchronous call works on them."""
    for use in buffers.uses:
        if use.what != "used":
            continue
        does = "writes" if use.write else "reads"
        if use.kept:
            yield rules.DC717.found(
                f"{rank_names(use.ranks)} {does} a tensor here before wait() of the handle of {use.operation} at "
                f"{use.place}, which still works on it",
                where=where(use.at, use.ranks),
                fix=Fix("call wait() of the handle before this line", where="code"),
                evidence={"call_at": use.place, "operation": use.operation},
            )
        else:
            yield rules.DC713.found(
                f"the handle of {use.operation} is dropped here, and {use.at} {does} its tensor while the call may "
                f"still work on it, on {rank_names(use.ranks)}",
                where=where(use.place, use.ranks),
                fix=_KEEP,
                evidence={"used_at": use.at, "operation": use.operation},
            )


_KEEP = Fix("keep the handle and call its wait(), or drop async_op", where="code")


@probe(rules.DC713)
def barriers_are_waited_for(buffers: Buffers) -> Iterator[Finding]:
    """Report asynchronous barriers whose handles are dropped."""
    for use in buffers.uses:
        if use.what == "unwaited":
            yield rules.DC713.found(
                f"the handle of an asynchronous {use.operation} is dropped here on {rank_names(use.ranks)}: no rank "
                "waits for it",
                where=where(use.place, use.ranks),
                fix=_KEEP,
                evidence={"operation": use.operation},
            )


@probe(rules.DC709)
def results_are_read_by_members(buffers: Buffers) -> Iterator[Finding]:
    """Report the result of a collective that is read on ranks outside its group, where it does nothing."""
    for use in buffers.uses:
        if use.what == "outside":
            them = "it is" if len(use.ranks) == 1 else "they are"
            yield rules.DC709.found(
                f"{rank_names(use.ranks)} reads the tensor of {use.operation} at {use.at}, but {them} not in its "
                "group: the call did nothing there",
                where=where(use.place, use.ranks),
                fix=Fix(
                    "call it, and use its result, only on the ranks of the group; broadcast the result to the others",
                    where="code",
                ),
                severity=min(rules.DC709.severities),
                evidence={"read_at": use.at, "operation": use.operation},
            )


@probe(rules.DC709)
def handles_are_waited_for_by_members(buffers: Buffers) -> Iterator[Finding]:
    """Report asynchronous calls outside of their group: they return None, and a rank waited for that."""
    for end in buffers.ends:
        calls = [use for use in buffers.uses if use.what == "no_handle" and end.rank in use.ranks]
        if calls and end.how == "raised" and _OF_NONE.search(end.detail):
            call = calls[-1]
            yield rules.DC709.found(
                f"rank {end.rank} is not in the group of the asynchronous {call.operation} here, so the call returned "
                f"None, and the wait for it at {end.place} failed",
                where=where(call.place, call.ranks),
                fix=Fix("start the call, and wait for its handle, only on the ranks of the group", where="code"),
                severity=max(rules.DC709.severities),
                evidence={"waited_at": end.place, "operation": call.operation},
            )
            return


@probe(rules.DC712)
def outputs_share_no_memory(buffers: Buffers) -> Iterator[Finding]:
    """Report outputs of one call that share memory."""
    for use in buffers.uses:
        if use.what == "shared":
            yield rules.DC712.found(
                f"tensors of the list that {use.operation} fills here share memory on {rank_names(use.ranks)}, so the "
                "parts of ranks overwrite each other",
                where=where(use.place, use.ranks),
                fix=Fix(
                    "make one tensor for each rank: [torch.empty_like(x) for _ in range(world_size)]", where="code"
                ),
                severity=max(rules.DC712.severities),
                evidence={"operation": use.operation},
            )


@probe(rules.DC711)
def results_are_kept(buffers: Buffers) -> Iterator[Finding]:
    """Report a reduction whose tensor ends with the call, although its values come from each rank.

    A reduction of constants may only start the communication.
    """
    calls: dict[tuple[str, str, int], list[LostResult]] = {}
    for one in buffers.lost:
        calls.setdefault((one.place, one.group, one.number), []).append(one)
    reported: set[str] = set()
    for (place, _, _), ranks in calls.items():
        if place in reported or not any(one.digest.differs(ranks[0].digest) for one in ranks[1:]):
            continue
        reported.add(place)
        yield rules.DC711.found(
            f"the result of {ranks[0].operation} is lost: it is in a tensor without a name, which ends with the call",
            where=where(place, [one.rank for one in ranks]),
            fix=Fix("give the tensor a name before the call, and use it after the call", where="code"),
            severity=max(rules.DC711.severities),
            evidence={"operation": ranks[0].operation},
        )
