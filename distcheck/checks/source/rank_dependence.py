"""Which terms hold different values on different ranks, and which are the same on all."""

from __future__ import annotations

import re
from typing import Any

from distcheck.core.patterns import lazy

from . import source_text, vocabulary
from .program import PARTIAL, EventRow, Program, SourceCall
from .source_text import last_name
from .values import Atom, Kind, Value, Who

#: Words in the name of an unknown value that distinguish processes.
_OF_PROCESS = lazy(
    r"(^|_)(rank|pid|uuid|host|hostname|worker|shard|part|proc|process|partition|replica|node|gpu|device|local)"
    r"(_|s?\d*$)|rank|uuid|tmp|temp",
    re.IGNORECASE,
)
#: Names of an unknown value that is what a loader gave: an item of this rank's data.
_OF_LOADERS = lazy(r"^(mini_?|data_?)?(batch|sample)(es|s|_data)?$", re.IGNORECASE)
#: Calls whose results differ between processes; a dot at the end takes all of a module.
_PER_PROCESS = (
    "tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.mktemp", "tempfile.TemporaryDirectory",
    "tempfile.NamedTemporaryFile", "tempfile.TemporaryFile", "tempfile.SpooledTemporaryFile", "uuid.", "os.getpid",
    "os.getppid", "socket.", "platform.node", "random.", "numpy.random.", "secrets.", "os.urandom", "time.time",
    "time.perf_counter", "time.monotonic",
)  # fmt: skip
#: Kinds of values that differ between ranks.
_OF_RANKS = frozenset(
    {
        Kind.GLOBAL_RANK,
        Kind.LOCAL_RANK,
        Kind.NODE_RANK,
        Kind.RANK,
        Kind.GROUP_RANK,
        Kind.RANK_DEPENDENT,
        Kind.NODE_OFFSET,
        Kind.DEVICE,
    }
)
#: What only puts texts together.
_OF_TEXTS = frozenset(["format", "str", "join", "repr"])


def differs(row: EventRow, term: int, depth: int = 0, *, by_data: bool = True) -> bool:
    """Whether what a term holds differs between ranks, or may do so by all that is known: a path with the rank in it,
    a temporary folder, an item of the data that only this rank has.

    :param by_data: what comes from this rank's data counts, too
    """
    if term < 0 or depth > 12:
        return False
    program = row.program
    value = row.term_value(term)
    seen: dict[tuple[int, int], int] = {}
    if any(_atom_differs(program, atom, by_data, seen) for atom in value):
        return True
    parts = row.terms[term]
    kind = parts[0]
    if kind in ("p", "v", "a"):
        if value.has(Kind.UNKNOWN, Kind.METHOD, Kind.NAMED) and _OF_PROCESS.search(str(parts[2])):
            return True
        if by_data and value.only(Kind.UNKNOWN) and _OF_LOADERS.search(str(parts[2])):
            return True
        if kind != "a" or not _is_own_text(program, row, parts[1]):
            return False
        if _is_counter(value) and all(atom.kind == Kind.OBJECT for atom in row.term_value(parts[1])):
            # what else the object was made from does not matter
            return False
    if by_data and _are_indices(row, parts):
        return True
    inner = operands(parts)
    counted = _counted_from(row.terms, parts)
    if counted is not None:
        # a number that is counted, wherever its first one was loaded from
        inner, by_data = counted, False
    if kind == "c":
        # what is made from a path is a path of this rank; what a model makes from data is not
        called = last_name(row.terms, parts[1])
        if value.has(Kind.BATCH, Kind.WRAPPED) or not (by_data or called in _OF_TEXTS):
            return False
        inner = inner if row.terms[parts[1]][0] == "a" else inner[1:]
    return any(differs(row, one, depth + 1, by_data=by_data) for one in inner)


