"""Loops that ranks leave at different steps: on their own loss, clock or flag, with something shared in the loop.

What was reduced, gathered or broadcast before it is tested is no such value. Exits by the rank itself, with a
collective in the loop, are for :mod:`.divergence`.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
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
from .loader_loops import loaders_in
from .program import EventRow, Program, SourceCall
from .rank_reach import Guard
from .source_text import last_name, operands
from .summary import Block
from .term_queries import given_terms
from .undivided_data import is_divided
from .unnoticed_failures import catches, handlers
from .unreduced_metrics import exits_by_metrics
from .values import NOT, PARTIAL, Certainty, Kind, Who
from .vocabulary import WRAPPERS

#: Models whose backward pass all ranks make together.
_TOGETHER = ("ddp", "fsdp", "fsdp2", "deepspeed", "prepared")
#: Objects that run the backward pass of such a model.
_RUNNERS = frozenset(
    ["accelerate.Accelerator.backward", "lightning.fabric.Fabric.backward", "deepspeed.DeepSpeedEngine.backward"]
)

#: Functions that are entered for a backward pass: ``step()``, and what it calls.
_DEEPEST_STEP = 2
#: Contexts in which ranks may make different numbers of steps, or average nothing.
_LETS_RANKS_LEAVE = ("join", "Join", "join_uneven_inputs", "no_sync")
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
        if way not in _WAYS or row.inside("except"):
            continue
        alone = way == "return" and not row.inside("for", "while") and _is_a_step(program, row)
        if not (alone or row.inside("for", "while")):
            continue
        if way == "call" and is_error_exit(program, [row]):
            continue  # the launcher ends the other ranks
        loop = 0 if alone else row.loops[-1][0]
        guard = _deciding(program, row, loop)
        if guard is not None and guard.who.who == Who.BY_DATA and _is_of_all_data(program, row, guard):
            continue
        if guard is None and way != "continue" and not alone:
            guard = leaves_alone(program, sequences, row, loop)
        if guard is None:
            continue
        shared = _shared(program, sequences, row, loop, "continue" if alone else way)
        if shared is None:
            continue
        if not _makes_a_backward_pass(program, shared) and _is_rank_itself(program, guard, row.file):
            continue  # a collective behind an exit by rank: DC702
        if _agreed(program, sequences, row, guard, loop) or row in exits_by_metrics(program):
            continue
        by_rank = guard.who.who in PARTIAL
        condition = condition_text(program, row.file, guard)
        each = "is true on some ranks only" if by_rank else "differs between ranks"
        yield row.found(
            rules.DC707,
            f"`{condition}` {each} and {_WAYS['continue' if alone else way]}, while `{shared.text()}` in "
            f"{shared.line_name} needs all ranks",
            fix="let the ranks agree first: put the decision into a tensor, all_reduce it with MAX on all ranks in "
            "every step, and test the result",
            basis=(guard.who,),
            severity=row.milder_in_tests(rules.DC707),
            flow=flow_of(program, row.file, guard.term),
            shared=shared.text(),
            line_of_shared=shared.line,
        )


@probe(rules.DC707)
def steps_depend_on_no_data(program: Program) -> Iterator[Finding]:
    """A backward pass that averages gradients is made by all ranks, whatever their data are."""
    for backward in program.calls_named("backward"):
        if not backward.loops or program.is_test(backward.file) or not _backward_is_shared(program, backward):
            continue
        loop = backward.loops[-1][0]
        guard = next((one for one in strict_guards(backward) if one.who.who == Who.BY_DATA and one.block > loop), None)
        if guard is None or guard.kind != "if" or _agreed(program, sequences_of(program), backward, guard, loop):
            continue
        others = (one for one in program.calls_named("backward", files={backward.file}) if one != backward)
        if any(program.excludes(backward, one) for one in others):
            continue
        yield backward.found(
            rules.DC707,
            f"`{condition_text(program, backward.file, guard)}` in {program.line_name(backward.file, guard.line)} "
            f"differs between ranks, while `{backward.text()}` needs all ranks",
            fix="make the backward pass on all ranks in every step, with a loss of zero where a rank has none",
            basis=(guard.who,),
            severity=backward.milder_in_tests(rules.DC707),
            shared=backward.text(),
            line_of_shared=backward.line,
        )


def _is_of_all_data(program: Program, row: EventRow, guard: Guard) -> bool:
    """Return whether what an exit tests was reckoned in a loop before it, from data that every rank has all of."""
    loops = {term for _, term in row.loops}
    loaders = [
        program.event_row(*loader)
        for number in program.subterms(row.file, guard.term, names=False)
        if row.terms[number][0] == "e" and row.terms[number][1] not in loops
        for loader in loaders_in(program, program.evaluator.value(row.file, row.terms[number][1]))
    ]
    return bool(loaders) and not any(isinstance(one, SourceCall) and is_divided(program, one) for one in loaders)


def _is_a_step(program: Program, row: EventRow) -> bool:
    """Return whether a function makes a backward pass after a row, and is called again and again."""
    later = (one for one in program.rows_of(row.file, row.scope) if one.number > row.number)
    return any(isinstance(one, SourceCall) and one.method == "backward" for one in later) and any(
        call.loops for call in program.callers((row.file, row.scope))
    )


#: A loop that a counter ends.
_COUNTED = lazy(r"\s*while\s+\(?\s*(?P<counter>[A-Za-z_][\w.]*)\s*(<|<=|!=)\s")


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
            # a rank check next to it shows which rank decides, and it may inform the others
            return None if any(own.block > loop and not _is_flag(program, own, row.file) for own in certain) else guard
        if guard.who.who in PARTIAL and guard in certain:
            return guard
    return None if certain else _counted_by_data(program, row, nearest, loop)


def _counted_by_data(program: Program, row: EventRow, block: int, loop: int) -> Guard | None:
    """Return the condition of an exit on what this rank's data has chosen before: ``if bad_steps >= patience:``."""
    if block < loop or row.blocks[-1][1][1] != "if":
        return None
    _, kind, term, polarity, line, _ = program.blocks[row.file][block]
    for number in program.subterms(row.file, term, names=False):
        parts = row.terms[number]
        if parts[0] != "?" or parts[2] == parts[3]:
            continue
        who = program.evaluator.test(row.file, parts[1])
        if who.who == Who.BY_DATA:
            return Guard(who.at_best(Certainty.MERGED), kind, block, line, term, polarity)
    return None


