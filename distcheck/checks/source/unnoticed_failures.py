"""Failures that no process notices: of a process group, of a collective, of a rank that a script started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .summary import Block
from .values import NoConstant
from .vocabulary import INIT, SPAWNS, word_set

#: What ``spawn()`` raises for a failed rank, and its bases.
_CAUGHT_OF_RANKS = frozenset(["Exception", "BaseException", "ProcessException", "ProcessRaisedException"])
#: Exceptions that a failed rendezvous raises, or that hold it: those of torch derive from RuntimeError.
_CAUGHT = frozenset(["Exception", "BaseException", "RuntimeError", "DistError", "DistBackendError", "DistNetworkError"])
_RANK_NAME = lazy(r"(^|_)(rank|process_index|process_id)$", re.I)
_SIZE_NAME = lazy(r"(^|_)(world_?size|num_processes|n_?procs|num_gpus)$", re.I)
_SWITCH_NAME = lazy(r"(^|_)(distributed|is_dist|use_ddp|ddp|multi_gpu)$", re.I)
_PROCESSES = frozenset(
    ["torch.multiprocessing.Process", "multiprocessing.Process", "torch.multiprocessing.get_context.Process",
     "multiprocessing.get_context.Process", "multiprocessing.context.Process"]
)  # fmt: skip
#: What shows that the parent learns of a process that ended, or ends the others.
_ENDS = word_set("terminate kill send_signal killpg poll is_alive sentinel signal atexit active_children waitpid alarm")
_STATUS = frozenset(["exitcode", "returncode"])
#: Without an argument, these take what another process has sent.
_RECEIVES = frozenset(["get", "get_nowait", "recv", "communicate"])
_RANK_VARIABLES = ("RANK", "LOCAL_RANK")
_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel")


# a group that was not created


@probe(rules.DC747)
def failed_rendezvous_ends_the_rank(program: Program) -> Iterator[Finding]:
    """A rank whose process group can't be created ends, and does not go on alone."""
    for init in program.calls_to(*INIT):
        if init.constant(3, "world_size") == 1 or _wraps_anyway(program, init):
            continue
        for row in _raising_rows(program, init):
            found = _alone_after(program, row)
            if found is not None:
                alone, text = found
                yield row.found(
                    rules.DC747,
                    f"an error of {init.method}() is caught here, and the rank goes on with {text}. Every rank then "
                    "trains alone, and all of them write the same files",
                    fix="let the error end the process; test for a single process before it, "
                    'for example with "RANK" not in os.environ',
                    severity=row.level_in_tests,
                    flow=[
                        f"{init.place}: the group is created",
                        f"{alone.place}: the rank goes on alone",
                    ],
                )
                break


def _wraps_anyway(program: Program, init: SourceCall) -> bool:
    """Return whether a model is wrapped without a test: that raises where there is no group."""
    files = call_paths.related(program, init.file)
    wraps = [call for call in program.calls_to(*_WRAPPERS) if call.file in files and not program.is_test(call.file)]
    return bool(wraps) and all(not call.guards and not call.inside("if", "try") for call in wraps)


# a collective that failed


@probe(rules.DC749)
def failed_collectives_end_the_rank(program: Program) -> Iterator[Finding]:
    """A rank whose collective fails does not go on as if nothing had happened."""
    seen: set[tuple[int, int]] = set()
    for collective in program.collectives():
        if program.is_test(collective.file) or collective.inside("except", "finally"):
            continue
        for row in _raising_rows(program, collective, depth=1):
            around = [node for _, node in row.blocks if node[1] == "try"]
            if not around or (row.file, around[-1][4]) in seen:
                continue
            caught = first_that_catches(program, row.file, around[-1])
            if caught < 0 or not does_nothing(program, row, caught):
                continue
            if _is_a_trial(program, row, around[-1]) or any(kind == "while" for _, (_, kind, *_) in row.blocks):
                continue
            if collective.method in _BARRIERS and not _meets_others_after(program, row):
                continue
            seen.add((row.file, around[-1][4]))
            line = program.blocks[row.file][caught][4]
            goes_on = (
                "this rank goes on, and the others wait"
                if collective.method in _BARRIERS
                else "this rank goes on with its own value, and the others wait or have another"
            )
            yield row.found(
                rules.DC749,
                f"{program.line_name(row.file, line)} ignores errors of {collective.method}(): {goes_on}",
                fix="let the error end the process; test dist.is_initialized() first if there may be no group",
                flow=[
                    collective.as_step(),
                    f"{program.place(row.file, line)}: its errors are ignored",
                ],
            )


#: They give no value, so that an error changes something only for what the ranks do together afterwards.
_BARRIERS = frozenset(["barrier", "monitored_barrier", "wait_for_everyone"])


def _meets_others_after(program: Program, row: EventRow) -> bool:
    """Return whether a function makes another collective after a row, or is in a loop with it."""
    if row.inside("for", "while"):
        return True
    return any(
        (other.file, other.scope) == (row.file, row.scope) and other.number > row.number
        for other in program.collectives()
    )


#: What an except may do that ends nothing.
_REPORTS = word_set("print debug info warning warn error exception critical log format str print_exc format_exc")


