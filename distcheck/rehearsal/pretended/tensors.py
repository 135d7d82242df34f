"""Tensors that say that they are on a GPU, and are computed on the CPU.

Each is a plain CPU tensor in all of torch's compiled parts; what makes it one of a GPU is a mark on its *storage*.
Views, parameters, saved tensors and loaded checkpoints share storages, so they share the mark without anybody's
doing. New storages get theirs from a dispatch mode, which sees every operation, those of a backward pass too: the
result is where the operands are, or where ``device=`` says. Operands in different places raise what torch raises.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from distcheck.rehearsal.pretended import generators
from distcheck.rehearsal.pretended.driver import Driver
from distcheck.rehearsal.pretended.notes import note, refuse

_MARK = "_distcheck_gpu"
_PINNED = "_distcheck_pinned"
#: mark of a storage that torch's own code made without a word about devices while it computed gradients: it is
#: wherever what it meets is
_FLOATING = -1
_BASE = torch._C.TensorBase
_CPU = torch.device("cpu")


class _Block:
    """The mark: goes when the storage goes, and gives its bytes back."""

    __slots__ = ("driver", "index", "size")

    def __init__(self, driver: Driver, index: int, size: int) -> None:
        self.driver, self.index, self.size = driver, index, size
        if memory := driver.memory.get(index):
            memory.take(size)

    def __del__(self) -> None:
        if memory := self.driver.memory.get(self.index):
            memory.free(self.size)


class _Kind(NamedTuple):
    """What has to be known of an operation."""

    #: how operands in different places are met: ``pointwise``, ``exact``, ``convolution``, ``index``, ``each`` (lists,
    #: item by item), ``across`` (allowed), ``unknown``
    mixing: str
    #: its name in torch's message
    method: str
    random: bool
    #: results that are new, not an operand
    fresh: tuple[bool, ...]
    names: tuple[str, ...]


#: Operations whose kernels for CUDA insist on one device for all operands, with the names that torch's messages have.
_EXACT = {
    "addmm": "addmm",
    "mm": "mm",
    "bmm": "bmm",
    "baddbmm": "baddbmm",
    "addmv": "addmv",
    "mv": "mv",
    "dot": "dot",
    "cat": "cat",
    "embedding": "_index_select",
    "index_select": "_index_select",
    "gather": "gather",
    "scatter": "scatter_",
    "nll_loss_forward": "nll_loss_forward",
    "nll_loss2d_forward": "nll_loss2d_forward",
    "native_layer_norm": "_native_layer_norm",
    "native_batch_norm": "_native_batch_norm",
    "native_group_norm": "_native_group_norm",
    "take": "_take",
    "index_add": "index_add",
}
_ACROSS = {
    "copy_",
    "_to_copy",
    "copy",
    "_pack_padded_sequence",
    "set_",
    "is_pinned",
    "lift_fresh",
    "_copy_from",
    "_has_compatible_shallow_copy_type",
    "split_with_sizes",
    "record_stream",
    "resize_as_",
    "new_empty",
    "empty_like",
    "zeros_like",
}


@functools.cache
def _kind(operation: Any) -> _Kind:
    name = operation._schema.name.split("::")[1]
    tags = operation.tags
    if operation.namespace != "aten":
        mixing = "across"
    elif name.startswith(("_foreach_", "_fused_", "_amp_")):
        mixing = "each"
    elif name in _ACROSS:
        mixing = "across"
    elif name.startswith(("index_put", "_index_put", "_unsafe_index_put")) or name in {"index", "_unsafe_index"}:
        mixing = "index"
    elif name in {"convolution", "_convolution"}:
        mixing = "convolution"
    elif name in _EXACT:
        mixing = "exact"
    elif torch.Tag.pointwise in tags:
        mixing = "pointwise"
    else:
        mixing = "unknown"
    fresh = tuple(returned.alias_info is None for returned in operation._schema.returns)
    names = tuple(
        "index" if name == "embedding" and argument.name == "indices" else argument.name
        for argument in operation._schema.arguments
    )
    return _Kind(
        mixing, f"wrapper_CUDA_{_EXACT.get(name, name)}", torch.Tag.nondeterministic_seeded in tags, fresh, names
    )


class Devices:
    """Where each tensor is."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def mark_of(self, tensor: Any) -> int | None:
        storage = storage_of(tensor)
        if storage is None:
            return getattr(tensor, _MARK, None)
        mark = getattr(storage, _MARK, None)
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
        return None if mark == _FLOATING else mark

    def put(self, tensor: Any, index: int | None) -> None:
        """Say where a tensor is, whatever was said before."""
        storage = storage_of(tensor)
        if storage is None:
            setattr(tensor, _MARK, index)
            for part in _parts_of_sparse(tensor):
                self.put(part, index)
            return
        if index is None:
            if getattr(storage, _MARK, None) is not None:
                setattr(storage, _MARK, None)
        elif getattr(getattr(storage, _MARK, None), "index", None) != index:
            wrapper = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
            setattr(storage, _MARK, _Block(self.driver, index, 0 if wrapper else storage.nbytes()))
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and hasattr(
            tensor, "__tensor_flatten__"
        ):
            for part in parts_of(tensor):
                self.put(part, index)

    def device_of(self, tensor: Any) -> torch.device:
        gpu = self.gpu_of(tensor)
        return _REAL_DEVICE(tensor) if gpu is None else torch.device("cuda", gpu)

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


