"""The exit status of a rank whose training failed: the launcher sees success, and lets the others wait."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from . import call_paths
from .models import is_backward, trains
from .program import EventRow, Function, Program, SourceCall, cached
from .several_ranks import signs
from .summary import Block
from .unnoticed_failures import does_nothing, first_that_catches
from .vocabulary import INIT, SPAWNS

_EVERY_ERROR = frozenset(["Exception", "BaseException"])
_EXITS = frozenset(["sys.exit", "os._exit", "exit", "quit", "builtins.exit", "builtins.quit"])
#: Longer functions with more ``try`` are not searched.
_MOST = 50


@probe(rules.DC748)
def failed_training_ends_the_rank(program: Program) -> Iterator[Finding]:
    """A rank whose training raised an error ends with another status than 0."""
    for file, function in _with_groups(program):
        for number, attempt in _attempts(program, (file, function)):
            rows = program.rows_of(file, function)
            inner = [row for row in rows if any(one == number for one, _ in row.blocks)]
            training = next((row for row in inner if isinstance(row, SourceCall) and _trains(program, row)), None)
            if training is None:
                continue
            exit_row = next((row for row in rows if _ends_well(row) and _is_finally_of(row, attempt)), None)
            if exit_row is not None:
                yield exit_row.found(
                    rules.DC748,
                    f"`{exit_row.text()}` in a finally replaces the error of the training: a rank that fails ends with "
                    "status 0, and the launcher takes that for success",
                    fix="exit after the try statement, not in its finally",
                    severity=exit_row.level_in_tests,
                    flow=[f"{training.place}: the training that may fail"],
                    evidence=signs(exit_row),
                )
                continue
            caught = first_that_catches(program, file, attempt, _EVERY_ERROR)
            if caught < 0 or not does_nothing(program, training, caught):
                continue
            if not _is_the_last(program, (file, function), attempt) or not _is_entered_last(program, (file, function)):
                continue
            line = program.blocks[file][caught][4]
            yield training.found(
                rules.DC748,
                f"{program.line_name(file, line)} at most prints the errors of the training: a rank that fails ends "
                "with status 0, and the launcher takes that for success",
                fix="end the except with `raise`",
                severity=training.level_in_tests,
                flow=[f"{program.place(file, line)}: its errors are only printed"],
                evidence=signs(training),
            )


@cached
def _with_groups(program: Program) -> list[Function]:
    """Return the functions with a ``try`` in files that create a process group, or that such files import."""
    files = {file for call in program.calls_to(*INIT) for file in call_paths.related(program, call.file)}
    return sorted(
        {
            (row.file, row.scope)
            for file in files
            if not program.index.files[file].cells and any(node[1] == "try" for node in program.blocks[file])
            for row in program.rows("call", (file,))
            if any(node[1] == "try" for _, node in row.blocks)
        }
    )


def _attempts(program: Program, function: Function) -> list[tuple[int, Block]]:
    """Return each ``try`` of a function that is in no loop: none that is repeated."""
    found: dict[int, Block] = {}
    for row in program.rows_of(*function):
        for number, node in row.blocks:
            if node[1] in ("for", "while", "except", "finally"):
                break
            if node[1] == "try":
                found[number] = node
    return list(found.items())[:_MOST]


def _trains(program: Program, call: SourceCall) -> bool:
    return is_backward(call) or any(trains(program, inner) for inner in program.functions(call))


def _ends_well(row: EventRow) -> bool:
    """Return whether a row exits with status 0 as it is written: ``sys.exit()``, ``sys.exit(0)``."""
    if not isinstance(row, SourceCall) or _EXITS.isdisjoint(row.targets) or row.has_star:
        return False
    given = row.argument_span(0)
    return row.positional == 0 or (given is not None and row.program.source(given) == "0")


def _is_finally_of(row: EventRow, attempt: Block) -> bool:
    """Return whether a row stands in the ``finally`` of a ``try``, and always runs there."""
    if not row.blocks:
        return False
    _, (parent, kind, _, _, *lines) = row.blocks[-1]
    return kind == "finally" and parent == attempt[0] and lines == [*attempt[4:]]


def _is_the_last(program: Program, function: Function, attempt: Block) -> bool:
    """Return whether nothing in the ``finally`` of a ``try``, or after it, ends the rank or trains once more."""
    for row in program.rows_of(*function):
        after = row.line > attempt[5]
        if row.kind == "exit" and row.payload[0] in ("raise", "call") and (after or row.inside("finally")):
            return False
        if after and (row.kind == "return" or (isinstance(row, SourceCall) and _trains(program, row))):
            return False
    return True


def _is_entered_last(program: Program, function: Function) -> bool:
    """Return whether a function is the main one of a rank: a script itself, what it calls, or what starts ranks."""
    if function[1] == 0:
        return True
    sites = program.evaluator.callers.get(function, ())
    if not sites:
        return False
    for site in sites:
        row = program.event_row(site.file, site.event)
        if isinstance(row, SourceCall) and row.is_to(*SPAWNS):
            continue
        if row.scope != 0 or row.inside("try", "for", "while") or not isinstance(row, SourceCall) or row.use != "drop":
            return False
    return True
