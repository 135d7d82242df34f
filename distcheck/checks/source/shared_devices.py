"""One GPU for several ranks: no rank chooses one (DC303), or all choose the same literal index (DC216)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Where
from distcheck.core.registry import probe

from . import call_paths, vocabulary
from .device_uses import (
    ACCELERATORS,
    BIND,
    BINDERS,
    GROUP,
    LOADED,
    MASKS,
    QUERIED,
    DeviceUse,
    around,
    called_in,
    device_uses,
    files_from,
    is_for_one_process,
    local_rank_here,
    roots_of,
)
from .environment_variables import writes
from .program import FEW, EventRow, Function, Program, SourceCall, cached
from .several_ranks import has_one_gpu, signs
from .source_text import last_name
from .unbound_groups import (
    GROUP_WRAPPERS,
    binds_device,
    is_made_of_rank,
    masked_by_rank,
    on_shared_gpu,
    uses_nccl,
    world_of_one,
)
from .values import RANKS, Kind, Value, Who
from .vocabulary import INIT_GROUP, PROCESSES, SPAWNS

#: What binds a GPU that NCCL serves.
_CUDA_BINDERS = tuple(name for name in BINDERS if name.startswith(("torch.cuda.", "torch.accelerator.")))


@probe(rules.DC303)
def ranks_take_different_gpus(program: Program) -> Iterator[Finding]:
    """Ranks of one group that NCCL serves don't all take the same GPU."""
    for call in program.calls_to(*_CUDA_BINDERS, INIT_GROUP):
        number, where = _literal_of(call)
        if (
            number is None
            or call.reached_by.who in FEW
            or call.reached_by.who == Who.SINGLE
            or _arm_of_one_process(program, call)
        ):
            continue
        init = _init_with_nccl(program, call)
        if init is None or masked_by_rank(program, set(program.component(call.file))) or program.is_test(call.file):
            continue
        if program.imports_from(call.file, "ray"):  # it gives each actor a mask of its own
            continue
        # with one GPU in its mask, a script that starts a process per GPU starts one
        if _is_bound_again(program, call) or has_one_gpu(program, {file for file, _ in roots_of(program, call)}):
            continue
        own = local_rank_here(call) or 'int(os.environ["LOCAL_RANK"])'
        yield call.found(
            rules.DC303,
            f"every rank uses GPU {number}, and NCCL refuses two ranks of a host on one GPU",
            fix=f"{where}: `{own}`" if where.endswith(")") else f"use a separate GPU per rank: `{own}`",
            basis=(call.reached_by,),
            group=f"{init.place}",
            **signs(call),
        )
    yield from _one_gpu_for_spawned(program)


def _is_bound_again(program: Program, call: SourceCall) -> bool:
    """Return whether the same function binds another GPU later, which may differ between the ranks."""
    return not call.is_to(INIT_GROUP) and any(
        _literal_of(other)[0] is None and program.may_precede(call, other) for other in program.calls_to(*_CUDA_BINDERS)
    )


def _literal_of(call: SourceCall) -> tuple[int | None, str]:
    """Return the number that all ranks bind."""
    if call.is_to(INIT_GROUP):
        value = call.argument(None, "device_id")
        if not uses_nccl(call):
            return None, ""
    else:
        value = call.argument(0, "device")
    number = index_number(value)
    return number, "bind each rank to its own GPU, torch.cuda.set_device(…)"


def index_number(value: Value | None) -> int | None:
    """Return the literal index of a device, where it can be nothing else."""
    if value is None or len(value.atoms) != 1 or value.atoms[0].when.who == Who.SINGLE:
        return None
    atom = value.atoms[0]
    if atom.kind == Kind.CONST and type(atom.const) is int and atom.const >= 0:
        return atom.const
    if atom.kind == Kind.CONST and isinstance(atom.const, str):
        kind, _, number = atom.const.partition(":")
        return int(number) if kind in ACCELERATORS and number.isdigit() else None
    if atom.kind == Kind.DEVICE and atom.const in ACCELERATORS and len(atom.of) == 1:
        inner = atom.of[0]
        return inner.const if inner.kind == Kind.CONST and type(inner.const) is int else None
    return None


