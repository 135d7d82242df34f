"""What an expression may hold: the kinds of values that matter for ranks and devices, and who reaches a line.

A value is a set of alternatives (atoms), each with the condition under which it is this one, and the way that it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    NAMESPACE = "options"  #: what an argument parser returned; ``call`` is the parser
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


class RankCondition(NamedTuple):
    """For whom a condition is true; ``certain`` where it was traced, and is not only a likely name."""

    who: str
    certain: bool = True

    def inverse(self) -> RankCondition:
        """For whom it is false."""
        return RankCondition(NOT[self.who], self.certain)


ALWAYS = RankCondition(Who.EVERYONE)
NOT_CLEAR = RankCondition(Who.UNCLEAR, False)


def both(conditions: Iterable[RankCondition]) -> RankCondition:
    """For whom all conditions are true: the narrowest decides."""
    best = ALWAYS
    for condition in conditions:
        if _RANKED[condition.who] < _RANKED[best.who] or (condition.who == best.who and condition.certain):
            best = condition
    return best


def either(conditions: Iterable[RankCondition]) -> RankCondition:
    """For whom at least one condition is true.

    ``not distributed or rank == 0`` is the main process wherever there are several; with anything else next to it, a
    test of the rank is no longer certain.
    """
    rest = [item for item in conditions if item.who != Who.SINGLE]
    if not rest:
        return RankCondition(Who.SINGLE)
    names = {item.who for item in rest}
    if names == {Who.EVERYONE} or Who.DISTRIBUTED in names:
        return ALWAYS
    if len(names) == 1:
        return RankCondition(rest[0].who, all(item.certain for item in rest))
    if names & PARTIAL and names <= PARTIAL:
        if any(NOT[name] in names for name in names):
            return ALWAYS
        return RankCondition(Who.SOME, all(item.certain for item in rest))
    ranked = [item for item in rest if item.who in PARTIAL or item.who == Who.MEMBERS]
    if ranked:
        # the widest one, in whatever order the files were read
        return RankCondition(max((item.who for item in ranked), key=_RANKED.__getitem__), False)
    if Who.BY_DATA in names:
        return RankCondition(Who.BY_DATA, False)
    return NOT_CLEAR


class FlowStep(NamedTuple):
    """One step on the way of a value: a block and what happened there."""

    file: int
    line: int
    text: str


class Atom(NamedTuple):
    """One alternative of a value. What ``const`` and ``of`` mean stands at the kinds."""

    kind: str
    const: Any = None
    of: tuple[Atom, ...] = ()
    when: RankCondition = ALWAYS
    #: traced from an API or a variable, and not guessed from a name
    certain: bool = True
    #: the call that made it: (file, event)
    call: tuple[int, int] | None = None
    flow: tuple[FlowStep, ...] = ()
    items: tuple[Value, ...] = ()


#: More alternatives than this are dropped.
_MOST = 10


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
        return any(atom.kind in kinds for atom in self.atoms)

    def only(self, *kinds: str) -> bool:
        """Return whether all alternatives are of these kinds, and there is one."""
        return bool(self.atoms) and all(atom.kind in kinds for atom in self.atoms)

    def get(self, *kinds: str) -> Atom | None:
        """Return the first alternative of one of these kinds, certain ones before others."""
        found = [atom for atom in self.atoms if atom.kind in kinds]
        return next((atom for atom in found if atom.certain), found[0] if found else None)

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


NOTHING_KNOWN = value_of(Kind.UNKNOWN, certain=False)


def join(values: Iterable[Value]) -> Value:
    """Return all alternatives of several values, each once."""
    seen: dict[tuple[Any, ...], Atom] = {}
    for value in values:
        for atom in value.atoms:
            key = (
                atom.kind,
                repr(atom.const),
                tuple((part.kind, repr(part.const)) for part in atom.of),
                atom.when,
                atom.call,
            )
            if key not in seen or (atom.certain and not seen[key].certain):
                seen[key] = atom
    atoms = list(seen.values())
    if len(atoms) > _MOST:
        atoms.sort(key=lambda atom: (atom.kind == Kind.UNKNOWN, not atom.certain))
        atoms = atoms[:_MOST]
    return Value(atoms)


def const(value: Any) -> Value:
    """A constant."""
    return value_of(Kind.CONST, value)
