"""Probes of a live object: members that can't be pickled, members that break later, pickling with side effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Rule, Severity, Where, grouped
from distcheck.core.registry import probe

from . import kinds
from .picklability import Caution, Offender, PickleReport

#: Up to this many members of one pattern are findings of their own. More become one finding.
_NAMED = 3
#: Findings about members of different patterns; what is more is counted by type.
_MOST = 50
#: Examples in a finding about many members.
_EXAMPLES = 5


@probe(rules.DC601)
def members_can_be_pickled(report: PickleReport) -> Iterator[Finding]:
    """Nothing in the object stops the pickler, and the real pickler agrees, if it ran."""
    yield from _refused(rules.DC601, report, [item for item in report.offenders if item.kind != "process-group"])
    if report.confirmation:
        yield rules.DC601.found(
            f"the real pickler does not agree about {report.name}: {kinds.shown(report.confirmation)}",
            where=Where(object=report.name),
            fix=Fix(
                "trust the pickler, and search for a __reduce__, __getstate__ or copyreg entry that answers differently"
                " each time",
                where="code",
            ),
            evidence={"mode": report.mode, "confirmation": report.confirmation},
        )


@probe(rules.DC602)
def no_process_group_inside(report: PickleReport) -> Iterator[Finding]:
    """The object holds no process group, store or handle of a collective."""
    yield from _refused(rules.DC602, report, [item for item in report.offenders if item.kind == "process-group"])


@probe(rules.DC603)
def what_is_pickled_works_elsewhere(report: PickleReport) -> Iterator[Finding]:
    """What can be pickled is of use where it is loaded."""
    yield from _cautions(rules.DC603, report, [item for item in report.warnings if item.kind != "side-effect"])


@probe(rules.DC604)
def pickling_only_pickles(report: PickleReport) -> Iterator[Finding]:
    """Pickling ends, leaves the object unchanged, and writes its state."""
    yield from _cautions(rules.DC604, report, [item for item in report.warnings if item.kind == "side-effect"])


def _refused(rule: Rule, report: PickleReport, offenders: Iterable[Offender]) -> Iterator[Finding]:
    refusal = kinds.REFUSALS.get(report.mode, kinds.REFUSALS["pickle"])
    places = grouped(offenders, lambda offender: (offender.type, kinds.pattern(offender.place)))
    single = [[item] for group in places.values() if len(group) <= _NAMED for item in group]
    many = [group for group in places.values() if len(group) > _NAMED]
    groups = [*many, *single]
    for group in groups[:_MOST]:
        yield _refused_one(
            rule, report, group, refusal, kinds.pattern(group[0].place) if len(group) > 1 else group[0].place
        )
    rest: dict[str, list[Offender]] = {}
    for group in groups[_MOST:]:
        rest.setdefault(group[0].type, []).extend(group)
    for same in rest.values():
        yield _refused_one(rule, report, same, refusal, same[0].place)


def _refused_one(rule: Rule, report: PickleReport, group: list[Offender], refusal: str, place: str) -> Finding:
    first = group[0]
    if len(group) == 1:
        message = f"{place} ({first.type}) {refusal}: {first.why}"
    elif place == first.place:
        message = f"{place} and {len(group) - 1} more members ({first.type}) {refusal}: {first.why}"
    else:
        message = f"{len(group)} members {place} ({first.type}) {refusal}: {first.why}"
    evidence: dict[str, Any] = {"type": first.type, "mode": report.mode}
    if first.error:
        evidence["error"] = first.error
    if first.aliases:
        evidence["also_at"] = list(first.aliases)
    evidence.update(_counted(group))
    return rule.found(message, where=Where(object=place), fix=Fix(first.fix, where="code"), evidence=evidence)


def _cautions(rule: Rule, report: PickleReport, cautions: Iterable[Caution]) -> Iterator[Finding]:
    groups = grouped(cautions, lambda item: (item.kind, item.type, item.why))
    for group in groups.values():
        first = group[0]
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        yield rule.found(
            f"{first.path}{more} ({first.type}): {first.why}",
            where=Where(object=first.path),
            fix=Fix(first.fix, where="code"),
            evidence={"type": first.type, "mode": report.mode, **_counted(group)},
            severity=Severity.INFO if first.kind == "note" else None,
        )


def _counted(group: list[Offender] | list[Caution]) -> dict[str, Any]:
    """How many there are, and where the first stand; {} for one."""
    if len(group) == 1:
        return {}
    return {"count": len(group), "first": [getattr(item, "place", item.path) for item in group[:_EXAMPLES]]}
