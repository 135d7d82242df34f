"""Objects that could not be pickled for a spawned process, a checkpoint, a copy or other ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Rule
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination.logged_events import LoggedEvent

from .plan import Rehearsal, where

_VERBS = {
    "torch.save": "torch.save can't write",
    "deepcopy": "copy.deepcopy can't copy",
    "spawn": "a spawned process can't receive",
}


class FailedMember(NamedTuple):
    """The part of an object where pickling stopped."""

    #: ``args[0].lock``
    path: str
    type: str
    why: str
    fix: str
    #: ``process-group`` or ``unpicklable``
    kind: str


class FailedPickling(NamedTuple):
    """A failed attempt that no handler caught, on one rank or several."""

    #: ``spawn``, ``torch.save``, ``deepcopy`` or ``collective``
    mode: str
    #: the function of torch.distributed, of mode ``collective``
    operation: str
    #: ``train.py:88``
    place: str
    #: the line that made the process, of mode ``spawn``
    made: str
    error: str
    offenders: tuple[FailedMember, ...]
    #: () where the process was none
    ranks: tuple[int, ...] = ()


class Pickling(NamedTuple):
    """All such attempts of a rehearsal."""

    #: the same attempt of several ranks is one
    refused: tuple[FailedPickling, ...]


@fact(of_this_host=False)
def read_pickling(rehearsal: Rehearsal) -> Pickling:
    """From what the processes wrote down; what the script itself has caught is its own affair."""
    found: dict[tuple[str, str, str], list[LoggedEvent]] = {}
    raised = {end.rank: end.detail for end in rehearsal.ends if end.how == "raised"}
    for row in rehearsal.of("pickling.refused"):
        if row.rank is None or _fits(row.data["error"], raised.get(row.rank)):
            found.setdefault((row.data["mode"], row.place, row.data["error"]), []).append(row)
    if not found:
        raise NotApplicable("nothing failed to be pickled")
    return Pickling(tuple(_refused(rows) for rows in found.values()))


def _fits(error: str, detail: str | None) -> bool:
    """Whether a rank ended by this exception."""
    return detail is not None and error.partition(": ")[2] in detail


def _refused(rows: Sequence[LoggedEvent]) -> FailedPickling:
    first = rows[0]
    made = first.data["made"]
    return first.fill(
        FailedPickling,
        made=made[0] if made else "",
        offenders=tuple(FailedMember(**one) for one in first.data["offenders"]),
        ranks=tuple(sorted({row.rank for row in rows if row.rank is not None})),
    )


@probe(rules.DC602, rules.DC605)
def objects_can_be_pickled(pickling: Pickling) -> Iterator[Finding]:
    """What goes to another process, or to a file, holds no process group; what a spawned process gets can be sent."""
    for refused in pickling.refused:
        group = next((one for one in refused.offenders if one.kind == "process-group"), None)
        if group is not None:
            yield _found(rules.DC602, refused, group)
        elif refused.mode == "spawn":
            yield _found(rules.DC605, refused, refused.offenders[0])


def _found(rule: Rule, refused: FailedPickling, offender: FailedMember) -> Finding:
    verb = _VERBS.get(refused.mode, f"{refused.operation}() can't send")
    # a process is named by the line that made it: there its arguments stand
    place = refused.made or refused.place
    more = f"; {len(refused.offenders) - 1} more members can't be pickled either" if len(refused.offenders) > 1 else ""
    return rule.found(
        f"{verb} {offender.path} ({offender.type}): {offender.why}{more}",
        where=where(place, refused.ranks)._replace(object=offender.path),
        fix=Fix(offender.fix, where="code"),
        evidence={
            "error": refused.error,
            "at": refused.place,
            "places": [f"{one.path} ({one.type})" for one in refused.offenders],
        },
    )
