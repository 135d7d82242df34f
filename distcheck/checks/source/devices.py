"""Probes about devices in source: which rank's number, which literal, which mask a process takes for its GPU, and when.

Where a device is named is the table of :mod:`.device_uses`; what the numbers of ranks are taken for elsewhere stands
in :mod:`.ranks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.registry import probe

from . import call_paths, vocabulary
from .call_paths import Function, operands
from .collective_sequences import sequences_of
from .device_uses import (
    ACCELERATORS,
    BIND,
    BINDERS,
    CONTEXTS,
    GROUP,
    LOADED,
    MADE,
    MASK,
    MASKS,
    QUERIED,
    WRAPPED,
    DeviceUse,
    around,
    called_in,
    device_uses,
    files_from,
    fits_on_one_host,
    is_for_one_process,
    is_never_used,
    local_rank_here,
    name_here,
    roots_of,
)
from .environment_variables import VariableWrite, writes
from .program import FEW, EventRow, Program, SourceCall, cached
from .sentinels import UnsetRank, unset_rank
from .several_hosts import HostFinding, by_hosts, quiet, sign_of_hosts
from .several_ranks import signs
from .source_text import last_name
from .values import RANKS, Atom, Certainty, Kind, NoConstant, Value, Who
from .vocabulary import INIT_GROUP, PROCESSES, SPAWNS, words

#: What a model of several ranks is wrapped by.
_WRAPPERS = tuple(dotted for dotted, way in vocabulary.WRAPPERS.items() if way != "dp")


# the global rank as a device


@probe(rules.DC201)
def global_rank_names_a_device(program: Program) -> Iterator[Finding]:
    """No GPU is chosen by the number of this process in the whole job."""
    for found in program.table(global_ranks_as_devices):
        yield found.finding


def global_ranks_as_devices(program: Program) -> Iterator[HostFinding]:
    """Yield the GPUs that are chosen by the number of this process in the whole job."""
    seen: set[tuple[int, int]] = set()
    for use in device_uses(program):
        row = use.row
        if (row.file, row.line) in seen or is_for_one_process(use):
            continue
        atom = global_rank_of(use.number)
        if atom is not None and row.reached_by.who not in (Who.MAIN, Who.SINGLE) and not fits_on_one_host(row):
            if use.way == MADE and is_never_used(row):
                continue
            seen.add((row.file, row.line))
            yield _global_rank(program, row, use.number, atom, use.shown, use.where())
            continue
        index = use.number.get(Kind.LOCAL_RANK)
        if index is not None and index.const == "spawn" and use.way == BIND:
            init = _spawned_rank(program, row)
            if init is not None:
                seen.add((row.file, row.line))
                yield quiet(row, _single_host(program, row, index, init))
    for write in writes(program):
        atom = _rank_in_text(write.value) if write.name in MASKS else None
        if atom is not None and global_rank_of(Value((atom,))) is not None and not fits_on_one_host(write.row):
            row = write.row
            yield _global_rank(program, row, Value((atom,)), atom, row.text(), row.where())


def global_rank_of(index: Value) -> Atom | None:
    """Return the global rank in what an index may be; None where it may be the local one, too."""
    if index.has(Kind.LOCAL_RANK, Kind.NODE_RANK, Kind.GROUP_RANK, Kind.RANK_DEPENDENT):
        return None
    for atom in index:
        if atom.when.who == Who.SINGLE:
            continue
        if atom.kind == Kind.GLOBAL_RANK and atom.traced:
            return atom
        if atom.kind == Kind.RANK and atom.const == "option":
            return atom
        if atom.kind == Kind.ENV_TEXT and vocabulary.VARIABLES.get(atom.const) == Kind.GLOBAL_RANK:
            return None if any(one.kind in (Kind.ENV_TEXT, Kind.LOCAL_RANK) for one in atom.of) else atom
    return None


def _rank_in_text(value: Value) -> Atom | None:
    """Return the rank that a text is made of."""
    for atom in value:
        if atom.kind == Kind.TEXT:
            inner = Value(atom.of)
            if atom.const == "{}" and (inner.rank is not None or inner.has(Kind.ENV_TEXT)):
                return inner.rank or inner.get(Kind.ENV_TEXT)
        if atom.kind == Kind.ENV_TEXT and vocabulary.VARIABLES.get(atom.const) in RANKS:
            return atom
    return None


def _global_rank(program: Program, row: EventRow, number: Value, atom: Atom, shown: str, where: Where) -> HostFinding:
    finding = rules.DC201.found(
        f"{shown} uses the global rank{_origin(atom)} as a GPU index; each host counts its GPUs from 0",
        where=where,
        fix=Fix(f"use the local rank: {_local_rank(program, row, atom)}", where="code"),
        evidence={"flow": program.flow(atom.flow)},
    )
    if program.is_test(row.file) or _spawned_rank(program, row) is not None:
        return quiet(row, finding)
    # an option that is called a rank and is used where a rank is expected is no mere guess
    basis = atom._replace(certainty=min(atom.certainty, Certainty.MERGED))
    others = Certainty.PROVEN if number.only(atom.kind, Kind.CONST) else Certainty.MERGED
    return by_hosts(row, rules.DC201, finding, (basis, others))


def _origin(atom: Atom) -> str:
    if atom.kind == Kind.ENV_TEXT or atom.const in vocabulary.VARIABLES:
        return f" (from {atom.const})"
    if atom.const == "sum":
        return " (node rank times processes a node, plus local rank)"
    if atom.const == "option":
        return " (an option of the command line)"
    return ""


def _local_rank(program: Program, row: EventRow, atom: Atom) -> str:
    """Return what to write instead, in the words of this code."""
    own = local_rank_here(row)
    if own is not None:
        return f"`{own}`"
    if atom.const == "SLURM_PROCID":
        return '`int(os.environ["SLURM_LOCALID"])`'
    if atom.const == "OMPI_COMM_WORLD_RANK":
        return '`int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])`'
    if program.imports_from(row.file, "accelerate"):
        return "`accelerator.local_process_index`, or `accelerator.device`"
    horovod = name_here(row, "horovod.torch")
    if horovod is not None:
        return f"`{horovod}.local_rank()`"
    if atom.const == "sum":
        for step in atom.flow:
            if "spawn" in step.text:
                return "the first argument of the spawned function, which counts the processes of this host"
    return '`int(os.environ["LOCAL_RANK"])`'


def _spawned_rank(program: Program, row: EventRow) -> SourceCall | None:
    """The call that makes a spawned index the rank of the job, where nothing else around a row starts a group."""
    inits = [
        call for call in called_in(program, program.component(row.file), INIT_GROUP) if not program.is_test(call.file)
    ]
    spawned = [call for call in inits if _is_spawned(call)]
    if spawned and len(spawned) < len(inits):
        roots = roots_of(program, row)
        near = [call for call in inits if roots.intersection(roots_of(program, call))]
        spawned = [call for call in spawned if call in near] if all(_is_spawned(call) for call in near) else []
    return spawned[0] if spawned else None


def _is_spawned(init: SourceCall) -> bool:
    rank = init.argument(4, "rank")
    atom = rank.get(Kind.LOCAL_RANK) if rank is not None else None
    return atom is not None and atom.const == "spawn"


def _single_host(program: Program, row: EventRow, index: Atom, init: SourceCall) -> Finding:
    return row.found(
        rules.DC201,
        f"the spawned index is the device here and the rank of the job at {init.path}:{init.line}: "
        "right on one host only",
        fix="for several hosts, pass init_process_group the rank `node_rank * processes_per_node + index`; "
        "the device stays the index",
        severity=Severity.INFO,
        flow=program.flow(index.flow),
    )


# a mask and an index


@probe(rules.DC202)
def masked_devices_are_renumbered(program: Program) -> Iterator[Finding]:
    """Behind a mask of one GPU, the GPU is number 0."""
    masks = [write for write in writes(program) if write.name in MASKS and _masks_by_rank(write)]
    seen: set[tuple[int, int]] = set()
    for use in device_uses(program):
        row = use.row
        if (row.file, row.line) in seen or use.way == LOADED:
            continue
        if _from_mask(program, row, use.term):
            seen.add((row.file, row.line))
            yield _physical(program, row)
            continue
        atom = use.number.get(Kind.LOCAL_RANK)
        if atom is None or not atom.traced or atom.const in ("current device", "modulo") or row.reached_by.who in FEW:
            continue
        for write in masks:
            if _holds_for(program, write.row, row):
                seen.add((row.file, row.line))
                yield _masked(program, row, write, atom)
                break
    for call in _bound_calls(program):
        # what comes out of a mask is not known as a rank, so that it is in no table
        term = call.argument_term(0, "device")
        if call.is_to("torch.device"):
            term = call.argument_term(1, "index")
        if (call.file, call.line) not in seen and term >= 0 and _from_mask(program, call, term):
            seen.add((call.file, call.line))
            yield _physical(program, call)


def _bound_calls(program: Program) -> Iterator[SourceCall]:
    yield from program.calls_to(*BINDERS, *CONTEXTS, "torch.device")


def _masks_by_rank(write: VariableWrite) -> bool:
    """Return whether a mask leaves one GPU, chosen by the local rank."""
    atom = _rank_in_text(write.value)
    if atom is None:
        return False
    kind = vocabulary.VARIABLES.get(atom.const) if atom.kind == Kind.ENV_TEXT else atom.kind
    return kind == Kind.LOCAL_RANK and atom.const != "spawn"


def _holds_for(program: Program, mask: EventRow, row: EventRow) -> bool:
    """Whether a mask is set when a row runs: before it in one function, or in what its module or caller did before."""
    if program.may_precede(mask, row):
        return not _cuda_before(program, mask)
    if mask.at_module_level and (mask.file == row.file or row.file in files_from(program, mask.file)):
        return not program.excludes(mask, row) and not row.at_module_level
    for caller in program.callers((mask.file, mask.scope)):
        if caller.file == row.file and program.may_precede(caller, row):
            return True
    return False


def _masked(program: Program, row: EventRow, write: VariableWrite, atom: Atom) -> Finding:
    return row.found(
        rules.DC202,
        f"{row.text()} counts by the local rank, but {write.name} was reduced to one GPU at "
        f"{write.row.path}:{write.row.line}: inside of that mask the GPU is number 0",
        fix=f"use 0 here; or keep all GPUs visible: delete the assignment at {write.row.path}:{write.row.line}",
        basis=(atom, write.row.reached_by),
        flow=program.flow(atom.flow),
    )


def _physical(program: Program, row: EventRow) -> Finding:
    return row.found(
        rules.DC202,
        f"{row.text()} uses a number from {MASK} as an index: inside the mask, GPUs count from 0",
        fix='use the local rank itself: `int(os.environ["LOCAL_RANK"])`',
    )


def _from_mask(program: Program, row: EventRow, term: int, depth: int = 0) -> bool:
    """Return whether a number was read out of the list in the mask."""
    if term < 0 or depth > 12:
        return False
    terms = row.terms
    parts = terms[term]
    kind = parts[0]
    if kind == "c":
        called = last_name(terms, parts[1])
        if called in ("int", "list", "tuple", "str") and parts[2]:
            return _from_mask(program, row, parts[2][0], depth + 1)
        if called == "map" and len(parts[2]) == 2:
            return _from_mask(program, row, parts[2][1], depth + 1)
        if called == "split" and terms[parts[1]][0] == "a":
            value = row.term_value(terms[parts[1]][1])
            return any(atom.kind == Kind.ENV_TEXT and atom.const in MASKS for atom in value)
        return False
    if kind == "s":
        return _from_mask(program, row, parts[1], depth + 1)
    if kind in ("*", "e"):
        return _from_mask(program, row, parts[1], depth + 1)
    if kind in ("?", "|"):
        return any(_from_mask(program, row, arm, depth + 1) for arm in parts[-2:])
    if kind == "f" or (kind == "o" and parts[1] == "+"):
        return any(_from_mask(program, row, part, depth + 1) for part in operands(parts))
    if kind == "v":
        return any(_from_mask(program, row, one, depth + 1) for one in program.bound(row.file, parts)[-4:])
    return False


# a group without a device


@probe(rules.DC206)
def ranks_have_devices_before_they_meet(program: Program) -> Iterator[Finding]:
    """A program that uses NCCL binds each rank to its GPU."""
    for call in program.calls_to(INIT_GROUP):
        if not uses_nccl(call) or _gives(call, "device_id") or call.has_star or _world_of_one(call):
            continue
        roots = roots_of(program, call)
        if not roots:
            continue
        files = frozenset().union(*(files_from(program, root[0]) for root in roots))
        if _is_bound(program, files) or any(program.framework(file) for file in files):
            continue
        unused = next((one for one in called_in(program, files, *CONTEXTS) if one.use == "drop"), None)
        yield _unbound(program, call, roots, files) if unused is None else _not_entered(unused)


@probe(rules.DC206)
def ranks_have_devices_before_their_first_barrier(program: Program) -> Iterator[Finding]:
    """A rank is bound to its GPU before it first waits for others: a barrier of NCCL needs one."""
    sequences = sequences_of(program)
    for call in program.calls_to(INIT_GROUP):
        if not uses_nccl(call) or _gives(call, "device_id") or call.has_star:
            continue
        own = [row for row in program.rows_of(call.file, call.scope) if isinstance(row, SourceCall)]
        binders = [row for row in own if row.is_to(*BINDERS)]
        if not binders or any(row.number < call.number for row in binders):
            continue
        for row in own:
            if not call.number < row.number < binders[0].number:
                continue
            site = sequences.collective_site(row)
            if site is None or site.operations[0] != "barrier" or row.gives(3, "device_ids"):
                continue
            if program.may_precede(call, row) and program.may_precede(row, binders[0]):
                yield row.found(
                    rules.DC206,
                    f"{row.method}() waits for all ranks before {binders[0].text()} in line {binders[0].line}: "
                    "NCCL guesses a GPU for it",
                    fix=f"call {binders[0].text()} before the process group is created",
                    severity=Severity.INFO,
                )
                break


def uses_nccl(call: SourceCall) -> bool:
    """Return whether a group's backend is NCCL, or NCCL where there are GPUs."""
    backend = call.argument(0, "backend")
    if backend is None:
        return False
    return any(isinstance(one, str) and one.lower() == "nccl" for one in backend.constants)


