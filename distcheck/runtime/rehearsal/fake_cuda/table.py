"""The calls that a rehearsal covers, and what it does with each: the source of ``docs/rehearse-calls.md``."""

from __future__ import annotations

from typing import NamedTuple


class CoveredCall(NamedTuple):
    """One row of the table."""

    #: dotted names, as a script writes them
    names: tuple[str, ...]
    #: ``simulated``, ``passed over`` (the script continues, and the call is listed as not checked) or ``stops``
    how: str
    what: str


#: What happens → what a rehearsal does → the calls.
_CALLS = {
    "simulated": {
        "the GPUs of the node that CUDA_VISIBLE_DEVICES exposes": (
            "torch.cuda.is_available torch.cuda.device_count torch.cuda.is_initialized torch.cuda.init"
        ),
        "for each thread; a number beyond the last GPU raises `CUDA error: invalid device ordinal`": (
            "torch.cuda.set_device torch.cuda.current_device torch.cuda.device torch.cuda.device_of"
        ),
        "by default an H100 with 80 GB; `Invalid device id` beyond the last": (
            "torch.cuda.get_device_name torch.cuda.get_device_properties torch.cuda.get_device_capability "
            "torch.cuda.is_bf16_supported torch.cuda.can_device_access_peer"
        ),
        "with `non_blocking`, `copy`, `dtype`, `memory_format`; gradients flow back to the device of the source": (
            "torch.Tensor.to torch.Tensor.cuda torch.Tensor.cpu torch.Tensor.type torch.nn.Module.to "
            "torch.nn.Module.cuda torch.nn.Module.to_empty"
        ),
        "views, results, gradients and saved tensors are on the device of their operands": (
            "torch.Tensor.device torch.Tensor.is_cuda torch.Tensor.is_cpu torch.Tensor.get_device "
            "torch.Tensor.grad torch.get_device"
        ),
        "`numpy()` of a tensor on a GPU raises, as in torch": (
            "torch.Tensor.numpy torch.from_numpy torch.Tensor.item torch.Tensor.tolist"
        ),
        "`device=`, `with torch.device(...)` and the default device": (
            "torch.empty torch.zeros torch.ones torch.full torch.arange torch.tensor torch.as_tensor "
            "torch.asarray torch.rand torch.randn torch.randint torch.randperm torch.zeros_like "
            "torch.Tensor.new_zeros torch.sparse_coo_tensor torch.set_default_device"
        ),
        "one generator for each GPU, separate from the CPU's; its state is a seed and an offset; its numbers "
        "are not those of a real GPU; a generator of another device raises": (
            "torch.manual_seed torch.cuda.manual_seed torch.cuda.manual_seed_all torch.cuda.get_rng_state "
            "torch.cuda.set_rng_state torch.cuda.default_generators torch.Generator"
        ),
        "work is complete when a call returns; events measure the CPU's time": (
            "torch.cuda.Stream torch.cuda.Event torch.cuda.stream torch.cuda.current_stream "
            "torch.cuda.default_stream torch.cuda.synchronize torch.Tensor.record_stream"
        ),
        "bytes of the live tensors, without workspaces; no allocation fails": (
            "torch.cuda.memory_allocated torch.cuda.max_memory_allocated torch.cuda.memory_reserved "
            "torch.cuda.reset_peak_memory_stats torch.cuda.mem_get_info torch.cuda.empty_cache "
            "torch.cuda.memory_summary torch.cuda.memory_stats"
        ),
        "the CPU's autocast with the same dtype; the set of operations that keep float32 differs in details": (
            "torch.amp.autocast torch.autocast torch.cuda.amp.autocast torch.amp.GradScaler torch.cuda.amp.GradScaler"
        ),
        "`pin_memory=True` with and without workers": (
            "torch.Tensor.pin_memory torch.Tensor.is_pinned torch.utils.data.DataLoader"
        ),
        "checkpoints name the GPU; `map_location` in all forms; a missing GPU raises torch's error": (
            "torch.save torch.load torch.UntypedStorage"
        ),
        "gloo does the work of `nccl`, averages included; a tensor on the CPU in an NCCL group raises": (
            "torch.distributed.init_process_group torch.distributed.new_group torch.distributed.get_backend "
            "torch.distributed.is_nccl_available torch.distributed.barrier torch.distributed.all_reduce"
        ),
        "torch's own code, on simulated devices": (
            "torch.nn.parallel.DistributedDataParallel torch.distributed.fsdp.fully_shard "
            "torch.distributed.device_mesh.init_device_mesh"
        ),
        "the accelerator is CUDA": (
            "torch.accelerator.is_available torch.accelerator.device_count torch.accelerator.current_accelerator "
            "torch.accelerator.set_device_index torch.accelerator.synchronize"
        ),
        "accepted, no effect": (
            "torch.backends.cudnn.benchmark torch.backends.cudnn.deterministic torch.backends.cuda.matmul "
            "torch.cuda.nvtx.range_push torch.cuda.nvtx.range_pop torch.cuda.cudart"
        ),
        "the processes have the same simulated GPUs; a forked process can't initialize CUDA again, as in torch": (
            "torch.multiprocessing.spawn"
        ),
        "over all ranks of its group; distcheck supplies the functions that torch has for GPUs only": (
            "torch.nn.SyncBatchNorm torch.nn.SyncBatchNorm.convert_sync_batchnorm"
        ),
    },
    "passed over": {
        "the function runs uncompiled": ("torch.compile torch.nn.Module.compile torch.cuda.make_graphed_callables"),
        "the first device computes the whole batch": ("torch.nn.DataParallel"),
        "0": ("torch.cuda.utilization torch.cuda.temperature torch.cuda.power_draw torch.cuda.clock_rate"),
    },
    "stops": {
        "a graph or a kernel needs a real GPU": (
            "torch.cuda.CUDAGraph torch.cuda.graph torch.utils.cpp_extension.load torch.utils.cpp_extension.load_inline"
        ),
    },
}
COVERED = tuple(
    CoveredCall(tuple(names.split()), how, what) for how, rows in _CALLS.items() for what, names in rows.items()
)


_TITLES = {
    "simulated": "Simulated",
    "passed over": "Passed over: the script continues, and the line is listed as *not checked*",
    "stops": "The script stops there, and the line is listed as *not checked*",
}


def as_markdown() -> str:
    """Return the tables of the page."""
    lines: list[str] = []
    for how, title in _TITLES.items():
        lines += [f"## {title}", "", "| calls | what a rehearsal does |", "| --- | --- |"]
        lines += [
            f"| {', '.join(f'`{name}`' for name in row.names)} | {row.what} |" for row in COVERED if row.how == how
        ]
        lines.append("")
    return "\n".join(lines)
