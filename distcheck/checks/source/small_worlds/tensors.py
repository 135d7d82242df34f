"""What torch's functions on tensors return: shapes, dtypes, and the numbers of small tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

from . import builtins_known
from .follower import Follower
from .values import UNKNOWN, Native, Outside, Tensor

_MOST = 64
_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
}  # fmt: skip
_KNOWN_DTYPES = frozenset(
    [
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    ]
)
_FILLED = ("zeros", "ones", "empty", "full", "rand", "randn", "randint")
_SAME_SHAPE = frozenset(
    [
        "clone",
        "detach",
        "contiguous",
        "cuda",
        "cpu",
        "to",
        "abs",
        "neg",
        "clamp",
        "square",
        "exp",
        "log",
        "sqrt",
        "relu",
        "sigmoid",
        "tanh",
        "softmax",
        "add",
        "sub",
        "mul",
        "div",
        "float",
        "double",
        "long",
        "int",
        "half",
        "bfloat16",
        "bool",
        "type_as",
        "requires_grad_",
        "pin_memory",
        "round",
        "floor",
        "ceil",
    ]
)
_ALIASES = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "unsqueeze",
        "squeeze",
        "transpose",
        "t",
        "permute",
        "view_as",
        "expand",
        "detach",
        "data",
    ]
)
_CONVERTED = {**_DTYPES, "bfloat16": "bfloat16", "bool": "bool"}
_REDUCED = frozenset(["sum", "mean", "max", "min", "prod", "norm", "std", "var", "amax", "amin", "all", "any"])


def dtype_of(value: Any) -> str | None:
    """Return the dtype that a value such as ``torch.float64`` names."""
    if not isinstance(value, Outside) or not value.name.startswith("torch."):
        return None
    name = value.name.removeprefix("torch.")
    name = _DTYPES.get(name, name)
    return name if name in _KNOWN_DTYPES else None


def _shape_of(given: list[Any]) -> tuple[int, ...] | None:
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    if len(sizes) > _MOST:
        return None
    if all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 1 << 40 for one in sizes):
        return tuple(sizes)
    return None


def _dtype(follows: Follower, keywords: Mapping[str, Any], default: str | None) -> str | None:
    if "dtype" in keywords and keywords["dtype"] is not None:
        return dtype_of(keywords["dtype"])
    return default if default != "float32" or follows.float_is_default else None


def _filled(shape: tuple[int, ...] | None, value: Any) -> list[Any] | None:
    count = 1
    for size in shape or ():
        count *= size
    return [value] * count if shape is not None and count <= _MOST else None


def create(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what a function of ``torch`` yields, by its last name."""
    if name in _FILLED:
        return _created(follows, name, given, keywords)
    if name in ("tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor"):
        return _from_data(follows, name, given, keywords)
    if name == "arange":
        numbers = builtins_known.numbers_of_range(given)
        if numbers is None:
            return Tensor(None, _dtype(follows, keywords, None))
        data = list(numbers) if len(numbers) <= _MOST else None
        return Tensor((len(numbers),), _dtype(follows, keywords, "int64"), data)
    first = given[0] if given else UNKNOWN
    if name.endswith("_like") and isinstance(first, Tensor):
        fill = {"zeros_like": 0, "ones_like": 1}.get(name)
        dtype = dtype_of(keywords["dtype"]) if "dtype" in keywords else first.dtype
        return Tensor(first.shape, dtype, None if fill is None else _filled(first.shape, fill))
    if name in ("cat", "concat", "stack"):
        return _joined(follows, name, given, keywords)
    if name in ("device", "Size"):
        return UNKNOWN
    if isinstance(first, Tensor):
        return method(follows, first, name, given[1:], keywords)
    return UNKNOWN