def _counted_from(terms: list[tuple[Any, ...]], parts: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return what a counter starts with or ends at: that of ``range``, or the first item of ``enumerate``."""
    name = "range"
    if parts[0] == "x" and parts[2] == 0:
        parts, name = terms[parts[1]], "enumerate"
    if parts[0] != "e" or terms[parts[1]][0] != "c" or last_name(terms, terms[parts[1]][1]) != name:
        return None
    called = terms[parts[1]]
    if name == "range":
        return tuple(called[2])
    return (*called[2][1:], *(value for _, value in called[3]))


def _are_indices(row: EventRow, parts: tuple[Any, ...]) -> bool:
    """Return whether a term is what a ``DistributedSampler`` yields, or a list of that."""
    held = parts[1] if parts[0] == "e" else -1
    if parts[0] == "c" and last_name(row.terms, parts[1]) in ("list", "tuple", "iter", "enumerate") and parts[2]:
        held = parts[2][0]
    return held >= 0 and any(
        atom.kind == Kind.RESULT and str(atom.const).endswith(".DistributedSampler") for atom in row.term_value(held)
    )


def _is_counter(value: Value) -> bool:
    """Return whether a value starts with a number: what it may be later is counted from there."""
    return any(atom.kind == Kind.CONST and type(atom.const) is int for atom in value)


def _is_own_text(program: Program, row: EventRow, term: int) -> bool:
    """Whether the base of an attribute is worth checking: a call, a subscript, a path; not ``self`` or ``args``."""
    return row.terms[term][0] in ("c", "s", "e", "x", "o", "f")


def names_in(row: EventRow, term: int, depth: int = 0) -> str:
    """Return the names and texts that a term is made of, with spaces between them."""
    if term < 0 or depth > 10:
        return ""
    parts = row.terms[term]
    own = str(parts[2]) if parts[0] in ("k", "p", "v", "a") else str(parts[1]) if parts[0] == "i" else ""
    return " ".join([own, *(names_in(row, inner, depth + 1) for inner in operands(parts))])


def operands(term: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the terms whose values a term is made of, without tests and keys."""
    if term[0] in ("?", "d"):
        return tuple(term[2:] if term[0] == "?" else term[2])
    return tuple(item for item in source_text.operands(term) if item >= 0)


def _atom_differs(
    program: Program, atom: Atom, by_data: bool, seen: dict[tuple[int, int], int], depth: int = 0
) -> bool:
    """Whether an atom, or what it was made from, differs between ranks.

    :param seen: the depth at which the arguments of a call were checked before, in vain
    """
    if depth > 6:
        return False
    if atom.when.who in PARTIAL or atom.when.who == Who.MEMBERS or atom.kind in _OF_RANKS:
        return True
    if atom.kind == Kind.BATCH:
        return by_data
    if atom.kind == Kind.ENV_TEXT:
        return vocabulary.VARIABLES.get(atom.const) not in (None, Kind.WORLD_SIZE, Kind.LOCAL_WORLD_SIZE)
    if atom.kind == Kind.RESULT:
        dotted = str(atom.const)
        if any(dotted.startswith(name) if name.endswith(".") else dotted == name for name in _PER_PROCESS):
            return True
    inner: list[Atom] = [one for one in atom.of if one.kind != Kind.WRAPPED]
    for item in atom.items:
        inner.extend(item)
    if by_data and atom.kind in (Kind.RESULT, Kind.OBJECT) and atom.call is not None:
        if seen.get(atom.call, depth + 1) <= depth:
            return any(_atom_differs(program, one, by_data, seen, depth + 1) for one in inner)
        seen[atom.call] = depth
        call = SourceCall(program, *atom.call)
        inner.extend(one for term in operands(call.term)[1:] for one in call.term_value(term))
        if atom.kind == Kind.RESULT:
            inner.extend(one for one in call.receiver if one.kind != Kind.UNKNOWN)
    return any(_atom_differs(program, one, by_data, seen, depth + 1) for one in inner)


def is_constant(value: Value, depth: int = 0) -> bool:
    """Whether a value is the same on all ranks for certain: a constant, a counter of a loop, a text made of those."""
    return bool(value.atoms) and depth < 5 and all(_atom_constant(atom, depth) for atom in value)


def _atom_constant(atom: Atom, depth: int) -> bool:
    if atom.kind == Kind.UNIFORM:
        return atom.const in ("index", "size", "reduced")
    return atom.kind == Kind.CONST or (
        atom.kind == Kind.TEXT and all(_atom_constant(inner, depth + 1) for inner in atom.of)
    )
