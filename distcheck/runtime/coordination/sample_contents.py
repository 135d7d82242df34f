"""What batches and data sets hold, in digests: read from their memory, without an operation that torch could see.

No item of a data set is read, and no random number is generated. Of the script's own code only ``__len__`` runs.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
import zlib
from collections.abc import Iterator, Mapping
from operator import index
from typing import Any, NamedTuple

#: Samples of a batch with a digest each.
FIRST = 64
_LEAVES = 16
_DEEPEST = 4
#: Bytes of one sample, or of one attribute, that are read as a whole; of more, this many in equal distances.
_WHOLE = 1 << 16
_WINDOWS = 16
#: Indices of a subset that are followed, and those of them that are kept: the same ones on every rank.
_MOST_INDICES = 2_000_000
_KEPT_INDICES = 2_000
_PLAIN = (str, bytes, int, float, bool, type(None))


class IdentityCache:
    """Values about objects that may not be hashable, for as long as these live."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def get(self, item: Any) -> Any:
        """What is known about this very object; None where nothing is."""
        found = self._values.get(id(item))
        return found[1] if found is not None and found[0]() is item else None

    def put(self, item: Any, value: Any) -> None:
        self._values[id(item)] = (weakref.ref(item), value)

    def alive(self) -> Iterator[tuple[Any, Any]]:
        """Objects and values, newest first."""
        for reference, value in reversed(list(self._values.values())):
            item = reference()
            if item is not None:
                yield item, value


class SubsetIndices(NamedTuple):
    """One ``Subset`` between a loader and the data."""

    subset: Any
    #: of its items, in the data below all subsets; None: too many, or not known
    indices: list[int] | None


def attribute(item: Any, name: str) -> Any:
    """An attribute that an object itself has, without running code of its class."""
    values = getattr(item, "__dict__", None)
    return values.get(name) if isinstance(values, dict) else None


def torch_class(module: str, name: str) -> type:
    """A class of torch where it has been imported, else one without instances."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else IdentityCache


# data sets


def layers_of(dataset: Any) -> tuple[list[SubsetIndices], Any]:
    """The subsets around a data set, outermost first, and what is below them.

    What wraps one data set of its own length (a transform) counts as that data set.
    """
    subset_type = torch_class("torch.utils.data.dataset", "Subset")
    subsets = []
    while True:
        if isinstance(dataset, subset_type):
            subsets.append(dataset)
            dataset = attribute(dataset, "dataset")
        else:
            inner = _wrapped(dataset)
            if inner is None:
                break
            dataset = inner
    layers: list[SubsetIndices] = []
    below: list[int] | None = None
    for subset in reversed(subsets):
        own = _integers(attribute(subset, "indices"))
        if layers:
            below = layers[-1].indices
            own = None if own is None or below is None else [below[number] for number in own]
        layers.append(SubsetIndices(subset, own))
    return layers[::-1], dataset


def _wrapped(dataset: Any) -> Any:
    kind = torch_class("torch.utils.data.dataset", "Dataset")
    if not isinstance(dataset, kind):
        return None
    inner = [value for value in vars(dataset).values() if isinstance(value, kind)]
    if len(inner) != 1 or len(vars(dataset)) > 8:
        return None
    return inner[0] if length_of(inner[0]) == length_of(dataset) is not None else None


def length_of(item: Any) -> int | None:
    """``len`` where there is one."""
    try:
        return len(item)
    except Exception:  # noqa: BLE001 - whatever it is, there is no length
        return None


def _integers(indices: Any) -> list[int] | None:
    count = length_of(indices)
    if count is None or count > _MOST_INDICES:
        return None
    if hasattr(indices, "tolist"):
        indices = indices.tolist()
    try:
        return [index(number) for number in indices]
    except TypeError:
        return None


def some_of(indices: list[int], total: int) -> list[int]:
    """Some of many indices, chosen by their value: of two sets those that are in both are kept in both."""
    limit = min(1 << 32, (_KEPT_INDICES << 32) // max(total, 1))
    return sorted({number for number in indices if (number * 2654435761) % (1 << 32) < limit})


def print_of(dataset: Any, depth: int = 0) -> str | None:
    """A digest of what a data set holds; None if nothing identifies the data."""
    values = getattr(dataset, "__dict__", None)
    if not isinstance(values, dict) or depth > 3:
        return None
    total, identified = 0, False
    for name in sorted(values):
        value = values[name]
        digest = digest_of(value, depth)
        if digest is not None:
            total = zlib.crc32(f"{name}={digest};".encode(), total)
            identified = identified or _identifies(value)
    return f"{total:08x}" if identified else None


def held_by(dataset: Any) -> str | None:
    """A digest of the paths, names and contents that a data set holds, without its numbers and options; None: none."""
    values = getattr(dataset, "__dict__", None)
    if not isinstance(values, dict):
        return None
    parts = [f"{name}={digest}" for name in sorted(values) if (digest := _held(values[name])) is not None]
    return f"{zlib.crc32(';'.join(parts).encode()):08x}" if parts else None


def _held(value: Any) -> str | None:
    names = isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, str) for one in value)
    return digest_of(value) if names or _identifies(value) else None


def _identifies(value: Any) -> bool:
    """Return whether a value identifies data: paths or contents, not a number or an option."""
    if isinstance(value, str):
        return (len(value) > 2 and any(sign in value for sign in "/\\.")) or len(value) >= 16
    if isinstance(value, _PLAIN):
        return False
    count = length_of(value)
    return count is None or count > 1


def digest_of(value: Any, depth: int = 0) -> str | None:
    """A digest of a plain value, an array, or a data set; None for anything else."""
    if isinstance(value, _PLAIN):
        return repr(value)[:4096]
    memory = _memory(value)
    if memory is not None:
        return f"{tuple(value.shape)}{value.dtype}{_crc(*memory):08x}"
    if depth > _DEEPEST:
        return None
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        step = max(1, len(items) // 256)
        parts = [digest_of(item, depth + 1) for item in items[::step]]
    elif isinstance(value, dict):
        step = max(1, len(value) // 256)
        parts = [digest_of(item, depth + 1) for pair in list(value.items())[::step] for item in pair]
    elif isinstance(value, torch_class("torch.utils.data.dataset", "Dataset")):
        return print_of(value, depth + 1)
    else:
        return None
    return None if None in parts else f"{len(value)}:{zlib.crc32(repr(parts).encode()):08x}"


# batches


def leaves_of(batch: Any, count: int) -> list[Any]:
    """Digests of the parts of a batch: a list with one for each of its first samples where a part is made of samples,
    else one for the whole part; None for a part that can't be read."""
    found: list[Any] = []
    for part in _parts(batch, 0):
        if len(found) == _LEAVES:
            break
        found.append(_leaf(part, count))
    return found


