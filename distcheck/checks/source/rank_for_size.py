"""The number of a process where the number of processes is needed, and the reverse (DC223)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .device_uses import argument_place
from .loader_loops import SAMPLER
from .program import EventRow, Program, SourceCall
from .term_queries import first_event, parts
from .values import Atom, Certainty, Kind, Value, Who
from .vocabulary import INIT_GROUP, D

#: Where calls take the number of processes, and the number of one.
_PLACES = {SAMPLER: ((1, "num_replicas"), (2, "rank")), INIT_GROUP: ((3, "world_size"), (4, "rank"))}
#: Collectives that fill a list with an item for each rank.
GATHERS = {D + "all_gather": (0, "tensor_list"), D + "all_gather_object": (0, "object_list")}
#: Ranks of the job or of a host: each is 0 in one process.
_COUNTED = (Kind.GLOBAL_RANK, Kind.LOCAL_RANK)


@probe(rules.DC223)
def the_world_size_counts_the_ranks(program: Program) -> Iterator[Finding]:
    """The world size divides and counts, and the rank names one process."""
    yield from _divisions(program)
    for call in program.calls_to(*_PLACES):
        size, rank = next(_PLACES[target] for target in call.targets if target in _PLACES)
        atom = _only(call.argument(*size), *_COUNTED)
        if atom is not None:
            text = f"{call.method}() gets the {atom.kind} for {size[1]}: no rank gets the number of processes"
            yield _found(call, text, f"{size[1]}={D}get_world_size(), or drop it", atom, size)
        atom = _only(call.argument(*rank), Kind.WORLD_SIZE)
        if atom is not None:
            text = f"{call.method}() gets the world size for rank: the ranks are numbered from 0 to world size - 1"
            yield _found(call, text, f"rank={D}get_rank(), or drop it", atom, rank)
    for call in program.calls_to(*GATHERS):
        atom = _only(length_of_list(program, call), *_COUNTED)
        if atom is not None and not call.gives(None, "group"):
            text = (
                f"{call.method}() gets a list with one item for each rank below this one, but needs one for each rank"
            )
            yield _found(call, text, f"make the list with {D}get_world_size() items", atom, (0, ""))


def _only(value: Value | None, *kinds: str) -> Atom | None:
    """Return what a value is of these kinds, where it can be nothing else, and no name is all that is known."""
    if value is None or not value.only(*kinds):
        return None
    atom = value.get(*kinds)
    return atom if atom is not None and all(one.certainty < Certainty.GUESSED for one in value) else None


def _divisions(program: Program) -> Iterator[Finding]:
    for file in range(len(program.index.files)):
        terms = program.terms[file]
        for number, term in enumerate(terms):
            if term[0] != "o" or term[1] not in ("/", "//") or term[3] < 0 or terms[term[3]][0] == "k":
                continue
            atom = _only(program.evaluator.value(file, term[3]), *_COUNTED)
            row = None if atom is None else first_event(program, (file, number))
            if row is None or atom is None or row.inside("try") or not _reaches_first(row):
                continue
            yield row.found(
                rules.DC223,
                f"`{row.term_text(number)}` divides by the {atom.kind}, which is 0 on one rank",
                fix="divide by the number of processes: torch.distributed.get_world_size()",
                basis=(atom,),
                flow=program.flow(atom.flow),
            )


def _reaches_first(row: EventRow) -> bool:
    """Return whether rank 0 gets to a row, and no test around it is known to be about ranks."""
    return row.reached_by.who in (Who.EVERYONE, Who.DISTRIBUTED) and not row.guards


def length_of_list(program: Program, call: SourceCall) -> Value | None:
    """Return the length of the list that a call of ``all_gather`` fills; None where it is not known."""
    terms = program.terms[call.file]
    term = call.argument_term(*next(GATHERS[target] for target in call.targets if target in GATHERS))
    for number in parts(program, call.file, term, stop=("c",)) if term >= 0 else ():
        inner = terms[number]
        if inner[0] == "o" and inner[1] == "*" and "l" in (terms[inner[2]][0], terms[inner[3]][0]):
            return program.evaluator.value(call.file, inner[3] if terms[inner[2]][0] == "l" else inner[2])
        if inner[0] == "*":
            over = program.evaluator.value(call.file, inner[2])
            is_range = len(over.atoms) == 1 and over.atoms[0].kind == Kind.RESULT and over.atoms[0].const == "range"
            return over.atoms[0].items[0] if is_range and len(over.atoms[0].items) == 1 else None
    return None


def _found(call: SourceCall, text: str, fix: str, atom: Atom, place: tuple[int, str]) -> Finding:
    found = call.found(
        rules.DC223,
        text,
        fix=fix,
        basis=(atom,),
        severity=call.milder_in_tests(rules.DC223),
        flow=call.program.flow(atom.flow),
    )
    return found._replace(where=argument_place(call, *place))
