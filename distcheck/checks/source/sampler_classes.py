"""Samplers that are classes of the project: those whose order depends on the epoch that ``set_epoch`` gives them."""

from __future__ import annotations

from collections.abc import Iterator

from .loader_loops import SAMPLER
from .program import Program, SourceCall, cached
from .source_text import last_name
from .summary import Scope
from .values import Kind, Value

#: A class of the project: file, number.
Ref = tuple[int, int]

#: Bases of samplers outside of the project.
BASES = (SAMPLER, "torch.utils.data.Sampler", "torch.utils.data.BatchSampler")
#: Names of calls that make an order depend on their arguments.
_SEEDING = frozenset(["manual_seed", "seed", "Random", "RandomState", "default_rng", "key", "PRNGKey"])


def made_in_project(program: Program) -> Iterator[SourceCall]:
    """Yield the calls that make a sampler of the project which shuffles by the epoch that it is given."""
    for file in range(len(program.index.files)):
        terms = program.terms[file]
        for number, one in enumerate(program.index.classes[file]):
            named = any("Sampler" in name for name in (one.name, *(last_name(terms, base) for base in one.bases)))
            if named and _shuffles_by_epoch(program, (file, number)):
                for call in program.calls_named(one.name):
                    if call.callee.only(Kind.CLASS) and call.callee.atoms[0].const == (file, number):
                        yield call


def class_of(sampler: SourceCall) -> Ref | None:
    """Return the class of the project that a call makes a sampler of; None for one of torch."""
    atom = sampler.callee.get(Kind.CLASS)
    return None if atom is None else atom.const


def shuffle_of(program: Program, sampler: SourceCall) -> Value | None:
    """Return what a sampler is given for ``shuffle``; None where it shuffles in any case or by default."""
    ref = class_of(sampler)
    if ref is None:
        return sampler.argument(3, "shuffle")
    walk = program.evaluator.method(ref, "__iter__")
    if walk is not None and not _inherits_order(program, ref) and not _reads(program, walk, "shuffle"):
        return None
    made = program.evaluator.method(ref, "__init__")
    if made is None or any(star for _, _, star in program.scope(made).parameters):
        return sampler.argument(3, "shuffle")
    given = _given(program, sampler, made, "shuffle")
    if given is not None:
        return given
    for call in program.rows_of(*made):
        if isinstance(call, SourceCall) and call.method == "__init__":
            return call.argument(4 if call.positional and call.term_text(call.term[2][0]) == "self" else 3, "shuffle")
    return None


def _given(program: Program, sampler: SourceCall, made: tuple[int, int], name: str) -> Value | None:
    """Return what a constructor gets for a parameter; None where it has none of that name."""
    parameters = [(own, default) for own, default, star in program.scope(made).parameters if not star]
    names = [own for own, _ in parameters]
    if name not in names:
        return None
    given = sampler.argument(names.index(name) - 1, name)
    default = dict(parameters)[name]
    return given if given is not None or default < 0 else program.evaluator.value(made[0], default)


@cached
def _shuffles_by_epoch(program: Program, ref: Ref) -> bool:
    """Return whether objects of a class draw their order from an epoch that only ``set_epoch`` changes."""
    evaluator = program.evaluator
    if not evaluator.derives(ref, *BASES):
        return False
    name = _epoch_of(program, ref)
    if not name:
        return False
    methods = list(_methods(program, ref))
    if any(
        row.kind == "attribute" and row.payload[1] == name
        for function, scope in methods
        if scope.name not in ("__init__", "set_epoch", "load_state_dict", "__setstate__")
        for row in program.rows_of(*function)
    ):
        # it counts epochs by itself
        return False
    return _inherits_order(program, ref) or any(
        isinstance(row, SourceCall) and row.method in _SEEDING and _uses(row, name)
        for function, scope in methods
        if scope.name != "__init__"
        for row in program.rows_of(*function)
    )


def _epoch_of(program: Program, ref: Ref) -> str:
    """Return the attribute in which ``set_epoch`` keeps the epoch; empty where there is no such method."""
    setter = program.evaluator.method(ref, "set_epoch")
    if setter is None:
        return "epoch" if program.evaluator.derives(ref, SAMPLER) else ""
    stores = [row for row in program.rows_of(*setter) if row.kind == "attribute"]
    return str(stores[0].payload[1]) if len(stores) == 1 and stores[0].terms[stores[0].payload[2]][0] == "p" else ""


def _inherits_order(program: Program, ref: Ref) -> bool:
    """Return whether torch's own ``__iter__`` gives the order, as it is or to one of the class."""
    if not program.evaluator.derives(ref, SAMPLER):
        return False
    walk = program.evaluator.method(ref, "__iter__")
    return walk is None or any(
        isinstance(row, SourceCall) and row.method == "__iter__" for row in program.rows_of(*walk)
    )


def _methods(program: Program, ref: Ref, depth: int = 0) -> Iterator[tuple[tuple[int, int], Scope]]:
    """Yield the methods of a class, and of those of the project that it derives from."""
    for function in program.methods_of(*ref):
        yield function, program.scope(function)
    for base in program.evaluator.bases(ref) if depth < 4 else ():
        if base.kind == Kind.CLASS and base.const != ref:
            yield from _methods(program, base.const, depth + 1)


def _uses(call: SourceCall, name: str) -> bool:
    """Return whether an attribute of the object is among what the arguments of a call are made of."""
    return any(
        call.terms[number][0] == "a" and call.terms[number][2] == name
        for number in call.program.subterms(call.file, *call.argument_terms)
    )


def _reads(program: Program, function: tuple[int, int], name: str) -> bool:
    """Return whether a method reads an attribute of its object."""
    file, scope = function
    terms = program.terms[file]
    return any(
        term[0] == "a" and term[2] == name and terms[term[1]][0] == "p" and terms[term[1]][1] == scope for term in terms
    )
