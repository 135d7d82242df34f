"""A driver for GPUs that are not there: what torch's own ``torch.cuda`` calls in its compiled part.

A build of torch for the CPU has the Python part of ``torch.cuda`` whole and lacks only the functions below it
(``torch._C._cuda_…``). They are supplied here, so all of ``torch.cuda`` runs its own code: its checks, its lazy start,
its errors and their texts.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from distcheck.rehearsal.pretended.notes import note, refuse

_BLOCKING = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
_ASSERTIONS = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


class Properties(NamedTuple):
    """What ``torch.cuda.get_device_properties`` gives."""

    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int
    uuid: str
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    warp_size: int = 32
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 232448
    shared_memory_per_multiprocessor: int = 233472
    L2_cache_size: int = 52428800
    gcnArchName: str = ""  # noqa: N815 - as torch names it
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0
    clock_rate: int = 1980000
    memory_clock_rate: int = 2619000
    memory_bus_width: int = 5120


def invalid_ordinal() -> Exception:
    """What CUDA says of a number that no visible GPU has, in torch's words."""
    text = "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
    if os.environ.get("CUDA_LAUNCH_BLOCKING") != "1":
        text += _BLOCKING
    kind: type[Exception] = getattr(torch, "AcceleratorError", RuntimeError)
    return kind(text + _ASSERTIONS)


