"""Where a simulated tensor is: a mark on its storage, which views, parameters and loaded checkpoints share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .driver import FakeDriver

#: Attributes of a storage: the GPU that it is on; that it is pinned.
MARK = "_distcheck_gpu"
PINNED = "_distcheck_pinned"
#: mark of a storage that torch's own code made without a device argument while it computed gradients: it is
#: wherever its other operands are
FLOATING = -1
BASE = torch._C.TensorBase
CPU = torch.device("cpu")
#: How torch's messages and its old classes call a dtype.
LEGACY = {
    torch.float32: "FloatTensor",
    torch.float64: "DoubleTensor",
    torch.float16: "HalfTensor",
    torch.bfloat16: "BFloat16Tensor",
    torch.uint8: "ByteTensor",
    torch.int8: "CharTensor",
    torch.int16: "ShortTensor",
    torch.int32: "IntTensor",
    torch.int64: "LongTensor",
    torch.bool: "BoolTensor",
}


class MemoryBlock:
    """The mark: goes when the storage goes, and gives its bytes back."""

    __slots__ = ("driver", "index", "size")

    def __init__(self, driver: FakeDriver, index: int, size: int) -> None:
        self.driver, self.index, self.size = driver, index, size
        if memory := driver.memory.get(index):
            memory.take(size)

    def __del__(self) -> None:
        if memory := self.driver.memory.get(self.index):
            memory.free(self.size)


class TensorDevices:
    """Where each tensor is."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver

    def mark_of(self, tensor: Any) -> int | None:
        storage = storage_of(tensor)
        if storage is None:
            return getattr(tensor, MARK, None)
        mark = getattr(storage, MARK, None)
        if mark is not None:
            return int(mark.index)
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and hasattr(
            tensor, "__tensor_flatten__"
        ):
            return next((self.mark_of(part) for part in parts_of(tensor)), None)
        return None

    def gpu_of(self, tensor: Any) -> int | None:
        """The number of its GPU; None on the CPU (or meta)."""
        mark = self.mark_of(tensor)
        return None if mark == FLOATING else mark

    def put(self, tensor: Any, index: int | None) -> None:
        """Record where a tensor is, whatever was recorded before."""
        storage = storage_of(tensor)
        if storage is None:
            setattr(tensor, MARK, index)
            for part in _parts_of_sparse(tensor):
                self.put(part, index)
            return
        if index is None:
            if getattr(storage, MARK, None) is not None:
                setattr(storage, MARK, None)
        elif getattr(getattr(storage, MARK, None), "index", None) != index:
            wrapper = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
            setattr(storage, MARK, MemoryBlock(self.driver, index, 0 if wrapper else storage.nbytes()))
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and hasattr(
            tensor, "__tensor_flatten__"
        ):
            for part in parts_of(tensor):
                self.put(part, index)

    def device_of(self, tensor: Any) -> torch.device:
        gpu = self.gpu_of(tensor)
        return REAL_DEVICE(tensor) if gpu is None else torch.device("cuda", gpu)

    def resolve(self, device: Any) -> int | None:
        """The number that ``device`` means here, which must exist; None for everything but ``cuda``."""
        if device is None:
            return None
        if isinstance(device, int):
            device = torch.device("cuda", device)
        elif isinstance(device, str):
            device = torch.device(device)
        if device.type != "cuda":
            return None
        torch.cuda._lazy_init()
        return self.driver.current if device.index is None else self.driver.check(device.index)


def _plain(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """A method of the compiled class, past what subclasses and modes (a default device is one) do with it."""

    def call(tensor: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(tensor)

    return call


REAL_DEVICE = _plain(BASE.device.__get__)

_STORAGE = BASE.untyped_storage


def storage_of(tensor: Any) -> Any:
    """None where it has none: sparse layouts."""
    try:
        with torch._C.DisableTorchFunction():
            return _STORAGE(tensor)
    except (NotImplementedError, RuntimeError):
        return None


def parts_of(tensor: Any) -> Iterator[Any]:
    """The tensors inside of one that only wraps others."""
    for name in tensor.__tensor_flatten__()[0]:
        part = getattr(tensor, name, None)
        if isinstance(part, torch.Tensor):
            yield part


def _parts_of_sparse(tensor: Any) -> Iterator[Any]:
    if tensor.layout is torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())


def tensors_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def type_name(tensor: Any, index: int | None) -> str:
    return ("torch." if index is None else "torch.cuda.") + LEGACY.get(tensor.dtype, "Tensor")
