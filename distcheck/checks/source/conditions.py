"""Conditions that hold at a row: of the branches around it, of what left before it, and of assertions.

What they mean for ranks is decided by the evaluator; here it is only what is true when a row is reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck.core.model import grouped
from distcheck.core.patterns import lazy

from . import vocabulary
from .program import EventRow, Program, cached
from .source_text import last_name
from .values import RANKS, Who

#: Words of a condition about the group itself: where there is none yet, it may be created right there.
_ABOUT_THE_GROUP = lazy(r"initialized|available", re.IGNORECASE)


def conditions(row: EventRow) -> Iterator[tuple[int, bool]]:
    """Yield what is true or false at a row, from its own function alone: (term, which of both)."""
    for _, node in row.blocks:
        if node[1] in ("if", "while") or node[1].startswith("exit:"):
            yield node[2], node[3]
    yield from ((term, True) for term in asserted(row))


def asserted(row: EventRow) -> Iterator[int]:
    """Yield the terms that an ``assert`` in the function of a row has made sure of by then."""
    for other in _assertions(row.program).get((row.file, row.scope), ()):
        if row.program.dominates(other, row):
            yield other.payload[0]


@cached
def _assertions(program: Program) -> dict[tuple[int, int], list[EventRow]]:
    return grouped(program.rows("assert"), lambda row: (row.file, row.scope))


def runs_without_other_ranks(row: EventRow) -> bool:
    """Return whether a row is reached in a run of one process only: a test around it leaves no job of several ranks.

    ``local_rank == -1`` inside ``local_rank in (-1, 0)`` is such a test: what is inside is no matter of ranks.
    """
    for term, polarity in conditions(row):
        if leaves_one_process(row, term, polarity) and not _ABOUT_THE_GROUP.search(row.term_text(term)):
            return True
    return row.entry.who == Who.SINGLE


def leaves_one_process(row: EventRow, term: int, polarity: bool = True) -> bool:
    """Return whether a condition holds only where there are no other ranks."""
    program = row.program
    who = program.evaluator.test(row.file, term)
    if (who if polarity else who.inverse()).who == Who.SINGLE:
        return True
    parts = row.terms[term]
    if parts[0] == ("and" if polarity else "or"):
        return any(leaves_one_process(row, part, polarity) for part in parts[1])
    if who.who != Who.UNCLEAR or parts[0] != "=" or parts[1] != ("==" if polarity else "!="):
        return False
    # an option of an object that may come from a file: its name is enough, next to the -1
    return program.evaluator.value(row.file, parts[3]).constant == -1 and (
        vocabulary.NAMES.get(last_name(row.terms, parts[2]).lower().strip("_")) in RANKS
    )
