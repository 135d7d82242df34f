"""Loaders of which each rank sees a part: by a sampler, by a framework, or by the program itself."""

from __future__ import annotations

from collections.abc import Iterator

from .evaluation_data import evaluations
from .loader_loops import ITERABLE, LOADERS, SAMPLER, loaders_in, own_loaders
from .program import Function, Program, SourceCall
from .samplers import loader_samplers
from .source_text import last_name
from .term_queries import origin_call, origins, payload_terms
from .values import RANKS, Kind

#: The class of Fabric, by both of its names.
FABRICS = ("lightning.Fabric", "lightning.fabric.Fabric")
_FABRIC_LOADERS = tuple(f"{fabric}.setup_dataloaders" for fabric in FABRICS)
#: What divides the loaders that an Accelerator gets.
PREPARES = ("accelerate.Accelerator.prepare", "accelerate.Accelerator.prepare_data_loader")


def divided_loaders(program: Program) -> set[tuple[int, int]]:
    """Return the loaders of which each rank sees a part."""
    return {one for table in (sampled, _by_rank, of_fabric, prepared) for one in program.table(table)}


def sampled(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the loaders whose sampler gives each rank its part."""
    for loader in (*program.calls_to(*LOADERS), *program.table(own_loaders)):
        if any(_divides(SourceCall(program, *sampler)) for sampler in loader_samplers(program, loader)):
            yield loader.file, loader.number


def of_fabric(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the loaders whose samplers Fabric replaces: not those of iterable data, nor on one device."""
    for call in program.calls_to(*_FABRIC_LOADERS):
        names = ("use_distributed_sampler", "replace_sampler")
        if any(call.constant(None, name, True) is not True for name in names) or _has_one_device(call):
            continue
        for term in call.argument_terms:
            for file, number in loaders_in(program, call.term_value(term)):
                data = SourceCall(program, file, number).argument(0, "dataset") or ()
                if not any(one.kind == Kind.OBJECT and program.evaluator.derives(one.const, ITERABLE) for one in data):
                    yield file, number


def _has_one_device(call: SourceCall) -> bool:
    """Return whether the object of a call was made with one device, written out: an option may be given another."""
    makers = [call.program.call_of(atom) for atom in call.receiver]
    written = [
        one.terms[one.argument_term(2, "devices")] for one in makers if one is not None and one.gives(2, "devices")
    ]
    return any(term[0] == "k" and str(term[2]) == "1" for term in written)


def prepared(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the loaders that an Accelerator divides."""
    for call in program.calls_to(*PREPARES):
        for term in call.argument_terms:
            yield from loaders_in(program, call.term_value(term))


def _by_rank(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the loaders of evaluations of whose data the program itself takes a part for each rank."""
    evaluated = {one for loop in program.table(evaluations) for one in loop.loaders}
    for loader in program.calls_to(*LOADERS):
        term = loader.argument_term(0, "dataset") if (loader.file, loader.number) in evaluated else -1
        if term >= 0 and any(_is_part(program, *ref) for ref in origins(program, loader.file, term)):
            yield loader.file, loader.number


def _divides(sampler: SourceCall) -> bool:
    """Return whether a call makes a sampler that gives each rank its part."""
    program = sampler.program
    if sampler.constant(1, "num_replicas") == 1:
        return False
    if sampler.is_to(SAMPLER):
        return True
    made = sampler.callee.get(Kind.CLASS)
    walk = None if made is None else program.evaluator.method(made.const, "__iter__")
    if made is not None and walk is None:
        return program.evaluator.derives(made.const, SAMPLER)
    return walk is not None and _takes_a_part(program, walk)


def _is_part(program: Program, file: int, term: int) -> bool:
    """Return whether a value is the part of one rank: ``data[rank::size]``, or an object that keeps such a part."""
    if _has_a_part(program, file, term):
        return True
    made = origin_call(program, (file, term))
    owner = None if made is None else made.callee.get(Kind.CLASS)
    init = None if owner is None else program.evaluator.method(owner.const, "__init__")
    if made is None or init is None:
        return False
    own = (row.result for row in program.rows_of(*init) if isinstance(row, SourceCall))
    given = (made.term_value(one) for one in made.argument_terms)
    return any(value.has(*RANKS) for value in (*given, *own)) and _takes_a_part(program, init)


def _takes_a_part(program: Program, function: Function) -> bool:
    """Return whether a function takes the part of its rank whenever it runs."""
    return any(
        all(node[1] != "if" for _, node in row.blocks)
        and any(term >= 0 and _has_a_part(program, row.file, term) for term in payload_terms(row))
        for row in program.rows_of(*function)
    )


def _has_a_part(program: Program, file: int, term: int) -> bool:
    """Return whether a slice or a range that begins at the rank is among what a term is made of."""
    terms = program.terms[file]
    for number in program.subterms(file, term, names=False):
        parts = terms[number]
        first = -1
        if parts[0] == "s" and terms[parts[2]][0] == ":":
            first = terms[parts[2]][1][0]
        elif parts[0] == "c" and len(parts[2]) == 3 and last_name(terms, parts[1]) == "range":
            first = parts[2][0]
        if first >= 0 and any(_is_rank(program, file, one) for one in program.subterms(file, first, names=False)):
            return True
    return False


def _is_rank(program: Program, file: int, term: int) -> bool:
    parts = program.terms[file][term]
    if parts[0] == "a" and parts[2] == "rank":
        return True
    return parts[0] in ("p", "v", "a", "c") and program.evaluator.value(file, term).has(*RANKS)