def _gives(call: SourceCall, name: str) -> bool:
    value = call.argument(None, name)
    return value is not None and value.constant is not None


def _world_of_one(call: SourceCall) -> bool:
    size = call.argument(3, "world_size")
    return size is not None and size.constant == 1


def _is_bound(program: Program, files: Iterable[int]) -> bool:
    """Return whether anything in some files gives this process a device of its own."""
    wanted = set(files)
    if called_in(program, wanted, *BINDERS, "torch.set_default_device"):
        return True
    if any(call.use != "drop" for call in called_in(program, wanted, *CONTEXTS)):
        return True
    if any(_gives(call, "device_id") for call in called_in(program, wanted, INIT_GROUP)):
        return True
    return any(
        write.row.file in wanted and write.name in MASKS and write.value.constant is NoConstant
        for write in writes(program)
    )


_OBJECTS = (
    "torch.distributed.all_gather_object",
    "torch.distributed.gather_object",
    "torch.distributed.broadcast_object_list",
    "torch.distributed.scatter_object_list",
)


def _not_entered(call: SourceCall) -> Finding:
    """Return the finding on a context manager of a device that is made and dropped."""
    name = call.term_text(call.term[1])
    binder = call.targets[0].replace(".device", ".set_device") if call.method == "device" else "set_device_index"
    return call.found(
        rules.DC206,
        f"{name}() is a context manager: without `with` it binds nothing, so the current device is GPU 0 on every rank",
        fix=f"call `{binder}({call.argument_text(0, 'device')})` instead",
        severity=min(call.milder_in_tests(rules.DC206), Severity.WARNING),
    )


