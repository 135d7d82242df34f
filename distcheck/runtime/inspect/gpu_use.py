"""Memory and load of this host's GPUs by process, from the driver. No CUDA context is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from distcheck.core.registry import fact
from distcheck.core.world import World


class GpuUse(NamedTuple):
    """The use of all GPUs of this host."""

    #: process → GPU by the driver's number → bytes that it holds; -1: unknown
    memory: Mapping[int, Mapping[int, int]] = {}
    #: GPU → percent of the last moment in which it computed; an NCCL collective that waits counts as computing
    busy_percent: Mapping[int, int] = {}


@fact(limit_s=5, isolated=True)
def read_gpu_use(world: World) -> GpuUse:
    """Read from NVML. A process in a container has another number there, and is not found."""
    nvml = world.nvml()
    memory: dict[int, dict[int, int]] = {}
    busy: dict[int, int] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                memory.setdefault(int(process.pid), {})[index] = _bytes(process.usedGpuMemory)
            busy[index] = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except nvml.NVMLError:  # a lost GPU, or one that is divided into instances
            continue
    return GpuUse(memory, busy)


def _bytes(value: Any) -> int:
    return int(value) if isinstance(value, int) and value < 1 << 60 else -1


def description(use: GpuUse, pid: int) -> str:
    """Return ``GPU 0 (100 % busy, 61.2 GB)``; "" for a process that uses none."""
    parts = []
    for index, held in sorted(use.memory.get(pid, {}).items()):
        known = [f"{use.busy_percent[index]} % busy"] if index in use.busy_percent else []
        known += [f"{held / 1e9:.1f} GB"] if held >= 0 else []
        parts.append(f"GPU {index}" + (f" ({', '.join(known)})" if known else ""))
    return ", ".join(parts)
