"""A driver for GPUs that are not there: what torch's own ``torch.cuda`` calls in its compiled part.

A build of torch for the CPU has the Python part of ``torch.cuda`` whole and lacks only the functions below it
(``torch._C._cuda_…``). They are supplied here, so all of ``torch.cuda`` runs its own code: its checks, its lazy start,
its errors and their texts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .nvidia_smi import uuid_of

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
    """Return CUDA's error for a number that no visible GPU has, in torch's words."""
    text = "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
    if os.environ.get("CUDA_LAUNCH_BLOCKING") != "1":
        text += _BLOCKING
    kind: type[Exception] = getattr(torch, "AcceleratorError", RuntimeError)
    return kind(text + _ASSERTIONS)


class AllocatorState:
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


class FakeDriver:
    """The GPUs of this process: those of the node that the mask leaves."""

    def __init__(self, count: int, memory: int, name: str, capability: tuple[int, int]) -> None:
        self.on_the_node = count
        self.memory_each = memory
        self.name = name
        self.capability = capability
        self._mine = threading.local()
        self._visible: tuple[int, ...] | None = None
        self._started_by: int | None = None
        self.memory: dict[int, AllocatorState] = {}
        self.generators: tuple[torch.Generator, ...] = ()
        #: set by the module that implements it
        self.make_generator: Callable[[int], Any] = lambda index: torch.Generator()
        self.streams = 0

    @property
    def visible(self) -> tuple[int, ...]:
        """Return the numbers on the node of the GPUs that this process sees; the mask at the start of CUDA counts."""
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
        self.memory = {index: AllocatorState() for index in range(self.count)}
        self.generators = tuple(self.make_generator(index) for index in range(self.count))
        torch.cuda.default_generators = self.generators

    def properties(self, index: int) -> Properties:
        number = self.visible[index]
        return Properties(
            self.name,
            self.memory_each,
            *self.capability,
            132,
            uuid_of(number).removeprefix("GPU-"),
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