def _created(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Tensor:
    sizes, value, default = list(given), {"zeros": 0.0, "ones": 1.0}.get(name), "float32"
    if "size" in keywords:
        sizes = [keywords["size"]]
    elif name == "full":
        sizes = given[:1]
    elif name == "randint":
        sizes = [one for one in given if isinstance(one, (list, tuple))][:1] or [UNKNOWN]
    if name == "full":
        value = given[1] if len(given) > 1 else keywords.get("fill_value", UNKNOWN)
        default = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
        if not isinstance(value, (bool, int, float)):
            return Tensor(_shape_of(sizes), _dtype(follows, keywords, None))
    elif name == "randint":
        default = "int64"
    shape = _shape_of(sizes)
    return Tensor(shape, _dtype(follows, keywords, default), None if value is None else _filled(shape, value))


def _from_data(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Tensor:
    value = given[0] if given else UNKNOWN
    if name.endswith("Tensor") and not isinstance(value, (list, tuple)):
        shape = _shape_of(given)
        return Tensor(shape, "int64" if name == "LongTensor" else "float32")
    if isinstance(value, Tensor):
        return Tensor(value.shape, _dtype(follows, keywords, value.dtype), value.data)
    shape, data = _nested(follows, value)
    known = [one for one in data or () if one is not UNKNOWN]
    default = None
    if name != "tensor" and name != "as_tensor":
        default = "int64" if name == "LongTensor" else "float32"
    elif data and len(known) == len(data):
        kinds = {type(one) for one in known}
        default = "float32" if float in kinds else "int64" if int in kinds else "bool"
    return Tensor(shape, _dtype(follows, keywords, default), data if data is not None and len(data) <= _MOST else None)


def _nested(follows: Follower, value: Any, depth: int = 0) -> tuple[tuple[int, ...] | None, list[Any] | None]:
    """Return the shape of nested lists, and their numbers if they are few."""
    if isinstance(value, (bool, int, float)):
        return (), [value]
    if isinstance(value, Tensor):
        return value.shape, value.data
    if not isinstance(value, (list, tuple)) or depth > 2 or len(value) > _MOST:
        # a long list of plain numbers still has a length
        plain = isinstance(value, (list, tuple)) and all(isinstance(one, (int, float)) for one in value)
        return ((len(value),) if plain else None), None
    if not value:
        return (0,), []
    follows.world.step(len(value))
    parts = [((), [UNKNOWN]) if one is UNKNOWN else _nested(follows, one, depth + 1) for one in value]
    inner = parts[0][0]
    if inner is None or any(shape != inner for shape, _ in parts):
        return None, None
    flat: list[Any] | None = []
    for _, data in parts:
        flat = None if flat is None or data is None or len(flat) + len(data) > _MOST else flat + data
    # an unknown element may be a list of its own
    return ((len(value), *inner) if not any(one is UNKNOWN for one in value) else None), flat


def _joined(follows: Follower, name: str, given: list[Any], keywords: Mapping[str, Any]) -> Tensor:
    parts = follows.items(given[0]) if given else None
    axis = given[1] if len(given) > 1 else keywords.get("dim", 0)
    if (
        not parts
        or not all(isinstance(one, Tensor) and one.shape is not None for one in parts)
        or not isinstance(axis, int)
    ):
        return Tensor()
    shapes = [one.shape for one in parts]
    dtype = parts[0].dtype if all(one.dtype == parts[0].dtype for one in parts) else None
    first = shapes[0]
    if name == "stack":
        same = all(shape == first for shape in shapes) and axis == 0
        return Tensor((len(parts), *first) if same else None, dtype)
    if not first or not -len(first) <= axis < len(first) or any(len(shape) != len(first) for shape in shapes):
        return Tensor(None, dtype)
    axis %= len(first)
    data = None
    if len(first) == 1 and all(one.data is not None for one in parts):
        data = list(itertools.chain.from_iterable(one.data for one in parts))[: _MOST + 1]
        data = None if len(data) > _MOST else data
    return Tensor((*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]), dtype, data)


def attribute(follows: Follower, tensor: Tensor, name: str) -> Any:
    """Return an attribute or a method of a tensor."""
    if name == "shape":
        return UNKNOWN if tensor.shape is None else tensor.shape
    if name == "ndim":
        return UNKNOWN if tensor.shape is None else len(tensor.shape)
    if name == "dtype":
        return UNKNOWN if tensor.dtype is None else Outside(f"torch.{tensor.dtype}")
    if name == "data":
        return Tensor(tensor.shape, tensor.dtype, tensor.data, tensor)
    if name == "T":
        return Tensor(tensor.shape[::-1] if tensor.shape is not None else None, tensor.dtype, None, tensor)
    if name in ("grad", "device", "is_cuda", "requires_grad"):
        return UNKNOWN
    return Native(functools.partial(_called, follows, tensor, name))


def _called(follows: Follower, tensor: Tensor, name: str, /, *given: Any, **keywords: Any) -> Any:
    return method(follows, tensor, name, list(given), keywords)


def method(follows: Follower, tensor: Tensor, name: str, given: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what a method of a tensor yields."""
    if name in ("numel", "nelement"):
        return UNKNOWN if tensor.count is None else tensor.count
    if name == "dim":
        return UNKNOWN if tensor.shape is None else len(tensor.shape)
    if name == "size":
        if tensor.shape is None:
            return UNKNOWN
        return builtins_known.item(tensor.shape, given[0]) if given else tensor.shape
    if name.endswith("_") and not name.endswith("__"):
        follows.touched(tensor, writes=True)
        return _changed(tensor, name, given)
    if name not in _ALIASES:
        follows.touched(tensor, writes=False)
    if name in ("item", "tolist"):
        return _numbers(tensor, name)
    if name in _ALIASES:
        return _alias(tensor, name, given)
    if name in _SAME_SHAPE:
        return _copied(tensor, name, given, keywords)
    if name in _REDUCED:
        return _reduced(tensor, name, given, keywords)
    if name in ("new_zeros", "new_ones", "new_empty", "new_full"):
        sizes = given[:1] if name == "new_full" else given
        return Tensor(_shape_of(sizes), dtype_of(keywords["dtype"]) if "dtype" in keywords else tensor.dtype)
    if name in ("split", "chunk"):
        return _pieces(tensor, name, given, keywords)
    return UNKNOWN


def _numbers(tensor: Tensor, name: str) -> Any:
    if tensor.data is None:
        return UNKNOWN
    if name == "item":
        return tensor.data[0] if len(tensor.data) == 1 else UNKNOWN
    return list(tensor.data) if tensor.shape is not None and len(tensor.shape) == 1 else UNKNOWN


def _changed(tensor: Tensor, name: str, given: list[Any]) -> Tensor:
    tensor.forget()
    value = 0 if name == "zero_" else given[0] if name == "fill_" and given else UNKNOWN
    if name in ("zero_", "fill_") and isinstance(value, (int, float)) and tensor.base is None:
        tensor.data = _filled(tensor.shape, value)
    elif (
        name == "copy_"
        and given
        and isinstance(given[0], Tensor)
        and given[0].shape == tensor.shape
        and tensor.base is None
    ):
        tensor.data = given[0].data
    return tensor


def _alias(tensor: Tensor, name: str, given: list[Any]) -> Tensor:
    shape: tuple[int, ...] | None = None
    count = tensor.count
    if name == "detach":
        shape = tensor.shape
    elif name == "flatten" and not given and count is not None:
        shape = (count,)
    elif name in ("view", "reshape") and count is not None:
        sizes = list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
        if sizes.count(-1) == 1 and all(isinstance(one, int) for one in sizes):
            rest = -1
            for size in sizes:
                rest *= size
            sizes = [count // rest if one == -1 and rest > 0 else one for one in sizes]
        shape = _shape_of(sizes)
    elif name == "unsqueeze" and given == [0] and tensor.shape is not None:
        shape = (1, *tensor.shape)
    return Tensor(shape, tensor.dtype, tensor.data, tensor)


def _copied(tensor: Tensor, name: str, given: list[Any], keywords: Mapping[str, Any]) -> Tensor:
    dtype = tensor.dtype
    if name in _CONVERTED:
        dtype = _CONVERTED[name]
    elif name == "to":
        others = [*given, *keywords.values()]
        named = [dtype_of(one) for one in others]
        if any(named):
            dtype = next(one for one in named if one)
        elif any(one is UNKNOWN for one in others) and "device" not in keywords:
            # a device keeps the dtype; what is not known may be one
            dtype = tensor.dtype
        elif any(isinstance(one, Tensor) for one in others):
            dtype = None
    elif name in ("add", "sub", "mul", "div", "type_as", "softmax"):
        return Tensor(tensor.shape if not any(isinstance(one, Tensor) for one in given) else None, None)
    elif name in ("exp", "log", "sqrt", "sigmoid", "tanh") and dtype not in builtins_known.FLOATING:
        dtype = None
    keeps = name in ("clone", "detach", "contiguous", "cuda", "cpu", "to", "requires_grad_", "pin_memory", *_CONVERTED)
    made = Tensor(tensor.shape, dtype, list(tensor.data) if keeps and tensor.data is not None else None)
    if name == "square" and tensor.data is not None:
        made.data = [builtins_known.operate("Mult", one, one) for one in tensor.data]
    if name == "clamp" and tensor.data is not None and given == [] and isinstance(keywords.get("min"), int):
        made.data = [max(one, keywords["min"]) if one is not UNKNOWN else one for one in tensor.data]
    return made


def _reduced(tensor: Tensor, name: str, given: list[Any], keywords: Mapping[str, Any]) -> Any:
    axis = given[0] if given else keywords.get("dim")
    if isinstance(axis, Tensor):
        return UNKNOWN
    dtype = (
        tensor.dtype
        if tensor.dtype in builtins_known.FLOATING
        else "int64"
        if tensor.dtype in ("int64", "int32") and name == "sum"
        else None
    )
    if axis is None and len(given) == 0:
        data = None
        if tensor.data is not None and UNKNOWN not in tensor.data and tensor.data and name in ("sum", "max", "min"):
            functions: dict[str, Any] = {"sum": sum, "max": max, "min": min}
            data = [functions[name](tensor.data)]
        return Tensor((), dtype, data)
    if (
        name in ("max", "min")
        or not isinstance(axis, int)
        or tensor.shape is None
        or not -len(tensor.shape) <= axis < len(tensor.shape)
    ):
        return UNKNOWN
    axis %= len(tensor.shape)
    middle = (1,) if keywords.get("keepdim") is True else ()
    return Tensor((*tensor.shape[:axis], *middle, *tensor.shape[axis + 1 :]), dtype)


def _pieces(tensor: Tensor, name: str, given: list[Any], keywords: Mapping[str, Any]) -> Any:
    size = given[0] if given else UNKNOWN
    if not tensor.shape or len(given) > 1 or keywords:
        return UNKNOWN
    total = tensor.shape[0]
    if isinstance(size, (list, tuple)) and name == "split" and all(isinstance(one, int) for one in size):
        lengths = list(size)
    elif isinstance(size, int) and size > 0:
        length = size if name == "split" else -(-total // size)
        if not length or total // length > builtins_known.LONGEST:
            return UNKNOWN
        lengths = [length] * (total // length) + ([total % length] if total % length else [])
    else:
        return UNKNOWN
    return tuple(Tensor((length, *tensor.shape[1:]), tensor.dtype, None, tensor) for length in lengths)


def item(tensor: Tensor, index: Any) -> Any:
    """Return a part of a tensor."""
    if tensor.shape and isinstance(index, int) and not isinstance(index, bool):
        if not -tensor.shape[0] <= index < tensor.shape[0]:
            return UNKNOWN
        data = [tensor.data[index]] if tensor.data is not None and len(tensor.shape) == 1 else None
        return _part(tensor, tensor.shape[1:], data)
    if tensor.shape and isinstance(index, slice) and index.step != 0:
        places = range(tensor.shape[0])[index]
        data = tensor.data[index] if tensor.data is not None and len(tensor.shape) == 1 else None
        return _part(tensor, (len(places), *tensor.shape[1:]), data)
    if index == () or index is Ellipsis:
        return tensor
    return _part(tensor, None, None)


def _part(tensor: Tensor, shape: tuple[int, ...] | None, data: list[Any] | None) -> Tensor:
    return Tensor(shape, tensor.dtype, data, tensor)