def _init_with_nccl(program: Program, row: EventRow) -> SourceCall | None:
    """A start of NCCL by the same processes that reach a row."""
    roots = roots_of(program, row) or {(row.file, row.scope)}
    for init in program.calls_to(INIT_GROUP):
        if not uses_nccl(init) or world_of_one(init) or program.excludes(init, row):
            continue
        if (init.file, init.scope) == (row.file, row.scope) or roots.intersection(roots_of(program, init)):
            return init
    return None


def _arm_of_one_process(program: Program, row: EventRow) -> bool:
    """Whether a row stands in the arm of an ``if`` whose other arm is the distributed one, or the other way round."""
    if row.inside("except"):
        return True
    for other in _distributed_rows(program).get((row.file, row.scope), ()):
        if program.excludes(row, other):
            return True
    # what returns from an arm of its own is excluded by the rest of the function as well
    for one, term, polarity in around(row, 0):
        if program.evaluator.test(one.file, term).who == Who.SINGLE and polarity:
            return True
    return False


@cached
def _distributed_rows(program: Program) -> dict[Function, list[EventRow]]:
    """Return the rows that only a job of ranks runs: starts of a group or of processes, devices chosen by rank."""
    found: dict[Function, list[EventRow]] = {}
    rows: list[EventRow] = list(program.calls_to(INIT_GROUP, *vocabulary.INIT, *SPAWNS, *PROCESSES))
    rows.extend(use.row for use in device_uses(program) if use.number.has(*RANKS, Kind.ENV_TEXT))
    for row in rows:
        found.setdefault((row.file, row.scope), []).append(row)
    return found


def _one_gpu_for_spawned(program: Program) -> Iterator[Finding]:
    """One GPU in the mask, and several processes behind it that start NCCL."""
    for write in writes(program):
        mask = write.value.constant
        if write.name not in MASKS or not isinstance(mask, str) or not mask.strip().isdigit():
            continue
        for spawn in called_in(program, (write.row.file,), *SPAWNS):
            number = spawn.constant(2, "nprocs")
            if type(number) is not int or number < 2:
                continue
            targets = [atom.const for atom in spawn.argument(0, "fn") or () if atom.kind == Kind.FUNCTION]
            reached = {one for target in targets for one in call_paths.reached_from(program, target)}
            if any((init.file, init.scope) in reached and uses_nccl(init) for init in program.calls_to(INIT_GROUP)):
                yield write.row.found(
                    rules.DC303,
                    f'{write.name} is "{mask}", one GPU, for the {number} processes that {spawn.line_name} spawns',
                    fix="make as many GPUs visible as processes are spawned, or spawn one",
                    processes=number,
                )
                break


@probe(rules.DC216)
def ranks_do_not_share_a_literal_device(program: Program) -> Iterator[Finding]:
    """What all ranks of a group run names no literal GPU."""
    seen: set[tuple[int, int]] = set()
    bound = _given_to_a_group(program)
    for use in device_uses(program):
        row = use.row
        if use.way in (BIND, LOADED, GROUP, QUERIED) or (row.file, row.line) in seen or is_for_one_process(use):
            continue
        if use.row.kind == "call" and (row.file, row.number) in bound:
            continue
        number = _literal_index(use)
        if number is None or not _all_ranks_run(program, row) or _is_replaced(program, row):
            continue
        seen.add((row.file, row.line))
        yield _shared(program, row, f"{use.shown} is GPU {number} on every rank", use.where())
    yield from _before_binding(program, seen)
    yield from _never_bound(program, seen)


def _is_replaced(program: Program, row: EventRow) -> bool:
    """Return whether what a row assigns is only a default: the rank's own device replaces it before it is used."""
    term = row.payload[0] if row.kind == "call" else _assigned(row)
    rows = program.rows_of(row.file, row.scope)
    assignments = [one for one in rows if one.kind in ("bind", "attribute")]
    for holder in assignments:
        if _assigned(holder) != term:
            continue
        for other in assignments:
            if (
                program.may_precede(holder, other)
                and _target(other) == _target(holder)
                and is_made_of_rank(other.term_value(_assigned(other)))
                and not any(_uses(one, holder, term) for one in rows if holder.number < one.number < other.number)
            ):
                return True
        if holder.kind == "attribute" and _is_replaced_elsewhere(program, holder):
            return True
    return False


def _assigned(row: EventRow) -> int:
    """Return the term that is assigned to a name or an attribute."""
    term: int = row.payload[2 if row.kind == "attribute" else 1]
    return term


