"""Find all members of a live object that can't be pickled, each with its path, its reason and its fix."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from . import kinds, object_layout
from .modes import MOST_COPIED_BYTES, Mode, PicklingRefused, as_if_spawning, copied
from .paths import ObjectPath, PathStep, place
from .picklability import Caution, Offender, PickleReport
from .real_pickling import outcome
from .time_limit import TimeLimit, TimeLimitExceeded
from .walk import MOST_ALIASES, Walk, WalkStop

#: Characters of the error of pickling.
_LONGEST_ERROR = 300
#: Passes over an object for the other ways to what can't be pickled.
MOST_TURNS = 4
#: What may stand between a thing that users see as one, and the part of it that fails.
_CONTAINERS = frozenset([dict, list, tuple, set, frozenset, deque])
_PICKLING_METHODS = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")


def find_unpicklable(
    obj: Any,
    *,
    mode: str = "pickle",
    name: str = "obj",
    confirm: bool = False,
    limit: int | None = None,
    protocol: int | None = None,
) -> PickleReport:
    """Find every member of an object that can't be pickled.

    What pickling runs of the objects (``__reduce_ex__``, ``__getstate__`` and their like) is run, once for each object
    and no longer than five seconds; nothing else of them is, no byte is written, and no storage of a tensor is copied.
    In mode ``deepcopy``, objects that are copied by code of their own class (``__deepcopy__``, ``__setstate__``, a
    constructor that ``__reduce__`` names) are copied and the copies thrown away, since that code may fail.

    :param mode: ``pickle``, ``torch.save``, ``deepcopy`` (:func:`copy.deepcopy`), ``spawn`` (arguments of a process
        that is spawned), ``collective`` (``broadcast_object_list`` and its like)
    :param name: what paths begin with
    :param confirm: run the real thing once as well, without keeping what it writes, and report where it disagrees
        (a real deep copy has the tensors copied too)
    :param limit: objects to check, at most; where there are more, the report is not complete
    :param protocol: of pickle, in mode ``pickle``; None for its default
    :raises ValueError: unknown mode or protocol
    """
    way = Mode(mode, protocol)
    paused = gc.isenabled()
    gc.disable()  # nothing becomes garbage here, and a collection takes as long as the walk
    try:
        with TimeLimit() as watch, as_if_spawning(mode):
            cautions = _Cautions(mode)
            walk = Walk(way, watch=watch, limit=limit, frames=5, caution=cautions)
            walk.run(obj)
            if way.copying and not (confirm and not walk.findings):
                _rebuild(walk, obj)
            real_outcome = outcome(obj, way, watch) if confirm else None
            return _report(walk, obj, mode, name, real_outcome)
    finally:
        if paused:
            gc.enable()


class _Cautions:
    """What can be pickled, but breaks. Some pitfalls are reported only for the first object of a type."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._reported: set[tuple[type, str]] = set()
        self._final: set[type] = set()

    def interesting(self, kind: type) -> bool:
        return bool(kinds.interesting(kind, self._mode))

    def __call__(self, value: Any, at_top: bool) -> tuple[str, str, str] | None:
        catch = kinds.caution(value, self._mode, at_top)
        if catch is None or catch.final:
            self._answered(type(value), catch is not None)
        if catch is None or (catch.once and (type(value), catch.why) in self._reported):
            return None
        self._reported.add((type(value), catch.why))
        return catch.why, catch.fix, catch.kind

    def is_final(self, kind: type) -> bool:
        return kind in self._final

    def _answered(self, kind: type, found: bool) -> None:
        """A catch that is the last one of its type, or none: about a class of ``__main__`` there will be none then."""
        if found or object_layout.names_of(kind).get("__module__") == "__main__":
            self._final.add(kind)