def _unbound(program: Program, call: SourceCall, roots: frozenset[Function], files: frozenset[int]) -> Finding:
    def first_reached(calls: Iterable[SourceCall]) -> SourceCall | None:
        """Return the first call that processes of this group get to, as far as calls show."""
        return next(
            (one for one in calls if not roots.isdisjoint(roots_of(program, one)) and not _is_unused_method(one)), None
        )

    guess = first_reached(
        one for one in called_in(program, files, "torch.distributed.barrier") if not one.gives(3, "device_ids")
    )
    objects = first_reached(called_in(program, files, *_OBJECTS))
    bare = first_reached(_on_current_device(program, files))
    placed = any(
        use.row.file in files and use.number.has(*RANKS, Kind.ENV_TEXT, Kind.RANK_DEPENDENT)
        for use in device_uses(program)
        if use.way != LOADED
    )
    if bare is not None:
        what = f"{bare.text()} at {bare.path}:{bare.line} goes to GPU 0 on every rank"
    elif objects is not None:
        what = f"{objects.method}() at {objects.path}:{objects.line} puts the data of all ranks on GPU 0"
    elif guess is not None:
        what = f"barrier() at {guess.path}:{guess.line} guesses a GPU"
    else:
        what = "the current device is GPU 0 on every rank"
    severity = Severity.WARNING
    if program.is_test(call.file) or (
        bare is None
        and objects is None
        and (_guess_is_right(program, call) if placed else not _communicates(program, files))
    ):
        severity = Severity.INFO
    own = local_rank_here(call) or 'int(os.environ["LOCAL_RANK"])'
    return call.found(
        rules.DC206,
        f"the group uses NCCL, and no line binds this rank to a GPU: {what}",
        fix=f'before it: `torch.cuda.set_device({own})`; and for the group: `device_id=torch.device("cuda", {own})`',
        severity=severity,
    )


