"""How the arguments of torch's collectives are read: which are recorded, and which ranks must share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .model import SETUP, CollectiveCall

#: Tensors of one call that are recorded; of a longer list the first ones and the length.
_MOST_TENSORS = 8


class CallKind(NamedTuple):
    """How the arguments of one function of torch are read."""

    #: names of the parameters in order, as far as they are read
    parameters: tuple[str, ...]
    #: the parameter whose tensors must agree on all ranks; "": none
    agreed: str = ""
    #: the parameter of the root, or of the other side
    peer: str = ""
    #: a send or receive: it does not count as a collective
    pair: bool = False


#: torch 2.13, ``distributed_c10d.py``; a function that this torch lacks is skipped. Arguments that may differ between
#: ranks (the parts of an uneven all_to_all, the list that only the root has) are not compared.
KINDS: Mapping[str, CallKind] = {
    "all_reduce": CallKind(("tensor", "op", "group"), "tensor"),
    "all_reduce_coalesced": CallKind(("tensors", "op", "group"), "tensors"),
    "broadcast": CallKind(("tensor", "src", "group"), "tensor", "src"),
    "reduce": CallKind(("tensor", "dst", "op", "group"), "tensor", "dst"),
    "all_gather": CallKind(("tensor_list", "tensor", "group"), "tensor_list"),
    "all_gather_single": CallKind(("output_tensor", "input_tensor", "group"), "output_tensor"),
    "all_gather_into_tensor": CallKind(("output_tensor", "input_tensor", "group"), "output_tensor"),
    "gather": CallKind(("tensor", "gather_list", "dst", "group"), "tensor", "dst"),
    "scatter": CallKind(("tensor", "scatter_list", "src", "group"), "tensor", "src"),
    "reduce_scatter": CallKind(("output", "input_list", "op", "group"), "input_list"),
    "reduce_scatter_single": CallKind(("output", "input", "op", "group"), "input"),
    "reduce_scatter_tensor": CallKind(("output", "input", "op", "group"), "input"),
    "all_to_all": CallKind(("output_tensor_list", "input_tensor_list", "group")),
    "all_to_all_single": CallKind(("output", "input", "output_split_sizes", "input_split_sizes", "group")),
    "barrier": CallKind(("group",)),
    "monitored_barrier": CallKind(("group",)),
    "all_gather_object": CallKind(("object_list", "obj", "group")),
    "gather_object": CallKind(("obj", "object_gather_list", "dst", "group"), "", "dst"),
    "broadcast_object_list": CallKind(("object_list", "src", "group"), "", "src"),
    "scatter_object_list": CallKind(("output", "input", "src", "group"), "", "src"),
    "send": CallKind(("tensor", "dst", "group", "tag"), "tensor", "dst", pair=True),
    "recv": CallKind(("tensor", "src", "group", "tag"), "tensor", "src", pair=True),
    "isend": CallKind(("tensor", "dst", "group", "tag"), "tensor", "dst", pair=True),
    "irecv": CallKind(("tensor", "src", "group", "tag"), "tensor", "src", pair=True),
    "send_object_list": CallKind(("object_list", "dst", "group"), "", "dst", pair=True),
    "recv_object_list": CallKind(("object_list", "src", "group"), "", "src", pair=True),
    "batch_isend_irecv": CallKind(("p2p_op_list",), pair=True),
    "init_process_group": CallKind(()),
    "new_group": CallKind(("ranks", "timeout", "backend", "pg_options", "use_local_synchronization")),
}  # fmt: skip
#: Each rank has its own part, which NCCL allows to be of any size: sizes are shown, and not compared.
_UNEVEN = frozenset({"gather", "scatter"})
#: Stands for the dtype of a list of objects.
OBJECTS = "objects"
#: These make groups.
MAKING = frozenset({"init_process_group", "new_group"})


def agreed(call: CollectiveCall) -> tuple[object, ...]:
    """Return what the ranks of a group must share in a call: the number of elements, not the shape."""
    sizes: tuple[object, ...] = tuple(_elements(size) for size in call.sizes)
    if call.operation in _UNEVEN:
        sizes = ()
    elif call.group.startswith(SETUP):
        # the ranks of a new group; no rank waits in a group of one, so that each rank can make one of its own
        sizes = call.sizes if any(len(ranks) > 1 for ranks in call.sizes) else ()
    return (call.operation, sizes, call.dtypes, call.reduce, call.peer)


def _elements(size: tuple[int, ...]) -> int:
    count = 1
    for length in size:
        count *= length
    return count


def tensors_of(value: Any) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    if value is None:
        return (), ()
    if not isinstance(value, (list, tuple)):
        return (tuple(value.shape),), (_dtype(value.dtype),)
    first = value[:_MOST_TENSORS]
    sizes = tuple(tuple(tensor.shape) for tensor in first)
    if len(value) > _MOST_TENSORS:
        sizes += ((len(value),),)
    return sizes, tuple(_dtype(tensor.dtype) for tensor in first)


_requested = threading.local()


@contextlib.contextmanager
def as_reduction(name: str) -> Iterator[None]:
    """Record calls of this thread with the reduction that the script requested, where torch is given another one."""
    _requested.reduction = name
    try:
        yield
    finally:
        _requested.reduction = ""


_DTYPES: dict[Any, str] = {}
_REDUCE: dict[Any, str] = {}


class _Sum:
    """Stands for the default of ``op``."""


_SUM = _Sum()
_REDUCE[_SUM] = "sum"


def reduction_of(kind: CallKind, given: Mapping[str, Any]) -> str:
    """Return the reduction that the script requested; "": none."""
    op = given.get("op", _SUM)
    name = _REDUCE.get(op) or _reduce_name(op) if "op" in kind.parameters else ""
    return getattr(_requested, "reduction", "") or name


def _dtype(dtype: Any) -> str:
    name = _DTYPES.get(dtype)
    if name is None:
        name = _DTYPES[dtype] = str(dtype).removeprefix("torch.")
    return name


def _reduce_name(op: Any) -> str:
    # RedOpType.AVG, or ReduceOp with a factor (PREMUL_SUM): the last word of the name
    name = str(getattr(op, "op", op)).rpartition(".")[2].lower()
    if not name.startswith("<"):
        _REDUCE[op] = name
    return name