#: Exceptions that hold those of a GPU without memory, and handlers of them.
_CAUGHT = frozenset(
    ["Exception", "BaseException", "RuntimeError", "OutOfMemoryError", "ValueError", "FloatingPointError"]
)


@probe(rules.DC707)
def failed_steps_end_the_rank(program: Program) -> Iterator[Finding]:
    """A rank whose step fails does not go on with the next one, while the others wait in it."""
    sequences = sequences_of(program)
    seen: set[int] = set()
    for backward in program.calls_named("backward"):
        attempt = next(((number, node) for number, node in reversed(backward.blocks) if node[1] == "try"), None)
        if attempt is None or attempt[0] in seen or program.is_test(backward.file):
            continue
        loops = [number for number, _ in backward.loops if number < attempt[0]]
        if not loops or backward.inside("except") or not _backward_is_shared(program, backward):
            continue
        seen.add(attempt[0])
        for handler in handlers(program, backward.file, attempt[1]):
            _, _, caught, _, line, _ = program.blocks[backward.file][handler]
            if not catches(program, backward.file, caught, _CAUGHT) or not _goes_on(
                program, sequences, backward, handler
            ):
                continue
            row = next(iter(backward.rows_in(handler)), None)
            yield (row or backward).found(
                rules.DC707,
                f"a rank whose step fails goes on with the next one, since {program.line_name(backward.file, line)} "
                f"catches the error, while `{backward.text()}` in {backward.line_name} needs all ranks",
                fix="let the error end the process, or make the step on this rank as well, with a loss of zero",
                severity=Severity.INFO,
                shared=backward.text(),
                line_of_shared=backward.line,
            )
            break


def _goes_on(program: Program, sequences: Sequences, row: EventRow, handler: int) -> bool:
    """Return whether a rank gets to its next step from a handler: by ``continue``, or past its end."""
    rows = row.rows_in(handler)
    if any(
        isinstance(one, SourceCall)
        and (one.method == "backward" or sequences.collective_site(one) is not None or sequences.is_unseen(one))
        for one in rows
    ):
        return False  # it takes part in the step in another way
    exits = [one for one in rows if one.kind == "exit"]
    if any(one.payload[0] == "continue" for one in exits):
        return True
    # one in an arm leaves the other arm, which gets to the end
    return all(any(node[1] == "if" and number > handler for number, node in one.blocks) for one in exits)


@probe(rules.DC707)
def clocks_bound_no_loop(program: Program) -> Iterator[Finding]:
    """The number of steps of a loop with shared work, or its end, does not come from the clock of each rank."""
    if not any(True for _ in program.calls_to(*_CLOCKS)):
        return
    sequences = sequences_of(program)
    for file in range(len(program.index.files)):
        for number, node in enumerate(program.blocks[file]):
            if node[1] not in ("for", "while") or node[2] < 0:
                continue
            bound = _bound(program, file, node)
            clock = None if bound < 0 else _clock_behind(program, file, bound)
            if clock is None:
                continue
            row = next(iter(_rows_in_block(program, file, number)), None)
            shared = None if row is None else _shared(program, sequences, row, number, "break")
            if row is None or shared is None or partial_guards(row):
                continue
            line = program.line_name(file, node[4])
            yield shared.found(
                rules.DC707,
                f"the loop in {line} ends by the clock of each rank ({clock.place}), so ranks make different numbers "
                f"of steps, while `{shared.text()}` needs all ranks",
                fix="let rank 0 decide and broadcast the number of steps, or all_reduce it with MIN before the loop",
                severity=min(shared.milder_in_tests(rules.DC707), Severity.WARNING),
                flow=[clock.as_step(), f"{program.place(file, node[4])}: the loop"],
            )


