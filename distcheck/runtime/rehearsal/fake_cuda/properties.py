"""The device of a tensor, and how it is moved: patches on ``torch.Tensor``."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .device_marks import BASE, CPU, FLOATING, LEGACY, PINNED, REAL_DEVICE, TensorDevices, storage_of, type_name


class _Attribute(property):
    """One that torch's compiler takes for an attribute of the compiled class, as it was (torch 2.4)."""

    __name__: str
    __objclass__ = BASE


def tensor_properties(devices: TensorDevices) -> None:
    tensor = torch.Tensor
    real_grad, real_numpy = BASE.grad, BASE.numpy
    real_type, real_get_device = BASE.type, BASE.get_device

    def grad(self: Any) -> Any:
        gradient = real_grad.__get__(self)
        # a gradient is where its tensor is; torch's compiled part may have made it
        if gradient is not None and (index := devices.gpu_of(self)) is not None and devices.gpu_of(gradient) is None:
            devices.put(gradient, index)
        return gradient

    def set_grad(self: Any, value: Any) -> None:
        if (
            isinstance(value, torch.Tensor)
            and devices.device_of(self) != devices.device_of(value)
            and devices.mark_of(value) != FLOATING
        ):
            raise RuntimeError(_other_gradient(devices.device_of(value), devices.device_of(self)))
        real_grad.__set__(self, value)

    def is_cuda(self: Any) -> bool:
        return devices.gpu_of(self) is not None

    def is_cpu(self: Any) -> bool:
        return REAL_DEVICE(self).type == "cpu" and devices.gpu_of(self) is None

    def get_device(self: Any) -> int:
        index = devices.gpu_of(self)
        return int(real_get_device(self)) if index is None else index

    def is_pinned(self: Any, device: Any = None) -> bool:
        storage = storage_of(self)
        return storage is not None and bool(getattr(storage, PINNED, False))

    def pin_memory(self: Any, device: Any = None) -> Any:
        torch.cuda._lazy_init()
        if devices.gpu_of(self) is not None:
            raise RuntimeError(f"cannot pin '{type_name(self, 0)}' only dense CPU tensors can be pinned")
        if is_pinned(self):
            return self
        pinned = self.clone()
        setattr(storage_of(pinned), PINNED, True)
        return pinned

    def numpy(self: Any, *, force: bool = False) -> Any:
        index = devices.gpu_of(self)
        if index is not None and not force:
            raise TypeError(
                f"can't convert cuda:{index} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return real_numpy(self, force=force)

    def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        index = devices.gpu_of(self)
        if dtype is None:
            return real_type(self) if index is None else type_name(self, index)
        name = dtype if isinstance(dtype, str) else ""
        if isinstance(dtype, type):
            name = f"{dtype.__module__}.{dtype.__name__}"
        if name.startswith("torch.cuda."):
            wanted = next(kind for kind, legacy in LEGACY.items() if legacy == name.rsplit(".", 1)[1])
            return self.to(device="cuda" if index is None else index, dtype=wanted)
        if name and index is not None:
            return real_type(self.cpu(), dtype, non_blocking, **kwargs)
        return real_type(self, dtype, non_blocking, **kwargs)

    for name, *functions in (
        ("device", devices.device_of),
        ("is_cuda", is_cuda),
        ("is_cpu", is_cpu),
        ("grad", grad, set_grad, lambda self: real_grad.__delete__(self)),
    ):
        attribute = _Attribute(*functions)
        attribute.__name__ = name
        setattr(tensor, name, attribute)
    tensor.get_device = get_device
    tensor.is_pinned = is_pinned
    tensor.pin_memory = pin_memory
    tensor.numpy = numpy
    tensor.type = type_
    tensor.record_stream = lambda self, stream: None
    torch.get_device = get_device
    _legacy_classes(devices)


def _other_gradient(gradient: torch.device, tensor: torch.device) -> str:
    tail = "Please ensure that the gradient and the tensor are on the same device"
    if gradient.type != tensor.type:
        return (
            f"attempting to assign a gradient with device type '{gradient.type}' to a tensor with device type "
            f"'{tensor.type}'. {tail}"
        )
    return (
        f"attempting to assign a gradient located on device with index '{gradient.index}' to a tensor located on "
        f"device with index '{tensor.index}'. {tail}"
    )


def _legacy_classes(devices: TensorDevices) -> None:
    """``torch.cuda.FloatTensor(2, 3)`` and ``isinstance(x, torch.cuda.FloatTensor)``."""
    for dtype, name in LEGACY.items():
        plain = getattr(torch, name)

        class FakeDeviceProperty(type):
            kept = dtype

            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, torch.Tensor) and value.dtype == cls.kept and value.is_cuda

        def make(cls: type, *args: Any, plain: Any = plain, **kwargs: Any) -> Any:
            return plain(*args, **kwargs).cuda()

        setattr(
            torch.cuda,
            name,
            FakeDeviceProperty(
                name, (), {"__new__": make, "__module__": "torch.cuda", "dtype": dtype, "is_cuda": True}
            ),
        )

    _default_type()