def _target(row: EventRow) -> tuple[str, ...]:
    """Return what an assignment binds, as text."""
    return (row.term_text(row.payload[0]), row.payload[1]) if row.kind == "attribute" else (row.payload[0],)


def _uses(row: EventRow, holder: EventRow, term: int) -> bool:
    """Return whether a call is given what an assignment holds, by its name: equal literals are one term."""
    if not isinstance(row, SourceCall):
        return False
    attribute = holder.kind == "attribute"
    name = re.escape(holder.payload[1 if attribute else 0])
    shape = rf"\.{name}\b(?!\s*\()" if attribute else rf"(?<![.\w]){name}\b(?!\s*\()"
    if not re.search(shape, row.program.source(row.span)):
        return False
    return any(
        number == term or (attribute and row.terms[number][0] == "a" and row.terms[number][2] == holder.payload[1])
        for number in row.program.subterms(row.file, *row.argument_terms, row.term[1], names=False)
    )


def _is_replaced_elsewhere(program: Program, holder: EventRow) -> bool:
    """Return whether a function that is called after an assignment gives the same option the rank's own device."""
    base, name, _ = holder.payload[:3]
    if last_name(holder.terms, base) in ("self", "cls"):
        return False
    called = {
        function
        for row in program.rows_of(holder.file, holder.scope)
        if isinstance(row, SourceCall) and program.may_precede(holder, row)
        for function in program.functions(row)
    }
    return any(
        (other.file, other.scope) in called
        and other.payload[1] == name
        and is_made_of_rank(other.term_value(_assigned(other)))
        for other in program.rows("attribute", {file for file, _ in called})
    )


def _literal_index(use: DeviceUse) -> int | None:
    """Return the literal number of a GPU, where it can be no other."""
    numbers = {atom.const for atom in use.number if atom.kind == Kind.CONST and type(atom.const) is int}
    if len(numbers) != 1 or not use.number.only(Kind.CONST):
        return None
    if any(atom.when.who == Who.SINGLE for atom in use.number) or (use.tests and _has_ranked_arm(use)):
        return None
    # what a parameter or an attribute holds was decided elsewhere, and so was what replaces a device without a number
    if not _is_written(use.row.terms, use.term):
        return None
    number = numbers.pop()
    return number if number >= 0 else None


def _is_written(terms: list[tuple[Any, ...]], term: int, depth: int = 0) -> bool:
    """Return whether a literal stands in the source where it is used, in an arm of a conditional expression at most."""
    if term < 0 or depth > 4:
        return False
    parts = terms[term]
    if parts[0] == "?":
        return all(_is_written(terms, arm, depth + 1) for arm in parts[2:4])
    return parts[0] == "k" or (parts[0] == "f" and all(terms[part][0] == "k" for part in parts[1]))


def _has_ranked_arm(use: DeviceUse) -> bool:
    """Return whether another arm of the same conditional expression takes a rank."""
    row = use.row
    value = row.term_value(row.payload[{"bind": 1, "attribute": 2, "return": 0}[row.kind]])
    return any(
        one.kind in RANKS or one.kind in (Kind.ENV_TEXT, Kind.RANK_DEPENDENT)
        for atom in value
        for one in (atom, *atom.of)
    )


def _given_to_a_group(program: Program) -> set[tuple[int, int]]:
    """Return the devices that a group is bound to: DC303 speaks of those."""
    found = set()
    for init in program.calls_to(INIT_GROUP):
        for atom in init.argument(None, "device_id") or ():
            if atom.call is not None:
                found.add(atom.call)
    for call in program.calls_to(*BINDERS):
        for atom in call.argument(0, "device") or ():
            if atom.call is not None:
                found.add(atom.call)
    return found


def _all_ranks_run(program: Program, row: EventRow) -> bool:
    """Return whether the ranks of a group with GPUs run a row, all of them."""
    reached_by = row.reached_by
    if reached_by.who in FEW or reached_by.who == Who.SINGLE or program.is_test(row.file) or row.inside("except"):
        return False
    if _arm_of_one_process(program, row) or masked_by_rank(program, set(program.component(row.file))):
        return False
    files = set(program.component(row.file))
    inits = called_in(program, files, INIT_GROUP)
    starts = [init for init in inits if not world_of_one(init) and not _is_gloo(init)]
    if starts or not inits:
        # a wrapped model is a group as well, wherever that was started
        starts.extend(called_in(program, files, *GROUP_WRAPPERS))
    if any((start.file, start.scope) == (row.file, row.scope) and not program.excludes(start, row) for start in starts):
        return True
    if row.inside("if"):
        return False  # a branch that the distributed run need not take
    roots = roots_of(program, row)
    return bool(roots) and any(roots.intersection(roots_of(program, start)) for start in starts)