def _rebuild(walk: Walk, root: Any) -> None:
    """Copy what only code of its own class can copy, to see whether it can."""
    if not walk.to_rebuild:
        return
    if walk.runs_del:
        walk.unfinished.append(
            "some objects are copied by code of their class, which was not tried, since others define __del__;"
            " confirm=True tries it"
        )
        return
    if walk.mode.copied_bytes > MOST_COPIED_BYTES:
        walk.unfinished.append(
            f"some objects are copied by code of their class, which was not tried on {walk.mode.copied_bytes:,} bytes"
            " of tensors; confirm=True tries it"
        )
        return
    memo: dict[int, Any] = {}
    failed: dict[int, tuple[Any, str]] = {}
    for value in [*walk.to_rebuild, *walk.hashed]:
        try:
            walk.watch.run(copied, value, memo)
        except TimeLimitExceeded:
            failed[id(value)] = (value, f"TimeoutError: it did not come back within {walk.watch.limit_s:g} s")
        except PicklingRefused as refusal:
            failing = refusal.failing if id(refusal.failing) in walk.memo else value
            if not str(refusal).startswith("RecursionError"):  # depth is judged by itself
                failed.setdefault(id(failing), (failing, str(refusal)))
    known = {id(finding.value) for finding in walk.findings}
    for number, (value, error) in failed.items():
        if number not in known and not _leads_to(walk, value, known):
            steps = walk.first_path(root, value)
            if steps is not None:
                walk.findings.append(WalkStop(steps, value, error))


def _leads_to(walk: Walk, value: Any, known: set[int]) -> bool:
    """Whether an object fails because of one that is known: it was seen on the way there, or copies it itself."""
    return any(
        step.container is value for finding in walk.findings for step in finding.steps if id(finding.value) in known
    )


def _report(walk: Walk, root: Any, mode: str, name: str, real_outcome: str | None) -> PickleReport:
    findings = _as_users_see_them(walk.findings)
    places = [place(name, list(finding.steps), finding.value) for finding in findings]
    ways = _spread(walk, root, findings, places, name)
    same: dict[int, list[str]] = {}
    order = _insides_first(findings, places)
    findings, places = [findings[number] for number in order], [places[number] for number in order]
    for finding, where in zip(findings, places, strict=True):
        paths = same.setdefault(id(finding.value), [])
        if len(paths) <= MOST_ALIASES:
            paths.append(where.text)
    offenders = []
    names: dict[type, str] = {}
    for finding, where in zip(findings, places, strict=True):
        aliases = [path for path in same[id(finding.value)] if path != where.text]
        aliases += _by_shared_parents(finding, ways, name) if len(aliases) < MOST_ALIASES else []
        unique = [alias for alias in dict.fromkeys(aliases) if alias != where.text]
        offenders.append(_offender(walk, finding, where, tuple(unique[:MOST_ALIASES]), names))
    warnings = []
    warned: set[tuple[str, bool]] = set()
    refused = {id(finding.value) for finding in findings if not finding.depth}
    pieces = {id(finding.value) for finding in findings if kinds.is_opaque(type(finding.value))}
    for remark in walk.remarks:
        if remark.kind in ("breaks", "note") and (
            id(remark.value) in refused or any(id(step.container) in pieces for step in remark.steps)
        ):
            continue  # it can't be pickled at all: what would become of it elsewhere is of no concern
        where = place(name, list(remark.steps), remark.value)
        sort = "side-effect" if remark.kind == "change" else remark.kind
        if remark.kind == "change" and kinds.is_library(type(remark.value)):
            continue  # a library keeps its books in its own objects, and its user can't fix that
        key = where.path, sort == "side-effect"
        if key in warned:  # a thing and its inner parts: the thing came first
            continue
        warned.add(key)
        kind = kinds.type_name(remark.value if issubclass(type(remark.value), type) else type(remark.value))
        warnings.append(Caution(where.path, kind, kinds.shown(remark.why, 500), remark.fix, sort))
    disagreement = None if real_outcome is None else _disagreement(real_outcome, bool(offenders), not walk.unfinished)
    return PickleReport(
        name,
        mode,
        tuple(offenders),
        tuple(warnings),
        complete=not walk.unfinished,
        objects=walk.objects,
        confirmation=disagreement,
        unfinished=tuple(kinds.shown(why, 300) for why in walk.unfinished),
    )