def _default_type() -> None:
    """``torch.set_default_tensor_type``: a type of ``torch.cuda`` sets the default device, too."""
    real = torch.set_default_tensor_type
    was_on_gpu = False

    @functools.wraps(real)
    def set_default_tensor_type(t: Any, /) -> None:
        nonlocal was_on_gpu
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
        on_gpu = name.startswith("torch.cuda.")
        real(getattr(torch, name.rpartition(".")[2]) if on_gpu else t)
        if on_gpu or was_on_gpu:
            torch.set_default_device("cuda" if on_gpu else None)
        was_on_gpu = on_gpu

    torch.set_default_tensor_type = set_default_tensor_type


def _format(memory_format: Any) -> dict[str, Any]:
    return {} if memory_format is None else {"memory_format": memory_format}


def tensor_moves(devices: TensorDevices) -> None:
    tensor = torch.Tensor
    real_to = BASE.to

    def copied(source: Any, index: int | None, device: Any, dtype: Any, memory_format: Any) -> Any:
        options = _format(memory_format)
        if index is None and device.type != "cpu":
            return real_to(source, device, dtype or source.dtype, copy=True, **options)
        result = real_to(source, dtype=dtype or source.dtype, copy=True, **options)
        devices.put(result, index)
        return result

    class Move(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, source: Any, index: int | None, device: Any, dtype: Any, memory_format: Any) -> Any:
            ctx.back = (devices.gpu_of(source), source.dtype)
            return copied(source, index, device, dtype, memory_format)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            index, dtype = ctx.back
            return copied(gradient, index, CPU, dtype, None), None, None, None, None

    def move(self: Any, device: Any, dtype: Any = None, memory_format: Any = None, copy: bool = False) -> Any:
        index = devices.resolve(device)
        if index is None and device.type == "meta":
            return real_to(self, device, dtype or self.dtype)
        if index == devices.gpu_of(self) and REAL_DEVICE(self).type == "cpu":
            return real_to(self, dtype=dtype or self.dtype, copy=copy, **_format(memory_format))
        if REAL_DEVICE(self).type != "cpu":
            # torch prints its own text for tensors without data
            return real_to(self, device="cpu", dtype=dtype or self.dtype)
        if torch.is_grad_enabled() and self.requires_grad:
            return Move.apply(self, index, device, dtype, memory_format)
        return copied(self, index, device, dtype, memory_format)

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        other = kwargs.pop("other", None)
        if other is None and args and isinstance(args[0], torch.Tensor):
            other, args = args[0], args[1:]
        copy = kwargs.pop("copy", False)
        if other is not None:
            device, dtype, memory_format = other.device, other.dtype, kwargs.get("memory_format")
            copy = copy or bool(len(args) > 1 and args[1])
        else:
            if args and isinstance(args[0], int) and not isinstance(args[0], bool):
                args = (torch.device("cuda", args[0]), *args[1:])
            if isinstance(kwargs.get("device"), int):
                kwargs["device"] = torch.device("cuda", kwargs["device"])
            most = 3 if args and isinstance(args[0], (str, torch.device)) else 2
            if len(args) > most:
                copy, args = bool(args[most]), args[:most]
            if "dtype" in kwargs and "device" not in kwargs and not args:
                device, dtype, memory_format = None, kwargs["dtype"], kwargs.get("memory_format")
            else:
                device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        if device is None:
            return real_to(self, dtype=dtype or self.dtype, copy=copy, **_format(memory_format))
        return move(self, device, dtype, memory_format, copy)

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        return move(
            self, torch.device("cuda", torch.cuda._utils._get_device_index(device, optional=True)), None, memory_format
        )

    def cpu(self: Any, memory_format: Any = None) -> Any:
        return move(self, CPU, None, memory_format)

    def type_as(self: Any, other: Any) -> Any:
        return move(self, other.device, other.dtype)

    tensor.to, tensor.cuda, tensor.cpu, tensor.type_as = to, cuda, cpu, type_as
