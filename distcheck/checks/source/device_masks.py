"""Variables that hide GPUs: an index that counts hidden GPUs (DC202), a mask that is set after CUDA starts (DC214)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import vocabulary
from .device_indices import rank_in_text
from .device_uses import BINDERS, CONTEXTS, LOADED, MASK, MASKS, called_in, device_uses, files_from
from .environment_variables import VariableWrite, writes
from .program import FEW, EventRow, Program, SourceCall
from .rank_dependence import operands
from .source_text import last_name
from .unbound_groups import is_made_of_rank, on_current_gpu
from .values import Atom, Kind, NoConstant
from .vocabulary import PROCESSES, SPAWNS, words


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
    atom = rank_in_text(write.value)
    if atom is None:
        return False
    if atom.const == "option" and not any("rank" in step.text for step in atom.flow):
        return False  # a user chooses the GPU with --gpu; no launcher counts it
    kind = vocabulary.VARIABLES.get(atom.const) if atom.kind == Kind.ENV_TEXT else atom.kind
    return kind == Kind.LOCAL_RANK and atom.const != "spawn"


def _holds_for(program: Program, mask: EventRow, row: EventRow) -> bool:
    """Whether a mask is set when a row runs: before it in one function, or in what its module or caller did before."""
    if program.may_precede(mask, row):
        return not cuda_started_before(program, mask)
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
        f"{write.row.place}: inside of that mask the GPU is number 0",
        fix=f"use 0 here; or keep all GPUs visible: delete the assignment at {write.row.place}",
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
        before = cuda_started_before(program, write.row)
        if before is None:
            continue
        place = f"{before.place}"
        message = f"{write.name} is set when {before.text()} at {place} has started CUDA: it has no effect"
        chosen = _chosen_otherwise(program, write)
        if chosen is not None:
            yield write.row.found(
                rules.DC214,
                f"{message}, and {chosen.text()} at {chosen.place} chooses the GPU anyway",
                fix="delete the assignment; set earlier, it would renumber the GPUs for that line",
                severity=Severity.INFO,
            )
            continue
        yield write.row.found(
            rules.DC214,
            message,
            fix=f"set it before {before.line_name} of {before.path}, or in the launch line; to choose a GPU in "
            "this process, use torch.cuda.set_device",
        )


def _chosen_otherwise(program: Program, write: VariableWrite) -> EventRow | None:
    """Return the line by which this process uses a GPU of its own, if the mask is not a literal list of other ones."""
    if isinstance(write.value.constant, str):
        return None
    for call in called_in(program, (write.row.file,), *BINDERS):
        same = (call.file, call.scope) == (write.row.file, write.row.scope)
        if call.constant(0, "device") is NoConstant and same and not program.excludes(call, write.row):
            return call
    for use in device_uses(program):
        if use.row.file == write.row.file and use.way != LOADED and is_made_of_rank(use.number):
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


def cuda_started_before(program: Program, row: EventRow, depth: int = 3) -> EventRow | None:
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
            return cuda_started_before(program, callers[0], depth - 1)
    return None


def _is_process(call: SourceCall) -> bool:
    return call.is_to(*SPAWNS, *PROCESSES) or call.method in ("Process", "spawn", "start_processes")


def _starts_cuda(program: Program, call: SourceCall) -> bool:
    method = call.method
    if method == "cuda" and call.term[2] and call.receiver_text and not program.functions(call):
        return True
    if on_current_gpu(program, call):
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
