"""The probes for what torch.distributed renamed or took away, and for an argument that training scripts often pass.

A row of the table is one name or module. The table speaks of ``torch.distributed``, not of the rest of torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.rank_evidence import SINCE
from distcheck.core.registry import probe
from distcheck.core.spans import Span

from .dead_code import is_dead
from .environment_variables import version_is_tested
from .program import EventRow, Program, SourceCall, cached
from .vocabulary import COLLECTIVES, words


class Stale(NamedTuple):
    """A name that is no longer to be used."""

    #: the dotted name, as written
    name: str
    #: ``removed``, ``deprecated`` or ``moved`` (the old name still works, without a message)
    state: str
    #: the release of torch that removed or deprecated it; empty where that was long ago
    since: str
    #: what to write, as an advice that begins with a verb
    instead: str
    #: a module: everything below it is meant, too
    module: bool = False


_D = "torch.distributed."
#: Taken from torch 2.13 (``torch/distributed/distributed_c10d.py``, ``torch/distributed/nn/functional.py`` …); removals
#: from pytorch/pytorch#114156 (``*_multigpu``), #105753 (``dist_backend``) and #127354 (``pipeline``).
TABLE: tuple[Stale, ...] = (
    *(
        Stale(f"{_D}{name}_multigpu", "removed", "2.2", f"run one process for each GPU, and call dist.{name}()")
        for name in ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")
    ),
    Stale(f"{_D}dist_backend", "removed", "2.1", "write dist.Backend"),
    Stale(f"{_D}pipeline", "removed", "2.4", "move to torch.distributed.pipelining", module=True),
    Stale(f"{_D}_spmd", "removed", "", "move to torch.distributed.tensor", module=True),
    Stale(f"{_D}reduce_op", "deprecated", "1.0", "write dist.ReduceOp"),
    *(
        Stale(f"{_D}{name}", "deprecated", "1.13", f"call dist.{now}() (dist.{newest}() from 2.13 on)")
        for name, now, newest in (
            ("_all_gather_base", "all_gather_into_tensor", "all_gather_single"),
            ("_reduce_scatter_base", "reduce_scatter_tensor", "reduce_scatter_single"),
        )
    ),
    Stale(f"{_D}all_reduce_coalesced", "deprecated", "1.13", "call dist.all_reduce() for one flat tensor"),
    Stale(f"{_D}all_gather_coalesced", "deprecated", "1.13", "call dist.all_gather_into_tensor() for one flat tensor"),
    Stale(f"{_D}_get_global_rank", "deprecated", "1.13", "call dist.get_global_rank()"),
    Stale(f"{_D}_set_pg_timeout", "deprecated", "", "pass a timeout to init_process_group() or new_group()"),
    *(
        Stale(f"{_D}{package}{name}", "deprecated", "2.12", f"call {_D}_functional_collectives.{now}")
        for package in ("nn.functional.", "nn.")
        for name, now in (
            ("all_reduce", "all_reduce()"),
            ("all_gather", "all_gather_single() (all_gather_tensor() before 2.13)"),
            ("broadcast", "broadcast()"),
            ("reduce_scatter", "reduce_scatter_single() (reduce_scatter_tensor() before 2.13)"),
            ("all_to_all_single", "all_to_all_single()"),
        )
    ),
    *(
        Stale(f"{_D}{package}{name}", "deprecated", "", f"use one of {_D}_functional_collectives")
        for package in ("nn.functional.", "nn.")
        for name in ("reduce", "gather", "scatter", "all_to_all")
    ),
    Stale(f"{_D}checkpoint.save_state_dict", "deprecated", "2.2", "call torch.distributed.checkpoint.save()"),
    Stale(f"{_D}checkpoint.load_state_dict", "deprecated", "2.2", "call torch.distributed.checkpoint.load()"),
    Stale(f"{_D}_shard.checkpoint", "deprecated", "2.0", "import torch.distributed.checkpoint", module=True),
    Stale(f"{_D}_sharded_tensor", "deprecated", "1.12", "import torch.distributed._shard.sharded_tensor", module=True),
    Stale(f"{_D}_sharding_spec", "deprecated", "1.12", "import torch.distributed._shard.sharding_spec", module=True),
    Stale(f"{_D}_tensor", "moved", "2.5", "import torch.distributed.tensor", module=True),
    Stale(f"{_D}all_gather_into_tensor", "renamed", "2.13", "call dist.all_gather_single() where torch has it"),
    Stale(f"{_D}reduce_scatter_tensor", "renamed", "2.13", "call dist.reduce_scatter_single() where torch has it"),
)  # fmt: skip
#: ``renamed`` is deprecated by a release so new that most code has to work with older ones as well.
_QUIET = ("moved", "renamed")
_BY_NAME = {row.name: row for row in TABLE}
_LAST_NAMES = frozenset(row.name.rsplit(".", 1)[-1] for row in TABLE)
_MODULES = tuple(row for row in TABLE if row.module)
#: Longer ways to the same names.
_SPELLINGS = ("torch.distributed.distributed_c10d.", "torch.distributed.c10d.")
_HANDLED = frozenset(
    ["AttributeError", "TypeError", "ImportError", "ModuleNotFoundError", "Exception", "BaseException"]
)


def look_up(dotted: str) -> Stale | None:
    """Return the row for a dotted name as written; a module's row for what stands below it."""
    for spelling in _SPELLINGS:
        if dotted.startswith(spelling):
            dotted = _D + dotted[len(spelling) :]
    found = _BY_NAME.get(dotted)
    if found is not None:
        return found
    return next((row for row in _MODULES if dotted.startswith(row.name + ".")), None)