def _is_unused_method(row: EventRow) -> bool:
    """Return whether a row is in a method that no code calls, not even by its name alone, and that no base defines."""
    program, function = row.program, (row.file, row.scope)
    owner = program.evaluator.owner_of(*function)
    return owner >= 0 and not program.evaluator.callers.get(function) and not program.evaluator.bases((row.file, owner))


def _communicates(program: Program, files: frozenset[int]) -> bool:
    """Return whether a group is used in some files: a collective, or a model that is wrapped."""
    return any(call.file in files for call in program.collectives()) or bool(called_in(program, files, *_WRAPPERS))


def _guess_is_right(program: Program, call: SourceCall) -> bool:
    """Return whether the GPU that a barrier guesses is most likely the one that each rank uses anyway.

    NCCL's process group takes the device that a collective has used before, and else the rank modulo the GPUs of the
    host: on one host that is the rank.
    """
    return _is_spawned(call) or sign_of_hosts(program, call) is None


def _is_current(program: Program, call: SourceCall) -> bool:
    """Return whether a call puts something on the current GPU: ``.cuda()``, ``.to("cuda")``, ``device="cuda"``."""
    method = call.method
    if method == "cuda":
        named = call.term[2] or call.gives(None, "device")
        return not named and bool(call.receiver_text) and not program.functions(call)
    if method == "to":
        return _is_plain_cuda(call.argument(0, "device"))
    if method != "device" and call.gives(None, "device") and _is_plain_cuda(call.argument(None, "device")):
        return any(target.startswith("torch.") for target in call.targets)
    return False


