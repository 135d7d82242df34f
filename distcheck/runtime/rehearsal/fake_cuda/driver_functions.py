"""The functions of the simulated driver that take the place of those below ``torch.cuda``."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from .driver import AllocatorState, FakeDriver
from .streams import Streams, make_streams
from .unsupported import patch_unsupported

#: Functions of torch._C that do nothing on a simulated GPU.
_WITHOUT_EFFECT = (
    "_cuda_synchronize", "_cuda_sleep", "_cuda_ipc_collect", "_cuda_emptyCache", "_cuda_resetPeakHostMemoryStats",
    "_cuda_resetAccumulatedHostMemoryStats", "_cuda_record_memory_history", "_cuda_record_memory_history_legacy",
    "_cuda_setMemoryMetadata", "_cuda_cudaCachingAllocator_enable", "_cuda_set_sync_debug_mode",
    "_cuda_set_cudnn_benchmark_limit", "_cuda_clearCublasWorkspaces", "_accelerator_synchronizeDevice",
    "_accelerator_emptyCache", "_accelerator_emptyHostCache", "_accelerator_setAllocatorSettings",
)  # fmt: skip
_EXCHANGE = (
    "_cuda_exchangeDevice", "_cuda_maybeExchangeDevice", "_accelerator_exchangeDevice",
    "_accelerator_maybeExchangeDevice",
)  # fmt: skip
_COUNTERS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")


def install(driver: FakeDriver) -> None:
    """Put the driver below ``torch.cuda``, ``torch.accelerator`` and ``torch.backends.cuda``."""
    make_streams(driver)
    for name, function in _functions(driver).items():
        setattr(torch._C, name, function)
    torch._C._has_cuda = True
    cuda = torch.cuda
    cuda._is_in_bad_fork = lambda: driver.in_bad_fork
    cuda._exchange_device = driver.exchange
    cuda._maybe_exchange_device = driver.exchange
    cuda._get_device_properties = driver.properties
    cuda._cudart = _runtime(driver)
    cuda.device_count = _device_count(driver)
    cuda._device_count_nvml = cuda._raw_device_count_nvml = lambda: -1
    cuda.graphs._cuda_isCurrentStreamCapturing = lambda: False
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91002
    # true in a build for CUDA, whose function below it takes tensors of a real GPU
    torch._use_cudnn_rnn_flatten_weight = lambda: False
    torch.cuda.nccl.version = lambda: (2, 27, 5)
    torch.cuda.nccl.is_available = lambda tensors: True
    if torch.version.cuda is None:
        torch.version.cuda = "12.8"
    patch_unsupported()


def _device_count(driver: FakeDriver) -> Callable[[], int]:
    def device_count() -> int:
        return driver.count

    # torch's has a cache, and code that changes the mask clears it
    device_count.cache_clear = lambda: None  # type: ignore[attr-defined]
    return device_count


def _functions(driver: FakeDriver) -> dict[str, Callable[..., Any]]:
    def stats(device: int) -> dict[str, Any]:
        memory = driver.memory.get(device, AllocatorState())
        full = {
            "current": memory.now,
            "peak": memory.peak,
            "allocated": memory.allocated,
            "freed": memory.allocated - memory.now,
        }
        blocks = {
            "current": memory.blocks,
            "peak": memory.blocks,
            "allocated": memory.all_blocks,
            "freed": memory.all_blocks - memory.blocks,
        }
        zero = dict.fromkeys(full, 0)
        pools = {"all": full, "large_pool": full, "small_pool": zero}
        counts = {"all": blocks, "large_pool": blocks, "small_pool": zero}
        return {
            **{f"{name}_bytes": pools for name in ("allocated", "reserved", "active", "requested")},
            **dict.fromkeys(("allocation", "segment", "active"), counts),
            **{f"inactive_split{end}": dict.fromkeys(pools, zero) for end in ("", "_bytes")},
            **dict.fromkeys(("oversize_allocations", "oversize_segments"), zero),
            **dict.fromkeys(_COUNTERS, 0),
            "max_split_size": -1,
        }

    def reset_peak(device: int) -> None:
        if memory := driver.memory.get(device):
            memory.peak = memory.now

    def reset_accumulated(device: int) -> None:
        if memory := driver.memory.get(device):
            memory.allocated, memory.all_blocks = memory.now, memory.blocks

    def memory_info(index: int) -> tuple[int, int]:
        memory = driver.memory.get(index, AllocatorState())
        return (driver.memory_each - memory.now, driver.memory_each)

    def current_stream(device: int = -1) -> Any:
        return Streams.current(driver, driver.current if device < 0 else device)

    def set_stream_by_number(stream_id: int, device_index: int, device_type: int) -> None:
        driver.current = device_index
        Streams.use(torch.cuda.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    def packed(stream: Any) -> tuple[int, int, int]:
        return (stream.stream_id, stream.device_index, stream.device_type)

    def here() -> torch.device:
        return torch.device("cuda", driver.current)

    fractions: dict[int, float] = {}
    return {
        **dict.fromkeys(_WITHOUT_EFFECT, lambda *_, **__: None),
        "_cuda_init": driver.start,
        "_cuda_isInBadFork": lambda: driver.in_bad_fork,
        "_cuda_getDeviceCount": lambda: 0 if driver.in_bad_fork else driver.count,
        "_cuda_getDevice": lambda: driver.current,
        "_cuda_setDevice": driver.set_device,
        **dict.fromkeys(_EXCHANGE, driver.exchange),
        # none: torch then does not check what it was compiled for
        "_cuda_getArchFlags": lambda: None,
        "_cuda_getCompiledVersion": lambda: 12080,
        "_cuda_canDeviceAccessPeer": lambda one, other: one != other,
        "_cuda_memoryStats": stats,
        "_cuda_resetPeakMemoryStats": reset_peak,
        "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
        "_cuda_hostMemoryStats": dict,
        "_cuda_memorySnapshot": lambda *_: {
            "segments": [],
            "device_traces": [],
            "allocator_settings": {},
            "external_annotations": [],
        },
        "_cuda_getMemoryMetadata": lambda: "",
        "_cuda_setMemoryFraction": lambda fraction, device: fractions.__setitem__(device, fraction),
        "_cuda_getMemoryFraction": lambda device: fractions.get(device, 1.0),
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        "_cuda_getCurrentStream": lambda device: packed(current_stream(device)),
        "_cuda_getDefaultStream": lambda device: (0, device, 1),
        "_cuda_setStream": set_stream_by_number,
        "_cuda_getCurrentRawStream": lambda device: 0,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_get_cudnn_benchmark_limit": lambda: 10,
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_get_accelerator": lambda check=None: here(),
        "_accelerator_getDeviceIndex": lambda: driver.current,
        "_accelerator_setDeviceIndex": driver.set_device,
        "_accelerator_getStream": lambda device: current_stream(device),
        "_accelerator_setStream": lambda stream: Streams.use(stream),
        "_accelerator_isAllocatorInitialized": lambda: bool(driver.memory),
        "_accelerator_getDeviceStats": stats,
        "_accelerator_resetAccumulatedStats": reset_accumulated,
        "_accelerator_resetPeakStats": reset_peak,
        "_accelerator_getMemoryInfo": memory_info,
    }


def _runtime(driver: FakeDriver) -> types.SimpleNamespace:
    """What ``torch.cuda.cudart()`` gives: the few functions that scripts call."""
    success = 0

    def memory_info(index: int) -> tuple[int, int]:
        return (driver.memory_each - driver.memory[index].now, driver.memory_each)

    return types.SimpleNamespace(
        cudaError=types.SimpleNamespace(success=success),
        cudaGetErrorString=lambda code: f"error {code}",
        cudaProfilerStart=lambda: success,
        cudaProfilerStop=lambda: success,
        cudaHostRegister=lambda *_: success,
        cudaHostUnregister=lambda *_: success,
        cudaMemGetInfo=memory_info,
    )
