"""Operators: what comparisons, logic, conditional expressions, subscripts and loops make of values."""

from __future__ import annotations

from typing import Any

from . import algebra
from .algebra import under
from .source_tables import CallContext
from .source_text import last_name
from .values import (
    NOT_CLEAR,
    NOTHING_KNOWN,
    PARTIAL,
    RANKS,
    Atom,
    Certainty,
    Kind,
    RankCondition,
    Value,
    Who,
    join,
    value_of,
)
from .variables import Variables

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "is": "is", "is not": "is not"}


#: Where a number stands in for the rank.
_ALONE = RankCondition(Who.SINGLE)


class Operators(Variables):
    """What operators, comparisons, subscripts and loops make of values."""

    def subscript(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        base = self.value(file, term[1], context)
        if base.named("os.environ"):
            return self.of_environment(file, term[2], -1, self.reads[file].get(number, 0), context)
        position = self.value(file, term[2], context)
        index = position.constant
        found: list[Value] = []
        for atom in base:
            if atom.kind == Kind.DICT and not atom.items and len(base.atoms) > 1:
                continue  # what it is before items are added
            if (
                atom.kind == Kind.DICT
                and position.only(Kind.CONST)
                and len(position.atoms) > 1
                and all(key.const in (atom.const or ()) for key in position)
            ):
                # one of several keys, as a test decides
                found.extend(under(atom.items[atom.const.index(key.const)], key.when) for key in position)
                continue
            if (
                atom.kind in (Kind.TUPLE, Kind.LIST)
                and isinstance(index, int)
                and -len(atom.items) <= index < len(atom.items)
            ):
                found.append(atom.items[index])
            elif atom.kind == Kind.LIST and atom.of:
                found.append(Value(atom.of))
            elif atom.kind == Kind.DICT and index in (atom.const or ()):
                found.append(atom.items[atom.const.index(index)])
            elif atom.kind == Kind.DICT and (objects := _objects_of(atom, position)):
                found.append(self.either_of(objects))
            elif atom.kind == Kind.BATCH:
                found.append(value_of(Kind.BATCH))
            elif isinstance(index, str):
                found.append(self.option(file, index) or self.by_name(file, index))
            else:
                found.append(NOTHING_KNOWN)
        return join(found) if found else NOTHING_KNOWN

    def unary(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        if term[1] == "not":
            who = self.test(file, number, context)
            return value_of(Kind.TEST, who.who, certainty=who.certainty)
        inner = self.value(file, term[2], context)
        if term[1] == "reduced":
            return _equalised(inner)
        if inner.rank is not None:
            return value_of(Kind.RANK_DEPENDENT, term[1], of=(inner.rank,), certainty=inner.rank.certainty)
        return inner if inner.has(Kind.BATCH, Kind.UNIFORM) else NOTHING_KNOWN

    def compare(self, file: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """A comparison: for whom it is true, alternative by alternative."""
        operator = term[1]
        left, right = self.value(file, term[2], context), self.value(file, term[3], context)
        if operator in _MIRRORED and left.rank is None and right.rank is not None:
            operator, left, right = _MIRRORED[operator], right, left
        atoms = []
        root = last_name(self.terms[file], term[3]) in algebra.ROOTS
        for atom in left:
            answer = algebra.compare_atom(operator, atom, right, root)
            if algebra.is_equalised(atom) and any(one.when.who in PARTIAL for one in left):
                answer = NOT_CLEAR  # what some ranks have set before may be replaced by it
            if isinstance(answer, bool):
                # a number that stands in for the rank or the number of ranks, where there is none
                stands_in = left.rank is not None or left.has(Kind.WORLD_SIZE)
                alone = atom.when.who == Who.EVERYONE and atom.kind == Kind.CONST and stands_in
                atoms.append(Atom(Kind.CONST, answer, when=_ALONE if alone else atom.when))
            else:
                atoms.append(Atom(Kind.TEST, answer.who, when=atom.when, certainty=answer.certainty, flow=atom.flow))
        return join((Value(atoms),))

    def logical(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """``and`` and ``or``: a test of tests, otherwise one of the operands."""
        values = [self.value(file, part, context) for part in term[1]]
        if all(
            value.only(Kind.TEST, Kind.CONST, Kind.UNIFORM, Kind.UNKNOWN, Kind.METHOD, Kind.RESULT, Kind.NAMED)
            for value in values
        ) and any(value.has(Kind.TEST) for value in values):
            who = self.test(file, number, context)
            return value_of(Kind.TEST, who.who, certainty=who.certainty)
        return join(values)

    def choice(self, file: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        # a comparison whose outcome is known; a flag that defaults to False may still be given as True
        compared = self.terms[file][term[1]][0] in ("=", "c")
        settled = self.value(file, term[1], context).constant if compared else None
        if isinstance(settled, bool):
            return self.value(file, term[2 if settled else 3], context)
        who = self.test(file, term[1], context)
        yes, no = self.value(file, term[2], context), self.value(file, term[3], context)
        if who.who != Who.UNCLEAR:
            return join((under(yes, who), under(no, who.inverse())))
        return self.either_of((yes, no))

    def element(self, value: Value, file: int, term: int) -> Value:
        """Return what a loop over a value binds."""
        found: list[Value] = []
        for atom in value:
            if atom.kind in (Kind.TUPLE, Kind.LIST) and (atom.items or atom.of):
                found.append(join((*atom.items, Value(atom.of))))
            elif atom.kind == Kind.RESULT and atom.const == "range":
                of = join(atom.items)
                index = of.has(Kind.LOCAL_WORLD_SIZE, Kind.DEVICE_COUNT, Kind.WORLD_SIZE)
                found.append(value_of(Kind.UNIFORM, "index", of=of.atoms[:2] if index else ()))
            elif atom.kind == Kind.RESULT and atom.const == "enumerate" and atom.items:
                found.append(
                    value_of(
                        Kind.TUPLE,
                        2,
                        items=(value_of(Kind.UNIFORM), self.element(atom.items[0], file, -1)),
                    )
                )
            elif atom.kind == Kind.RESULT and atom.const == "zip":
                found.append(
                    value_of(
                        Kind.TUPLE,
                        len(atom.items),
                        items=tuple(self.element(item, file, -1) for item in atom.items),
                    )
                )
            elif atom.kind == Kind.RESULT and atom.items:
                found.append(self.element(atom.items[0], file, -1))
            elif (
                (atom.kind == Kind.RESULT and atom.const == "torch.utils.data.DataLoader")
                or (atom.kind == Kind.WRAPPED and atom.const == "prepared")
                or atom.kind == Kind.BATCH
            ):
                found.append(value_of(Kind.BATCH))
        if not found:
            name = last_name(self.terms[file], term) if term >= 0 else ""
            if "loader" in name.lower() or "dataloader" in name.lower():
                return value_of(Kind.BATCH, certainty=Certainty.GUESSED)
            return NOTHING_KNOWN
        return join(found)


#: What a dict is searched for where its key is not known.
_OBJECTS = (Kind.RESULT, Kind.OBJECT, Kind.WRAPPED)


def _objects_of(made: Atom, position: Value) -> tuple[Value, ...]:
    """Return the items of a dict that a key may stand for which is not known: none if one of them is no object."""
    keys = made.const or ()
    known = position.only(Kind.CONST)
    items = tuple(item for key, item in zip(keys, made.items, strict=False) if key is None or not known)
    return items if all(item.only(*_OBJECTS) for item in items) else ()


#: What one rank has in a tensor or a list before a collective, and all have alike afterwards.
_DIFFERING = (Kind.BATCH, Kind.RANK_DEPENDENT, Kind.UNKNOWN, Kind.RESULT, *RANKS, Kind.CONST, Kind.TEST)


def _equalised(value: Value) -> Value:
    """Return what a collective leaves in a value: the same on all ranks, also in the items of a list of objects."""
    return Value(
        Atom(Kind.UNIFORM, "reduced", when=atom.when)
        if atom.kind in _DIFFERING
        else atom._replace(items=tuple(map(_equalised, atom.items)), of=_equalised(Value(atom.of)).atoms)
        if atom.kind in (Kind.LIST, Kind.TUPLE)
        else atom
        for atom in value
    )