def _on_current_device(program: Program, files: Iterable[int]) -> Iterator[SourceCall]:
    """Yield the calls in some files that put something on the current GPU."""
    for file in sorted(files):
        for number, event in enumerate(program.events[file]):
            if event[0] == "call":
                call = SourceCall(program, file, number)
                if _is_current(program, call):
                    yield call


def _is_plain_cuda(value: Value | None) -> bool:
    """Return whether a device is a GPU without a number, and can be no GPU of this rank."""
    atoms = value.atoms if value is not None else ()
    plain = [atom.const in ACCELERATORS and not atom.of for atom in atoms if atom.kind in (Kind.CONST, Kind.DEVICE)]
    return any(plain) and not any(atom.kind == Kind.DEVICE and atom.of for atom in atoms)


# the mask after the start


#: What starts CUDA in the process, so that the mask is read (torch 2.13, torch/cuda/__init__.py: what calls _lazy_init,
#: or has the driver count the GPUs).
_STARTERS = tuple(
    f"torch.cuda.{name}"
    for name in words(
        "is_available init set_device current_device get_device_name get_device_properties get_device_capability "
        "mem_get_info synchronize current_stream Stream Event memory_stats is_bf16_supported ipc_collect get_rng_state"
    )
)


@probe(rules.DC214)
def mask_comes_before_cuda(program: Program) -> Iterator[Finding]:
    """The mask of visible GPUs is set before CUDA starts, which reads it once."""
    for write in writes(program):
        if write.name not in MASKS or write.way in ("setdefault",):
            continue
        if program.is_test(write.row.file) or _starts_children(program, write.row):
            continue
        before = _cuda_before(program, write.row)
        if before is None:
            continue
        place = f"{before.path}:{before.line}"
        message = f"{write.name} is set when {before.text()} at {place} has started CUDA: it has no effect"
        chosen = _chosen_otherwise(program, write)
        if chosen is not None:
            yield write.row.found(
                rules.DC214,
                f"{message}, and {chosen.text()} at {chosen.path}:{chosen.line} chooses the GPU anyway",
                fix="delete the assignment; set earlier, it would renumber the GPUs for that line",
                severity=Severity.INFO,
            )
            continue
        yield write.row.found(
            rules.DC214,
            message,
            fix=f"set it before line {before.line} of {before.path}, or in the launch line; to choose a GPU in "
            "this process, use torch.cuda.set_device",
        )


def _chosen_otherwise(program: Program, write: VariableWrite) -> EventRow | None:
    """Return the line by which this process uses a GPU of its own, if the mask is not a literal list of other ones."""
    if isinstance(write.value.constant, str):
        return None
    for call in called_in(program, (write.row.file,), *BINDERS):
        index = call.argument(0, "device")
        same = (call.file, call.scope) == (write.row.file, write.row.scope)
        if index is not None and index.constant is NoConstant and same and not program.excludes(call, write.row):
            return call
    for use in device_uses(program):
        if use.row.file == write.row.file and use.way != LOADED and _is_of_the_rank(use.number):
            return use.row
    return None


def _starts_children(program: Program, row: EventRow) -> bool:
    """Return whether the mask may be for processes that this one starts."""
    return bool(
        called_in(
            program, (row.file,), "subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call",
            "subprocess.check_output", "os.system", *SPAWNS, *PROCESSES,
        )
    )  # fmt: skip


def _cuda_before(program: Program, row: EventRow, depth: int = 3) -> EventRow | None:
    """What has started CUDA for sure, when a row runs: before it in its function, or before the one call of that."""
    for other in program.rows_of(row.file, row.scope):
        if other.number >= row.number:
            break
        if isinstance(other, SourceCall) and program.dominates(other, row):
            started = other if _starts_cuda(program, other) else _starts_inside(program, other)
            if started is not None:
                return started
    if depth and row.function.kind == "function":
        callers = program.callers((row.file, row.scope))
        if len(callers) == 1 and not _is_process(callers[0]):
            return _cuda_before(program, callers[0], depth - 1)
    return None