def _spread(
    walk: Walk, root: Any, findings: list[WalkStop], places: list[ObjectPath], name: str
) -> dict[int, list[tuple[PathStep, ...]]]:
    """Add the findings that the pickler would not make again, since it knows their holders after the first time.

    Other paths may hold further objects with several paths, so the search repeats while it finds new ones.

    :return: the other ways to what stands on the way to a finding, by its id
    """
    ways: dict[int, list[tuple[PathStep, ...]]] = {}
    whole: set[int] = set()  # all ways to these are known
    spread = 0
    for _ in range(MOST_TURNS):
        ends: dict[int, None] = {}
        waiting: list[tuple[WalkStop, int, int]] = []
        for finding, where in zip(findings[spread:], places[spread:], strict=True):
            for end, steps in _known(finding, where):
                if id(end) not in whole:
                    waiting.append((finding, id(end), steps))
                    ends[id(end)] = None
        containers = _containers(finding.steps for finding in findings[spread:])
        containers |= _containers(way for found in ways.values() for way in found)
        containers -= ways.keys()
        if not ends and not containers:
            break
        spread = len(findings)
        ways.update(walk.other_paths(root, containers, set(ends)))
        whole |= set(ends)
        for finding, end_id, steps in waiting:
            for way in ways[end_id]:
                findings.append(finding._replace(steps=(*way, *finding.steps[steps:])))
                places.append(place(name, list(findings[-1].steps), finding.value))
    return ways


def _known(finding: WalkStop, where: ObjectPath) -> Iterator[tuple[Any, int]]:
    """What the pickler knows of a finding when it comes there again, each after so many of the steps.

    That is the holder whose hook gave it out, and the thing that users see as one, of which an inner part was found.
    """
    if where.inside:
        yield where.end, where.steps
    if finding.whole:
        yield finding.value, len(finding.steps)


def _insides_first(findings: list[WalkStop], places: list[ObjectPath]) -> list[int]:
    """The order of the report: pickle's, but an inner offender before the outer one, so all can be dropped in turn.

    Those that are reported at the same location are one.
    """
    first_at: dict[tuple[str, int], int] = {}
    for number, (finding, where) in enumerate(zip(findings, places, strict=True)):
        first_at.setdefault((where.text, id(finding.value)), number)
    after: dict[tuple[int, int], int] = {}  # an object at so many steps → turn of the last offender in it
    turns = []
    for number in sorted(first_at.values(), key=lambda number: -len(findings[number].steps)):
        where, steps = places[number], findings[number].steps
        turn = max(number, after.get((id(where.end), where.steps), number))
        turns.append((turn, -len(steps), number))
        for position, step in enumerate(steps):
            key = id(step.container), position
            after[key] = max(turn, after.get(key, turn))
    return [number for _, _, number in sorted(turns)]


def _disagreement(real_outcome: str, found: bool, complete: bool) -> str:
    """How the real pickler and the walk disagree; empty where they agree."""
    if real_outcome and not found and complete:
        return f"it raises {kinds.shown(real_outcome, _LONGEST_ERROR)}, where nothing was found"
    if not real_outcome and found:
        return "it succeeds, in spite of what was found: the objects may answer differently each time"
    return ""


def _as_users_see_them(findings: list[WalkStop]) -> list[WalkStop]:
    """The findings, those in the inner parts of one thing (the locks of a queue) as one on that thing."""
    seen: set[tuple[Any, ...]] = set()
    kept: list[WalkStop] = []
    pieces: dict[type, bool] = {}
    for finding in findings:
        whole = finding if finding.depth else _whole(finding, pieces)
        last = whole.steps[-1]
        label = last.label if type(last.label) in (int, str, bool) else id(last.label)
        key = (id(last.container), last.kind, label, id(whole.value), len(whole.steps))
        if key not in seen:
            kept.append(whole)
        seen.add(key)
    return kept


def _whole(finding: WalkStop, pieces: dict[type, bool]) -> WalkStop:
    """The outermost thing that users see as one, of which the object is a part; else the object itself."""
    steps = finding.steps
    best = len(steps)
    nodes = [step.container for step in steps[1:]]
    inner = {type(finding.value)} - _CONTAINERS
    for number in range(len(nodes) - 1, -1, -1):
        kind = type(nodes[number])
        if kind in _CONTAINERS:
            continue
        if kind not in pieces:
            pieces[kind] = kinds.is_opaque(kind)
        if pieces[kind] and all(kinds.belongs(each, kind) for each in inner):
            best = number + 1
        inner.add(kind)
    if best == len(steps):
        return finding
    return WalkStop(steps[:best], nodes[best - 1], finding.error, whole=True)


