"""Calls that change the learning rate of an optimizer by its groups of parameters."""

from __future__ import annotations

from collections.abc import Iterator

from .models import WrappedModel
from .program import EventRow, Program, SourceCall
from .term_queries import given_term
from .values import Kind, Value, Who

_ALL = frozenset([Who.EVERYONE, Who.DISTRIBUTED, Who.UNCLEAR])


def optimizers_changed(program: Program, call: SourceCall) -> Iterator[tuple[Value, bool]]:
    """Yield the optimizers whose learning rate a call of the project changes; and whether the object of the call keeps
    them as an attribute.
    """
    functions = program.functions(call)
    for function in functions if len(functions) == 1 else ():
        for row in program.rows_of(*function):
            optimizer = _optimizer(row) if row.kind == "store" and row.own_reached_by.who in _ALL else -1
            if optimizer < 0:
                continue
            parts = row.terms[optimizer]
            kept = parts[0] == "a" and row.terms[parts[1]][0] == "p" and row.terms[parts[1]][2] == "self"
            if parts[0] == "p":
                given = given_term(call, function, parts[2])
                yield call.term_value(given) if given >= 0 else Value(), False
            else:
                yield row.term_value(optimizer), kept


def _optimizer(row: EventRow) -> int:
    """Return the optimizer of ``group["lr"] = …``, where ``group`` is one of its groups of parameters; else -1."""
    base, index = row.payload[0], row.payload[1]
    if row.term_value(index).constant != "lr":
        return -1
    parts = row.terms[base]
    if parts[0] not in ("e", "s"):
        return -1
    groups = row.terms[parts[1]]
    return int(groups[1]) if groups[0] == "a" and groups[2] == "param_groups" else -1


def keeps_wrapped_model(program: Program, call: SourceCall, known: list[WrappedModel]) -> bool:
    """Return whether the object of a call has a wrapped model as an attribute: ``trainer.model = DDP(trainer.model)``.

    So has an object whose class wraps one in a method.
    """
    owners = {atom.const for atom in call.receiver if atom.kind == Kind.OBJECT}
    if len(owners) != 1:
        return False
    for wrap in known:
        site = wrap.call
        owner = (site.file, program.evaluator.owner_of(site.file, site.scope))
        for row in program.rows_of(site.file, site.scope):
            if row.kind != "attribute" or row.payload[2] != site.payload[0]:
                continue
            if owner in owners:
                return True
            if {atom.const for atom in row.term_value(row.payload[0]) if atom.kind == Kind.OBJECT} == owners:
                return True
    return False
