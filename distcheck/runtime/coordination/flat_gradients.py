"""Recognizes a tensor that holds gradients: a copy of one, or several of them one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

#: Elements of each gradient that are read, evenly spread over it; the largest of these are compared with the tensor.
_READ, _LARGEST = 64, 4
#: Relative difference that a division, or a shorter number format, explains.
_CLOSE = 1e-2
#: More gradients than these are not searched; comparisons for each gradient. Those of a model's order need two.
_MOST, _MOST_TRIES = 1024, 8


def holds_gradients(tensor: Any, gradients: Sequence[Any], ranks: int) -> bool:
    """Return whether a tensor consists of gradients in any order, and zeros after the last one.

    :param tensor: before it is reduced
    :param gradients: the larger ones are ignored
    :param ranks: of the group: the gradients may be divided by their number before. 0: this rank is not in it
    """
    if ranks < 1 or not _is_plain(tensor):
        return False
    known = [one.detach() for one in gradients if one.numel() <= tensor.numel() and _is_plain(one)]
    if not known or len(known) > _MOST:
        return False
    flat = tensor.detach().reshape(-1)
    chosen = [_chosen(one.reshape(-1)) for one in known]
    indices, values = [one for one, _ in chosen], [two for _, two in chosen]
    sizes = [one.numel() for one in known]
    return any(_are_tiles(flat, indices, values, sizes, factor) for factor in (1.0, 1.0 / ranks))


def _chosen(gradient: Any) -> tuple[list[int], list[float]]:
    """Return the indices and values of the largest elements that are read."""
    stride = -(-gradient.numel() // _READ)
    values = gradient[::stride].tolist()
    largest = sorted(range(len(values)), key=lambda index: abs(values[index]), reverse=True)[:_LARGEST]
    return [stride * index for index in largest], [values[index] for index in largest]


def _are_tiles(flat: Any, indices: list[list[int]], values: list[list[float]], sizes: list[int], factor: float) -> bool:
    left = dict.fromkeys(range(len(sizes)))
    at, last, varied = 0, -1, False
    tries = itertools.count()
    while at < len(flat):
        # most often they are in the order of the model, or in the reverse
        nearest = [index for index in (last + 1, last - 1) if index in left]
        found = next(
            (
                index for index in (*nearest, *left)
                if sizes[index] <= len(flat) - at and next(tries) < _MOST_TRIES * len(sizes)
                and _are_close(flat[[at + one for one in indices[index]]].tolist(), values[index], factor)
            ),
            None,
        )  # fmt: skip
        if found is None:
            break
        del left[found]
        varied = varied or any(values[found])
        at, last = at + sizes[found], found
    return varied and (at == len(flat) or not bool(flat[at:].any()))


def _are_close(here: Sequence[float], gradient: Sequence[float], factor: float) -> bool:
    return all(
        abs(one - factor * other) <= _CLOSE * abs(factor * other) for one, other in zip(here, gradient, strict=True)
    )


def _is_plain(tensor: Any) -> bool:
    """Return whether a tensor has elements, on this rank, that are real numbers."""
    return (
        not hasattr(tensor, "device_mesh")
        and str(tensor.layout) == "torch.strided"
        and not tensor.is_meta
        and tensor.is_floating_point()
        and tensor.numel() > 0
    )
