"""What every operation of torch passes: results get the place of their operands, or of ``device=``.

Operands on different devices raise what torch raises.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import generators
from .device_marks import CPU, FLOATING, MARK, PINNED, TensorDevices, storage_of, tensors_in, type_name
from .limits import note, refuse

#: Called with each collective that torch's dispatcher is about to run, whichever code makes it: ``(operation, args)``.
collectives: list[Callable[[Any, Sequence[Any]], object]] = []
#: Called with each operation of the thread that simulates, before it runs: ``(operation, args, kwargs)``.
observers: list[Callable[[Any, Sequence[Any], dict[str, Any]], object]] = []
_OF_COLLECTIVES = ("c10d", "_c10d_functional")


class _Kind(NamedTuple):
    """What has to be known of an operation."""

    #: how devices of operands may differ: ``pointwise``, ``exact``, ``convolution``, ``index``, ``each`` (lists,
    #: item by item), ``across`` (allowed), ``unknown``
    mixing: str
    #: its name in torch's message
    method: str
    random: bool
    #: results that are new, not an operand
    fresh: tuple[bool, ...]
    names: tuple[str, ...]
    #: its kernels for the CPU may take seconds where those of a GPU take microseconds, in half precision
    slow_in_half: bool = False


#: Operations whose kernels for CUDA insist on one device for all operands, with the names that torch's messages have.
_EXACT = {
    **{name: name for name in (
        "addmm", "mm", "bmm", "baddbmm", "addmv", "mv", "dot", "cat", "gather", "nll_loss_forward",
        "nll_loss2d_forward", "index_add",
    )},
    **{name: f"_{name}" for name in ("native_layer_norm", "native_batch_norm", "native_group_norm", "take")},
    "embedding": "_index_select",
    "index_select": "_index_select",
    "scatter": "scatter_",
}  # fmt: skip

_ACROSS = {
    "copy_", "_to_copy", "copy", "_pack_padded_sequence", "set_", "is_pinned", "lift_fresh", "_copy_from",
    "_has_compatible_shallow_copy_type", "split_with_sizes", "record_stream", "resize_as_", "new_empty", "empty_like",
    "zeros_like",
}  # fmt: skip

#: check their two tensors themselves (ATen, cuda/Indexing.cu)
_MASKED = ("masked_fill", "masked_fill_")

#: oneDNN computes their gradients in float16 one by one; a GPU adds up in float32 and rounds the result
_SLOW_IN_HALF = ("convolution", "_convolution", "convolution_backward")

_TWO = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"

#: in each thread, whether the script itself (or torch's Python side) is creating a new tensor
in_script = threading.local()


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
        mixing, f"wrapper_CUDA_{_EXACT.get(name, name)}", torch.Tag.nondeterministic_seeded in tags, fresh, names,
        name in _SLOW_IN_HALF and operation.namespace == "aten",
    )  # fmt: skip


class FakeDeviceMode(TorchDispatchMode):  # type: ignore[misc]
    """Carries the marks from operands to results, in the thread that entered it."""

    supports_higher_order_operators = True

    def __init__(self, devices: TensorDevices) -> None:
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
        for observe in observers:
            observe(operation, args, kwargs)
        kind = _kind(operation)
        given = kwargs.get("device")
        index: int | None
        if given is not None:
            index = self.devices.resolve(given)
            kwargs = {**kwargs, "device": CPU if index is not None else given}
            pinned = bool(kwargs.get("pin_memory"))
            if pinned:
                kwargs["pin_memory"] = False
            if index is None and given.type == "cpu" and not getattr(in_script, "now", False):
                # torch's compiled code passes cpu because it has nothing else: it meant "where this is"
                index = self._place(operation, kind, args, kwargs) if kind.names[:1] == ("self",) else FLOATING
        else:
            pinned = False
            index = self._place(operation, kind, args, kwargs)
        try:
            if kind.random and kind.fresh:
                result = self._run_random(operation, index, args, kwargs)
            elif kind.slow_in_half and index is not None:
                result = _run_in_single(operation, args, kwargs)
            else:
                result = operation(*args, **kwargs)
        except NotImplementedError as error:
            if "'CUDA' backend" in str(error):
                raise refuse(str(operation), "it allocates GPU memory below the simulated functions") from error
            raise
        if kind.method == "wrapper_CUDA__pack_padded_sequence":
            # the sizes of the batches stay on the CPU
            self._mark_new(result[0], index)
            index = None
        if index is not None and kind.fresh:
            self._mark(kind, result, index, args)
        if pinned:
            setattr(storage_of(result), PINNED, True)
        return result

    def _for_shapes(self, args: Any, kwargs: Any) -> Any:
        """On the CPU for fake tensors: a torch without GPUs can't index or copy one that names a GPU."""
        given = kwargs.get("device")
        if given is None or self.devices.resolve(given) is None:
            return kwargs
        if any(tensor.device.type == "cuda" for tensor in tensors_in((*args, *kwargs.values()))):
            return kwargs
        return {**kwargs, "device": CPU}

    def _mark(self, kind: _Kind, result: Any, index: int, args: Any) -> None:
        results = result if isinstance(result, (list, tuple)) else (result,)
        if kind.mixing == "each" and isinstance(result, (list, tuple)) and args and isinstance(args[0], (list, tuple)):
            for one, operand in zip(results, args[0], strict=False):
                if isinstance(one, torch.Tensor) and isinstance(operand, torch.Tensor):
                    self._mark_new(one, self.devices.mark_of(operand))
            return
        for position, one in enumerate(results):
            if kind.fresh[min(position, len(kind.fresh) - 1)]:
                for tensor in tensors_in((one,)):
                    self._mark_new(tensor, index)

    def _mark_new(self, tensor: Any, index: int | None) -> None:
        storage = storage_of(tensor)
        if index is not None and (storage is None or getattr(storage, MARK, None) is None):
            self.devices.put(tensor, index)

    def _place(self, operation: Any, kind: _Kind, args: Any, kwargs: Any) -> int | None:
        """Where the result is, from where the operands are."""
        first: int | None = None
        anywhere = gpu = False
        floating: list[Any] = []
        places: list[tuple[Any, int | None]] = []
        for tensor in tensors_in((*args, *kwargs.values()) if kwargs else args):
            mark = self.devices.mark_of(tensor)
            if mark == FLOATING:
                floating.append(tensor)
                continue
            places.append((tensor, mark))
            gpu = gpu or mark is not None
            anywhere = anywhere or mark != places[0][1]
        if not gpu:
            return FLOATING if floating and not places else None
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
        if _in_backward() or getattr(in_script, "moves", False):
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
                    f"Input type ({type_name(args[0], self.devices.gpu_of(args[0]))}) and weight type "
                    f"({type_name(args[1], self.devices.gpu_of(args[1]))}) should be the same"
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
            for tensor in tensors_in((value,)):
                yield name, self.devices.gpu_of(tensor)

    def _run_random(self, operation: Any, index: int | None, args: Any, kwargs: Any) -> Any:
        """Random numbers of a GPU come from that GPU's generator, so those of the CPU stay what they would be."""
        given = kwargs.get("generator") or next((arg for arg in args if isinstance(arg, torch._C.Generator)), None)
        on_gpu = index is not None and index != FLOATING
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
        gpu = any(self.devices.gpu_of(tensor) is not None for tensor in tensors_in((*args, *kwargs.values())))
        key = torch._C.DispatchKey.CUDA if gpu else torch._C.DispatchKey.CPU
        kernel = operation.py_kernels.get(torch._ops.resolve_key(operation, key))
        if kernel is None:
            raise refuse(str(operation), "it has no parts that could be simulated")
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


