"""Measure how deep this interpreter can nest what it pickles or copies before it raises RecursionError.

The limit depends on the version, on ``sys.setrecursionlimit``, on the stack of the thread, and on the depth of the
caller. A nested object is given to the real pickler (or to ``copy.deepcopy``), and its memo shows how far it came.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

#: Levels beyond which a limit no longer matters: an interpreter that gets that far has no limit.
_ENOUGH = 400_000


class Scale(NamedTuple):
    """What a level of each kind takes, in units, and how many units there are."""

    capacity: int
    sequence: int  # list
    mapping: int  # dict
    flat: int  # tuple, set, frozenset
    instance: int  # anything that is reduced, without its state
    arguments: int  # the arguments that something is made from
    listing: int = 0  # what the content of a list takes for a moment, beyond its level


#: Up to Python 3.13 the C pickler counts calls: one for each object, one more for the content of a list or dict.
#: (Measured on 3.10.13, 3.11.7, 3.12.1 and 3.13.0; the same in their Modules/_pickle.c.) Deep copying counts frames.
_COUNTED = {"pickle": (2, 2, 1, 1, 1), "deepcopy": (2, 2, 2, 2, 1)}
#: Units that are there in any case, so that nothing needs to be measured for what is not nested deeper.
_UNMEASURED = 40


def before_measuring(copying: bool) -> Scale:
    """A scale for shallow objects; a caller that goes beyond its capacity must measure."""
    return Scale(_UNMEASURED, *_COUNTED["deepcopy" if copying else "pickle"])


def measure(*, copying: bool, protocol: int, with_ids: int = 0, frames: int) -> Scale:
    """The scale that holds for who called us ``frames`` frames ago.

    :param with_ids: how many Python functions the pickler calls for the persistent id of each object
    """
    if copying:
        levels = [_levels_copied(wrap) for wrap in _WRAPS]
    else:
        count = _pickled(protocol, with_ids)
        levels = [_levels(count, _WRAPS[0], 1)]
        if sys.version_info < (3, 14):
            capacity = 2 * levels[0]
            # one unit more than an even number of them?
            if levels[0] < _ENOUGH and count((_nested(_WRAPS[0], levels[0]),)) >= levels[0]:
                capacity += 1
            if sys.version_info < (3, 12):  # up to here, Python's own calls are counted with them
                capacity += frames - (sys.version_info < (3, 11))
                return Scale(capacity, *_COUNTED["pickle"], listing=1)
            return Scale(capacity, *_COUNTED["pickle"])
        levels += [_levels(count, wrap, entries) for wrap, entries in zip(_WRAPS[1:], (1, 1, 2), strict=True)]
    sequence, mapping, mixed, instances = (max(1, _UNITS // each) for each in levels)
    flat, instance = max(1, mixed - sequence), max(1, instances - mapping)
    if not copying:
        return Scale(_UNITS, sequence, mapping, flat, instance, flat)
    # a list takes two frames; up to here there are two frames more than for pickling, and until 3.11 a comprehension
    frames += 2 + (sys.version_info < (3, 12))
    return Scale(_UNITS + sequence * frames // 2, sequence, mapping, flat, instance, sequence // 2)


class _Node:
    def __init__(self, inner: object) -> None:
        self.inner = inner


#: A level of each kind: a list, a dict, a list in a tuple, an instance.
_WRAPS: tuple[Callable[[object], object], ...] = (
    lambda inner: [inner],
    lambda inner: {0: inner},
    lambda inner: [(inner,)],
    _Node,
)
#: Where the kinds of levels take different amounts, the capacity is divided into so many units.
_UNITS = 1_000_000_000


class _NullFile:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class _DepthProbe(pickle.Pickler):
    """A pickler with a persistent id for nothing, found out in ``depth`` calls."""

    depth = 1

    def persistent_id(self, value: object) -> None:
        _descend(self.depth - 1)


def _descend(depth: int) -> None:
    if depth > 0:
        _descend(depth - 1)


def _pickled(protocol: int, with_ids: int) -> Callable[[object], int]:
    def count(value: object) -> int:
        pickler = _DepthProbe(_NullFile(), protocol) if with_ids else pickle.Pickler(_NullFile(), protocol)
        if isinstance(pickler, _DepthProbe):
            pickler.depth = with_ids
        with contextlib.suppress(RecursionError):  # that is what is measured; the memo shows how far it came
            pickler.dump(value)
        return len(pickler.memo.copy())

    return count


def _copied(value: object) -> bool:
    try:
        copy.deepcopy(value)
    except RecursionError:
        return False
    return True


def _nested(wrap: Callable[[object], object], levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = wrap(value)
    return value


def _levels(count: Callable[[object], int], wrap: Callable[[object], object], entries: int) -> int:
    """How many levels the pickler enters, where each makes so many entries in its memo."""
    levels = 1024
    while True:
        entered = count(_nested(wrap, levels)) // entries
        if entered < levels or levels >= _ENOUGH:
            return max(1, entered)
        levels *= 4


def _levels_copied(wrap: Callable[[object], object]) -> int:
    """How many levels can be copied. The memo of a failed copy is no measure: Python 3.13 fills it to the end."""
    good, bad = 1, 64
    while _copied(_nested(wrap, bad)):
        good, bad = bad, bad * 2
        if good >= _ENOUGH // 8:
            return good
    while bad - good > 1:
        middle = (good + bad) // 2
        if _copied(_nested(wrap, middle)):
            good = middle
        else:
            bad = middle
    return good