@probe(rules.DC760)
def old_names(program: Program) -> Iterator[Finding]:
    """Nothing is used that torch.distributed deprecated or took away."""
    if not any(name.startswith("torch") for file in range(len(program.index.files)) for name in program.imports(file)):
        return
    reported: set[tuple[int, int, str]] = set()  # a module once for each line that imports of it
    own = {file for file, parts in enumerate(program.index.parts) if "torch" in parts[:-1]}
    importing = {
        file
        for file in range(len(program.index.files))
        if file not in own and any(name.startswith(_D) for name in program.imports(file))
    }
    for row in program.rows("import", importing):
        if row.payload[0].startswith(_D) and (old := look_up(row.payload[0])) and not _is_tested(program, row, old):
            key = row.file, row.line, old.name
            if key not in reported and (old.state != "deprecated" or old.module or _is_read(program, row)):
                reported.add(key)
                yield _found(program, row, old, row.span)
    files = {file for file in range(len(program.index.files)) if file not in own and _holds_one(program, file)}
    given: set[tuple[int, int]] = set()
    for call in program.calls_in(files):  # torch itself may call what it keeps for others
        terms = program.terms[call.file]
        callee = terms[call.term[1]]
        if callee[0] == "a" and (old := look_up(dotted_of(program, call.file, call.term[1]))) is not None:
            if not old.module and not _is_tested(program, call, old):
                yield _found(program, call, old, call.span)
            continue
        yield from _in_arguments(program, call, given)
    for row in program.rows("bind", files):
        yield from _in_value(program, row, row.payload[1], None, given)


def _is_read(program: Program, row: EventRow) -> bool:
    """Return whether a file names once more what it imports: torch warns when the name is called."""
    name = row.payload[0].rpartition(".")[2]
    found = sum(len(re.findall(rf"\b{re.escape(name)}\b", line)) for line in program.lines(row.file))
    return found > 1 or f"{name} as" in program.lines(row.file)[row.line - 1]


