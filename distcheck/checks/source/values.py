"""What an expression may hold: the kinds of values that matter for ranks and devices, and who reaches a line.

A value is a set of alternatives (atoms), each with the condition under which it is this one, and the way that it came.
How well that is known is part of each alternative and of each condition (:class:`Certainty`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple


class Kind:
    """The kinds of atoms. A plain namespace: comparing members of an enum costs more."""

    CONST = "constant"  #: ``const`` is the value (None included)
    GLOBAL_RANK = "global rank"
    LOCAL_RANK = "local rank"
    NODE_RANK = "node rank"
    RANK = "rank"  #: a rank by its name only, global or local is not known
    GROUP_RANK = "rank in a group"
    WORLD_SIZE = "world size"
    LOCAL_WORLD_SIZE = "local world size"
    DEVICE_COUNT = "device count"
    NODE_OFFSET = "first rank of a node"  #: node rank times processes per node
    RANK_DEPENDENT = "rank-dependent value"
    BATCH = "value of this rank's data"
    UNIFORM = "the same on all ranks"
    ENV_TEXT = "text of a variable"  #: ``const`` is the variable's name, ``of`` the default
    TEXT = "text"  #: a text that contains values; ``const`` is the template with ``{}`` for each, ``of`` the values
    DEVICE = "device"  #: ``const`` is its type, ``of`` its index
    GROUP = "process group"  #: ``const`` is ``world`` or ``sub``
    TEST = "test"  #: a truth value; ``const`` is a member of :class:`Who`
    TUPLE = "tuple"  #: ``items`` has the values
    LIST = "list"  #: ``items`` has the values, ``of`` what its elements may be
    DICT = "dict"
    FUNCTION = "function"  #: ``const`` is (file, scope), ``of`` the object that it is bound to
    CLASS = "class"  #: ``const`` is (file, class)
    OBJECT = "object"  #: an instance of a class of the project; ``const`` is (file, class)
    MODULE = "module"  #: a file of the project
    NAMED = "name"  #: a name from outside the project; ``const`` is its dotted name
    RESULT = "result"  #: a result of a call outside the project; ``const`` is the dotted name, ``call`` the call
    METHOD = "method"  #: ``const`` is its name, ``of`` the object
    #: what an argument parser returned; ``call`` is the parser, ``const`` the class of a library that it derives from
    NAMESPACE = "options"
    #: ``const`` is ``ddp``, ``fsdp``, ``fsdp2``, ``deepspeed``, ``dp`` or ``prepared``, ``of`` the model
    WRAPPED = "wrapped model"
    BARE = "model inside of a wrapper"  #: ``of`` is the wrapper
    UNKNOWN = "unknown"


class Who:
    """The ranks for which a test is true, or that reach a line."""

    EVERYONE = "everyone"
    SINGLE = "only without other ranks"
    DISTRIBUTED = "only with other ranks"
    MAIN = "the main process"
    OTHERS = "all but the main process"
    ONE = "one rank"
    ALL_BUT_ONE = "all but one rank"
    LOCAL_MAIN = "one rank of each host"
    LOCAL_OTHERS = "all but one rank of each host"
    SOME = "some ranks"
    MEMBERS = "the members of a group"
    BY_DATA = "ranks chosen by their data"
    UNCLEAR = "unclear"


#: Kinds that are an index among processes.
RANKS = frozenset({Kind.GLOBAL_RANK, Kind.LOCAL_RANK, Kind.NODE_RANK, Kind.RANK, Kind.GROUP_RANK})
#: Kinds that have the same value on all ranks of a job, or of a host for the local ones.
SIZES = frozenset({Kind.WORLD_SIZE, Kind.LOCAL_WORLD_SIZE, Kind.DEVICE_COUNT})

_OPPOSITES = {
    Who.EVERYONE: Who.EVERYONE,
    Who.SINGLE: Who.DISTRIBUTED,
    Who.MAIN: Who.OTHERS,
    Who.ONE: Who.ALL_BUT_ONE,
    Who.LOCAL_MAIN: Who.LOCAL_OTHERS,
    **{who: who for who in (Who.SOME, Who.MEMBERS, Who.BY_DATA, Who.UNCLEAR)},
}
#: The ranks for which the opposite of a test is true.
NOT = _OPPOSITES | {opposite: who for who, opposite in _OPPOSITES.items()}
#: The ranks of a test that only some ranks of the job pass.
PARTIAL = frozenset({Who.MAIN, Who.OTHERS, Who.ONE, Who.ALL_BUT_ONE, Who.LOCAL_MAIN, Who.LOCAL_OTHERS, Who.SOME})
#: The ranks of a test that at most one rank of the job, or of each host, passes.
FEW = frozenset({Who.MAIN, Who.ONE, Who.LOCAL_MAIN})
#: Of several conditions the first in this order decides.
_STRENGTH = (
    *(Who.MAIN, Who.ONE, Who.LOCAL_MAIN, Who.MEMBERS, Who.OTHERS, Who.ALL_BUT_ONE, Who.LOCAL_OTHERS, Who.SOME),
    *(Who.BY_DATA, Who.SINGLE, Who.UNCLEAR, Who.DISTRIBUTED, Who.EVERYONE),
)
_RANKED = {who: position for position, who in enumerate(_STRENGTH)}


class Certainty:
    """How well a data flow is known: the number of its steps that are not proven. Numbers, because steps add up."""

    PROVEN = 0  #: each step was traced, and can be nothing else
    #: one step joins callers, branches, objects or assignments that do not agree, or takes an unmistakable name as
    #: evidence next to other evidence
    MERGED = 1
    WEAK = 2  #: two such steps or more
    GUESSED = 3  #: nothing but a name is known


def added(*certainties: int) -> int:
    """Return the certainty of a flow with all these steps."""
    total = sum(certainties)
    return total if total <= Certainty.MERGED else max(Certainty.WEAK, *certainties)


class RankCondition(NamedTuple):
    """For whom a condition is true, and how certain that is: one of :class:`Certainty`."""

    who: str
    certainty: int = Certainty.PROVEN

    @property
    def traced(self) -> bool:
        """Whether it was traced, and is not only a likely name."""
        return self.certainty < Certainty.GUESSED

    def inverse(self) -> RankCondition:
        """For whom it is false."""
        return RankCondition(NOT[self.who], self.certainty)

    def at_best(self, certainty: int) -> RankCondition:
        """Return it with this certainty, if it is not weaker already."""
        return self if self.certainty >= certainty else RankCondition(self.who, certainty)


ALWAYS = RankCondition(Who.EVERYONE)
NOT_CLEAR = RankCondition(Who.UNCLEAR, Certainty.GUESSED)


def both(conditions: Iterable[RankCondition]) -> RankCondition:
    """For whom all conditions are true: the narrowest decides, and of equal ones the most certain."""
    best = ALWAYS
    for condition in conditions:
        if _RANKED[condition.who] < _RANKED[best.who] or (
            condition.who == best.who and condition.certainty < best.certainty
        ):
            best = condition
    return best


def either(conditions: Iterable[RankCondition]) -> RankCondition:
    """For whom at least one condition is true.

    ``not distributed or rank == 0`` is the main process wherever there are several; with anything else next to it, a
    rank check is no longer certain.
    """
    rest = [item for item in conditions if item.who != Who.SINGLE]
    if not rest:
        return RankCondition(Who.SINGLE)
    weakest = max(item.certainty for item in rest)
    names = {item.who for item in rest}
    if names == {Who.EVERYONE} or Who.DISTRIBUTED in names:
        return ALWAYS
    if len(names) == 1:
        return RankCondition(rest[0].who, weakest)
    if names & PARTIAL and names <= PARTIAL:
        if any(NOT[name] in names for name in names):
            return ALWAYS
        return RankCondition(Who.SOME, weakest)
    ranked = [item for item in rest if item.who in PARTIAL or item.who == Who.MEMBERS]
    if ranked:
        # the widest one, in whatever order the files were read
        return RankCondition(max((item.who for item in ranked), key=_RANKED.__getitem__), Certainty.GUESSED)
    if Who.BY_DATA in names:
        return RankCondition(Who.BY_DATA, Certainty.GUESSED)
    return NOT_CLEAR


class FlowStep(NamedTuple):
    """One step on the way of a value: where it is, what happens there, and whether that is proven."""

    file: int
    line: int
    text: str
    certainty: int = Certainty.PROVEN


class Atom(NamedTuple):
    """One alternative of a value. What ``const`` and ``of`` mean stands at the kinds."""

    kind: str
    const: Any = None
    of: tuple[Atom, ...] = ()
    when: RankCondition = ALWAYS
    #: one of :class:`Certainty`
    certainty: int = Certainty.PROVEN
    #: the call that made it: (file, event)
    call: tuple[int, int] | None = None
    flow: tuple[FlowStep, ...] = ()
    items: tuple[Value, ...] = ()

    @property
    def traced(self) -> bool:
        """Whether it was traced from an API or a variable, and is not only guessed from a name."""
        return self.certainty < Certainty.GUESSED


#: More alternatives than this are dropped.
_MOST = 10
#: Items by which tuples and lists differ.
_COMPARED = 8
#: Steps of a flow that are kept: the last ones.
MOST_STEPS = 6


class Value:
    """The alternatives of an expression."""

    __slots__ = ("atoms",)

    def __init__(self, atoms: Iterable[Atom] = ()) -> None:
        self.atoms: tuple[Atom, ...] = tuple(atoms)

    def __iter__(self) -> Iterator[Atom]:
        return iter(self.atoms)

    def __repr__(self) -> str:
        return f"Value({', '.join(f'{atom.kind}:{atom.const!r}' for atom in self.atoms)})"

    def has(self, *kinds: str) -> bool:
        """Return whether one alternative is of one of these kinds."""
        for atom in self.atoms:  # noqa: SIM110 - called often, and a generator takes twice as long
            if atom.kind in kinds:
                return True
        return False

    def only(self, *kinds: str) -> bool:
        """Return whether all alternatives are of these kinds, and there is one."""
        for atom in self.atoms:
            if atom.kind not in kinds:
                return False
        return bool(self.atoms)

    def get(self, *kinds: str) -> Atom | None:
        """Return the first alternative of one of these kinds, the most certain before others."""
        found: Atom | None = None
        for atom in self.atoms:
            if atom.kind in kinds and (found is None or atom.certainty < found.certainty):
                found = atom
        return found

    @property
    def constants(self) -> tuple[Any, ...]:
        """The constants among the alternatives."""
        return tuple(atom.const for atom in self.atoms if atom.kind == Kind.CONST)

    @property
    def constant(self) -> Any:
        """The constant, where it can be nothing else; else the class NoConstant."""
        if len(self.atoms) == 1 and self.atoms[0].kind == Kind.CONST:
            return self.atoms[0].const
        return NoConstant

    @property
    def rank(self) -> Atom | None:
        """The alternative that is a rank of some kind, if there is one."""
        return self.get(*RANKS)

    def named(self, *dotted: str) -> Atom | None:
        """Return the alternative that is such a name outside of the project, or the result of calling it."""
        return next(
            (atom for atom in self.atoms if atom.kind in (Kind.NAMED, Kind.RESULT) and atom.const in dotted), None
        )

    def wrapped(self, *ways: str) -> Atom | None:
        """The alternative that is a wrapped model, of one of these ways (``ddp``, ``fsdp`` …) if any are given."""
        return next(
            (atom for atom in self.atoms if atom.kind == Kind.WRAPPED and (not ways or atom.const in ways)), None
        )


class NoConstant:
    """Stands where a value is not one constant."""


def value_of(kind: str, constant: Any = None, **fields: Any) -> Value:
    """Return the value with this one alternative; ``fields`` are those of :class:`Atom`."""
    return Value((Atom(kind, constant, **fields),))


NOTHING_KNOWN = value_of(Kind.UNKNOWN, certainty=Certainty.GUESSED)


def join(values: Iterable[Value]) -> Value:
    """Return all alternatives of several values, each once."""
    values = [value for value in values if value.atoms]
    if values and len(values[0].atoms) == 1:
        first = values[0]
        if values.count(first) == len(values):  # the same object, since values have no equality of their own
            return first
    seen: dict[tuple[Any, ...], Atom] = {}
    for value in values:
        for atom in value.atoms:
            kind, constant, of, when, certainty, call, _, items = atom
            key = (
                kind,
                # 1, 1.0 and True are different constants
                constant if type(constant) is str else (repr(constant),),
                tuple([(part.kind, repr(part.const)) for part in of]) if of else (),
                when,
                call,
                # one function may return several tuples of one length
                tuple([tuple([(part.kind, repr(part.const)) for part in item.atoms]) for item in items[:_COMPARED]])
                if items
                else (),
            )
            other = seen.get(key)
            if other is None or certainty < other.certainty:
                seen[key] = atom
    atoms = list(seen.values())
    if len(atoms) > _MOST:
        atoms.sort(key=lambda atom: (atom.kind == Kind.UNKNOWN, atom.certainty))
        atoms = atoms[:_MOST]
    return Value(atoms)


#: Kinds that a finding is made of: where their alternatives do not agree, none of them is proven.
_DECISIVE = RANKS | {Kind.RANK_DEPENDENT, Kind.NODE_OFFSET, Kind.TEST, Kind.GROUP, Kind.DEVICE, Kind.WRAPPED}
#: Kinds of which the constant is part of what a value is.
_BY_CONSTANT = frozenset({Kind.CONST, Kind.TEST, Kind.GROUP, Kind.NAMED, Kind.FUNCTION, Kind.CLASS, Kind.WRAPPED})


def _essence(value: Value, within_one_object: bool) -> set[tuple[str, Any]]:
    """Return what a value is, as far as callers or branches may disagree about it.

    A number next to a rank stands in where there is none. Within one function or object any constant does, or until
    the value is known, and a model is wrapped or not.
    """
    found: set[tuple[str, Any]] = set()
    stands_in = value.rank is not None
    for atom in value:
        if stands_in and atom.kind == Kind.CONST:
            continue
        if within_one_object and atom.kind in (Kind.CONST, Kind.WRAPPED, Kind.RESULT, Kind.OBJECT, Kind.BARE):
            continue
        kind = Kind.GLOBAL_RANK if atom.kind == Kind.RANK else atom.kind
        if kind == Kind.DEVICE:
            found.update((part.kind, None) for part in atom.of)
        else:
            found.add((kind, repr(atom.const) if kind in _BY_CONSTANT else None))
    return found


def merged(values: Sequence[Value], step: FlowStep, *, within_one_object: bool = False) -> Value:
    """Return all alternatives of several values; those that decide findings are no longer proven if values differ.

    :param step: what a finding shows then
    :param within_one_object: see :func:`_essence`
    """
    found = join(values)
    if len(values) < 2 or not any(atom.kind in _DECISIVE for atom in found.atoms):
        return found
    essences = [_essence(value, within_one_object) for value in values]
    if within_one_object:
        essences = [essence for essence in essences if essence]
    if all(essence == essences[0] for essence in essences):
        return found
    return weakened(found, step)


def weakened(value: Value, step: FlowStep) -> Value:
    """Return a value whose decisive alternatives have one more step that is not proven."""
    return Value(
        atom._replace(certainty=added(atom.certainty, step.certainty), flow=(*atom.flow, step)[-MOST_STEPS:])
        if atom.kind in _DECISIVE
        else atom
        for atom in value
    )


def const(value: Any) -> Value:
    """A constant."""
    return value_of(Kind.CONST, value)