_REAL_DEVICE = _plain(_BASE.device.__get__)
_STORAGE = _BASE.untyped_storage


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


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


#: Called with each collective that torch's dispatcher is about to run, whoever makes it: ``(operation, args)``.
collectives: list[Callable[[Any, Sequence[Any]], object]] = []
_OF_COLLECTIVES = ("c10d", "_c10d_functional")


class PretendedDevices(TorchDispatchMode):  # type: ignore[misc]
    """Carries the marks from operands to results, in the thread that entered it."""

    supports_higher_order_operators = True

    def __init__(self, devices: Devices) -> None:
        super().__init__()
        self.devices = devices
        self.driver = devices.driver

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # nothing is compiled here, and keeping the compiler away from each call would cost more than the call
        return False

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # shapes are being worked out, without data
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
            return operation(*args, **self._for_shapes(args, kwargs))
        for kind in types:
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                # a wrapper takes itself apart, and its parts come here
                return NotImplemented
        if isinstance(operation, torch._ops.HigherOrderOperator):
            return self._of_operations(operation, args, kwargs)
        if collectives and operation.namespace in _OF_COLLECTIVES:
            for see in collectives:
                see(operation, args)
        kind = _kind(operation)
        given = kwargs.get("device")
        index: int | None
        if given is not None:
            index = self.devices.resolve(given)
            kwargs = {**kwargs, "device": _CPU if index is not None else given}
            pinned = bool(kwargs.get("pin_memory"))
            if pinned:
                kwargs["pin_memory"] = False
            if index is None and given.type == "cpu" and not getattr(_asked, "now", False):
                # torch's compiled code says cpu because it knows no better: it meant "where this is"
                index = self._place(operation, kind, args, kwargs) if kind.names[:1] == ("self",) else _FLOATING
        else:
            pinned = False
            index = self._place(operation, kind, args, kwargs)
        try:
            result = (
                self._drawn(operation, index, args, kwargs)
                if kind.random and kind.fresh
                else operation(*args, **kwargs)
            )
        except NotImplementedError as error:
            if "'CUDA' backend" in str(error):
                raise refuse(str(operation), "it asks for memory of a GPU below all that is pretended") from error
            raise
        if kind.method == "wrapper_CUDA__pack_padded_sequence":
            # the sizes of the batches stay on the CPU
            result, index = self._packed(result, index), None
        if index is not None and kind.fresh:
            self._mark(kind, result, index, args)
        if pinned:
            setattr(storage_of(result), _PINNED, True)
        return result

    def _for_shapes(self, args: Any, kwargs: Any) -> Any:
        """On the CPU for fake tensors: a torch without GPUs can't index or copy one that names a GPU."""
        given = kwargs.get("device")
        if given is None or self.devices.resolve(given) is None:
            return kwargs
        if any(tensor.device.type == "cuda" for tensor in _tensors((*args, *kwargs.values()))):
            return kwargs
        return {**kwargs, "device": _CPU}

    def _packed(self, result: Any, index: int | None) -> Any:
        self._mark_new(result[0], index)
        return result

    def _mark(self, kind: _Kind, result: Any, index: int, args: Any) -> None:
        results = result if isinstance(result, (list, tuple)) else (result,)
        if kind.mixing == "each" and isinstance(result, (list, tuple)) and args and isinstance(args[0], (list, tuple)):
            for one, operand in zip(results, args[0], strict=False):
                if isinstance(one, torch.Tensor) and isinstance(operand, torch.Tensor):
                    self._mark_new(one, self.devices.mark_of(operand))
            return
        for position, one in enumerate(results):
            if kind.fresh[min(position, len(kind.fresh) - 1)]:
                for tensor in _tensors((one,)):
                    self._mark_new(tensor, index)

    def _mark_new(self, tensor: Any, index: int | None) -> None:
        storage = storage_of(tensor)
        if index is not None and (storage is None or getattr(storage, _MARK, None) is None):
            self.devices.put(tensor, index)

    def _place(self, operation: Any, kind: _Kind, args: Any, kwargs: Any) -> int | None:
        """Where the result is, from where the operands are."""
        first: int | None = None
        anywhere = gpu = False
        floating: list[Any] = []
        places: list[tuple[Any, int | None]] = []
        for tensor in _tensors((*args, *kwargs.values()) if kwargs else args):
            mark = self.devices.mark_of(tensor)
            if mark == _FLOATING:
                floating.append(tensor)
                continue
            places.append((tensor, mark))
            gpu = gpu or mark is not None
            anywhere = anywhere or mark != places[0][1]
        if not gpu:
            return _FLOATING if floating and not places else None
        first = next(mark for _, mark in places if mark is not None)
        for tensor in floating:
            self.devices.put(tensor, first)
        if anywhere:
            return self._mixed(operation, kind, args, places, first)
        return first

    def _mixed(
        self, operation: Any, kind: _Kind, args: Any, places: list[tuple[Any, int | None]], first: int
    ) -> int | None:
        if kind.mixing in {"each", "across"}:
            return places[0][1] if kind.mixing == "across" else first
        if _in_backward() or getattr(_asked, "moves", False):
            return first
        if operation.overloadpacket.__name__ in _MASKED and places[0][1] != places[1][1]:
            raise RuntimeError(
                f"expected self and mask to be on the same device, but got mask on {_named(places[1][1])} and self on "
                f"{_named(places[0][1])}"
            )
        if kind.mixing == "index":
            home = places[0][1]
            if any(mark is not None and mark != home for _, mark in places[1:]):
                there = next(mark for _, mark in places[1:] if mark is not None and mark != home)
                if home is None:
                    raise RuntimeError(
                        f"indices should be either on cpu or on the same device as the indexed tensor ({_named(home)})"
                    )
                raise RuntimeError(_TWO.format(_named(home), _named(there)))
            return home
        odd = [(tensor, mark) for tensor, mark in places if not (mark is None and tensor.dim() == 0)]
        different = {mark for _, mark in odd}
        if len(different) > 1:
            if kind.mixing == "pointwise":
                other = next(mark for _, mark in odd if mark != first)
                raise RuntimeError(_TWO.format(_named(first), _named(other)))
            if kind.mixing == "convolution":
                raise RuntimeError(
                    f"Input type ({_type_name(args[0], self.devices.gpu_of(args[0]))}) and weight type "
                    f"({_type_name(args[1], self.devices.gpu_of(args[1]))}) should be the same"
                )
        if kind.mixing == "exact" and not (
            len(different) == 1 and all(tensor.dim() == 0 for tensor, mark in places if mark is None)
        ):
            common = places[0][1]
            name, mark = next((name, mark) for name, mark in self._named_operands(kind, args) if mark != common)
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but got {name} is on {_named(mark)}, different from "
                f"other tensors on {_named(common)} (when checking argument in method {kind.method})"
            )
        if kind.mixing == "unknown" and len(different) > 1:
            note(
                f"{operation} with operands on {_named(first)} and {_named(next(m for m in different if m != first))}",
                "computed, without a check of the devices",
            )
        return first

    def _named_operands(self, kind: _Kind, args: Any) -> Iterator[tuple[str, int | None]]:
        for name, value in zip(kind.names, args, strict=False):
            for tensor in _tensors((value,)):
                yield name, self.devices.gpu_of(tensor)

    def _drawn(self, operation: Any, index: int | None, args: Any, kwargs: Any) -> Any:
        """Random numbers of a GPU come from that GPU's generator, so those of the CPU stay what they would be."""
        given = kwargs.get("generator") or next((arg for arg in args if isinstance(arg, torch._C.Generator)), None)
        on_gpu = index is not None and index != _FLOATING
        if given is not None:
            wanted, found = ("cuda" if gpu else "cpu" for gpu in (on_gpu, generators.index_of(given) is not None))
            if wanted != found:
                raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")
            if on_gpu:
                generators.begin_draw(given, given)
            return operation(*args, **kwargs)
        if index is None or not on_gpu or not self.driver.generators:
            return operation(*args, **kwargs)
        default = torch.default_generator
        kept = default.get_state()
        generators.begin_draw(self.driver.generators[index], default)
        try:
            return operation(*args, **kwargs)
        finally:
            default.set_state(kept)

    def _of_operations(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """An operation over operations, as torch has it for GPUs: its parts come here one by one."""
        gpu = any(self.devices.gpu_of(tensor) is not None for tensor in _tensors((*args, *kwargs.values())))
        key = torch._C.DispatchKey.CUDA if gpu else torch._C.DispatchKey.CPU
        kernel = operation.py_kernels.get(torch._ops.resolve_key(operation, key))
        if kernel is None:
            raise refuse(str(operation), "it has no parts that could be pretended")
        try:
            with self:
                return kernel(*args, **kwargs)
        except AssertionError as error:
            if "Mode should never be enabled" not in str(error):
                raise
        # those that only choose which function to run (cond, while_loop) want no mode around them

        def within(value: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return value(*args, **kwargs)

            return call if callable(value) else value

        return kernel(*map(within, args), **{name: within(value) for name, value in kwargs.items()})


#: check their two tensors themselves (ATen, cuda/Indexing.cu)
_MASKED = ("masked_fill", "masked_fill_")
_TWO = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


#: Functions whose compiled code moves some of its operands itself.
_MOVING = ("ctc_loss",)
#: in each thread, whether the script itself (or torch's Python side) is asking for a new tensor
_asked = threading.local()


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _named(index: int | None) -> str:
    return "cpu" if index is None else f"cuda:{index}"


_LEGACY = {
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


def _type_name(tensor: Any, index: int | None) -> str:
    return ("torch." if index is None else "torch.cuda.") + _LEGACY.get(tensor.dtype, "Tensor")


def install(devices: Devices) -> None:
    """Patch what the Python side of torch tells and takes about devices, and follow every thread from now on."""
    generators.install(devices.resolve, devices.driver)
    _tensor_properties(devices)
    _tensor_moves(devices)
    _factories(devices)
    _storages(devices)
    _threads(devices)


def _tensor_properties(devices: Devices) -> None:
    tensor = torch.Tensor
    real_grad, real_numpy = _BASE.grad, _BASE.numpy
    real_type, real_get_device = _BASE.type, _BASE.get_device

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
            and devices.mark_of(value) != _FLOATING
        ):
            raise RuntimeError(_other_gradient(devices.device_of(value), devices.device_of(self)))
        real_grad.__set__(self, value)

    def is_cuda(self: Any) -> bool:
        return devices.gpu_of(self) is not None

    def is_cpu(self: Any) -> bool:
        return _REAL_DEVICE(self).type == "cpu" and devices.gpu_of(self) is None

    def get_device(self: Any) -> int:
        index = devices.gpu_of(self)
        return int(real_get_device(self)) if index is None else index

    def is_pinned(self: Any, device: Any = None) -> bool:
        storage = storage_of(self)
        return storage is not None and bool(getattr(storage, _PINNED, False))

    def pin_memory(self: Any, device: Any = None) -> Any:
        torch.cuda._lazy_init()
        if devices.gpu_of(self) is not None:
            raise RuntimeError(f"cannot pin '{_type_name(self, 0)}' only dense CPU tensors can be pinned")
        if is_pinned(self):
            return self
        pinned = self.clone()
        setattr(storage_of(pinned), _PINNED, True)
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
            return real_type(self) if index is None else _type_name(self, index)
        name = (
            dtype
            if isinstance(dtype, str)
            else f"{dtype.__module__}.{dtype.__name__}"
            if isinstance(dtype, type)
            else ""
        )
        if name.startswith("torch.cuda."):
            wanted = next(kind for kind, legacy in _LEGACY.items() if legacy == name.rsplit(".", 1)[1])
            return self.to(device="cuda" if index is None else index, dtype=wanted)
        if name and index is not None:
            return real_type(self.cpu(), dtype, non_blocking, **kwargs)
        return real_type(self, dtype, non_blocking, **kwargs)

    tensor.device = property(devices.device_of)
    tensor.is_cuda = property(is_cuda)
    tensor.is_cpu = property(is_cpu)
    tensor.grad = property(grad, set_grad, lambda self: real_grad.__delete__(self))
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


def _legacy_classes(devices: Devices) -> None:
    """``torch.cuda.FloatTensor(2, 3)`` and ``isinstance(x, torch.cuda.FloatTensor)``."""
    for dtype, name in _LEGACY.items():
        plain = getattr(torch, name)

        class Kind(type):
            kept = dtype

            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, torch.Tensor) and value.dtype == cls.kept and value.is_cuda

        def make(cls: type, *args: Any, plain: Any = plain, **kwargs: Any) -> Any:
            return plain(*args, **kwargs).cuda()

        setattr(
            torch.cuda,
            name,
            Kind(name, (), {"__new__": make, "__module__": "torch.cuda", "dtype": dtype, "is_cuda": True}),
        )


def _tensor_moves(devices: Devices) -> None:
    tensor = torch.Tensor
    real_to = _BASE.to

    def copied(source: Any, index: int | None, device: Any, dtype: Any, memory_format: Any) -> Any:
        options = {} if memory_format is None else {"memory_format": memory_format}
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
            return copied(gradient, index, _CPU, dtype, None), None, None, None, None

    def move(self: Any, device: Any, dtype: Any = None, memory_format: Any = None, copy: bool = False) -> Any:
        index = devices.resolve(device)
        if index is None and device.type == "meta":
            return real_to(self, device, dtype or self.dtype)
        if index == devices.gpu_of(self) and _REAL_DEVICE(self).type == "cpu":
            options = {} if memory_format is None else {"memory_format": memory_format}
            return real_to(self, dtype=dtype or self.dtype, copy=copy, **options)
        if _REAL_DEVICE(self).type != "cpu":
            # torch says what it says about tensors without data
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
            options = {} if memory_format is None else {"memory_format": memory_format}
            return real_to(self, dtype=dtype or self.dtype, copy=copy, **options)
        return move(self, device, dtype, memory_format, copy)

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        return move(
            self, torch.device("cuda", torch.cuda._utils._get_device_index(device, optional=True)), None, memory_format
        )

    def cpu(self: Any, memory_format: Any = None) -> Any:
        return move(self, _CPU, None, memory_format)

    tensor.to, tensor.cuda, tensor.cpu = to, cuda, cpu


def _context_device() -> Any:
    """What ``with torch.device(…)`` or ``torch.set_default_device`` says."""
    from torch.utils._device import DeviceContext

    for mode in reversed(torch.overrides._get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return mode.device
    return None


def _factories(devices: Devices) -> None:
    """Functions that take ``device=`` and don't come to the dispatcher with it."""

    def wrap(name: str, owner: Any = torch) -> None:
        real = getattr(owner, name)

        @functools.wraps(real)
        def make(*args: Any, **kwargs: Any) -> Any:
            device = kwargs.pop("device", None)
            source = args[1] if owner is torch.Tensor else args[0] if args else kwargs.get("data", kwargs.get("obj"))
            if device is None:
                if owner is torch.Tensor:
                    device = args[0].device
                elif isinstance(source, torch.Tensor):
                    if name in {"as_tensor", "asarray"}:
                        return real(*args, **kwargs)
                    device = source.device
                else:
                    device = _context_device()
            elif name in {"as_tensor", "asarray"} and isinstance(source, torch.Tensor):
                return real(source.to(device), *args[1:], **kwargs)
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
                result = real(*args, **({} if owner is torch.Tensor else {"device": _CPU}), **kwargs)
            if isinstance(source, torch.Tensor) and storage_of(result) is storage_of(source):
                result = result.clone()
            devices.put(result, index)
            return result.requires_grad_() if wants_grad else result

        setattr(owner, name, make)
        _for_scripts(real, make)

    _ask()
    for name in (
        "tensor",
        "as_tensor",
        "asarray",
        "sparse_coo_tensor",
        "sparse_csr_tensor",
        "sparse_compressed_tensor",
    ):
        wrap(name)
    wrap("new_tensor", torch.Tensor)

    real_wrapper = torch.Tensor._make_wrapper_subclass

    def make_wrapper(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        index = devices.resolve(device)
        if index is not None:
            kwargs["device"] = _CPU
        wrapper = real_wrapper(*args, **kwargs)
        if index is not None and (storage := storage_of(wrapper)) is not None:
            setattr(storage, _MARK, _Block(devices.driver, index, 0))
        return wrapper

    torch.Tensor._make_wrapper_subclass = staticmethod(make_wrapper)


def _for_scripts(real: Any, ours: Any) -> None:
    """TorchScript compiles a call of ours as it would the function below it."""
    from torch.jit import _builtins

    if builtin := _builtins._find_builtin(real):
        _builtins._register_builtin(ours, builtin)


def _ask() -> None:
    """Tell a script's ``torch.zeros(2)``, which is on the CPU, from what torch's compiled code makes for itself."""
    from torch.utils._device import _device_constructors

    # filled before the functions get new names, because a default device compares with these
    constructors = _device_constructors()

    def wrap(owner: Any, name: str) -> None:
        real = getattr(owner, name, None)
        if real is None:
            return

        @functools.wraps(real)
        def make(*args: Any, **kwargs: Any) -> Any:
            _asked.now = True
            if isinstance(kwargs.get("device"), int):
                # torch's compiled code asks real accelerators what a bare number means
                kwargs["device"] = torch.device("cuda", kwargs["device"])
            try:
                return real(*args, **kwargs)
            finally:
                _asked.now = False

        setattr(owner, name, make)
        _for_scripts(real, make)

    def wrap_moving(name: str) -> None:
        real = getattr(torch, name)

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            _asked.moves = True
            try:
                return real(*args, **kwargs)
            finally:
                _asked.moves = False

        setattr(torch, name, call)
        _for_scripts(real, call)

    for name in _MOVING:
        wrap_moving(name)
    for function in constructors:
        name = getattr(function, "__name__", "")
        if getattr(torch, name, None) is function:
            wrap(torch, name)
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"):
        wrap(torch, name)
    for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"):
        wrap(torch.Tensor, name)


def _storages(devices: Devices) -> None:
    """Storages, which checkpoints are made of."""
    storage = torch.UntypedStorage
    base = torch._C.StorageBase
    real_device = base.device if hasattr(base, "device") else storage.device
    real_resize = base.resize_
    real_new = storage.__new__

    def gpu_of(self: Any) -> int | None:
        mark = getattr(self, _MARK, None)
        return None if mark is None or mark.index == _FLOATING else int(mark.index)

    def device(self: Any) -> torch.device:
        index = gpu_of(self)
        return real_device.__get__(self) if index is None else torch.device("cuda", index)

    def clone(self: Any) -> Any:
        result = storage(self.nbytes()).copy_(self) if real_device.__get__(self).type == "cpu" else real_clone(self)
        if (index := gpu_of(self)) is not None:
            setattr(result, _MARK, _Block(devices.driver, index, result.nbytes()))
        return result

    def moved(self: Any, target: Any) -> Any:
        index = devices.resolve(target)
        if index == gpu_of(self) and real_device.__get__(self).type == "cpu":
            return self
        result = storage(self.nbytes()).copy_(self)
        if index is not None:
            setattr(result, _MARK, _Block(devices.driver, index, result.nbytes()))
        return result

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
            setattr(self, _MARK, _Block(devices.driver, index, int(size)))
        return result

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        index = devices.resolve(kwargs.get("device"))
        if index is None:
            return real_new(cls, *args, **kwargs)
        made = real_new(cls, *args, **{**kwargs, "device": _CPU})
        setattr(made, _MARK, _Block(devices.driver, index, made.nbytes()))
        return made

    real_clone, real_to = storage.clone, storage.to
    storage.device = property(device)
    storage.is_cuda = property(lambda self: gpu_of(self) is not None)
    storage.get_device = lambda self: -1 if gpu_of(self) is None else gpu_of(self)
    storage.clone, storage.to, storage.cuda = clone, to, cuda
    storage.cpu = lambda self: moved(self, _CPU)
    storage.resize_ = resize
    storage.__new__ = new


def _threads(devices: Devices) -> None:
    """Enter the mode for good: here, and first thing in every thread that is started from now on."""
    PretendedDevices(devices).__enter__()
    start = threading.Thread.start

    def start_pretending(self: threading.Thread) -> None:
        run = self.run

        def run_pretending() -> None:
            PretendedDevices(devices).__enter__()
            run()

        self.run = run_pretending  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_pretending  # type: ignore[method-assign]