def _containers(ways: Iterable[tuple[PathStep, ...]]) -> set[int]:
    return {id(step.container) for steps in ways for step in steps[1:]}


def _by_shared_parents(finding: WalkStop, ways: dict[int, list[tuple[PathStep, ...]]], name: str) -> list[str]:
    """Other paths, through containers of the object that are reachable by several ways."""
    found: dict[str, None] = {}
    waiting = deque([finding.steps])
    while waiting:
        steps = waiting.popleft()
        for number in range(len(steps), 0, -1):
            holder = finding.value if number == len(steps) else steps[number].container
            for way in ways.get(id(holder), ()):
                other = (*way, *steps[number:])
                if len({id(step.container) for step in other}) < len(other):  # through a circle
                    continue
                text = place(name, list(other), finding.value).text
                if text not in found:
                    found[text] = None
                    waiting.append(other)
                    if len(found) > MOST_ALIASES:
                        return list(found)
    return list(found)


def _offender(
    walk: Walk, finding: WalkStop, where: ObjectPath, aliases: tuple[str, ...], names: dict[type, str]
) -> Offender:
    value, kind, mode = finding.value, type(finding.value), walk.mode.name
    path = where.path
    if kind not in names:
        names[kind] = kinds.type_name(kind)
    if finding.depth:
        explanation = kinds.too_deep(max(walk.deepest, finding.depth), finding.depth, mode)
    else:
        explanation = kinds.explain(value, finding.error, mode, path, _what_holds(finding, where))
    owner, owner_path, attribute, has = _owner(where)
    return Offender(
        path=path,
        type=names[kind],
        why=explanation.why,
        fix=explanation.fix,
        aliases=aliases,
        error=kinds.shown(finding.error, _LONGEST_ERROR),
        kind=explanation.kind,
        owner=owner,
        attribute=attribute,
        owner_path=owner_path,
        owner_has=has,
        inside=where.inside,
    )


def _what_holds(finding: WalkStop, where: ObjectPath) -> str:
    """What the class of the instance whose attribute it is does by other means than ``__getstate__``; see kinds."""
    last = finding.steps[-1]
    if (
        not where.inside
        and isinstance(last.container, tuple)
        and type(object_layout.defined(type(last.container), "_fields")) is tuple
    ):
        return "tuple"
    instance = where.holder()
    if instance is None:
        return ""
    kind = type(instance)
    if kinds.is_library(kind):
        return "library"
    name = kinds.shown(type.__dict__["__name__"].__get__(kind))
    methods = ["__reduce_ex__", "__reduce__"]
    if any(
        step.container is instance and type(step.label) is tuple and step.label[0] == "argument"
        for step in finding.steps
    ):
        methods += ["__getnewargs_ex__", "__getnewargs__"]
    for method in methods:
        if type(object_layout.defined(kind, method)) is FunctionType:
            return f"{name}.{method}"
    if issubclass(kind, BaseException):
        return f"an own {name}.__reduce__ (pickle calls no __getstate__ of an exception)"
    parameters = object_layout.defined(kind, "__dataclass_params__")
    return "frozen" if parameters is not object_layout.MISSING and getattr(parameters, "frozen", False) is True else ""


def _owner(where: ObjectPath) -> tuple[str | None, str | None, str | None, tuple[str, ...]]:
    """The nearest instance on the way whose class its user can change; else the nearest one."""
    if not where.owners:
        return None, None, None, ()
    owners = reversed(where.owners)
    owner = next((owner for owner in owners if not kinds.is_library(type(owner.instance))), where.owners[-1])
    instance, attribute = owner.instance, owner.attribute
    path = where.path_to(owner)
    kind = type(instance)
    has = [
        name
        for name in _PICKLING_METHODS
        if object_layout.defined(kind, name)
        not in (object_layout.MISSING, object.__dict__.get(name, object_layout.MISSING))
    ]
    if object_layout.attributes(instance) is not None:
        has.append("__dict__")
    if any("__slots__" in object_layout.names_of(base) for base in object_layout.bases(kind)):
        has.append("__slots__")
    return kinds.type_name(kind), path, attribute or None, tuple(has)
