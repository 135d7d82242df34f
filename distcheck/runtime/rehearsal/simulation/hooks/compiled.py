"""Collectives that torch's compiled code calls (DDP's reducer, functional collectives): the simulated GPUs'
dispatch mode sees them, and logs them with those of Python. Without simulated GPUs the side thread still counts
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.import_hook import when_imported


class _Made(NamedTuple):
    """How one of torch's operations is logged."""

    #: as torch.distributed names it
    name: str
    #: the argument whose tensors must agree; "" where none must
    agreed: str = ""


#: torch 2.13, ``Ops.cpp`` and ``Functional.cpp``; what is not here makes no collective, or is a send or receive.
_MADE = {
    "allreduce_": _Made("all_reduce", "tensors"),
    "allreduce_coalesced_": _Made("all_reduce_coalesced", "tensors"),
    "broadcast_": _Made("broadcast", "tensors"),
    "reduce_": _Made("reduce", "tensors"),
    "allgather_": _Made("all_gather", "output_tensors"),
    "_allgather_base_": _Made("all_gather_into_tensor", "output_tensor"),
    "allgather_coalesced_": _Made("all_gather_coalesced"),
    "allgather_into_tensor_coalesced_": _Made("all_gather_into_tensor_coalesced"),
    "reduce_scatter_": _Made("reduce_scatter", "input_tensors"),
    "_reduce_scatter_base_": _Made("reduce_scatter_tensor", "input_tensor"),
    "reduce_scatter_tensor_coalesced_": _Made("reduce_scatter_tensor_coalesced"),
    "alltoall_": _Made("all_to_all"),
    "alltoall_base_": _Made("all_to_all_single"),
    "gather_": _Made("gather"),
    "scatter_": _Made("scatter"),
    "barrier": _Made("barrier"),
    "all_reduce": _Made("all_reduce", "input"),
    "all_reduce_": _Made("all_reduce", "input"),
    "all_reduce_coalesced": _Made("all_reduce_coalesced", "inputs"),
    "all_reduce_coalesced_": _Made("all_reduce_coalesced", "inputs"),
    "broadcast": _Made("broadcast", "input"),
    "all_gather_into_tensor": _Made("all_gather_into_tensor"),
    "all_gather_into_tensor_out": _Made("all_gather_into_tensor"),
    "all_gather_into_tensor_coalesced": _Made("all_gather_into_tensor_coalesced"),
    "reduce_scatter_tensor": _Made("reduce_scatter_tensor", "input"),
    "reduce_scatter_tensor_out": _Made("reduce_scatter_tensor", "input"),
    "reduce_scatter_tensor_coalesced": _Made("reduce_scatter_tensor_coalesced"),
    "all_to_all_single": _Made("all_to_all_single"),
}


def watch(calls: CallRecorder) -> None:
    """Note them as soon as GPUs are simulated."""

    def see(operation: Any, args: Sequence[Any]) -> None:
        try:
            _note(calls, operation, args)
        except Exception as error:  # noqa: BLE001 - the call must not fail because of us
            calls.error = f"{operation}: {type(error).__name__}: {error}"

    when_imported("distcheck.runtime.rehearsal.fake_cuda.operations", lambda module: module.collectives.append(see))


def _note(calls: CallRecorder, operation: Any, args: Sequence[Any]) -> None:
    schema = operation._schema
    made = _MADE.get(schema.name.rpartition("::")[2])
    if made is None:
        return
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
    group = _group(given)
    if group is None:
        return
    tensors = given.get(made.agreed) if made.agreed else None
    # lists of lists: one for each of this rank's tensors; and one tensor is logged as Python's functions log it
    while isinstance(tensors, (list, tuple)) and len(tensors) == 1:
        tensors = tensors[0]
    reduce = given.get("reduce_op", "")
    # Python can't read the kind of a compiled object; torch itself makes sums
    reduce = reduce if isinstance(reduce, str) else "sum"
    root = given.get("root_rank", given.get("src"))
    calls.made_by_torch(made.name, group, tensors, reduce, root if isinstance(root, int) else None)


def _group(given: dict[str, Any]) -> Any:
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if "process_group" in given:
        return dist.ProcessGroup.unbox(given["process_group"])
    name = given.get("group_name")
    return distributed_c10d._resolve_process_group(name) if isinstance(name, str) else name
