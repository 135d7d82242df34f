"""Process groups of NCCL, run by gloo.

Scripts request ``nccl`` and seem to get it: names, options, devices and limits are NCCL's, the messages
go through gloo. What NCCL would refuse (a tensor on the CPU) is refused; what gloo lacks (averages) is made of what
it has.
"""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Callable
from multiprocessing import util
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from distcheck.runtime.coordination.call_signatures import as_reduction

from .device_marks import TensorDevices, storage_of

#: functions whose tensors must be where the group's backend works
_COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_single", "_all_gather_base", "all_reduce", "all_to_all",
    "all_to_all_single", "broadcast", "gather", "irecv", "isend", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base", "scatter", "send",
)  # fmt: skip
#: functions with ``op=``, and which of their arguments holds the result
_REDUCING = {
    **dict.fromkeys(("all_reduce", "reduce"), "tensor"),
    **dict.fromkeys(
        ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base"), "output"
    ),
}
#: functions of one big tensor and one part of it: NCCL compares how many elements they have, gloo their shapes
_FLAT = {
    **dict.fromkeys(
        ("all_gather_into_tensor", "all_gather_single", "_all_gather_base"), ("output_tensor", "input_tensor")
    ),
    **dict.fromkeys(("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base"), ("output", "input")),
}


def install(devices: TensorDevices) -> None:
    """Patch ``torch.distributed``, where it was built."""
    if not dist.is_available() or not dist.is_gloo_available():
        return
    _nccl_class()
    _group_methods(devices)
    _keep_outlived()
    _splitting()
    _batches()
    for name in _COLLECTIVES:
        if hasattr(c10d, name):
            function = _checked(getattr(c10d, name), devices)
            for module in (c10d, dist):
                setattr(module, name, function)


def _nccl_class() -> None:
    class FakeNcclOptions:
        """What ``ProcessGroupNCCL.Options`` holds."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream
            self.config = type("Config", (), {})()
            self._timeout: Any = None
            self.global_ranks_in_group: list[int] = []
            self.group_name = ""
            self.backend = "nccl"

    class ProcessGroupNCCL(dist.ProcessGroupGloo):  # type: ignore[misc]
        """Gloo under NCCL's name."""

        def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
            timeout = getattr(options, "_timeout", None)
            super().__init__(store, rank, size, *([timeout] if timeout is not None else []))
            self.name_of_group = getattr(options, "group_name", "")

        supports_splitting = False

        def _do_nothing(self, *_: Any, **__: Any) -> None:
            pass

        abort = shutdown = _shutdown = _group_start = _group_end = eager_connect_single_device = (
            perform_nocolor_split
        ) = _do_nothing

    ProcessGroupNCCL.Options = FakeNcclOptions
    ProcessGroupNCCL.__module__ = c10d.__name__
    c10d.ProcessGroupNCCL = dist.ProcessGroupNCCL = ProcessGroupNCCL
    c10d._NCCL_AVAILABLE = True
    if getattr(c10d, "default_pg_nccl_timeout", None) is None:
        c10d.default_pg_nccl_timeout = datetime.timedelta(minutes=10)


def _splitting() -> None:
    """Make ``split_group`` of groups of their own: gloo has no communicator to split.

    A device mesh with several dimensions is made of it where a device was bound to the default group.
    """
    real = getattr(c10d, "split_group", None)  # since torch 2.4
    if real is None:
        return

    @functools.wraps(real)
    def split_group(
        parent_pg: Any = None,
        split_ranks: Any = None,
        timeout: Any = None,
        pg_options: Any = None,
        group_desc: Any = None,
        **more: Any,
    ) -> Any:
        default = c10d._get_default_group()
        parent = parent_pg or default
        members = c10d._world.pg_group_ranks.get(parent, {})
        if not split_ranks or not default.bound_device_id or default.rank() not in members:
            return real(parent_pg, split_ranks, timeout, pg_options, group_desc, **more)  # raises what torch raises
        rank_of = {in_group: rank for rank, in_group in members.items()}
        own = next((part for part in split_ranks if members[default.rank()] in part), None)
        if own is None:
            return None
        return c10d.new_group(
            [rank_of[rank] for rank in sorted(own)],
            timeout=timeout,
            backend=more.get("backend") or c10d.get_backend(parent),
            use_local_synchronization=True,
            group_desc=group_desc,
        )

    for module in (c10d, dist, dist.device_mesh):
        if hasattr(module, "split_group"):
            module.split_group = split_group