def _is_process(call: SourceCall) -> bool:
    return call.is_to(*SPAWNS, *PROCESSES) or call.method in ("Process", "spawn", "start_processes")


def _starts_cuda(program: Program, call: SourceCall) -> bool:
    method = call.method
    if method == "cuda" and call.term[2] and call.receiver_text and not program.functions(call):
        return True
    if _is_current(program, call):
        return True
    return method in _STARTER_NAMES and call.is_to(*_STARTERS)


_STARTER_NAMES = frozenset(dotted.rsplit(".", 1)[-1] for dotted in _STARTERS)


def _starts_inside(program: Program, call: SourceCall, depth: int = 0) -> EventRow | None:
    """Return what starts CUDA whenever a function of the project is called."""
    if depth > 2:
        return None
    for function in program.functions(call)[:1]:
        if program.is_generator(function) or len(program.functions(call)) > 1:
            return None
        for row in program.rows_of(*function):
            if (
                not isinstance(row, SourceCall)
                or row.inside("if", "except")
                or any(node[1].startswith("exit:") for _, node in row.blocks)
            ):
                continue
            if _starts_cuda(program, row):
                return row
            inner = _starts_inside(program, row, depth + 1)
            if inner is not None:
                return inner
    return None


# -1 and texts as an index


@probe(rules.DC215)
def index_is_a_number(program: Program) -> Iterator[Finding]:
    """An index of a device is a number from 0 on: not the -1 of no launcher, not the text of a variable."""
    seen: set[tuple[int, int]] = set()
    for use in device_uses(program):
        row = use.row
        if (row.file, row.line) in seen or use.way in (LOADED, WRAPPED, GROUP):
            continue  # a group, and a model that is wrapped for one, have their launcher
        text = use.number.get(Kind.ENV_TEXT)
        if (
            text is not None
            and not use.in_text
            and vocabulary.VARIABLES.get(text.const) in RANKS
            and use.number.only(Kind.ENV_TEXT, Kind.CONST)
        ):
            seen.add((row.file, row.line))
            yield rules.DC215.found(
                f"{use.shown} uses {text.const} as a GPU index, but os.environ returns text: '0' is no device",
                where=use.where(),
                fix=Fix(f'make a number of it: int(os.environ["{text.const}"])', where="code"),
                evidence={"flow": program.flow(text.flow)},
            )
            continue
        unset = unset_rank(row, use.term, use.tests)
        if unset is None or _after_a_start(program, row, unset):
            continue
        seen.add((row.file, row.line))
        yield _sentinel(use, unset)


def _after_a_start(program: Program, row: EventRow, unset: UnsetRank) -> bool:
    """Whether a group has started by then, which takes a launcher; launchers set the variable, but pass no option."""
    if unset.is_option:
        return False
    return any(
        program.dominates(start, row)
        for start in program.calls_to(*vocabulary.INIT)
        if (start.file, start.scope) == (row.file, row.scope)
    )


def _sentinel(use: DeviceUse, unset: UnsetRank) -> Finding:
    name = unset.variable
    harmless = use.way in (BIND, "context") and not use.in_text
    outcome = "does nothing for -1, so that GPU 0 stays the current one" if harmless else "fails for -1"
    return rules.DC215.found(
        f"{name} has the default -1, and nothing keeps it from {use.shown}, which {outcome}",
        where=use.where(),
        # one process on GPU 0 is what was meant; only a launcher that does not pass the option goes wrong
        severity=Severity.INFO if harmless else use.row.level_in_tests,
        fix=Fix(
            f"use 0 as the default of {name} if one process uses the first GPU, or test for -1 first",
            where="code",
        ),
        evidence={"flow": [f"{unset.row.path}:{unset.row.line}: {unset.row.text()}"]},
    )


# one device for all ranks

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
        if init is None or _masked_by_rank(program, call.file) or program.is_test(call.file):
            continue
        if program.imports_from(call.file, "ray"):  # it gives each actor a mask of its own
            continue
        own = local_rank_here(call) or 'int(os.environ["LOCAL_RANK"])'
        yield call.found(
            rules.DC303,
            f"every rank uses GPU {number}, and NCCL refuses two ranks of a host on one GPU",
            fix=f"{where}: `{own}`" if where.endswith(")") else f"use a separate GPU per rank: `{own}`",
            basis=(call.reached_by,),
            group=f"{init.path}:{init.line}",
            **signs(call),
        )
    yield from _one_gpu_for_spawned(program)


