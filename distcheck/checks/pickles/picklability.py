"""The fact about one live object: members that can't be pickled, and members that can but break elsewhere."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

#: Characters of a path that are printed; the full path is in the report.
_LONGEST_PATH = 120
#: Members that are printed one by one. Members of one pattern are one line in any case.
_MOST_PRINTED = 50
_VARYING = re.compile(r"\[(?:\d+(?:, \d+)*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\]")
_VERBS = {
    "pickle": "be pickled",
    "torch.save": "be saved by torch.save",
    "deepcopy": "be copied by copy.deepcopy",
    "spawn": "be sent to a spawned process",
    "collective": "be sent by an object collective",
}


class UnpicklableError(TypeError):
    """Raised by :meth:`PickleReport.raise_if_any`. ``report`` holds all of it."""

    def __init__(self, report: PickleReport) -> None:
        super().__init__(str(report))
        self.report = report


class Offender(NamedTuple):
    """A location in an object where pickling stops."""

    #: as it can be typed after the variable: ``trainer.loader.workers[1]['iter']``
    path: str
    #: qualified name of the type: ``torch._C._distributed_c10d.ProcessGroup``
    type: str
    #: one sentence: why it can't be pickled
    why: str
    #: what to do about a member of this type
    fix: str
    #: other paths to the same object, at most ten, each with the words that its end needs
    aliases: tuple[str, ...] = ()
    #: the error of pickling: type and text of the exception
    error: str = ""
    #: ``unpicklable`` (DC601), ``process-group`` (DC602), ``too-deep`` (DC601)
    kind: str = "unpicklable"
    #: module and qualified name of the class whose attribute leads to it, None where no instance is on the path
    owner: str | None = None
    #: that attribute
    attribute: str | None = None
    #: path of the instance whose attribute it is
    owner_path: str | None = None
    #: what its class has of ``__getstate__``, ``__setstate__``, ``__reduce__``, ``__slots__``, ``__dict__``
    owner_has: tuple[str, ...] = ()
    #: where it is once the path ends, in words: no expression leads to ``argument 1 of what its __reduce__ returns``
    inside: str = ""

    @property
    def place(self) -> str:
        """The path, and the words for the rest of the way."""
        return f"{self.path}, in {self.inside}" if self.inside else self.path


class Caution(NamedTuple):
    """A member that can be pickled, but not used afterwards."""

    path: str
    type: str
    why: str
    fix: str
    #: ``breaks`` (useless or harmful elsewhere: DC603), ``note`` (worth knowing: DC603) or ``side-effect`` (its
    #: pickling did something: DC604)
    kind: str = "breaks"


class OffenderGroup(NamedTuple):
    """Offenders that are alike."""

    #: their path with ``[*]`` where they differ: ``trainer.callbacks[*].fn``
    pattern: str
    places: int
    #: the first of them
    first: Offender


class PickleReport(NamedTuple):
    """The outcome of :func:`distcheck.find_unpicklable`."""

    #: the name of the object, with which each path begins
    name: str
    mode: str
    offenders: tuple[Offender, ...] = ()
    warnings: tuple[Caution, ...] = ()
    #: False where a limit ended the walk: what was not walked may hold more
    complete: bool = True
    #: objects that were walked
    objects: int = 0
    #: the result of ``confirm=True``: None without it, ``""`` if the pickler agrees, else how it disagrees
    confirmation: str | None = None
    #: why not all was walked, one sentence each
    unfinished: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """All was walked, nothing stops the pickler, and the real pickler does not disagree."""
        return self.complete and not self.offenders and not self.confirmation

    def groups(self) -> tuple[OffenderGroup, ...]:
        """The offenders, those alike (same type and reason, paths that differ in indices and keys only) as one."""
        counts: dict[tuple[str, str, str], int] = {}
        firsts: dict[tuple[str, str, str], Offender] = {}
        for offender in self.offenders:
            key = (_VARYING.sub("[*]", offender.place), offender.type, offender.fix)
            counts[key] = counts.get(key, 0) + 1
            firsts.setdefault(key, offender)
        return tuple(
            OffenderGroup(key[0] if count > 1 else firsts[key].place, count, firsts[key])
            for key, count in counts.items()
        )

    def raise_if_any(self) -> None:
        """Return where the object can be pickled.

        :raises UnpicklableError: an offender was found, not all was walked, or the real pickler disagrees
        """
        if not self.ok:
            _raise(self)

    def __str__(self) -> str:
        """The report for a person: each location with its reason and its fix."""
        return "\n".join(_lines(self))


def _raise(report: PickleReport) -> NoReturn:
    raise UnpicklableError(report)


def cut(path: str, longest: int = _LONGEST_PATH) -> str:
    """A path that is too long to be read, without its middle."""
    if len(path) <= longest:
        return path
    half = (longest - 3) // 2
    return f"{path[:half]} … {path[-half:]}"


def _lines(report: PickleReport) -> list[str]:
    verb = _VERBS.get(report.mode, "be pickled")
    count = len(report.offenders)
    if count:
        lines = [f"{report.name} can't {verb}: {count:,} {'member stops' if count == 1 else 'members stop'} it"]
    elif report.ok:
        lines = [f"{report.name} can {verb} ({report.objects:,} objects)"]
    else:
        lines = [f"whether {report.name} can {verb} is not known"]
    groups = report.groups()
    for group in groups[:_MOST_PRINTED]:
        first = group.first
        many = f", {group.places:,} times" if group.places > 1 else ""
        lines += [
            f"  {cut(group.pattern)} ({first.type}){many}",
            f"    why: {first.why}",
            f"    fix: {first.fix}",
        ]
        if group.places == 1 and first.aliases:
            lines.append(f"    also reachable as {', '.join(cut(alias, 80) for alias in first.aliases[:3])}")
        if first.error:
            lines.append(f"    error: {first.error}")
    if len(groups) > _MOST_PRINTED:
        lines.append(f"  … and {len(groups) - _MOST_PRINTED:,} more kinds of members")
    lines += [f"  not all was checked: {why}" for why in report.unfinished]
    if report.confirmation:
        lines.append(f"  the real thing disagrees: {report.confirmation}")
    for caution in report.warnings[:_MOST_PRINTED]:
        lines += [f"  {cut(caution.path)} ({caution.type}): {caution.why}", f"    fix: {caution.fix}"]
    if len(report.warnings) > _MOST_PRINTED:
        lines.append(f"  … and {len(report.warnings) - _MOST_PRINTED:,} more warnings")
    return lines
