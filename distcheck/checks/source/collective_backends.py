"""Tensors and operations that the backend of a process group can't handle (DC714, DC120)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .collective_signatures import GROUPS, TENSORS
from .program import Program, SourceCall
from .tensor_devices import is_number, known_device
from .term_queries import callee_text, mentions, origin_call, origins
from .values import Who
from .vocabulary import INIT, D


def backends_of(program: Program, file: int) -> set[Any]:
    """Return the backends of a program's groups; None stands for one that is not given or not known."""
    found: set[Any] = set()
    files = set(program.component(file))
    for call in program.calls_to(*INIT):
        if call.file not in files:
            continue
        constant = call.constant(0, "backend" if call.is_to(D + "init_process_group") else "dist_backend")
        found.add(constant.lower() if isinstance(constant, str) else None)
    return found


def _group_backend(program: Program, call: SourceCall, position: int | None) -> str | None:
    """Return the backend of the group that a call works on; None where it is not known for sure."""
    term = call.argument_term(position, "group")
    if term >= 0 and not program.evaluator.is_world(call.file, term):
        found: set[Any] = set()
        for ref in origins(program, call.file, term):
            made = origin_call(program, ref)
            if made is None or not made.is_to(D + "new_group"):
                return None
            constant = made.constant(2, "backend")
            if constant is None:
                return None
            found.add(constant.lower() if isinstance(constant, str) else None)
        return next(iter(found)) if len(found) == 1 else None
    backends = backends_of(program, call.file)
    return next(iter(backends)) if len(backends) == 1 else None


#: Names of tests whether a run has GPUs.
_GPU_TESTS = ("is_available", "is_nccl_available", "device_count", "cuda", "use_cuda", "use_gpu", "has_cuda", "on_gpu")


@probe(rules.DC714)
def nccl_gets_gpu_tensors(program: Program) -> Iterator[Finding]:
    """What goes through NCCL is on a GPU."""
    for call in program.calls_to(*TENSORS):
        if call.has_star:
            continue
        target = next(target for target in call.targets if target in TENSORS)
        for position, name in TENSORS[target]:
            term = call.argument_term(position, name)
            if term < 0:
                continue
            number = is_number(program, call.file, term)
            if not number and known_device(program, call.file, term) != "cpu":
                continue
            group = call.argument_term(GROUPS.get(target), "group")
            if group >= 0 and not program.evaluator.is_world(call.file, group):
                continue
            if backends_of(program, call.file) != {"nccl"} or _has_default_device(program, call.file):
                continue
            # a branch for runs without a GPU, which have no group of NCCL either
            if mentions(program, call, *_GPU_TESTS):
                continue
            shown = call.argument_text(position, name)
            what = "a number" if number else "a tensor on the CPU"
            fix = (
                f"{shown} = torch.tensor({shown}, device=…)"
                if number
                else f"make {shown} with device=…, or move it with .cuda()"
            )
            yield call.found(
                rules.DC714,
                f"{shown} is {what}, and the process group has nothing but NCCL to move it",
                fix=f'{fix}; or create the group with "cpu:gloo,cuda:nccl"',
                severity=call.level_in_tests or (Severity.WARNING if _may_be_off(program, call) else None),
            )
            break


def _may_be_off(program: Program, call: SourceCall) -> bool:
    """Return whether a test that does not depend on the rank decides over a call: no run may ever get there."""
    return any(
        node[1] == "if" and program.evaluator.test(call.file, node[2], None).who == Who.UNCLEAR
        for _, node in call.blocks
    )


def _has_default_device(program: Program, file: int) -> bool:
    return program.in_component(
        file, "torch.set_default_device", "torch.set_default_tensor_type", "torch.set_default_tensor_type_"
    )


@probe(rules.DC120)
def operation_fits_backend(program: Program) -> Iterator[Finding]:
    """The backend that the code names has the operations that the code calls, and the hosts have the backend."""
    for call in program.calls_to(D + "monitored_barrier"):
        backend = _group_backend(program, call, 0)
        if backend == "nccl" and not call.inside("try") and not mentions(program, call, "get_backend", "backend"):
            yield call.found(
                rules.DC120,
                f'{callee_text(call)}() exists on gloo only, and the group is created with "nccl"',
                fix='use a separate group, created once with dist.new_group(backend="gloo"), or use dist.barrier()',
                severity=call.level_in_tests,
            )
    for call in program.calls_to(
        *(
            D + name
            for name in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single")
        )
    ):
        term = call.argument_term(1 if call.is_to(D + "all_reduce") else 2, "op")
        if term < 0 or not program.evaluator.value(call.file, term).named(D + "ReduceOp.AVG"):
            continue
        if backends_of(program, call.file) == {"mpi"} and not call.gives(None, "group"):
            yield call.found(
                rules.DC120,
                'MPI has no ReduceOp.AVG, and the group is created with "mpi"',
                fix="reduce with ReduceOp.SUM and divide by dist.get_world_size()",
                severity=call.level_in_tests,
            )
    yield from _nccl_everywhere(program)


def _nccl_everywhere(program: Program) -> Iterator[Finding]:
    """Yield scripts that test for GPUs, except where they create the group."""
    copes = {call.file for call in program.calls_to("torch.cuda.is_available", D + "is_nccl_available")}
    bound = {call.file for call in program.calls_to("torch.cuda.set_device") if not call.inside("if")}
    for call in program.calls_to(D + "init_process_group"):
        if call.file not in copes or call.file in bound or call.has_star:
            continue
        if call.constant(0, "backend") != "nccl" or call.inside("if", "try", "except"):
            continue
        yield call.found(
            rules.DC120,
            'the backend is "nccl" on every host, but other lines of this file test for a GPU',
            fix='backend = "nccl" if torch.cuda.is_available() else "gloo"',
            severity=Severity.INFO,
        )