#: Clocks that each process reads alone.
_CLOCKS = (
    "time.time", "time.perf_counter", "time.monotonic", "time.process_time", "timeit.default_timer",
)  # fmt: skip
#: Calls that each rank may make with a number of its own, and that keep what it depends on.
_COUNTS = frozenset(["range", "trange", "int", "max", "min", "round", "float", "ceil", "floor"])
#: Callers are followed this far for the bound of a loop.
_DEEPEST_BOUND = 3


def _rows_in_block(program: Program, file: int, block: int) -> list[EventRow]:
    """Return the rows that stand in a block, of whatever function."""
    return next(
        (
            rows
            for row in program.rows("call", (file,))
            if any(number == block for number, _ in row.blocks)
            for rows in (row.rows_in(block),)
        ),
        [],
    )


def _bound(program: Program, file: int, node: Block) -> int:
    """Return the term that a loop ends by: the test of a ``while``, what ``range()`` counts to; -1 for others."""
    terms = program.terms[file]
    term = node[2]
    if node[1] == "while":
        return term if terms[term][0] == "=" else -1
    for _ in range(_DEEPEST_BOUND):
        names = program.bound(file, terms[term])
        term = names[0] if len(names) == 1 else term
        if terms[term][0] != "c" or not terms[term][2]:
            return -1
        name = last_name(terms, terms[term][1])
        if name in ("range", "trange"):
            return term
        if name not in ("tqdm", "enumerate", "track"):
            return -1
        term = terms[term][2][0]
    return -1


def _clock_behind(program: Program, file: int, term: int, depth: int = 0) -> SourceCall | None:
    """Return the reading of a clock that a number comes from, by arithmetic and parameters alone."""
    terms = program.terms[file]
    todo, seen = [term], set()
    clock = None
    while todo:
        number = todo.pop()
        if number < 0 or number in seen:
            continue
        seen.add(number)
        parts = terms[number]
        if parts[0] == "c":
            call = SourceCall(program, file, parts[5])
            if call.is_to(*_CLOCKS):
                clock = clock or call
            elif call.method in _COUNTS:
                todo.extend(call.argument_terms)
            continue
        if parts[0] == "p" and depth < _DEEPEST_BOUND:
            for caller in program.callers((file, parts[1]))[:10]:
                given = given_terms(caller, (file, parts[1])).get(parts[2], -1)
                clock = clock or (_clock_behind(program, caller.file, given, depth + 1) if given >= 0 else None)
        elif parts[0] in ("o", "u", "=", "v", "?", "|"):
            if parts[:2] == ("u", "reduced"):
                return None
            todo.extend(operands(parts) if parts[0] != "?" else parts[2:4])
            todo.extend(program.bound(file, parts))
    return clock


def _is_rank_itself(program: Program, guard: Guard, file: int) -> bool:
    return guard.who.who in PARTIAL and not _is_flag(program, guard, file)


def _is_flag(program: Program, guard: Guard, file: int) -> bool:
    """Return whether a condition is a value that was set before, and no rank check alone."""
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
    # without a loop, in the rest of the function
    rows = row.rows_in(loop) if loop else program.rows_of(row.file, row.scope)
    for other in rows:
        if not isinstance(other, SourceCall):
            continue
        if way == "continue" and other.number < row.number:
            continue
        if program.excludes(row, other) or partial_guards(other) or other.within(*_LETS_RANKS_LEAVE):
            continue
        if _makes_a_backward_pass(program, other):
            return other
        collective = sequences.collective_site(other)
        if collective is not None:
            return other
    return None


def _makes_a_backward_pass(program: Program, call: SourceCall, depth: int = 0) -> bool:
    """Return whether a call is a backward pass that averages gradients, or a function that makes one on all ranks."""
    if call.method == "backward":
        return _backward_is_shared(program, call)
    return depth < _DEEPEST_STEP and any(
        isinstance(inner, SourceCall)
        and not inner.inside("if", "except")
        and _makes_a_backward_pass(program, inner, depth + 1)
        for function in program.functions(call)
        for inner in program.rows_of(*function)
    )


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
        if not isinstance(other, SourceCall) or other.number > row.number or other.is_to(*WRAPPERS):
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