def _is_gloo(init: SourceCall) -> bool:
    backend = init.argument(0, "backend")
    return (
        backend is not None
        and isinstance(backend.constant, str)
        and backend.constant.lower() in ("gloo", "mpi", "fake")
    )


def _shared(program: Program, row: EventRow, what: str, where: Where) -> Finding:
    own = local_rank_here(row)
    index = own or 'int(os.environ["LOCAL_RANK"])'
    return rules.DC216.found(
        what,
        where=where,
        fix=Fix(
            f'use the local rank, `{index}`; or bind it once with torch.cuda.set_device, and write "cuda" elsewhere',
            where="code",
        ),
        evidence=signs(row),
    )


def _before_binding(program: Program, seen: set[tuple[int, int]]) -> Iterator[Finding]:
    """Things that go to the current GPU before the rank has bound its own."""
    binders = [
        call
        for call in program.calls_to(*BINDERS)
        if (value := call.argument(0, "device")) is not None and value.has(*RANKS, Kind.ENV_TEXT, Kind.DEVICE)
    ]
    for late in binders:
        for call in program.rows_of(late.file, late.scope):
            if call.number >= late.number:
                break
            if not isinstance(call, SourceCall) or (call.file, call.line) in seen or not on_shared_gpu(program, call):
                continue
            if not (program.dominates(call, late) or _precedes(program, call, late)):
                continue
            if any(program.may_precede(one, call) for one in binders) or not _all_ranks_run(program, call):
                continue
            if _is_bound_inside(program, call, binders):
                continue
            seen.add((call.file, call.line))
            yield _shared(
                program,
                call,
                f"{call.text()} uses GPU 0 on every rank: {late.text()} comes only at {late.line_name}",
                call.where(),
            )


def _is_bound_inside(program: Program, call: SourceCall, binders: list[SourceCall]) -> bool:
    """Return whether a function or constructor that its own function calls before may bind the device."""
    binding = {(one.file, one.scope) for one in binders}
    return any(
        not binding.isdisjoint(call_paths.reached_from(program, function))
        for row in program.rows_of(call.file, call.scope)
        if isinstance(row, SourceCall) and row.number < call.number
        for function in program.functions(row)
    )


def _never_bound(program: Program, seen: set[tuple[int, int]]) -> Iterator[Finding]:
    """Yield models wrapped on the current GPU, if nothing binds one to the rank. With NCCL, DC206 reports it."""
    for wrap in program.calls_to(*GROUP_WRAPPERS):
        roots = roots_of(program, wrap)
        files = frozenset().union(*(files_from(program, root[0]) for root in roots))
        inits = called_in(program, files, INIT_GROUP)
        if not inits or any(uses_nccl(init) for init in inits) or binds_device(program, files):
            continue
        if any(program.framework(file) for file in files):
            continue
        model = set(_arms(wrap.terms, wrap.argument_term(0, "module")))
        for call in program.rows_of(wrap.file, wrap.scope):
            if call.number >= wrap.number:
                break
            if not isinstance(call, SourceCall) or (call.file, call.line) in seen or not on_shared_gpu(program, call):
                continue
            moved = (call.event[7], call.receiver_term)
            if not model.isdisjoint(moved) and not program.excludes(call, wrap) and _all_ranks_run(program, call):
                seen.add((call.file, call.line))
                yield _shared(
                    program,
                    call,
                    f"{call.text()} uses GPU 0 on every rank: nothing binds a rank to its GPU",
                    call.where(),
                )


def _arms(terms: list[tuple[Any, ...]], term: int, depth: int = 0) -> Iterator[int]:
    """A term and the alternatives that it joins."""
    if term < 0 or depth > 4:
        return
    yield term
    if terms[term][0] in ("?", "|"):
        for arm in terms[term][-2:]:
            yield from _arms(terms, arm, depth + 1)


def _precedes(program: Program, one: SourceCall, other: SourceCall) -> bool:
    """Return whether a call stands before another in one function, both outside of arms that exclude each other."""
    return program.may_precede(one, other) and not one.inside("if", "for", "while")
