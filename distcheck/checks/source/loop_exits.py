"""Loops that ranks leave at different steps: on their own loss, clock or flag, with something shared in the loop.

What was reduced, gathered or broadcast before it is tested is no such value. Exits by the rank itself, with a
collective in the loop, are for :mod:`.divergence`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .collective_sequences import (
    Sequences,
    condition_text,
    flow_of,
    is_error_exit,
    partial_guards,
    sequences_of,
    strict_guards,
)
from .divergence import leaves_alone
from .program import EventRow, Program, SourceCall
from .rank_reach import Guard
from .values import NOT, PARTIAL, Kind, Who

#: Models whose backward pass all ranks make together.
_TOGETHER = ("ddp", "fsdp", "fsdp2", "deepspeed", "prepared")
#: Objects that run the backward pass of such a model.
_RUNNERS = frozenset(
    ["accelerate.Accelerator.backward", "lightning.fabric.Fabric.backward", "deepspeed.DeepSpeedEngine.backward"]
)

#: Ways to leave a step, and what they do.
_WAYS = {
    "break": "ends the loop",
    "continue": "skips the rest of the step",
    "return": "leaves the loop",
    "call": "ends the process",
}


@probe(rules.DC707)
def loops_end_together(program: Program) -> Iterator[Finding]:
    """All ranks leave a loop with shared work in the same step, or agree before they leave."""
    sequences = sequences_of(program)
    for row in program.rows("exit"):
        way = row.payload[0]
        if way not in _WAYS or not row.inside("for", "while") or row.inside("except"):
            continue
        if way == "call" and is_error_exit(program, [row]):
            continue  # the launcher ends the other ranks
        loop = row.loops[-1][0]
        guard = _deciding(program, row, loop)
        if guard is None and way != "continue":
            guard = leaves_alone(program, sequences, row, loop)
        if guard is None:
            continue
        shared = _shared(program, sequences, row, loop, way)
        if shared is not None and shared.method != "backward" and _is_rank_itself(program, guard, row.file):
            continue  # a collective behind an exit by rank: DC702
        if shared is None or _agreed(program, sequences, row, guard, loop):
            continue
        by_rank = guard.who.who in PARTIAL
        condition = condition_text(program, row.file, guard)
        each = "is true on some ranks only" if by_rank else "comes out differently on each rank"
        yield row.found(
            rules.DC707,
            f"`{condition}` {each} and {_WAYS[way]}, while `{shared.text()}` in {shared.line_name} needs all ranks",
            fix="let the ranks agree first: put the decision into a tensor, all_reduce it with MAX on all ranks in "
            "every step, and test the result",
            basis=(guard.who,),
            severity=row.milder_in_tests(rules.DC707),
            flow=flow_of(program, row.file, guard.term),
            shared=shared.text(),
            line_of_shared=shared.line,
        )


#: A loop that a counter ends.
_COUNTED = re.compile(r"\s*while\s+\(?\s*(?P<counter>[A-Za-z_][\w.]*)\s*(<|<=|!=)\s")


@probe(rules.DC707)
def counters_grow_on_all_ranks(program: Program) -> Iterator[Finding]:
    """What ends a loop with shared work grows on all ranks."""
    sequences = sequences_of(program)
    for file in range(len(program.index.files)):
        for number, node in enumerate(program.blocks[file]):
            if node[1] != "while" or node[2] < 0:
                continue
            match = _COUNTED.match(program.lines(file)[node[4] - 1])
            raised = list(_raised(program, file, number, match["counter"])) if match else []
            guards = [_inner_guards(row, number) for row in raised]
            if not raised or not all(guards):
                continue
            row, guard = raised[0], guards[0][-1]
            if any(NOT[guard.who.who] == one[-1].who.who for one in guards[1:]):
                continue  # the others raise it as well, in an arm of their own
            shared = _shared(program, sequences, row, number, "break")
            if shared is not None and match is not None:
                yield row.found(
                    rules.DC707,
                    f"only some ranks raise `{match['counter']}`, by `{condition_text(program, file, guard)}`. "
                    f"The loop in {program.line_name(file, node[4])} ends on them alone, while `{shared.text()}` in "
                    f"{shared.line_name} needs all ranks",
                    fix="count on all ranks: move this line out of the branch, before what one rank does",
                    basis=(guard.who,),
                    severity=min(row.milder_in_tests(rules.DC707), Severity.WARNING),
                    shared=shared.text(),
                    line_of_shared=shared.line,
                )


def _raised(program: Program, file: int, loop: int, counter: str) -> Iterator[EventRow]:
    """Yield what changes a counter within a loop: an assignment, or the ``update()`` of the bar that it belongs to."""
    base, _, name = counter.rpartition(".")
    line, last = program.blocks[file][loop][4:6]
    for position, event in enumerate(program.events[file]):
        if not line < event[3] <= last:
            continue
        row = program.event_row(file, position)
        if (
            (row.kind == "bind" and row.payload[0] == counter)
            or (row.kind == "attribute" and row.payload[1] == name and row.text().startswith(counter))
            or (isinstance(row, SourceCall) and base and row.method == "update" and row.text().startswith(base))
        ):
            yield row


def _inner_guards(row: EventRow, loop: int) -> list[Guard]:
    """Return the conditions within a loop by which only some ranks get to a row."""
    return [guard for guard in partial_guards(row) if guard.block > loop and guard.who.traced]


def _deciding(program: Program, row: EventRow, loop: int) -> Guard | None:
    """Return the condition right around an exit, where data, a clock or a rank decide it; None for any other."""
    nearest = next((number for number, node in reversed(row.blocks) if node[1] == "if"), -1)
    certain = partial_guards(row)
    for guard in strict_guards(row):
        # only the condition right around the exit decides; outer conditions were tested before
        if guard.block != nearest or guard.block < loop:
            continue
        if guard.who.who == Who.BY_DATA:
            # a test of the rank next to it shows which rank decides, and it may inform the others
            return None if any(own.block > loop and not _is_flag(program, own, row.file) for own in certain) else guard
        if guard.who.who in PARTIAL and guard in certain:
            return guard
    return None


def _is_rank_itself(program: Program, guard: Guard, file: int) -> bool:
    return guard.who.who in PARTIAL and not _is_flag(program, guard, file)


def _is_flag(program: Program, guard: Guard, file: int) -> bool:
    """Return whether a condition is a value that was set before, and no test of the rank alone."""
    terms = program.terms[file]
    todo = [guard.term]
    while todo:
        parts = terms[todo.pop()]
        if parts[0] in ("and", "or"):
            todo.extend(parts[1])
        elif parts[0] == "u":
            todo.append(parts[2])
        elif parts[0] not in ("?", "|", "k"):
            return False
    return True


def _shared(program: Program, sequences: Sequences, row: EventRow, loop: int, way: str) -> SourceCall | None:
    """Return what all ranks do together in the loop: for ``continue``, in the rest of the step."""
    rows = [other for other in sequences.rows_in(row, loop) if isinstance(other, SourceCall)]
    for other in rows:
        if way == "continue" and other.number < row.number:
            continue
        if program.excludes(row, other) or partial_guards(other):
            continue
        if other.method == "backward" and _backward_is_shared(program, other):
            return other
        collective = sequences.collective_site(other)
        if collective is not None:
            return other
    return None


def _backward_is_shared(program: Program, call: SourceCall) -> bool:
    """Return whether a backward pass averages gradients among ranks: its function calls a wrapped model."""
    if any(target in _RUNNERS for target in call.targets):
        return True
    receiver = call.receiver_text.rsplit(".", 1)[-1].lower()
    if receiver in ("accelerator", "fabric"):
        return True
    return any(
        isinstance(other, SourceCall) and other.callee.wrapped(*_TOGETHER) is not None
        for other in program.rows_of(call.file, call.scope)
    )


def _agreed(program: Program, sequences: Sequences, row: EventRow, guard: Guard, loop: int) -> bool:
    """Return whether what is tested went through a collective before, so that all ranks may know of it."""
    terms = program.terms[row.file]
    tested = set(program.subterms(row.file, guard.term, names=False))
    for other in program.rows_of(row.file, row.scope):
        if not isinstance(other, SourceCall) or other.number > row.number:
            continue
        collective = sequences.collective_site(other)
        if collective is None and not sequences.is_unseen(other):
            continue
        shared = tested.intersection(program.subterms(row.file, *other.argument_terms, names=False))
        if any(terms[number][0] != "k" and _of_data(program, row.file, number) for number in shared):
            return True
    return False


def _of_data(program: Program, file: int, number: int) -> bool:
    if program.terms[file][number][0] in ("?", "|"):
        return True  # a value with a history: the one that is tested
    return (
        program.evaluator.value(file, number).has(Kind.BATCH) or program.evaluator.test(file, number).who == Who.BY_DATA
    )
