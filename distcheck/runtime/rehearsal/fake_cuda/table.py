"""The calls that a rehearsal covers, and what it does with each: the page in the docs is made of this."""

from __future__ import annotations

from typing import NamedTuple


class CoveredCall(NamedTuple):
    """One row of the table."""

    #: dotted names, as a script writes them
    names: tuple[str, ...]
    #: ``simulated``, ``passed over`` (the script goes on, and it is listed as not checked) or ``stops``
    how: str
    what: str


#: What scripts call, and what a rehearsal does with it. The page in the docs is made of this.
COVERED = (
    CoveredCall(
        ("torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.is_initialized", "torch.cuda.init"),
        "simulated",
        "the GPUs of the node that CUDA_VISIBLE_DEVICES leaves",
    ),
    CoveredCall(
        ("torch.cuda.set_device", "torch.cuda.current_device", "torch.cuda.device", "torch.cuda.device_of"),
        "simulated",
        "for each thread; a number that is not there raises `CUDA error: invalid device ordinal`",
    ),
    CoveredCall(
        (
            "torch.cuda.get_device_name",
            "torch.cuda.get_device_properties",
            "torch.cuda.get_device_capability",
            "torch.cuda.is_bf16_supported",
            "torch.cuda.can_device_access_peer",
        ),
        "simulated",
        "an H100 with 80 GB, if nothing else was said; `Invalid device id` beyond the last",
    ),
    CoveredCall(
        (
            "torch.Tensor.to",
            "torch.Tensor.cuda",
            "torch.Tensor.cpu",
            "torch.Tensor.type",
            "torch.nn.Module.to",
            "torch.nn.Module.cuda",
            "torch.nn.Module.to_empty",
        ),
        "simulated",
        "with `non_blocking`, `copy`, `dtype`, `memory_format`; gradients flow back to where the tensor came from",
    ),
    CoveredCall(
        (
            "torch.Tensor.device",
            "torch.Tensor.is_cuda",
            "torch.Tensor.is_cpu",
            "torch.Tensor.get_device",
            "torch.Tensor.grad",
            "torch.get_device",
        ),
        "simulated",
        "views, results, gradients and saved tensors are where their operands are",
    ),
    CoveredCall(
        ("torch.Tensor.numpy", "torch.from_numpy", "torch.Tensor.item", "torch.Tensor.tolist"),
        "simulated",
        "a tensor on a GPU refuses `numpy()` as in torch",
    ),
    CoveredCall(
        (
            "torch.empty",
            "torch.zeros",
            "torch.ones",
            "torch.full",
            "torch.arange",
            "torch.tensor",
            "torch.as_tensor",
            "torch.asarray",
            "torch.rand",
            "torch.randn",
            "torch.randint",
            "torch.randperm",
            "torch.zeros_like",
            "torch.Tensor.new_zeros",
            "torch.sparse_coo_tensor",
            "torch.set_default_device",
        ),
        "simulated",
        "`device=`, `with torch.device(...)` and the default device",
    ),
    CoveredCall(
        (
            "torch.manual_seed",
            "torch.cuda.manual_seed",
            "torch.cuda.manual_seed_all",
            "torch.cuda.get_rng_state",
            "torch.cuda.set_rng_state",
            "torch.cuda.default_generators",
            "torch.Generator",
        ),
        "simulated",
        "one generator a GPU, apart from the CPU's, with a seed and an offset for its state; not the numbers of a real"
        " GPU; another device's generator raises",
    ),
    CoveredCall(
        (
            "torch.cuda.Stream",
            "torch.cuda.Event",
            "torch.cuda.stream",
            "torch.cuda.current_stream",
            "torch.cuda.default_stream",
            "torch.cuda.synchronize",
            "torch.Tensor.record_stream",
        ),
        "simulated",
        "all work is done when a call returns; events measure the CPU's time",
    ),
    CoveredCall(
        (
            "torch.cuda.memory_allocated",
            "torch.cuda.max_memory_allocated",
            "torch.cuda.memory_reserved",
            "torch.cuda.reset_peak_memory_stats",
            "torch.cuda.mem_get_info",
            "torch.cuda.empty_cache",
            "torch.cuda.memory_summary",
            "torch.cuda.memory_stats",
        ),
        "simulated",
        "bytes of the tensors alive, without workspaces; nothing runs out of memory",
    ),
    CoveredCall(
        (
            "torch.amp.autocast",
            "torch.autocast",
            "torch.cuda.amp.autocast",
            "torch.amp.GradScaler",
            "torch.cuda.amp.GradScaler",
        ),
        "simulated",
        "the CPU's autocast with the same type: which operations keep 32 bits differs in details",
    ),
    CoveredCall(
        ("torch.Tensor.pin_memory", "torch.Tensor.is_pinned", "torch.utils.data.DataLoader"),
        "simulated",
        "`pin_memory=True` with and without workers",
    ),
    CoveredCall(
        ("torch.save", "torch.load", "torch.UntypedStorage"),
        "simulated",
        "checkpoints name the GPU; `map_location` in all forms; a GPU that is not there raises torch's error",
    ),
    CoveredCall(
        (
            "torch.distributed.init_process_group",
            "torch.distributed.new_group",
            "torch.distributed.get_backend",
            "torch.distributed.is_nccl_available",
            "torch.distributed.barrier",
            "torch.distributed.all_reduce",
        ),
        "simulated",
        "`nccl` by gloo; averages too; a tensor on the CPU in a group of NCCL raises",
    ),
    CoveredCall(
        (
            "torch.nn.parallel.DistributedDataParallel",
            "torch.distributed.fsdp.fully_shard",
            "torch.distributed.device_mesh.init_device_mesh",
        ),
        "simulated",
        "torch's own code, on simulated devices",
    ),
    CoveredCall(
        (
            "torch.accelerator.is_available",
            "torch.accelerator.device_count",
            "torch.accelerator.current_accelerator",
            "torch.accelerator.set_device_index",
            "torch.accelerator.synchronize",
        ),
        "simulated",
        "the accelerator is CUDA",
    ),
    CoveredCall(
        (
            "torch.backends.cudnn.benchmark",
            "torch.backends.cudnn.deterministic",
            "torch.backends.cuda.matmul",
            "torch.cuda.nvtx.range_push",
            "torch.cuda.nvtx.range_pop",
            "torch.cuda.cudart",
        ),
        "simulated",
        "accepted, without effect",
    ),
    CoveredCall(
        ("torch.multiprocessing.spawn",),
        "simulated",
        "the processes believe in the same GPUs; in a forked one CUDA can't start again, as in torch",
    ),
    CoveredCall(
        ("torch.compile", "torch.nn.Module.compile", "torch.cuda.make_graphed_callables"),
        "passed over",
        "the function runs as it is",
    ),
    CoveredCall(
        ("torch.nn.SyncBatchNorm", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"),
        "simulated",
        "over all ranks of its group, by functions that torch has for GPUs only",
    ),
    CoveredCall(("torch.nn.DataParallel",), "passed over", "the first device computes the whole batch"),
    CoveredCall(
        ("torch.cuda.utilization", "torch.cuda.temperature", "torch.cuda.power_draw", "torch.cuda.clock_rate"),
        "passed over",
        "0",
    ),
    CoveredCall(
        (
            "torch.cuda.CUDAGraph",
            "torch.cuda.graph",
            "torch.utils.cpp_extension.load",
            "torch.utils.cpp_extension.load_inline",
        ),
        "stops",
        "a graph or a kernel has nothing to run on",
    ),
)


_TITLES = {
    "simulated": "Simulated",
    "passed over": "Passed over: the script goes on, and the line is listed as *not checked*",
    "stops": "The script stops there, and the line is listed as *not checked*",
}


def as_markdown() -> str:
    """The tables of the page."""
    lines: list[str] = []
    for how, title in _TITLES.items():
        lines += [f"## {title}", "", "| calls | what a rehearsal does |", "| --- | --- |"]
        lines += [
            f"| {', '.join(f'`{name}`' for name in row.names)} | {row.what} |" for row in COVERED if row.how == how
        ]
        lines.append("")
    return "\n".join(lines)
