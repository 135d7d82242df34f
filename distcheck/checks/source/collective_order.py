"""Collectives whose order is not the same on all ranks: in the order of a set, in a thread, in a worker of a loader.

Which ranks reach a collective is judged in :mod:`.divergence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .collective_sequences import sequences_of
from .models import lifted
from .program import EventRow, Program, SourceCall, cached
from .source_text import last_name
from .term_queries import Ref, mentions, origins, parts
from .values import Kind

#: Calls that keep the order of what they are given.
_THROUGH = frozenset(["enumerate", "tqdm", "list", "tuple", "iter", "reversed", "zip"])
_OF_SETS = frozenset(["union", "intersection", "difference", "symmetric_difference", "copy"])
#: Methods and functions that give pairs of a name and something, and those that give names.
_NAMED = frozenset(["named_parameters", "named_buffers", "named_modules", "named_children"])
_NAMES = frozenset(["listdir", "glob", "iglob", "splitlines"])
#: Methods and functions that give texts.
_GIVE_TEXTS = frozenset(
    ["lower", "upper", "strip", "rstrip", "lstrip", "removeprefix", "removesuffix", "format", "str", "join"]
)
_THREADS = ("threading.Thread", "threading.Timer")
_POOLS = frozenset(["concurrent.futures.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool"])


# DC718


@probe(rules.DC718)
def order_is_the_same(program: Program) -> Iterator[Finding]:
    """No loop over a set of texts makes collectives."""
    seen: set[tuple[int, int]] = set()
    for collective in program.collectives():
        if program.is_world_collective(collective) is None:
            continue
        for row in lifted(program, collective):
            for loop, term in row.loops:
                if (row.file, loop) in seen or program.blocks[row.file][loop][1] != "for":
                    continue
                seen.add((row.file, loop))
                if _has_random_order(program, row.file, term):
                    line = program.line_name(row.file, program.blocks[row.file][loop][4])
                    yield row.found(
                        rules.DC718,
                        f"`{row.text()}` runs in the order of a set of texts, by the loop in {line}: each process "
                        "has its own order",
                        fix="loop over sorted(…) of the set, or keep a list or a dict",
                        severity=row.milder_in_tests(rules.DC718),
                        collective=collective.as_step(),
                    )


def _has_random_order(program: Program, file: int, term: int, depth: int = 0) -> bool:
    """Return whether the elements of an iterable come in the order of a set of texts."""
    if term < 0 or depth > 6:
        return False
    for ref in origins(program, file, term):
        parts_of = program.terms[ref[0]][ref[1]]
        if parts_of[0] == "c" and last_name(program.terms[ref[0]], parts_of[1]) in _THROUGH and parts_of[2]:
            if _has_random_order(program, ref[0], parts_of[2][0], depth + 1):
                return True
        elif _is_set(program, ref, depth) and _holds_texts(program, ref):
            return True
    return False


def _is_set(program: Program, ref: Ref, depth: int = 0) -> bool:
    """Return whether a term is a set for sure."""
    terms = program.terms[ref[0]]
    term = terms[ref[1]]
    if term[0] == "l":
        return len(term) > 2
    if term[0] == "*":
        return bool(term[3] == -2)
    if depth > 6:
        return False
    if term[0] == "o" and term[1] in ("&", "|", "-", "^"):
        return any(_is_set(program, inner, depth + 1) for side in term[2:4] for inner in origins(program, ref[0], side))
    if term[0] == "c":
        callee = terms[term[1]]
        if callee[0] == "a" and callee[2] in _OF_SETS:
            return any(_is_set(program, inner, depth + 1) for inner in origins(program, ref[0], callee[1]))
        return callee[0] == "v" and callee[2] in ("set", "frozenset")
    return False


def _holds_texts(program: Program, ref: Ref) -> bool:
    """Return whether texts are in a set, as far as that is seen: numbers come in the same order everywhere."""
    terms = program.terms[ref[0]]
    for number in parts(program, *ref):
        if terms[number][0] == "f" or terms[number][:2] == ("k", "str") or _is_name(terms, number):
            return True
        if terms[number][0] == "c" and last_name(terms, terms[number][1]) in _GIVE_TEXTS:
            return True
    for call in program.calls_named("add", files={ref[0]}):
        if call.receiver_term < 0 or ref not in origins(program, ref[0], call.receiver_term):
            continue
        added = call.argument(0)
        if added is None:
            continue
        text = any(
            atom.kind == Kind.TEXT or (atom.kind == Kind.CONST and isinstance(atom.const, str)) for atom in added
        )
        if text or any(_is_name(terms, number) for number in parts(program, ref[0], call.argument_term(0))):
            return True
    return False


def _is_name(terms: list[tuple[Any, ...]], number: int) -> bool:
    """Return whether a term is a name of a parameter or a file: ``for name, _ in model.named_parameters()``."""
    term = terms[number]
    if term[0] == "e":
        names = _receiver(terms, term[1]) if last_name(terms, term[1]) == "keys" else term[1]
        return last_name(terms, names) in (*_NAMES, "state_dict")
    if term[0] != "x" or term[2] != 0 or terms[term[1]][0] != "e":
        return False
    pairs = terms[term[1]][1]
    return last_name(terms, pairs) in _NAMED or (
        last_name(terms, pairs) == "items" and last_name(terms, _receiver(terms, pairs)) == "state_dict"
    )


def _receiver(terms: list[tuple[Any, ...]], call: int) -> int:
    """Return the object whose method a term calls, or -1."""
    if terms[call][0] != "c":
        return -1
    callee = terms[terms[call][1]]
    return int(callee[1]) if callee[0] == "a" else -1


# DC737


@probe(rules.DC737)
def workers_do_not_communicate(program: Program) -> Iterator[Finding]:
    """Collectives are made by the main thread of a rank, not by a thread or by a worker of its loader."""
    sequences = sequences_of(program)
    done: set[tuple[int, int]] = set()
    for call, function, how in (*_loaded(program), *_threaded(program)):
        if how == "worker":
            row = _collective_in(program, function)
        else:
            sites, _ = sequences.inside(call, function)
            row = sites[0].row if sites else None
        if row is None or (row.file, row.number) in done:
            continue
        done.add((row.file, row.number))
        where = f"{call.place}"
        if how == "worker":
            message = f"`{row.text()}` runs in a worker process of the loader ({where}), which has no process group"
            fix = "call it in the training loop, or before the loader is made; the workers only read data"
        else:
            message = (
                f"`{row.text()}` runs in a thread ({where}), so its order among the other collectives is another "
                "one on each rank"
            )
            fix = "call it in the main thread, or give the thread a group of its own: group=dist.new_group(…)"
        yield row.found(
            rules.DC737,
            message,
            fix=fix,
            severity=row.milder_in_tests(rules.DC737),
            started=f"{where}: {call.text()}",
        )


@cached
def _collective_in(program: Program, function: tuple[int, int], depth: int = 0) -> SourceCall | None:
    """Return a collective of a function, or of what it calls, that is not only for the process without workers."""
    for row in program.rows_of(*function):
        if not isinstance(row, SourceCall):
            continue
        found = row if program.is_world_collective(row) else None
        for inner in program.functions(row) if found is None and depth < 3 else ():
            found = found or _collective_in(program, inner, depth + 1)
        if found is not None and not mentions(program, row, "worker_info", "get_worker_info"):
            return found
    return None


def _loaded(program: Program) -> Iterator[tuple[SourceCall, tuple[int, int], str]]:
    """Yield what the workers of loaders call: the call that makes the loader, and the function."""
    for call in program.calls_to("torch.utils.data.DataLoader"):
        # without workers the main process reads the data
        if call.constant(5, "num_workers") in (0, None):
            continue
        dataset = call.argument(0, "dataset")
        for atom in dataset or ():
            if atom.kind == Kind.OBJECT:
                for name in ("__getitem__", "__getitems__", "__iter__"):
                    method = program.evaluator.method(atom.const, name)
                    if method is not None:
                        yield call, method, "worker"
        for position, name in ((6, "collate_fn"), (10, "worker_init_fn")):
            given = call.argument(position, name)
            for atom in given or ():
                if atom.kind == Kind.FUNCTION:
                    yield call, atom.const, "worker"
                elif atom.kind == Kind.OBJECT and (called := program.evaluator.method(atom.const, "__call__")):
                    yield call, called, "worker"


def _threaded(program: Program) -> Iterator[tuple[SourceCall, tuple[int, int], str]]:
    """Yield what threads run, unless the thread that starts one waits for it in the same function."""
    for call in program.calls_to(*_THREADS):
        target = call.argument(1, "target" if call.is_to("threading.Thread") else "function")
        for atom in target or ():
            if atom.kind == Kind.FUNCTION and not _is_joined(program, call, "join"):
                yield call, atom.const, "thread"
    for call in program.calls_named("submit"):
        if not call.receiver.named(*_POOLS):
            continue
        function = call.argument(0)
        for atom in function or ():
            if atom.kind == Kind.FUNCTION and not _is_joined(program, call, "result"):
                yield call, atom.const, "thread"


def _is_joined(program: Program, call: EventRow, name: str) -> bool:
    """Return whether the same function waits for the thread."""
    return any(
        isinstance(row, SourceCall) and row.number > call.number and row.method == name
        for row in program.rows_of(call.file, call.scope)
    )
