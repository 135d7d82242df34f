"""CUDA in forked processes, where the parent has started it (DC218)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .device_masks import cuda_started_before
from .device_uses import called_in
from .program import EventRow, Function, Program, SourceCall
from .shared_devices import index_number
from .unbound_groups import on_current_gpu
from .values import Kind
from .vocabulary import PROCESSES


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
                    f"{call.text()} runs in the workers of the DataLoader at {loader.place}, which are forks",
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
        if call.constant(0, "method") != "fork":
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
    if on_current_gpu(program, call):
        return True
    if call.method in ("cuda", "to"):
        return index_number(call.argument(0, "device")) is not None
    return (
        call.method != "device"
        and call.gives(None, "device")
        and index_number(call.argument(None, "device")) is not None
    )


def _forked_processes(program: Program) -> Iterator[Finding]:
    """Processes made by fork after CUDA has started, that use CUDA themselves."""
    for call in program.calls_to(*PROCESSES):
        if _starts_afresh(program, call.file) or program.is_test(call.file):
            continue
        target = call.argument(1, "target")
        functions = [atom.const for atom in target or () if atom.kind == Kind.FUNCTION]
        used = next((found for function in functions[:1] for found in _cuda_in(program, function)), None)
        started = cuda_started_before(program, call) if used is not None else None
        if used is not None and started is not None:
            yield call.found(
                rules.DC218,
                f"the forked process uses the GPU ({used.text()} at {used.line_name}), and {started.text()} at "
                f"{started.line_name} has started CUDA before the fork",
                fix='start it with spawn: torch.multiprocessing.get_context("spawn").Process(…), or mp.spawn',
            )
