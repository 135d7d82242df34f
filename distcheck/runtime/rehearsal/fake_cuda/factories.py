"""Functions that make tensors and storages and take ``device=``, where the dispatcher does not see it."""

from __future__ import annotations

import functools
from typing import Any

import torch

from distcheck.runtime.coordination.patching import stand_in

from .device_marks import CPU, FLOATING, MARK, MemoryBlock, TensorDevices, storage_of
from .operations import in_script

#: Functions whose compiled code moves some of its operands itself.
_MOVING = ("ctc_loss",)


def _context_device() -> Any:
    """Return the device of ``with torch.device(…)`` or ``torch.set_default_device``."""
    from torch.utils._device import DeviceContext

    for mode in reversed(torch.overrides._get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return mode.device
    return None


def factories(devices: TensorDevices) -> None:
    """Functions that take ``device=`` and don't come to the dispatcher with it."""

    def wrap(name: str, owner: Any = torch) -> None:
        real = getattr(owner, name)

        def make(*args: Any, **kwargs: Any) -> Any:
            device = kwargs.pop("device", None)
            source = args[1] if owner is torch.Tensor else args[0] if args else kwargs.get("data", kwargs.get("obj"))
            if name in {"as_tensor", "asarray"} and isinstance(source, torch.Tensor):
                # compiled code that converts a tensor does not come to the dispatcher
                return real(source.to(device=device, dtype=kwargs.get("dtype")), *args[1:], **kwargs)
            if device is None:
                if owner is torch.Tensor:
                    device = args[0].device
                elif isinstance(source, torch.Tensor):
                    device = source.device
                else:
                    device = _context_device()
            if device is None:
                return real(*args, **kwargs)
            if isinstance(device, str):
                device = torch.device(device)
            index = devices.resolve(device)
            if index is None:
                return real(*args, device=device, **kwargs)
            if kwargs.pop("pin_memory", False):
                raise RuntimeError("Only dense CPU tensors can be pinned")
            wants_grad = kwargs.pop("requires_grad", False)
            with torch._C.DisableTorchFunction():
                result = real(*args, **({} if owner is torch.Tensor else {"device": CPU}), **kwargs)
            if isinstance(source, torch.Tensor) and storage_of(result) is storage_of(source):
                result = result.clone()
            devices.put(result, index)
            return result.requires_grad_() if wants_grad else result

        setattr(owner, name, stand_in(make, real, owner))
        _for_scripts(real, make)

    _mark_scripts_own()
    sparse = (f"sparse_{layout}_tensor" for layout in ("coo", "csr", "compressed"))
    for name in ("tensor", "as_tensor", "asarray", *sparse):
        wrap(name)
    wrap("new_tensor", torch.Tensor)
    _legacy_new(devices)
    _dlpack(devices)

    real_wrapper = torch.Tensor._make_wrapper_subclass

    def make_wrapper(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        index = devices.resolve(device)
        if index is not None:
            kwargs["device"] = CPU
        wrapper = real_wrapper(*args, **kwargs)
        if index is not None and (storage := storage_of(wrapper)) is not None:
            setattr(storage, MARK, MemoryBlock(devices.driver, index, 0))
        return wrapper

    torch.Tensor._make_wrapper_subclass = staticmethod(make_wrapper)


def _legacy_new(devices: TensorDevices) -> None:
    """``x.new(2, 3)``, ``x.new([1.0])``: on the device of ``x``, or on ``device=``."""
    real = torch.Tensor.new

    @functools.wraps(real)
    def new(self: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        index = devices.gpu_of(self) if device is None else devices.resolve(device)
        result = real(self, *args, **kwargs)
        # an alias of another tensor, or of a storage, is where that is
        if not args or not isinstance(args[0], (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)):
            devices.put(result, index)
        return result

    torch.Tensor.new = new


def _dlpack(devices: TensorDevices) -> None:
    """Tensors that leave torch and come back have a storage of their own over the same memory."""
    real_to, real_from = torch.utils.dlpack.to_dlpack, torch.from_dlpack
    # a capsule is used once
    sent: dict[int, tuple[Any, int | None]] = {}

    @functools.wraps(real_to)
    def to_dlpack(tensor: Any) -> Any:
        capsule = real_to(tensor)
        sent[id(capsule)] = (capsule, devices.gpu_of(tensor))
        return capsule

    @functools.wraps(real_from)
    def from_dlpack(ext_tensor: Any, **kwargs: Any) -> Any:
        if isinstance(ext_tensor, torch.Tensor):
            result = ext_tensor.detach()
            return result.to(kwargs["device"]) if kwargs.get("device") is not None else result
        result = real_from(ext_tensor, **kwargs)
        _, index = sent.pop(id(ext_tensor), (None, None))
        if index is not None:
            devices.put(result, index)
        return result

    torch.to_dlpack = torch.utils.dlpack.to_dlpack = to_dlpack
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack


def _for_scripts(real: Any, ours: Any) -> None:
    """TorchScript compiles a call of ours as it would the function below it."""
    from torch.jit import _builtins

    if builtin := _builtins._find_builtin(real):
        _builtins._register_builtin(ours, builtin)


def _mark_scripts_own() -> None:
    """Distinguish a script's ``torch.zeros(2)``, which is on the CPU, from tensors of torch's compiled code."""
    from torch.utils._device import _device_constructors

    # filled before the functions get new names, because a default device compares with these
    constructors = _device_constructors()

    def wrap(owner: Any, name: str, flag: str = "now") -> None:
        real = getattr(owner, name, None)
        if real is None:
            return

        def make(*args: Any, **kwargs: Any) -> Any:
            setattr(in_script, flag, True)
            if isinstance(kwargs.get("device"), int):
                # torch's compiled code queries real accelerators for the meaning of a bare number
                kwargs["device"] = torch.device("cuda", kwargs["device"])
            try:
                return real(*args, **kwargs)
            finally:
                setattr(in_script, flag, False)

        setattr(owner, name, stand_in(make, real, owner))
        _for_scripts(real, make)

    for name in _MOVING:
        wrap(torch, name, "moves")
    for function in constructors:
        name = getattr(function, "__name__", "")
        if getattr(torch, name, None) is function:
            wrap(torch, name)
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"):
        wrap(torch, name)
    for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"):
        wrap(torch.Tensor, name)


def storages(devices: TensorDevices) -> None:
    """Storages, which checkpoints are made of."""
    storage = torch.UntypedStorage
    base = torch._C.StorageBase
    real_device = base.device if hasattr(base, "device") else storage.device
    real_resize = base.resize_
    real_new = storage.__new__

    def gpu_of(self: Any) -> int | None:
        mark = getattr(self, MARK, None)
        return None if mark is None or mark.index == FLOATING else int(mark.index)

    def device(self: Any) -> torch.device:
        index = gpu_of(self)
        return real_device.__get__(self) if index is None else torch.device("cuda", index)

    def marked(self: Any, index: int | None) -> Any:
        if index is not None:
            setattr(self, MARK, MemoryBlock(devices.driver, index, self.nbytes()))
        return self

    def clone(self: Any) -> Any:
        on_cpu = real_device.__get__(self).type == "cpu"
        return marked(storage(self.nbytes()).copy_(self) if on_cpu else real_clone(self), gpu_of(self))

    def moved(self: Any, target: Any) -> Any:
        index = devices.resolve(target)
        if index == gpu_of(self) and real_device.__get__(self).type == "cpu":
            return self
        return marked(storage(self.nbytes()).copy_(self), index)

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        target = torch.device(device) if not isinstance(device, torch.device) else device
        return (
            real_to(self, device=target, non_blocking=non_blocking)
            if target.type not in {"cuda", "cpu"}
            else moved(self, target)
        )

    def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        return moved(self, torch.device("cuda", torch.cuda._utils._get_device_index(device, optional=True)))

    def resize(self: Any, size: int) -> Any:
        result = real_resize(self, size)
        if (index := gpu_of(self)) is not None:
            setattr(self, MARK, MemoryBlock(devices.driver, index, int(size)))
        return result

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        index = devices.resolve(kwargs.get("device"))
        if index is None:
            return real_new(cls, *args, **kwargs)
        return marked(real_new(cls, *args, **{**kwargs, "device": CPU}), index)

    real_clone, real_to = storage.clone, storage.to
    storage.device = property(device)
    storage.is_cuda = property(lambda self: gpu_of(self) is not None)
    storage.get_device = lambda self: -1 if gpu_of(self) is None else gpu_of(self)
    storage.clone, storage.to, storage.cuda = clone, to, cuda
    storage.cpu = lambda self: moved(self, CPU)
    storage.resize_ = resize
    storage.__new__ = new