def _batches() -> None:
    """Start the messages of a batch one by one. torch 2.4 coalesces all batches on GPUs, which gloo cannot."""
    if hasattr(torch._C._distributed_c10d.Backend, "supports_coalescing"):
        return

    def batch_isend_irecv(p2p_op_list: list[Any]) -> list[Any]:
        c10d._check_p2p_op_list(p2p_op_list)
        works = [each.op(each.tensor, each.peer, each.group, each.tag) for each in p2p_op_list]
        return [work for work in works if work]

    for module in (c10d, dist):
        module.batch_isend_irecv = batch_isend_irecv


#: Live groups, and those that were destroyed and are still referenced.
_made: list[Any] = []


def _keep_outlived() -> None:
    """Keep a group that a model outlives until the process ends, or makes a new default group.

    NCCL's groups go without the interpreter's lock; gloo's wait for their threads. Where a DDP model holds the last one
    that is done with the lock held, and a thread of gloo may need it to free a tensor: both wait forever (torch
    2.13; without us too, in about one of a hundred ends on a busy machine). Releasing it from Python avoids this.
    """
    real_init, real_destroy = c10d.init_process_group, c10d.destroy_process_group

    @functools.wraps(real_init)
    def init(*args: Any, **kwargs: Any) -> Any:
        if not dist.is_initialized():
            _made.clear()
            # of a process of multiprocessing too, which runs no other exit handlers
            util.Finalize(None, _made.clear, exitpriority=0)
        return real_init(*args, **kwargs)

    @functools.wraps(real_destroy)
    def destroy(*args: Any, **kwargs: Any) -> Any:
        try:
            return real_destroy(*args, **kwargs)
        finally:
            there = c10d._world.pg_map
            # held by the list, and by the name and the argument here
            _made[:] = [group for group in _made if group in there or sys.getrefcount(group) > 3]

    for module in (c10d, dist):
        module.init_process_group, module.destroy_process_group = init, destroy


def _group_methods(devices: TensorDevices) -> None:
    group = dist.ProcessGroup
    real_register, real_get, real_default, real_types = (
        group._register_backend,
        group._get_backend,
        # torch 2.4 has none
        getattr(group, "_set_default_backend", None),
        group._device_types,
    )
    real_barrier = group.barrier
    kind, cpu = group.BackendType, torch.device("cpu")

    def register(self: Any, device: Any, backend_type: Any, backend: Any = None) -> None:
        if not any(group is self for group in _made):
            _made.append(self)
        if backend_type in (kind.NCCL, kind.GLOO) and device.type in ("cuda", "cpu"):
            if _has_backend(self):
                return  # cpu:gloo,cuda:nccl: torch keeps one gloo a group, and refuses another where a device is bound
            device, backend_type = cpu, kind.GLOO
        real_register(self, device, backend_type, backend)

    def _has_backend(self: Any) -> bool:
        try:
            real_get(self, cpu)
        except RuntimeError:
            return False
        return True

    def get(self: Any, device: Any) -> Any:
        return real_get(self, cpu if device.type == "cuda" else device)

    def types(self: Any) -> list[torch.device]:
        kinds = device_types(self)
        return [torch.device(name) for name in kinds] if kinds else list(real_types.__get__(self))

    def barrier(self: Any, *args: Any, **kwargs: Any) -> Any:
        for options in (*args, *kwargs.values()):
            if isinstance(options, dist.BarrierOptions):
                if options.device_ids and "cuda" in device_types(self):
                    devices.resolve(options.device_ids[0])
                options.device, options.device_ids = cpu, []
        return real_barrier(self, *args, **kwargs)

    group._register_backend, group._get_backend = register, get
    if real_default is not None:

        def set_default(self: Any, backend_type: Any) -> None:
            real_default(self, kind.GLOO if backend_type == kind.NCCL else backend_type)

        group._set_default_backend = set_default
    else:

        class GlooOptions(group.Options):  # type: ignore[name-defined,misc]
            def __init__(self, backend: str, **more: Any) -> None:
                super().__init__("gloo" if backend == "nccl" else backend, **more)

        group.Options = GlooOptions
    group._device_types = property(types)
    group.barrier = barrier