def _parts(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, Mapping) or type(value).__name__ in ("BatchEncoding", "UserDict"):
        for name in value:
            yield from _parts(value[name], depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _DEEPEST and not all(isinstance(one, _PLAIN) for one in value):
        for one in value:
            yield from _parts(one, depth + 1)
    elif _memory(value) is None and not isinstance(value, (list, tuple, *_PLAIN)) and depth < _DEEPEST:
        inner = getattr(value, "__dict__", None)
        store = inner.get("_store", inner) if isinstance(inner, dict) else None  # a Batch of torch_geometric
        values = getattr(store, "__dict__", store)
        if isinstance(values, dict):
            for name in sorted(values, key=str):
                if hasattr(values[name], "shape") or isinstance(values[name], (list, tuple, Mapping)):
                    yield from _parts(values[name], depth + 1)
        else:
            yield value
    else:
        yield value


def _leaf(value: Any, count: int) -> Any:
    memory = _memory(value)
    if memory is not None:
        start, size = memory
        shape = tuple(value.shape)
        if count and shape and shape[0] == count:
            step, inner = _first_dimension(value, size)
            return [f"{_crc(start + number * step, inner):08x}" for number in range(min(count, FIRST))]
        return f"{_crc(start, size):08x}"
    if isinstance(value, (list, tuple)):
        items = [f"{zlib.crc32(repr(one).encode()):08x}" for one in value[:FIRST]]
        return items if len(value) == count else "".join(items)[:256]
    if isinstance(value, _PLAIN):
        return f"{zlib.crc32(repr(value)[:4096].encode()):08x}"
    return None


def _first_dimension(value: Any, size: int) -> tuple[int, int]:
    """Bytes from one sample to the next, and those of one sample."""
    is_array = hasattr(value, "strides")
    step = int(value.strides[0]) if is_array else int(value.stride(0)) * int(value.element_size())
    return step, size - step * (int(value.shape[0]) - 1)


def _memory(value: Any) -> tuple[int, int] | None:
    """Address and bytes of a tensor or an array, from its first element to its last; None where it has none here."""
    tensor = torch_class("torch", "Tensor")
    if isinstance(value, tensor):
        try:
            if value.device.type != "cpu" or value.is_sparse or value.is_nested or not value.numel():  # type: ignore[attr-defined]
                return None
            start, item = int(value.data_ptr()), int(value.element_size())  # type: ignore[attr-defined]
            sizes, strides = value.shape, value.stride()  # type: ignore[attr-defined]
        except (RuntimeError, NotImplementedError, AttributeError, TypeError):  # made by a transform, without memory
            return None
        extent = item * (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
        return (start, extent) if start else None
    array = torch_class("numpy", "ndarray")
    if isinstance(value, array) and value.size and not value.dtype.hasobject:  # type: ignore[attr-defined]
        strides = value.strides  # type: ignore[attr-defined]
        if min(strides, default=0) < 0:
            return None
        extent = value.itemsize + sum((size - 1) * step for size, step in zip(value.shape, strides, strict=True))  # type: ignore[attr-defined]
        return int(value.ctypes.data), int(extent)  # type: ignore[attr-defined]
    return None


def _crc(start: int, size: int) -> int:
    if size <= _WHOLE:
        return zlib.crc32(ctypes.string_at(start, size))
    total, width = 0, _WHOLE // _WINDOWS
    for number in range(_WINDOWS):
        total = zlib.crc32(ctypes.string_at(start + number * (size - width) // (_WINDOWS - 1), width), total)
    return total
