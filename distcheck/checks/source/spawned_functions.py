"""Functions that are handed to a launcher of the project, whose spawned processes call them: ``launch(main, …)``."""

from __future__ import annotations

from collections.abc import Iterator

from .program import Program, SourceCall
from .values import Kind
from .vocabulary import PROCESSES, SPAWNS

_MOST_SITES = 10


def calls_in_spawned(program: Program, function: tuple[int, int]) -> Iterator[tuple[SourceCall, int]]:
    """Yield the calls of a parameter that is this function, in functions that a process starts with; and how certain
    each is.

    ``launch(main, n)`` has ``mp.spawn(worker, args=(main,))`` in it, and ``worker(rank, run)`` calls ``run()``.
    """
    for site in program.evaluator.handed.get(function, ())[:_MOST_SITES]:
        for launcher in program.functions(SourceCall(program, *site)):
            for start in program.rows_of(*launcher):
                if isinstance(start, SourceCall) and start.is_to(*SPAWNS, *PROCESSES):
                    yield from _called_by(program, start, function)


def _called_by(program: Program, start: SourceCall, function: tuple[int, int]) -> Iterator[tuple[SourceCall, int]]:
    """Yield the calls of a function by what a call starts in processes, if that gets it as a parameter."""
    target = start.argument(0, "fn") if start.is_to(*SPAWNS) else start.argument(None, "target")
    for worker in (atom.const for atom in target or () if atom.kind == Kind.FUNCTION):
        for row in program.rows_of(*worker):
            if isinstance(row, SourceCall) and row.terms[row.term[1]][0] == "p":
                found = (atom.certainty for atom in row.callee if atom.kind == Kind.FUNCTION and atom.const == function)
                certainty = min(found, default=None)
                if certainty is not None:
                    yield row, certainty