class Memory:
    """Bytes of one GPU, counted as torch's allocator would: in blocks of 512."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self.allocated = 0
        self.blocks = 0
        self.all_blocks = 0

    def take(self, size: int) -> None:
        size = -(-size // 512) * 512
        self.now += size
        self.allocated += size
        self.blocks += 1
        self.all_blocks += 1
        self.peak = max(self.peak, self.now)

    def free(self, size: int) -> None:
        self.now -= -(-size // 512) * 512
        self.blocks -= 1


class Driver:
    """The GPUs of this process: those of the node that the mask leaves."""

    def __init__(self, count: int, memory: int, name: str, capability: tuple[int, int]) -> None:
        self.on_the_node = count
        self.memory_each = memory
        self.name = name
        self.capability = capability
        self._mine = threading.local()
        self._visible: tuple[int, ...] | None = None
        self._started_by: int | None = None
        self.memory: dict[int, Memory] = {}
        self.generators: tuple[torch.Generator, ...] = ()
        #: set by whoever knows how
        self.make_generator: Callable[[int], Any] = lambda index: torch.Generator()
        self.streams = 0

    @property
    def visible(self) -> tuple[int, ...]:
        """Numbers on the node of the GPUs that this process sees; what the mask says when CUDA starts, holds."""
        return (
            _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), self.on_the_node)
            if self._visible is None
            else self._visible
        )

    @property
    def count(self) -> int:
        return len(self.visible)

    @property
    def current(self) -> int:
        return int(getattr(self._mine, "device", 0))

    @current.setter
    def current(self, index: int) -> None:
        self._mine.device = index

    @property
    def in_bad_fork(self) -> bool:
        return self._started_by not in (None, os.getpid())

    def check(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise invalid_ordinal()
        return index

    def start(self) -> None:
        """What ``_cuda_init`` does, besides real work."""
        if not self.visible:
            raise RuntimeError("No CUDA GPUs are available")
        self._visible = self.visible
        self._started_by = os.getpid()
        self.memory = {index: Memory() for index in range(self.count)}
        self.generators = tuple(self.make_generator(index) for index in range(self.count))
        torch.cuda.default_generators = self.generators

    def properties(self, index: int) -> Properties:
        number = self.visible[index]
        return Properties(
            self.name,
            self.memory_each,
            *self.capability,
            132,
            f"0e5c0000-0000-0000-0000-{number:012d}",
            pci_bus_id=number + 1,
        )

    def set_device(self, index: int) -> None:
        torch.cuda._lazy_init()
        self.current = self.check(index)

    def exchange(self, index: int) -> int:
        if index < 0:
            return -1
        torch.cuda._lazy_init()
        before, self.current = self.current, self.check(index)
        return before


def _visible(mask: str | None, count: int) -> tuple[int, ...]:
    """As CUDA reads the mask: numbers up to the first that no GPU has; none where one comes twice."""
    if mask is None:
        return tuple(range(count))
    numbers: list[int] = []
    for word in mask.split(","):
        text = word.strip()
        if text.upper().startswith(("GPU-", "MIG-")):
            # the names of real GPUs mean nothing here; a launcher that masks by them gives each process its own
            numbers.append(len(numbers))
            continue
        digits = text[1:] if text[:1] in "+-" else text
        if not digits.isdecimal() or not 0 <= int(text) < count:
            break
        if int(text) in numbers:
            return ()
        numbers.append(int(text))
    return tuple(number for number in numbers if number < count)


def install(driver: Driver) -> None:
    """Put the driver below ``torch.cuda``, ``torch.accelerator`` and ``torch.backends.cuda``."""
    _make_streams(driver)
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
    torch.cuda.nccl.version = lambda: (2, 27, 5)
    torch.cuda.nccl.is_available = lambda tensors: True
    if torch.version.cuda is None:
        torch.version.cuda = "12.8"
    _unpretended()


def _device_count(driver: Driver) -> Callable[[], int]:
    def device_count() -> int:
        return driver.count

    # torch's has a cache, and code that changes the mask clears it
    device_count.cache_clear = lambda: None  # type: ignore[attr-defined]
    return device_count


def _functions(driver: Driver) -> dict[str, Callable[..., Any]]:
    def stats(device: int) -> dict[str, Any]:
        memory = driver.memory.get(device, Memory())
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
        nothing = dict.fromkeys(full, 0)
        pools = {"all": full, "large_pool": full, "small_pool": nothing}
        counts = {"all": blocks, "large_pool": blocks, "small_pool": nothing}
        return {
            **{f"{name}_bytes": pools for name in ("allocated", "reserved", "active", "requested")},
            **dict.fromkeys(("allocation", "segment", "active"), counts),
            "inactive_split_bytes": dict.fromkeys(pools, nothing),
            "inactive_split": dict.fromkeys(pools, nothing),
            "oversize_allocations": nothing,
            "oversize_segments": nothing,
            "num_alloc_retries": 0,
            "num_ooms": 0,
            "num_sync_all_streams": 0,
            "num_device_alloc": 0,
            "num_device_free": 0,
            "max_split_size": -1,
        }

    def reset_peak(device: int) -> None:
        if memory := driver.memory.get(device):
            memory.peak = memory.now

    def reset_accumulated(device: int) -> None:
        if memory := driver.memory.get(device):
            memory.allocated, memory.all_blocks = memory.now, memory.blocks

    def memory_info(index: int) -> tuple[int, int]:
        memory = driver.memory.get(index, Memory())
        return (driver.memory_each - memory.now, driver.memory_each)

    def current_stream(device: int = -1) -> Any:
        return _Streams.current(driver, driver.current if device < 0 else device)

    def set_stream_by_number(stream_id: int, device_index: int, device_type: int) -> None:
        driver.current = device_index
        _Streams.use(torch.cuda.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    def packed(stream: Any) -> tuple[int, int, int]:
        return (stream.stream_id, stream.device_index, stream.device_type)

    def here() -> torch.device:
        return torch.device("cuda", driver.current)

    nothing: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    fractions: dict[int, float] = {}
    return {
        "_cuda_init": driver.start,
        "_cuda_isInBadFork": lambda: driver.in_bad_fork,
        "_cuda_getDeviceCount": lambda: 0 if driver.in_bad_fork else driver.count,
        "_cuda_getDevice": lambda: driver.current,
        "_cuda_setDevice": driver.set_device,
        "_cuda_exchangeDevice": driver.exchange,
        "_cuda_maybeExchangeDevice": driver.exchange,
        # none: torch then asks nothing about what it was compiled for
        "_cuda_getArchFlags": lambda: None,
        "_cuda_getCompiledVersion": lambda: 12080,
        "_cuda_canDeviceAccessPeer": lambda one, other: one != other,
        "_cuda_synchronize": nothing,
        "_cuda_sleep": nothing,
        "_cuda_ipc_collect": nothing,
        "_cuda_emptyCache": nothing,
        "_cuda_memoryStats": stats,
        "_cuda_resetPeakMemoryStats": reset_peak,
        "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
        "_cuda_hostMemoryStats": dict,
        "_cuda_resetPeakHostMemoryStats": nothing,
        "_cuda_resetAccumulatedHostMemoryStats": nothing,
        "_cuda_memorySnapshot": lambda *_: {
            "segments": [],
            "device_traces": [],
            "allocator_settings": {},
            "external_annotations": [],
        },
        "_cuda_record_memory_history": nothing,
        "_cuda_record_memory_history_legacy": nothing,
        "_cuda_setMemoryMetadata": nothing,
        "_cuda_getMemoryMetadata": lambda: "",
        "_cuda_setMemoryFraction": lambda fraction, device: fractions.__setitem__(device, fraction),
        "_cuda_getMemoryFraction": lambda device: fractions.get(device, 1.0),
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_cudaCachingAllocator_enable": nothing,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        "_cuda_getCurrentStream": lambda device: packed(current_stream(device)),
        "_cuda_getDefaultStream": lambda device: (0, device, 1),
        "_cuda_setStream": set_stream_by_number,
        "_cuda_getCurrentRawStream": lambda device: 0,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_set_sync_debug_mode": nothing,
        "_cuda_get_cudnn_benchmark_limit": lambda: 10,
        "_cuda_set_cudnn_benchmark_limit": nothing,
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_clearCublasWorkspaces": nothing,
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_get_accelerator": lambda check=None: here(),
        "_accelerator_getDeviceIndex": lambda: driver.current,
        "_accelerator_setDeviceIndex": driver.set_device,
        "_accelerator_exchangeDevice": driver.exchange,
        "_accelerator_maybeExchangeDevice": driver.exchange,
        "_accelerator_getStream": lambda device: current_stream(device),
        "_accelerator_setStream": lambda stream: _Streams.use(stream),
        "_accelerator_synchronizeDevice": nothing,
        "_accelerator_isAllocatorInitialized": lambda: bool(driver.memory),
        "_accelerator_emptyCache": nothing,
        "_accelerator_emptyHostCache": nothing,
        "_accelerator_getDeviceStats": stats,
        "_accelerator_resetAccumulatedStats": reset_accumulated,
        "_accelerator_resetPeakStats": reset_peak,
        "_accelerator_getMemoryInfo": memory_info,
        "_accelerator_setAllocatorSettings": nothing,
    }


def _runtime(driver: Driver) -> types.SimpleNamespace:
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


class _Streams:
    """Which stream each thread uses on each GPU."""

    threads = threading.local()

    @classmethod
    def _table(cls) -> dict[int, Any]:
        if not hasattr(cls.threads, "table"):
            cls.threads.table = {}
        table: dict[int, Any] = cls.threads.table
        return table

    @classmethod
    def current(cls, driver: Driver, device: int) -> Any:
        torch.cuda._lazy_init()
        return cls._table().get(device) or torch.cuda.Stream(
            stream_id=0, device_index=driver.check(device), device_type=1
        )

    @classmethod
    def use(cls, stream: Any) -> None:
        cls._table()[stream.device_index] = stream


def _make_streams(driver: Driver) -> None:
    """Streams and events without work: all is done when a call returns, so nothing is ever waited for."""

    class StreamBase:
        stream_id: int
        device_index: int
        device_type = 1

        def __new__(
            cls, priority: int = 0, stream_id: int | None = None, device_index: int | None = None, **_: Any
        ) -> Any:
            torch.cuda._lazy_init()
            stream = object.__new__(cls)
            if stream_id is None:
                driver.streams += 1
                stream_id = driver.streams
            stream.stream_id = stream_id
            stream.device_index = driver.current if device_index is None else driver.check(device_index)
            stream.priority = min(priority, 0)
            return stream

        def __init__(self, *_: Any, **__: Any) -> None:
            self.priority: int

        @property
        def cuda_stream(self) -> int:
            return self.stream_id

        native_handle = cuda_stream

        @property
        def device(self) -> torch.device:
            return torch.device("cuda", self.device_index)

        def is_capturing(self) -> bool:
            return False

        @classmethod
        def priority_range(cls) -> tuple[int, int]:
            return (0, -5)

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            pass

        def __eq__(self, other: object) -> bool:
            return (self.stream_id, self.device_index) == (
                getattr(other, "stream_id", None),
                getattr(other, "device_index", None),
            )

        def __hash__(self) -> int:
            return hash((self.stream_id, self.device_index))

        def __enter__(self) -> Any:
            self._before = _Streams.current(driver, self.device_index)
            _Streams.use(self)
            return self

        def __exit__(self, *_: object) -> None:
            _Streams.use(self._before)

    class EventBase:
        def __new__(cls, *_: Any, enable_timing: bool = False, **__: Any) -> Any:
            torch.cuda._lazy_init()
            event = object.__new__(cls)
            event.enable_timing = enable_timing
            event.at = None
            event.device_index = driver.current
            return event

        def __init__(self, *_: Any, **__: Any) -> None:
            self.enable_timing: bool
            self.at: float | None
            self.device_index: int

        @property
        def cuda_event(self) -> int:
            return id(self) if self.at is not None else 0

        event_id = cuda_event

        @property
        def device(self) -> torch.device:
            return torch.device("cuda", self.device_index)

        def record(self, stream: Any = None) -> None:
            self.at = time.perf_counter()

        def wait(self, stream: Any = None) -> None:
            pass

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, other: Any) -> float:
            if not (self.enable_timing and other.enable_timing):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self.at is None or other.at is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            return (float(other.at) - self.at) * 1000

        def ipc_handle(self) -> bytes:
            raise refuse("torch.cuda.Event.ipc_handle", "there is no event that another process could open")

    put_below(torch.cuda.Stream, StreamBase)
    put_below(torch.cuda.Event, EventBase)


def put_below(kind: type, base: type) -> type:
    """Give a class of torch's another base, so that its own Python code runs above ours.

    In a build for the CPU it stays itself, and every name for it stays valid. In a build for CUDA its base is compiled,
    and Python refuses another one: then a class like it takes its place, under all names that are known by now.
    """
    try:
        kind.__bases__ = (base,)
        return kind
    except TypeError:
        pass
    members = {
        name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__", "__slots__")
    }
    like = type(kind.__name__, (base,), members)
    for value in members.values():
        _belongs_to(value, like)
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is kind:
                setattr(module, name, like)
    belows: list[type] = kind.__subclasses__()
    for below in belows:
        put_below(below, like)
    return like


def _belongs_to(member: Any, kind: type) -> None:
    """``super()`` without arguments asks a cell of the function for its class."""
    if isinstance(member, property):
        for part in (member.fget, member.fset, member.fdel):
            _belongs_to(part, kind)
    function = getattr(member, "__func__", member)
    for name, cell in zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()), getattr(function, "__closure__", None) or (),
        strict=False,
    ):  # fmt: skip
        if name == "__class__":
            cell.cell_contents = kind


def _unpretended() -> None:
    """What only a GPU can do: passed over with a note where the script's meaning stays, an error where it does not."""

    def graphed(callables: Any, *_: Any, **__: Any) -> Any:
        note("torch.cuda.make_graphed_callables", "the functions run as they are")
        return callables

    _refuse_to_make(torch.cuda.graphs.CUDAGraph, "torch.cuda.CUDAGraph")
    _refuse_to_make(torch.cuda.graphs.graph, "torch.cuda.graph")
    torch.cuda.make_graphed_callables = torch.cuda.graphs.make_graphed_callables = graphed
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(torch.cuda.nvtx, name, lambda *_, **__: 0)
    for name in ("temperature", "power_draw", "clock_rate", "utilization", "memory_usage"):
        setattr(torch.cuda, name, _measured(f"torch.cuda.{name}"))
    _pass_over_compilation()


def _refuse_to_make(kind: Any, name: str) -> None:
    """There is no object of a class, which stays one for annotations, ``isinstance()`` and classes below it."""

    def refused(*_: Any, **__: Any) -> Any:
        raise refuse(name, "a graph records what the GPU does, and nothing here would be recorded")

    kind.__new__ = staticmethod(refused)


def _measured(name: str) -> Callable[..., int]:
    def measured(*_: Any, **__: Any) -> int:
        note(name, "0 was returned")
        return 0

    return measured


def _pass_over_compilation() -> None:
    """``torch.compile`` traces with tensors of its own, which our devices don't reach: the function itself is run."""

    def compiled(model: Any = None, **_: Any) -> Any:
        note("torch.compile", "the function runs as it is")
        return (lambda function: function) if model is None else model

    def compile_module(self: Any, *_: Any, **__: Any) -> None:
        note("torch.nn.Module.compile", "the module runs as it is")

    torch.compile = compiled
    torch.nn.Module.compile = compile_module