def _literal_of(call: SourceCall) -> tuple[int | None, str]:
    """Return the number that all ranks bind."""
    if call.is_to(INIT_GROUP):
        value = call.argument(None, "device_id")
        if not uses_nccl(call):
            return None, ""
    else:
        value = call.argument(0, "device")
    number = _only_number(value)
    return number, "bind each rank to its own GPU, torch.cuda.set_device(…)"


def _only_number(value: Value | None) -> int | None:
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
        if not uses_nccl(init) or _world_of_one(init) or program.excludes(init, row):
            continue
        if (init.file, init.scope) == (row.file, row.scope) or roots.intersection(roots_of(program, init)):
            return init
    return None


def _masked_by_rank(program: Program, file: int) -> bool:
    """Return whether something of the program gives each process a mask of its own, or may do so."""
    files = set(program.component(file))
    return any(
        write.row.file in files and write.name in MASKS and write.value.constant is NoConstant
        for write in writes(program)
    )


def _arm_of_one_process(program: Program, row: EventRow) -> bool:
    """Whether a row stands in the arm of an ``if`` whose other arm is the distributed one, or the other way round."""
    if row.inside("except"):
        return True
    for other in _distributed_rows(program).get((row.file, row.scope), ()):
        if program.excludes(row, other):
            return True
        if any(node[1].startswith("exit:") for _, node in other.blocks) and not program.may_precede(row, other):
            continue
    # what returns from an arm of its own is excluded by the rest of the function as well
    for one, term, polarity in around(row, 0):
        if program.evaluator.test(one.file, term).who == Who.SINGLE and polarity:
            return True
    return False


