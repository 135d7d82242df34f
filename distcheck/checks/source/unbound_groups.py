"""Process groups that are created before each rank has its GPU (DC206)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import vocabulary
from .collective_sequences import sequences_of
from .conditions import asserted, runs_without_other_ranks
from .device_indices import is_spawned
from .device_uses import (
    ACCELERATORS,
    BINDERS,
    CONTEXTS,
    LOADED,
    MASKS,
    called_in,
    device_uses,
    files_from,
    local_rank_here,
    roots_of,
)
from .environment_variables import writes
from .program import EventRow, Function, Program, SourceCall
from .several_hosts import sign_of_hosts
from .values import FEW, RANKS, Kind, NoConstant, Value
from .vocabulary import INIT_GROUP

#: What a model of several ranks is wrapped by.
GROUP_WRAPPERS = tuple(dotted for dotted, way in vocabulary.WRAPPERS.items() if way != "dp")
#: Methods of libraries that set up the ranks: ``Engine.init_process_group()``, ``setup_distributed()``.
_SETUP = lazy(r"_*(?:init(?:iali[sz]e)?|set_?up)_(?:\w+_)?(?:process_?groups?|distributed|dist)(?:_\w*)?$")


@probe(rules.DC206)
def ranks_have_devices_before_they_meet(program: Program) -> Iterator[Finding]:
    """A program that uses NCCL binds each rank to its GPU."""
    for call in program.calls_to(INIT_GROUP):
        if not uses_nccl(call) or _has_device(call) or call.has_star or world_of_one(call):
            continue
        if any(program.evaluator.test(call.file, term).who in FEW for term in asserted(call)):
            continue  # each host has one process
        roots = roots_of(program, call)
        if not roots:
            continue
        files = frozenset().union(*(files_from(program, root[0]) for root in roots))
        if binds_device(program, files) or any(program.framework(file) for file in files):
            continue
        unused = next((one for one in called_in(program, files, *CONTEXTS) if one.use == "drop"), None)
        yield _unbound(program, call, roots, files) if unused is None else _not_entered(unused)


@probe(rules.DC206)
def ranks_have_devices_before_their_first_barrier(program: Program) -> Iterator[Finding]:
    """A rank is bound to its GPU before it first waits for others: a barrier of NCCL needs one."""
    sequences = sequences_of(program)
    for call in program.calls_to(INIT_GROUP):
        if not uses_nccl(call) or _has_device(call) or call.has_star:
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
                    f"{row.method}() waits for all ranks before {binders[0].text()} in {binders[0].line_name}: "
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


def _has_device(init: SourceCall) -> bool:
    return init.constant(None, "device_id") is not None


def world_of_one(init: SourceCall) -> bool:
    return init.constant(3, "world_size") == 1


def binds_device(program: Program, files: Iterable[int]) -> bool:
    """Return whether anything in some files gives this process a device of its own."""
    wanted = set(files)
    if called_in(program, wanted, *BINDERS, "torch.set_default_device"):
        return True
    if any(call.use != "drop" for call in called_in(program, wanted, *CONTEXTS)):
        return True
    if any(_has_device(call) for call in called_in(program, wanted, INIT_GROUP)):
        return True
    if _sets_up_elsewhere(program, wanted):
        return True
    return masked_by_rank(program, wanted)


def _sets_up_elsewhere(program: Program, files: Container[int]) -> bool:
    """Return whether some files call the setup of another library, which may bind the device as well."""
    return any(
        _SETUP.match(call.method) is not None and _is_of_a_library(program, call) for call in program.calls_in(files)
    )


def _is_of_a_library(program: Program, call: SourceCall) -> bool:
    """Return whether a function or method belongs to a library other than torch, also by a class that derives of it."""
    if call.targets:
        return any(not target.startswith("torch.") and target not in vocabulary.INIT for target in call.targets)
    return not program.functions(call) and any(
        atom.kind == Kind.OBJECT
        and any(not base.startswith("torch.") for base in program.evaluator.outer_bases(atom.const))
        for atom in call.receiver
    )


def masked_by_rank(program: Program, files: Container[int]) -> bool:
    """Return whether something in some files gives each process a mask of its own, or may do so."""
    return any(
        write.row.file in files and write.name in MASKS and write.value.constant is NoConstant
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
            (
                one
                for one in calls
                if not roots.isdisjoint(roots_of(program, one))
                and not _is_unused_method(one)
                and not runs_without_other_ranks(one)
                and not ((one.file, one.scope) == (call.file, call.scope) and program.excludes(one, call))
            ),
            None,
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
    ) or any(_is_of_a_list(one) for one in called_in(program, files, "torch.device"))
    if bare is not None:
        what = f"{bare.text()} at {bare.place} goes to GPU 0 on every rank"
    elif objects is not None:
        what = f"{objects.method}() at {objects.place} puts the data of all ranks on GPU 0"
    elif guess is not None:
        what = f"barrier() at {guess.place} guesses a GPU"
    else:
        what = "the current device is GPU 0 on every rank"
    severity = Severity.WARNING
    if program.is_test(call.file) or (
        bare is None
        and objects is None
        and (
            _guess_is_right(program, call) or (guess is not None and _follows_tensors(program, guess, files))
            if placed
            else not _communicates(program, files)
        )
    ):
        severity = Severity.INFO
    own = local_rank_here(call) or 'int(os.environ["LOCAL_RANK"])'
    return call.found(
        rules.DC206,
        f"the group uses NCCL, and no line binds this rank to a GPU: {what}",
        fix=f'before it: `torch.cuda.set_device({own})`; and for the group: `device_id=torch.device("cuda", {own})`',
        severity=severity,
    )


def _is_of_a_list(call: SourceCall) -> bool:
    """Return whether a device is the one of this rank in a list: ``torch.device(gpus[rank])``."""
    term = call.argument_term(0, "device")
    parts = call.terms[term] if term >= 0 else ("-",)
    return parts[0] == "s" and call.term_value(parts[2]).has(*RANKS)


def _is_unused_method(row: EventRow) -> bool:
    """Return whether a row is in a method that no code calls, not even by its name alone, and that no base defines."""
    program, function = row.program, (row.file, row.scope)
    owner = program.evaluator.owner_of(*function)
    return owner >= 0 and not program.evaluator.callers.get(function) and not program.evaluator.bases((row.file, owner))


def _communicates(program: Program, files: frozenset[int]) -> bool:
    """Return whether a group is used in some files: a collective, or a model that is wrapped."""
    return any(call.file in files for call in program.collectives()) or bool(called_in(program, files, *GROUP_WRAPPERS))


def _guess_is_right(program: Program, call: SourceCall) -> bool:
    """Return whether the GPU that a barrier guesses is most likely the one that each rank uses anyway.

    NCCL's process group takes the device that a collective has used before, and else the rank modulo the GPUs of the
    host: on one host that is the rank.
    """
    return is_spawned(call) or sign_of_hosts(program, call) is None


def _follows_tensors(program: Program, guess: SourceCall, files: frozenset[int]) -> bool:
    """Return whether a collective of tensors comes before a barrier, so that NCCL takes the device of these.

    The backward pass of a wrapped model is one.
    """
    tensors = [one for one in program.collectives() if not one.is_to("torch.distributed.barrier", *_OBJECTS)]
    if called_in(program, files, *GROUP_WRAPPERS):
        tensors.extend(program.calls_named("backward"))
    return any(
        (one.file, one.scope) == (guess.file, guess.scope) and program.may_precede(one, guess) for one in tensors
    )


def on_current_gpu(program: Program, call: SourceCall) -> bool:
    """Return whether a call puts something on the current GPU: ``.cuda()``, ``.to("cuda")``, ``device="cuda"``."""
    method = call.method
    if method == "cuda":
        named = call.term[2] or call.gives(None, "device")
        return not named and not call.has_star and bool(call.receiver_text) and not program.functions(call)
    if method == "to":
        return _is_plain_cuda(call.argument(0, "device"))
    if method != "device" and call.gives(None, "device") and _is_plain_cuda(call.argument(None, "device")):
        return any(target.startswith("torch.") for target in call.targets)
    return False


def on_shared_gpu(program: Program, call: SourceCall) -> bool:
    """Return whether a call puts something on the current GPU, and none of its callers gives the GPU of the rank."""
    device = call.argument(0 if call.method == "to" else None, "device")
    return on_current_gpu(program, call) and (device is None or not is_made_of_rank(device))


def is_made_of_rank(value: Value) -> bool:
    """Return whether a value is, or is made of, the number of this process."""
    return any(
        one.kind in RANKS or one.kind == Kind.RANK_DEPENDENT or (one.kind == Kind.ENV_TEXT and one.const in _RANK_NAMES)
        for atom in value
        for one in (atom, *atom.of, *(inner for part in atom.of for inner in part.of))
    )


_RANK_NAMES = frozenset(name for name, kind in vocabulary.VARIABLES.items() if kind in RANKS)


def _on_current_device(program: Program, files: Iterable[int]) -> Iterator[SourceCall]:
    """Yield the calls in some files that put something on the current GPU."""
    for file in sorted(files):
        for number, event in enumerate(program.events[file]):
            if event[0] == "call":
                call = SourceCall(program, file, number)
                if on_shared_gpu(program, call):
                    yield call


def _is_plain_cuda(value: Value | None) -> bool:
    """Return whether a device is a GPU without a number, and can be no GPU of this rank."""
    atoms = value.atoms if value is not None else ()
    plain = [atom.const in ACCELERATORS and not atom.of for atom in atoms if atom.kind in (Kind.CONST, Kind.DEVICE)]
    return any(plain) and not any(atom.kind == Kind.DEVICE and atom.of for atom in atoms)
