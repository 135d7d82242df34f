"""Generators of simulated GPUs: a seed and an offset, as on a real one; the numbers themselves are the CPU's.

CUDA's generator counts (Philox): its state is 16 bytes, which scripts save and restore, and to which DTensor adds what
the shards before its own would have drawn. Here each draw seeds the generator of the CPU with both: equal states give
equal numbers, and different ones others.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import Any

import torch

from distcheck.runtime.coordination.import_hook import when_imported

from .driver import FakeDriver

#: What one draw adds to the offset; on a real GPU it is a multiple of this (Philox gives four numbers at a time).
_PER_DRAW = 4
_STATE = struct.Struct("<Qq")
_SEEDS = (1 << 64) - 1
#: torch's default (c10/core/GeneratorImpl.h)
_DEFAULT_SEED = 67280421310721


class _GeneratorState:
    """Of the generator of one GPU."""

    def __init__(self, index: int, owner: Any) -> None:
        self.index = index
        #: the Python object that answers with it
        self.owner = weakref.ref(owner)
        self.seed = _DEFAULT_SEED
        self.offset = 0


#: by the address of torch's compiled part: it hands that around, under whatever Python object
_states: dict[int, _GeneratorState] = {}


def index_of(generator: Any) -> int | None:
    """The GPU of a generator; None where it is the CPU's."""
    state = _states.get(generator._cdata)
    return None if state is None else state.index


def begin_draw(generator: Any, drawing: Any) -> None:
    """Seed the generator that an operation on the CPU will draw from, in place of a GPU's."""
    state = _states[generator._cdata]
    # 64 bits mixed (the finalizer of SplitMix64): the CPU's generator takes the lower half only
    mixed = (state.seed + 0x9E3779B97F4A7C15 * (state.offset + 1)) & _SEEDS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _SEEDS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _SEEDS
    torch._C.Generator.manual_seed(drawing, mixed ^ (mixed >> 31))
    state.offset += _PER_DRAW


def install(resolve: Callable[[Any], int | None], driver: FakeDriver) -> None:
    """Let ``torch.Generator`` take ``cuda`` for a device.

    :param resolve: from what names a device to the number of its GPU, None for the CPU
    """
    real = torch._C.Generator

    class FakeGeneratorKind(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return type.__instancecheck__(real, value)

    class Generator(real, metaclass=FakeGeneratorKind):  # type: ignore[misc, valid-type]
        """``torch.Generator``, which takes ``cuda`` for a device."""

        def __new__(cls, device: Any = "cpu") -> Any:
            index = resolve(device)
            return real.__new__(cls, device) if index is None else OnGpu(index)

        def __init__(self, device: Any = "cpu") -> None:
            pass

    class OnGpu(real):  # type: ignore[misc, valid-type]
        """What ``torch.Generator`` gives for a GPU."""

        def __new__(cls, index: int) -> Any:
            generator = real.__new__(cls)
            generator.state = _states[generator._cdata] = _GeneratorState(index, generator)
            return generator

        def __init__(self, index: int) -> None:
            pass

        def __del__(self) -> None:
            _states.pop(self._cdata, None)

        @property
        def device(self) -> torch.device:
            return torch.device("cuda", self.state.index)

        def get_state(self) -> Any:
            packed = _STATE.pack(self.state.seed, self.state.offset)
            return torch.frombuffer(bytearray(packed), dtype=torch.uint8)

        def set_state(self, new_state: Any) -> Any:
            if not isinstance(new_state, torch.Tensor) or new_state.dtype != torch.uint8 or new_state.is_cuda:
                raise TypeError("RNG state must be a torch.ByteTensor")
            if new_state.numel() != _STATE.size:
                raise RuntimeError("RNG state is wrong size")
            self.state.seed, self.state.offset = _STATE.unpack(bytes(new_state.tolist()))
            return self

        def manual_seed(self, seed: int) -> Any:
            self.state.seed, self.state.offset = int(seed) & _SEEDS, 0
            return self

        def initial_seed(self) -> int:
            return int(self.state.seed)

        def seed(self) -> int:
            return int(self.manual_seed(real.seed(self)).state.seed)

        def clone_state(self) -> Any:
            return OnGpu(self.state.index).set_state(self.get_state())

        def get_offset(self) -> int:
            return int(self.state.offset)

        def set_offset(self, offset: int) -> Any:
            self.state.offset = int(offset)
            return self

        def __reduce__(self) -> Any:
            return torch.Generator, (self.device,), (self.state.seed, self.state.offset, self.get_state())

        def __setstate__(self, state: Any) -> None:
            self.set_state(state[2])

    OnGpu.__name__ = OnGpu.__qualname__ = "Generator"
    OnGpu.__module__ = "torch"
    Generator.__name__ = Generator.__qualname__ = "Generator"
    Generator.__module__ = "torch"
    torch.Generator = Generator
    driver.make_generator = OnGpu
    when_imported("torch.distributed.tensor._random", _in_tensors_of_many)


def _in_tensors_of_many(module: Any) -> None:
    """DTensor requests the state of generators as torch's compiled part returns them, which is without our class."""
    tracker = module.OffsetBasedRNGTracker
    region = tracker._distribute_region

    def _distribute_region(self: Any, spec: Any, generator: Any = None) -> Any:
        state = None if generator is None else _states.get(generator._cdata)
        return region(self, spec, generator if state is None else state.owner())

    tracker._distribute_region = _distribute_region