#: Schedulers whose ``verbose`` was removed by torch 2.7 (pytorch/pytorch#147301); torch 2.13 raises TypeError.
_SCHEDULERS = words(
    "LambdaLR MultiplicativeLR StepLR MultiStepLR ConstantLR LinearLR ExponentialLR SequentialLR PolynomialLR "
    "CosineAnnealingLR ReduceLROnPlateau CyclicLR CosineAnnealingWarmRestarts OneCycleLR"
)


@probe(rules.DC760)
def removed_arguments(program: Program) -> Iterator[Finding]:
    """No scheduler of a distributed program, and no collective, gets an argument that torch removed."""
    old = Stale(
        "torch.optim.lr_scheduler.verbose", "removed", "2.7", "drop verbose=, and print get_last_lr() on one rank"
    )
    for call in program.calls_to(*(f"torch.optim.lr_scheduler.{name}" for name in _SCHEDULERS)):
        if call.gives(None, "verbose") and program.is_distributed(call.file) and not _is_tested(program, call, old):
            name = old._replace(name=f"the argument verbose of {call.method}()")
            yield _found(program, call, name, call.argument_span(None, "verbose") or call.span)
    old = Stale("group", "removed", "", "drop group=: the default is the group of all ranks")
    for call in program.calls_to(*(name for name in COLLECTIVES if name.startswith(_D))):
        if type(call.constant(None, "group")) is int and not _is_tested(program, call, old):
            name = old._replace(name=f"a number as the group of {call.method}()")
            yield _found(program, call, name, call.argument_span(None, "group") or call.span)


def _holds_one(program: Program, file: int) -> bool:
    """Return whether one of the table's names is an attribute of anything in a file."""
    return any(term[0] == "a" and term[2] in _LAST_NAMES for term in program.terms[file])


def _in_arguments(program: Program, call: SourceCall, given: set[tuple[int, int]]) -> Iterator[Finding]:
    """Old names that are values, as in ``op=dist.reduce_op.SUM``."""
    for position, term in enumerate(call.term[2]):
        if program.terms[call.file][term][0] == "a":
            yield from _in_value(program, call, term, partial(call.argument_span, position), given)
    for name, term in call.term[3]:
        if program.terms[call.file][term][0] == "a":
            yield from _in_value(program, call, term, partial(call.argument_span, None, name), given)


def _in_value(
    program: Program,
    row: EventRow,
    number: int,
    find: Callable[[], Span | None] | None,
    given: set[tuple[int, int]],
) -> Iterator[Finding]:
    """An old name within a dotted value; where a name holds it, it is reported once."""
    terms = program.terms[row.file]
    while terms[number][0] == "a":
        named = terms[number][2] in _LAST_NAMES
        old = look_up(dotted_of(program, row.file, number)) if named else None
        if old is not None and not old.module and not _is_tested(program, row, old):
            if (row.file, number) not in given or row.kind == "call":
                yield _found(program, row, old, (find() if find is not None else None) or row.span)
            given.add((row.file, number))
            return
        number = terms[number][1]


def dotted_of(program: Program, file: int, number: int) -> str:
    """Return the dotted name that an attribute of an imported module is, as written; empty for anything else.

    Canonical names won't do: they give those of torch to the similar functions of other libraries.
    """
    terms = program.terms[file]
    names: list[str] = []
    while terms[number][0] == "a":
        names.append(terms[number][2])
        number = terms[number][1]
    module = _imported(program, file, terms[number])
    return ".".join([module, *reversed(names)]) if module and names else ""


def _imported(program: Program, file: int, term: tuple[Any, ...]) -> str:
    """Return the module that a name is bound to by imports alone; empty for anything else."""
    if term[0] == "i":
        return str(term[1])
    if term[0] != "v":
        return ""
    terms = program.terms[file]
    scope = term[1]
    while scope >= 0:
        own = program.index.scopes[file][scope]
        if any(name == term[2] for name, _, _ in own.parameters):
            return ""
        if term[2] in own.bindings:
            found = {str(terms[number][1]) if terms[number][0] == "i" else "" for number in own.bindings[term[2]]}
            return found.pop() if len(found) == 1 else ""
        scope = own.parent
    return ""


