"""Collectives: where tensors, lists, roots, operations and handles stand among their arguments (torch 2.13)."""

from __future__ import annotations

from .vocabulary import D, words

#: ``*_single`` are the names of torch 2.13 for ``*_into_tensor`` and ``*_tensor``.
_REDUCE_SCATTERS = ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single")
#: Where ``async_op`` stands among the positional parameters (torch 2.13).
ASYNC: dict[str, int] = {
    D + name: position
    for position, names in {
        1: "barrier",
        3: "all_reduce broadcast all_gather all_gather_into_tensor all_gather_single _all_gather_base all_to_all",
        4: "reduce gather scatter reduce_scatter reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base",
        5: "all_to_all_single",
    }.items()
    for name in names.split()
}
#: What returns None, always.
NEVER_A_HANDLE = tuple(
    D + name
    for name in words(
        "all_gather_object gather_object broadcast_object_list scatter_object_list monitored_barrier send"
    )
)
#: Where the tensor or list that is written into stands.
OUTPUT: dict[str, tuple[int, str]] = {
    **dict.fromkeys((D + name for name in ["all_reduce", "broadcast", "reduce", "scatter"]), (0, "tensor")),
    **dict.fromkeys((D + name for name in [*_REDUCE_SCATTERS, "all_to_all_single"]), (0, "output")),
    D + "all_gather": (0, "tensor_list"),
    D + "gather": (1, "gather_list"),
    D + "all_gather_into_tensor": (0, "output_tensor"),
    D + "all_gather_single": (0, "output_tensor"),
    D + "all_to_all": (0, "output_tensor_list"),
    D + "all_gather_object": (0, "object_list"),
    D + "gather_object": (1, "object_gather_list"),
    D + "broadcast_object_list": (0, "object_list"),
    D + "scatter_object_list": (0, "scatter_object_output_list"),
}
#: Where the rank that a collective starts from or ends at stands, and its group.
ROOTS: dict[str, tuple[int, str, int]] = {
    D + "broadcast": (1, "src", 2),
    D + "reduce": (1, "dst", 3),
    D + "gather": (2, "dst", 3),
    D + "scatter": (2, "src", 3),
    D + "broadcast_object_list": (1, "src", 2),
    D + "gather_object": (2, "dst", 3),
    D + "scatter_object_list": (2, "src", 3),
}
#: Where the operation of a reduction stands.
OPERATIONS: dict[str, int] = {
    **dict.fromkeys((D + name for name in ["all_reduce"]), 1),
    **dict.fromkeys((D + name for name in ["reduce", *_REDUCE_SCATTERS]), 2),
}
#: Tensors that NCCL must find on the GPU.
TENSORS: dict[str, tuple[tuple[int, str], ...]] = {
    **dict.fromkeys(
        (D + name for name in ["all_reduce", "broadcast", "reduce", "gather", "scatter"]), ((0, "tensor"),)
    ),
    D + "all_gather": ((1, "tensor"),),
    **dict.fromkeys((D + name for name in _REDUCE_SCATTERS), ((0, "output"),)),
    D + "all_to_all_single": ((0, "output"), (1, "input")),
    D + "all_gather_into_tensor": ((1, "input_tensor"), (0, "output_tensor")),
    D + "all_gather_single": ((1, "input_tensor"), (0, "output_tensor")),
}
#: Where ``group`` stands among the positional parameters.
GROUPS: dict[str, int] = {
    **{target: position - 1 for target, position in ASYNC.items()},
    **{target: group for target, (_, _, group) in ROOTS.items()},
    D + "monitored_barrier": 0,
    D + "all_gather_object": 2,
    **{
        f"{package}.{name}": position
        for package in (D + "nn", D + "nn.functional")
        for position, names in {
            1: "all_gather",
            2: "all_reduce broadcast gather scatter all_to_all",
            3: "reduce reduce_scatter",
            4: "all_to_all_single",
        }.items()
        for name in names.split()
    },
    **{
        D + "_functional_collectives." + name: position
        for position, names in {
            2: "all_reduce all_gather_single all_gather_tensor broadcast",
            3: "reduce_scatter_single reduce_scatter_tensor all_to_all_single",
        }.items()
        for name in names.split()
    },
}
GATHERED = (D + "all_gather", D + "gather", D + "all_to_all")
#: What lets a whole device or stream finish; a barrier is a collective more, and waits for no other.
SETTLES = frozenset(["synchronize", "wait_stream", "wait_event", "record_event"])
MANAGERS = words(
    "_coalescing_manager coalescing_manager _CoalescingManager CoalescingManager stream StreamContext "
    "_batch_p2p_manager"
)
ALWAYS_ASYNC = (D + "isend", D + "irecv", D + "batch_isend_irecv")
