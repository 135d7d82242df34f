"""Iterable data sets that are not divided among ranks or workers (DC735)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence, vocabulary
from .loader_loops import ITERABLE, LOADERS, loops_over_loaders
from .path_values import CallPath
from .program import Program, SourceCall
from .undivided_data import DIVIDED_BY_RANK, RANDOM_WORDS, RANK_WORDS, class_text, is_drawn_alike
from .values import Atom, Kind

_SOURCES = lazy(r"data|source|stream|iter|loader|generator|reader|inner|base|wrapped|parent", re.I)


@probe(rules.DC735)
def iterables_are_divided(program: Program) -> Iterator[Finding]:
    """An iterable data set that all ranks train from gives each of them its part."""
    seen: set[Any] = set()
    for loader in program.calls_to(*LOADERS):
        if loader.has_star or loader.gives(None, "worker_init_fn"):
            continue
        value = loader.argument(0, "dataset")
        for atom in value or ():
            if atom.kind != Kind.OBJECT or atom.const in seen or not program.evaluator.derives(atom.const, ITERABLE):
                continue
            if atom.call is None or not _is_whole(program, atom):
                continue
            call_path = _trained_way(program, loader)
            if call_path is None or rank_dependence.differs(loader, loader.argument_term(0, "dataset")):
                continue
            seen.add(atom.const)
            yield _iterable_finding(program, atom, loader, call_path)


@probe(rules.DC735)
def iterables_are_divided_among_workers(program: Program) -> Iterator[Finding]:
    """An iterable data set that is divided by rank is divided among the workers of its loader as well."""
    seen: set[Any] = set()
    for loader in program.calls_to(*LOADERS):
        count = loader.constant(None, "num_workers")
        if loader.has_star or loader.gives(None, "worker_init_fn") or not isinstance(count, int) or count < 2:
            continue
        for atom in loader.argument(0, "dataset") or ():
            if atom.kind != Kind.OBJECT or atom.const in seen or not program.evaluator.derives(atom.const, ITERABLE):
                continue
            method = program.evaluator.method(atom.const, "__iter__")
            text = class_text(program, atom.const)
            if method is None or not program.is_generator(method) or not DIVIDED_BY_RANK.search(text):
                continue
            reached = call_paths.reached_from(program, method)
            informed = {(call.file, call.scope) for call in program.calls_named("get_worker_info")}
            # a stream of random items is another one in each worker
            if "worker" in text.lower() or RANDOM_WORDS.search(text) or not informed.isdisjoint(reached):
                continue
            seen.add(atom.const)
            file, number = atom.const
            one = program.index.classes[file][number]
            yield loader.found(
                rules.DC735,
                f"each of the {count} workers yields all items of its rank: {one.name} divides them by rank only",
                fix="divide by rank and worker in __iter__(): itertools.islice(items, rank * workers + worker, None, "
                "world_size * workers), with torch.utils.data.get_worker_info()",
                severity=loader.milder_in_tests(rules.DC735),
                dataset=f"{program.place(file, one.line)}: class {one.name}",
            )


def _trained_way(program: Program, loader: SourceCall) -> CallPath | None:
    if not any(loop.trains and (loader.file, loader.number) in loop.loaders for loop in loops_over_loaders(program)):
        return None
    return call_paths.path_of_all_ranks(program, loader)


def _is_whole(program: Program, atom: Atom) -> bool:
    """Return whether nothing of a data set, nor of what it is made from, distinguishes ranks."""
    text = class_text(program, atom.const)
    method = program.evaluator.method(atom.const, "__iter__")
    if method is None or RANK_WORDS.search(text):
        return False
    if RANDOM_WORDS.search(text) and not is_drawn_alike(program, atom.const, "__iter__"):
        return False
    queried = {(call.file, call.scope) for call in program.calls_to(*vocabulary.SOURCES) if "rank" in call.method}
    if not queried.isdisjoint(call_paths.reached_from(program, method)):
        return False
    made = SourceCall(program, *atom.call) if atom.call is not None else None
    if made is None or made.has_star:
        return False
    init = program.evaluator.method(atom.const, "__init__")
    parameters = [name for name, _, _ in program.scope(init).parameters][1:] if init is not None else []
    for position, term in enumerate(made.term[2]):
        name = parameters[position] if position < len(parameters) else ""
        if _may_be_divided(made, name, term):
            return False
    return not any(_may_be_divided(made, name, term) for name, term in made.term[3])


def _may_be_divided(made: SourceCall, name: str, term: int) -> bool:
    """Return whether an argument differs between ranks, or is a source of data that may have been divided before."""
    if rank_dependence.differs(made, term):
        return True
    return bool(_SOURCES.search(name)) and made.term_value(term).has(
        Kind.RESULT, Kind.OBJECT, Kind.UNKNOWN, Kind.METHOD, Kind.WRAPPED, Kind.NAMED
    )


def _iterable_finding(program: Program, atom: Atom, loader: SourceCall, call_path: CallPath) -> Finding:
    file, number = atom.const
    one = program.index.classes[file][number]
    line = program.lines(file)[one.line - 1]
    column = len(line) - len(line.lstrip())
    span = program.span(file, one.line, column, one.line, len(line.rstrip()))
    where: Where = program.where(file, span, one.name)
    quiet = path_values.owned_by_a_framework(call_path) or path_values.in_tests(call_path)
    return rules.DC735.found(
        f"{one.name} gives every rank all of its items: its __iter__() and what it is made from know no rank",
        where=where,
        fix=Fix(
            "divide by rank and worker in __iter__(): itertools.islice(items, rank * workers + worker, None, "
            "world_size * workers)",
            where="code",
        ),
        evidence={"flow": [*program.flow(call_path.steps), f"{loader.place}: the loader that trains from it"]},
        severity=Severity.INFO if quiet else Severity.WARNING,
    )