def _is_tested(program: Program, row: EventRow, old: Stale) -> bool:
    """Return whether the code tests first if torch has the name, or handles that it has not."""
    last = old.name.rsplit(".", 1)[-1]
    if version_is_tested(program, row):
        return True
    for _, node in row.blocks:
        if node[1] == "try" and any(
            other[1] == "except"
            and other[0] == node[0]
            and node[4] <= other[4] <= node[5]
            and _handles(program, row.file, other[2])
            for other in program.blocks[row.file]
        ):
            return True
        if node[1] == "except" and _handles(program, row.file, node[2]):
            return True
        if node[1] == "if" or node[1].startswith("exit:"):
            for number in program.subterms(row.file, node[2]):
                term = row.terms[number]
                text = str(term[2] if term[0] in ("a", "v", "p", "k") else term[1] if term[0] == "i" else "")
                if text in ("hasattr", "dir", "getattr", last):
                    return True
    return False


def _handles(program: Program, file: int, caught: int) -> bool:
    terms = program.terms[file]
    parts = [terms[number] for number in program.subterms(file, caught, names=False)]
    named = [str(part[2]) for part in parts if part[0] in ("v", "a")]
    return not named or not _HANDLED.isdisjoint(named)


@cached
def _replaced_names(program: Program) -> dict[str, str]:
    """Return the names of the table that the project gives to other functions when it starts, and the lines.

    It assigns to the attribute of the module, or passes the dotted name to a function that does.
    """
    found: dict[str, str] = {}
    files = [file for file in range(len(program.index.files)) if not program.is_test(file)]
    for row in program.rows("attribute", files):
        if row.at_module_level and row.payload[1] in _LAST_NAMES and not row.inside("if", "with", "except"):
            base = row.payload[0]
            module = dotted_of(program, row.file, base) or _imported(program, row.file, row.terms[base])
            old = look_up(f"{module}.{row.payload[1]}")
            if old is not None:
                found.setdefault(old.name, row.place)
    for call in program.calls_in(files):
        if call.method not in ("register_patch", "setattr") or call.positional < 2:
            continue
        given = call.terms[call.argument_term(0)]
        old = look_up(given[2]) if given[:2] == ("k", "str") else None
        if old is not None and not call.inside("if", "with"):
            found.setdefault(old.name, call.place)
    return found


def _found(program: Program, row: EventRow, old: Stale, span: Span) -> Finding:
    since = f" in torch {old.since}" if old.since else ""
    message = {
        "removed": f"{old.name} was removed{since}",
        "deprecated": f"{old.name} is deprecated{f' since torch {old.since}' if old.since else ''}",
        "moved": f"{old.name} has moved{since}; the old name still works",
        "renamed": f"{old.name} is deprecated since torch {old.since}",
    }[old.state]
    severity = Severity.ERROR if old.state == "removed" else Severity.INFO if old.state in _QUIET else Severity.WARNING
    message_ends = ""
    if severity > Severity.INFO:
        if program.is_leftover(row.file):
            message_ends = "; no import of this file was found"
        elif is_dead(program, row.file, row.function.qualified or ""):
            message_ends = "; no code of the project uses the function"
        elif old.state == "deprecated" and (line := _replaced_names(program).get(old.name)) is not None:
            message_ends = f"; the project replaces it at {line}"
        if message_ends:
            severity = Severity.WARNING if severity is Severity.ERROR else Severity.INFO
    evidence: dict[str, Any] = {"name": old.name, "state": old.state, "since": old.since}
    if old.since:
        evidence[SINCE] = old.since
    severity, evidence = row.judged(rules.DC760, severity, (), evidence)
    return rules.DC760.found(
        message + message_ends,
        where=program.where(row.file, span, row.function.qualified or None),
        evidence=evidence,
        severity=severity,
        fix=Fix(old.instead, where="code"),
    )