@cached
def _distributed_rows(program: Program) -> dict[Function, list[EventRow]]:
    """Return the rows that only ranks of a job run: starts of a group, devices chosen by rank."""
    found: dict[Function, list[EventRow]] = {}
    rows: list[EventRow] = list(program.calls_to(INIT_GROUP, *vocabulary.INIT))
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
            count = spawn.argument(2, "nprocs")
            number = count.constant if count is not None else None
            if type(number) is not int or number < 2:
                continue
            targets = [atom.const for atom in spawn.argument(0, "fn") or () if atom.kind == Kind.FUNCTION]
            reached = {one for target in targets for one in call_paths.reached_from(program, target)}
            if any((init.file, init.scope) in reached and uses_nccl(init) for init in program.calls_to(INIT_GROUP)):
                yield write.row.found(
                    rules.DC303,
                    f'{write.name} is "{mask}", one GPU, for the {number} processes that line {spawn.line} spawns',
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
                and _is_of_the_rank(other.term_value(_assigned(other)))
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


def _is_of_the_rank(value: Value) -> bool:
    """Return whether a value is, or is made of, the number of this process."""
    return any(
        one.kind in RANKS or one.kind == Kind.RANK_DEPENDENT or (one.kind == Kind.ENV_TEXT and one.const in _RANK_NAMES)
        for atom in value
        for one in (atom, *atom.of, *(inner for part in atom.of for inner in part.of))
    )


_RANK_NAMES = frozenset(name for name, kind in vocabulary.VARIABLES.items() if kind in RANKS)


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
        and _is_of_the_rank(other.term_value(_assigned(other)))
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
    if _arm_of_one_process(program, row) or _masked_by_rank(program, row.file):
        return False
    files = set(program.component(row.file))
    inits = called_in(program, files, INIT_GROUP)
    starts = [init for init in inits if not _world_of_one(init) and not _is_gloo(init)]
    if starts or not inits:
        # a wrapped model is a group as well, wherever that was started
        starts.extend(called_in(program, files, *_WRAPPERS))
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
            if not isinstance(call, SourceCall) or (call.file, call.line) in seen or not _is_current(program, call):
                continue
            if not (program.dominates(call, late) or _precedes(program, call, late)):
                continue
            if any(program.may_precede(one, call) for one in binders) or not _all_ranks_run(program, call):
                continue
            seen.add((call.file, call.line))
            yield _shared(
                program,
                call,
                f"{call.text()} uses GPU 0 on every rank: {late.text()} comes only at line {late.line}",
                call.where(),
            )


def _never_bound(program: Program, seen: set[tuple[int, int]]) -> Iterator[Finding]:
    """Yield models wrapped on the current GPU, if nothing binds one to the rank. With NCCL, DC206 reports it."""
    for wrap in program.calls_to(*_WRAPPERS):
        roots = roots_of(program, wrap)
        files = frozenset().union(*(files_from(program, root[0]) for root in roots))
        inits = called_in(program, files, INIT_GROUP)
        if not inits or any(uses_nccl(init) for init in inits) or _is_bound(program, files):
            continue
        if any(program.framework(file) for file in files):
            continue
        terms = wrap.terms
        model = set(_arms(terms, wrap.argument_term(0, "module")))
        for call in program.rows_of(wrap.file, wrap.scope):
            if call.number >= wrap.number:
                break
            if not isinstance(call, SourceCall) or (call.file, call.line) in seen or not _is_current(program, call):
                continue
            callee = terms[call.term[1]]
            moved = {call.event[7], callee[1]} if callee[0] == "a" else {call.event[7]}
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


# CUDA in forks


@probe(rules.DC218)
def forks_leave_cuda_alone(program: Program) -> Iterator[Finding]:
    """Workers of a loader, and forked processes of one that has started CUDA, don't use the GPU."""
    seen: set[tuple[int, int]] = set()
    for loader in program.calls_to("torch.utils.data.DataLoader"):
        if not _has_forked_workers(program, loader):
            continue
        for function in _run_by_workers(program, loader):
            for call in _cuda_in(program, function):
                if (call.file, call.line) in seen:
                    continue
                seen.add((call.file, call.line))
                yield call.found(
                    rules.DC218,
                    f"{call.text()} runs in the workers of the DataLoader at {loader.path}:{loader.line}, "
                    "which are forks",
                    fix="keep the item on the CPU and move the batch in the loop (pin_memory=True, non_blocking=True); "
                    'or pass the loader multiprocessing_context="spawn"',
                    severity=call.level_in_tests,
                )
    yield from _forked_processes(program)


def _has_forked_workers(program: Program, loader: SourceCall) -> bool:
    workers = loader.argument(5, "num_workers")
    if workers is None or loader.has_star or not any(type(one) is int and one > 0 for one in workers.constants):
        return False
    return not loader.gives(10, "multiprocessing_context") and not _starts_afresh(program, loader.file)


def _starts_afresh(program: Program, file: int) -> bool:
    """Return whether something sets another start method than fork."""
    for call in called_in(
        program, program.component(file), "torch.multiprocessing.set_start_method", "multiprocessing.set_start_method"
    ):
        method = call.argument(0, "method")
        if method is None or method.constant != "fork":
            return True
    return False


def _run_by_workers(program: Program, loader: SourceCall) -> Iterator[Function]:
    """Yield the functions that a loader's workers run: the data set's items, the collate function."""
    for atom in loader.argument(0, "dataset") or ():
        if atom.kind == Kind.OBJECT:
            for name in ("__getitem__", "__iter__", "__getitems__"):
                function = program.evaluator.method(atom.const, name)
                if function is not None:
                    yield function
    for atom in loader.argument(6, "collate_fn") or ():
        if atom.kind == Kind.FUNCTION:
            yield atom.const


def _cuda_in(program: Program, function: Function, depth: int = 0) -> Iterator[SourceCall]:
    """Yield the calls that use the GPU whenever a function runs."""
    if depth > 3:
        return
    for row in program.rows_of(*function):
        if not isinstance(row, SourceCall) or row.inside("except") or _is_conditional(program, row):
            continue
        if _uses_gpu(program, row):
            yield row
        for inner in program.functions(row)[:1]:
            yield from _cuda_in(program, inner, depth + 1)


def _is_conditional(program: Program, row: EventRow) -> bool:
    """Whether a condition stands around a row: it may exclude workers or the GPU."""
    return any(node[1] in ("if", "while") or node[1].startswith("exit:") for _, node in row.blocks)


def _uses_gpu(program: Program, call: SourceCall) -> bool:
    if _is_current(program, call):
        return True
    if call.method in ("cuda", "to"):
        return _only_number(call.argument(0, "device")) is not None
    return (
        call.method != "device"
        and call.gives(None, "device")
        and _only_number(call.argument(None, "device")) is not None
    )


def _forked_processes(program: Program) -> Iterator[Finding]:
    """Processes made by fork after CUDA has started, that use CUDA themselves."""
    for call in program.calls_to(*PROCESSES):
        if _starts_afresh(program, call.file) or program.is_test(call.file):
            continue
        target = call.argument(1, "target")
        functions = [atom.const for atom in target or () if atom.kind == Kind.FUNCTION]
        used = next((found for function in functions[:1] for found in _cuda_in(program, function)), None)
        started = _cuda_before(program, call) if used is not None else None
        if used is not None and started is not None:
            yield call.found(
                rules.DC218,
                f"the forked process uses the GPU ({used.text()} at line {used.line}), and {started.text()} at line "
                f"{started.line} has started CUDA before the fork",
                fix='start it with spawn: torch.multiprocessing.get_context("spawn").Process(…), or mp.spawn',
            )