def device_types(group: Any) -> list[str]:
    """``["cuda"]`` for a group of NCCL alone."""
    try:
        configuration = str(c10d._world.pg_backend_config.get(group) or "")
    except (AttributeError, TypeError):
        return []
    return [part.split(":", 1)[0] for part in configuration.split(",") if ":" in part]


def _checked(function: Any, devices: TensorDevices) -> Any:
    result_name = _REDUCING.get(function.__name__)
    flat = _FLAT.get(function.__name__, ())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group")
        if group is None:
            group = next((arg for arg in args if isinstance(arg, dist.ProcessGroup)), None) or c10d.GroupMember.WORLD
        if group is not None and group is not c10d.GroupMember.NON_GROUP_MEMBER:
            _check_places(group, (*args, *kwargs.values()), devices)
            if flat and device_types(group) == ["cuda"]:
                args = (*map(_flattened, args[:2]), *args[2:])
                kwargs = {name: _flattened(value) if name in flat else value for name, value in kwargs.items()}
        operation = kwargs.get(
            "op", next((arg for arg in args if isinstance(arg, (dist.ReduceOp, dist.ReduceOp.RedOpType))), None)
        )
        if result_name and operation is not None:
            if operation == dist.ReduceOp.AVG:
                return _scaled(function, result_name, args, kwargs, "avg", lambda sums: _divide(sums, group.size()))
            if isinstance(operation, dist.ReduceOp) and operation == dist.ReduceOp.PREMUL_SUM:
                factor = operation.__getstate__()[1]
                return _scaled(function, result_name, args, kwargs, "premul_sum", lambda sums: sums.mul_(factor))
        return function(*args, **kwargs)

    return call


def _flattened(value: Any) -> Any:
    """The same elements in one row; what does not lie in a row is left as it is."""
    return value.view(-1) if isinstance(value, torch.Tensor) and value.is_contiguous() else value


def _check_places(group: Any, values: Any, devices: TensorDevices) -> None:
    kinds = device_types(group)
    if kinds != ["cuda"]:
        return
    for value in values:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(tensor, torch.Tensor) or storage_of(tensor) is None:
                continue
            if (
                devices.mark_of(tensor) is None
                and tensor.device.type == "cpu"
                and torch._C._current_graph_task_id() == -1
            ):
                raise RuntimeError("No backend type associated with device type cpu")


def _scaled(function: Any, result_name: str, args: Any, kwargs: Any, name: str, scale: Callable[[Any], Any]) -> Any:
    """An average, or a sum with a factor that all ranks share, as a sum that is scaled: gloo has neither."""
    args = tuple(
        dist.ReduceOp.SUM if isinstance(arg, (dist.ReduceOp, dist.ReduceOp.RedOpType)) else arg for arg in args
    )
    if "op" in kwargs:
        kwargs = {**kwargs, "op": dist.ReduceOp.SUM}
    result = args[0] if args else kwargs[result_name]
    with as_reduction(name):
        work = function(*args, **kwargs)
    if work is not None:
        work.wait()
    with torch.no_grad():
        scale(result)
    return work


def _divide(sums: Any, ranks: int) -> None:
    sums.div_(ranks, rounding_mode=None if sums.is_floating_point() or sums.is_complex() else "trunc")