@functools.cache
def _slow_types() -> tuple[Any, ...]:
    fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (torch.float16,) if fast else (torch.float16, torch.bfloat16)


def _run_in_single(operation: Any, args: Any, kwargs: Any) -> Any:
    """The result of operands of half precision, computed in float32 and rounded."""
    half = next((tensor.dtype for tensor in tensors_in(args) if tensor.dtype in _slow_types()), None)
    if half is None:
        return operation(*args, **kwargs)
    convert = torch.ops.aten._to_copy.default

    def to(value: Any, found: Any, wanted: Any) -> Any:
        return convert(value, dtype=wanted) if isinstance(value, torch.Tensor) and value.dtype == found else value

    result = operation(*(to(value, half, torch.float32) for value in args), **kwargs)
    if isinstance(result, tuple):
        return tuple(to(value, torch.float32, half) for value in result)
    return to(result, torch.float32, half)


def register_for_operations() -> None:
    """Let operations over operations accept the mode: torch 2.4 reads a table of each, and no attribute."""
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    kind = torch._ops.HigherOrderOperator
    real = kind.dispatch

    def dispatch(self: Any, key: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.python_key_mode_table.setdefault(FakeDeviceMode, lambda mode, *a, **k: mode._of_operations(self, a, k))
        return real(self, key, *args, **kwargs)

    kind.dispatch = dispatch


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _named(index: int | None) -> str:
    return "cpu" if index is None else f"cuda:{index}"