def does_nothing(program: Program, row: EventRow, handler: int) -> bool:
    """Return whether an ``except`` at most reports that something failed."""
    return all(isinstance(one, SourceCall) and one.method in _REPORTS for one in row.rows_in(handler))


def _is_a_trial(program: Program, row: EventRow, attempt: Block) -> bool:
    """Return whether a ``try`` finds out what the backend can do: it notes after the call that it worked."""
    return any(
        one.kind in ("bind", "attribute")
        and one.number > row.number
        and isinstance(one.term_value(one.payload[1 if one.kind == "bind" else 2]).constant, bool)
        and any(node == attempt for _, node in one.blocks)
        for one in program.rows_of(row.file, row.scope)
    )


def _raising_rows(program: Program, init: SourceCall, depth: int = 3) -> Iterator[EventRow]:
    """Yield a call that raises the errors of another, and its callers up to the first ``try``."""
    yield init
    if depth and not any(kind == "try" for _, (_, kind, *_) in init.blocks):
        for site in program.evaluator.callers.get((init.file, init.scope), ())[:20]:
            if site.kind == "call" and not site.weak:
                yield from _raising_rows(program, SourceCall(program, site.file, site.event), depth - 1)


def _alone_after(program: Program, row: EventRow) -> tuple[EventRow, str] | None:
    """Return what makes a rank the only one where an error of a row was caught, and its text."""
    around = [(number, node) for number, node in row.blocks if node[1] == "try"]
    if not around or row.inside("for", "while", "except", "lambda"):
        return None
    _, attempt = around[-1]
    for number in handlers(program, row.file, attempt):
        if not catches(program, row.file, program.blocks[row.file][number][2]):
            continue
        rows = row.rows_in(number)
        if any(_ends_or_repeats(program, one) for one in rows):
            return None
        return next(((one, text) for one in rows if (text := _made_alone(one))), None)
    return None


def handlers(program: Program, file: int, attempt: Block) -> list[int]:
    """Return the blocks of the ``except`` clauses of a ``try``, in order."""
    return [
        number
        for number, node in enumerate(program.blocks[file])
        if node[1] == "except" and node[0] == attempt[0] and attempt[4] < node[4] <= attempt[5]
    ]


def catches(program: Program, file: int, term: int, names: frozenset[str] = _CAUGHT) -> bool:
    """Return whether an ``except`` of these classes, or of a tuple of them, catches errors of these names."""
    terms = program.terms[file]
    if term < 0 or terms[term][0] == "-":
        return True
    inner = terms[term][1] if terms[term][0] == "t" else (term,)
    return any(last_name(terms, one) in names for one in inner)


def first_that_catches(program: Program, file: int, attempt: Block, names: frozenset[str] = _CAUGHT) -> int:
    """Return the block of the first ``except`` of a ``try`` that catches errors of these names, -1 if none does."""
    clauses = handlers(program, file, attempt)
    return next((one for one in clauses if catches(program, file, program.blocks[file][one][2], names)), -1)


def _ends_or_repeats(program: Program, row: EventRow) -> bool:
    """Return whether a row of a handler ends the process, or tries to create the group once more."""
    if row.kind == "exit":
        return row.payload[0] in ("raise", "call")
    if not isinstance(row, SourceCall):
        return False
    if row.method in ("exit", "_exit", "quit", "abort", "kill", "init_process_group") or "init" in row.method:
        return True
    return any(call_paths.starts_a_group(program, function) for function in program.functions(row))


def _made_alone(row: EventRow) -> str:
    """Return the assignment by which a rank is the only one; empty for any other row."""
    if row.kind == "return" and row.payload[0] >= 0 and row.terms[row.payload[0]][0] == "t":
        returned = [row.term_value(term).constant for term in row.terms[row.payload[0]][1]]
        known = [value for value in returned if type(value) is int]
        return "rank 0 of 1" if sorted(known) == [0, 1] and len(known) == len(returned) else ""
    if row.kind == "bind":
        name, value = str(row.payload[0]), row.payload[1]
    elif row.kind == "attribute":
        name, value = str(row.payload[1]), row.payload[2]
    else:
        return ""
    constant = row.term_value(value).constant
    if _RANK_NAME.search(name) and constant == 0 and constant is not False:
        return f"{name} = 0"
    if _SIZE_NAME.search(name) and constant == 1 and constant is not True:
        return f"{name} = 1"
    if _SWITCH_NAME.search(name) and constant is False:
        return f"{name} = False"
    return ""


# ranks that the script starts


class _Started(NamedTuple):
    """A call that starts one rank in a loop."""

    call: SourceCall
    #: ``join`` or ``wait``
    waits: str


