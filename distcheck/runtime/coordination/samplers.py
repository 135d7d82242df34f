"""What decides a loader's order: its nested samplers and their attributes."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from .sample_contents import IdentityCache, attribute

_DEEPEST = 6
#: Their ``len`` is arithmetic.
_TRUSTED = ("torch.utils.data", "accelerate.data_loader", "lightning", "pytorch_lightning", "transformers", "builtins")
#: What an own ``__len__`` may call and still be arithmetic.
_ARITHMETIC = frozenset(
    {"len", "int", "min", "max", "abs", "round", "range", "sum", "math", "ceil", "floor", "self", "divmod"}
)
#: What a sampler calls that shuffles whenever it is iterated.
_SHUFFLING = frozenset(
    {"randperm", "shuffle", "permutation", "permuted", "multinomial", "randint", "rand", "sample", "choice", "choices"}
)
#: What a sampler calls that chooses a part of the samples, by their weights or at random.
_CHOOSING = frozenset({"multinomial", "topk", "nonzero", "choice", "choices", "nlargest", "nsmallest"})
#: How classes call the number of parts, and which of them is this rank's.
_COORDINATES = (("num_replicas", "rank"), ("num_processes", "process_index"), ("world_size", "rank"))


def samplers_of(loader: Any) -> list[Any]:
    """The samplers of a loader, outermost first."""
    outer = attribute(loader, "batch_sampler")
    if outer is None:
        outer = attribute(loader, "sampler")
    found: list[Any] = []
    while outer is not None and len(found) < _DEEPEST and not any(outer is one for one in found):
        found.append(outer)
        inner = [attribute(outer, name) for name in ("batch_sampler", "sampler", "_sampler")]
        outer = next((one for one in inner if one is not None), None)
    return found


def describe(chain: list[Any], places: IdentityCache) -> dict[str, Any]:
    """Return the attributes of the samplers as plain values."""
    with_epoch = next((one for one in chain if callable(getattr(type(one), "set_epoch", None))), None)
    replicas = part = None
    for one in chain:
        for many, mine in _COORDINATES:
            numbers = attribute(one, many), attribute(one, mine)
            if replicas is None and all(isinstance(number, int) for number in numbers):
                replicas, part = numbers
    last = chain[-1] if chain else None
    epoch = attribute(with_epoch, "epoch")
    made = places.get(with_epoch)
    return {
        "types": [type(one).__name__ for one in chain],
        "of_torch": all(type(one).__module__.startswith("torch.utils.data") for one in chain),
        "epoch_setter": type(with_epoch).__name__ if with_epoch is not None else "",
        "place": made[0][0] if made else "",
        "epoch": epoch if isinstance(epoch, int) else None,
        "shuffler": next((type(one).__name__ for one in chain if _shuffles_itself(one)), ""),
        "chooses": any(_chooses(one) for one in chain),
        "shuffle": attribute(with_epoch, "shuffle"),
        "seed": attribute(with_epoch, "seed"),
        "replicas": replicas,
        "part": part,
        "replacement": bool(attribute(last, "replacement")),
    }


def _shuffles_itself(sampler: Any) -> bool:
    """Return whether a sampler of the script's own draws an order each time that it is iterated."""
    if type(sampler).__module__.startswith(_TRUSTED):
        return False
    code = getattr(getattr(type(sampler), "__iter__", None), "__code__", None)
    return code is not None and not _SHUFFLING.isdisjoint(code.co_names)


def _chooses(sampler: Any) -> bool:
    """Return whether a method of a sampler of the script's own chooses samples."""
    kind = type(sampler)
    if kind.__module__.startswith(_TRUSTED):
        return False
    codes = (getattr(one, "__code__", None) for one in vars(kind).values())
    return any(code is not None and not _CHOOSING.isdisjoint(code.co_names) for code in codes)


def known_length(loader: Any, chain: list[Any]) -> int | None:
    """Return the number of batches; None if ``len`` would run code of the script that does more than count."""
    if attribute(loader, "_dataset_kind") != 0 or not chain or not all(_counts(one) for one in chain):
        return None
    try:
        return len(chain[0])
    except (TypeError, NotImplementedError, AttributeError):
        return None


def _counts(sampler: Any) -> bool:
    function = getattr(type(sampler), "__len__", None)
    if function is None:
        return False
    module = getattr(function, "__module__", None) or type(sampler).__module__
    return module.startswith(_TRUSTED) or _is_arithmetic(function)


def _is_arithmetic(function: Callable[..., Any]) -> bool:
    if not hasattr(function, "__code__"):
        return False
    for step in dis.get_instructions(function):
        if step.opname.startswith(("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "DELETE", "IMPORT", "YIELD")):
            return False
        called = step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_METHOD") or (
            # from 3.12 on the lowest bit marks a method call
            step.opname == "LOAD_ATTR" and _METHODS_ARE_ATTRIBUTES and bool((step.arg or 0) & 1)
        )
        if called and step.argval not in _ARITHMETIC:
            return False
    return True


_METHODS_ARE_ATTRIBUTES = "LOAD_METHOD" not in dis.opmap