@probe(rules.DC748)
def started_ranks_are_watched(program: Program) -> Iterator[Finding]:
    """A script that starts ranks learns of each that fails, and ends the others."""
    for start in (*_processes(program), *_children(program)):
        call = start.call
        rows = program.rows_of(call.file, call.scope)
        wait = next(
            (
                row
                for row in rows
                if isinstance(row, SourceCall)
                and row.method == start.waits
                and row.number > call.number
                and not row.argument_terms
                and _is_in_a_later_loop(row, call)
            ),
            None,
        )
        if wait is None:
            continue
        names = _names_of(program, call.file)
        if names & _ENDS or any(_keeps_the_number(row) for row in rows):
            continue
        lost = not names & _STATUS and (start.waits == "join" or wait.use == "drop")
        if lost and any(_receives(row) for row in rows if row.number > call.number):
            continue
        text = (
            f"{wait.method}() waits for one rank after the other, and nothing reads how they ended: the others may "
            "wait for a rank that failed, and the script ends with status 0"
            if lost
            else f"{wait.method}() waits for one rank after the other: if a later rank fails, the first one waits for "
            "it in a collective, and the script for the first one"
        )
        yield wait.found(
            rules.DC748,
            text,
            fix="torch.multiprocessing.spawn(fn, nprocs=…), which ends all ranks when one fails and raises its error"
            if start.waits == "join"
            else "start the ranks with torchrun, or poll() all of them, and terminate() the others when one fails",
            severity=wait.level_in_tests if lost else Severity.INFO,
            flow=[f"{call.place}: the ranks are started"],
        )


@probe(rules.DC748)
def errors_of_ranks_are_raised(program: Program) -> Iterator[Finding]:
    """What ``spawn()`` raises for a failed rank ends the script, or changes what it does."""
    for call in program.calls_to(*SPAWNS):
        around = [node for _, node in call.blocks if node[1] == "try"]
        if not around or call.inside("for", "while", "except") or program.index.files[call.file].cells:
            continue
        if call.constant(3, "join") is False or _is_a_trial(program, call, around[-1]):
            continue
        caught = first_that_catches(program, call.file, around[-1], _CAUGHT_OF_RANKS)
        if caught >= 0 and does_nothing(program, call, caught):
            line = program.blocks[call.file][caught][4]
            yield call.found(
                rules.DC748,
                f"{program.line_name(call.file, line)} catches the error that {call.method}() raises when a rank has "
                "failed, and at most prints it: the script ends with status 0",
                fix="let the error end the script, or end the except with `sys.exit(1)`",
                severity=call.level_in_tests,
                flow=[f"{program.place(call.file, line)}: its errors are ignored"],
            )


def _receives(row: EventRow) -> bool:
    return isinstance(row, SourceCall) and row.method in _RECEIVES and not row.positional


def _keeps_the_number(row: EventRow) -> bool:
    """Return whether the number of a process is given to something that may end it, and does not only show it."""
    return (
        isinstance(row, SourceCall)
        and row.method not in _REPORTS
        and any(row.terms[term][0] == "a" and row.terms[term][2] == "pid" for term in row.argument_terms)
    )


def _is_in_a_later_loop(wait: SourceCall, start: SourceCall) -> bool:
    """Return whether a row runs in a loop, or comprehension, after the one that starts the ranks."""
    own = {number for number, _ in start.loops}
    if wait.loops:
        return not own.intersection(number for number, _ in wait.loops)
    return _in_comprehension(wait)


def _in_comprehension(call: SourceCall) -> bool:
    terms, own = call.terms, call.event[7]
    return any(term[0] == "*" and own in call.program.subterms(call.file, term[1], names=False) for term in terms)


def _processes(program: Program) -> Iterator[_Started]:
    """Yield the processes that are started in a loop and join a process group."""
    sites = {
        (site.file, site.event): function
        for function, found in program.evaluator.callers.items()
        for site in found
        if site.kind == "process" and not site.weak
    }
    for (file, event), function in sorted(sites.items()):
        call = SourceCall(program, file, event)
        if (
            call.is_to(*_PROCESSES)
            and (call.loops or _in_comprehension(call))
            and call_paths.starts_a_group(program, function)
        ):
            yield _Started(call, "join")


def _children(program: Program) -> Iterator[_Started]:
    """Yield the commands that are started in a loop with a rank in their environment."""
    for call in program.calls_to("subprocess.Popen"):
        if not call.loops:
            continue
        environment = call.argument_term(None, "env")
        if environment >= 0 and _holds_a_rank(program, call, environment):
            yield _Started(call, "wait")


def _holds_a_rank(program: Program, call: SourceCall, term: int) -> bool:
    """Return whether the environment of a command gets a rank of its own in the loop that starts it."""
    loop = call.loops[-1][0]
    name = last_name(call.terms, term) if call.terms[term][0] in ("v", "p") else "-"
    for row in program.rows("store", (call.file,)):
        base, index, value, operator = row.payload
        if (
            row.scope == call.scope
            and operator == "="
            and row.number < call.number
            and any(number == loop for number, _ in row.loops)
            and (base == term or last_name(row.terms, base) == name)
            and row.term_value(index).constant in _RANK_VARIABLES
            and row.term_value(value).constant is NoConstant
        ):
            return True
    return False


def _names_of(program: Program, file: int) -> set[str]:
    """Return the names of all attributes and calls of a file."""
    terms = program.terms[file]
    found = {str(term[2]) for term in terms if term[0] == "a"}
    return found | {last_name(terms, term[1]) for term in terms if term[0] == "c"}
