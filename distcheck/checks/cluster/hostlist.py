"""Many host names in few characters, in the syntax of Slurm's host lists: ``gpu[01-40],login1``.

The reverse is in ``launch/schedulers.py`` (``expand_hostlist``). No name is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from distcheck.core.model import rank_ranges

#: Longer numbers are text: ``expand_hostlist`` reads no more digits than these.
_MOST_DIGITS = 18
#: Characters of a list inside of a sentence: about half a line of a terminal.
SHORT = 60
#: Characters of a list that stands by itself: that of 500 hosts of which no two are neighbours.
LONGEST_PLACE = 3000
#: A location names all ranks of a job of so many, and some ranges of those of a larger one.
_SMALL_JOB, _RANGES = 64, 8

_NUMBER = re.compile(r"([0-9]+)")


class _HostPattern(NamedTuple):
    """Hosts whose names differ in their numbers only."""

    #: the text before each number, and the last one's rest: one more than ``numbers``
    texts: tuple[str, ...]
    #: the value of each position, sorted
    numbers: tuple[tuple[str, ...], ...]

    @property
    def hosts(self) -> int:
        """How many names it stands for."""
        count = 1
        for values in self.numbers:
            count *= len(values)
        return count

    def text(self) -> str:
        """As Slurm writes it."""
        places = (values[0] if len(values) == 1 else f"[{','.join(_ranges(values))}]" for values in self.numbers)
        return "".join(chain.from_iterable(zip(self.texts, (*places, ""), strict=True)))


def compress_hosts(names: Iterable[str]) -> str:
    """All names in one list, each once, sorted: gpu02, gpu01 and login1 give ``gpu[01-02],login1``.

    Zeros in front of numbers and domains are kept: ``expand_hostlist`` gives back exactly these names.
    """
    return ",".join(item.text() for item in _fold(names))


def shorten_hosts(names: Iterable[str], most: int = SHORT) -> str:
    """As :func:`compress_hosts`, in about ``most`` characters; the rest is counted: ``gpu[01,04] and 30 more``.

    At least one range of hosts is named, however long it is.
    """
    text, left = _limited(_fold(names), most)
    return text + (f" and {left:,} more" if left else "")


def place_hosts(names: Iterable[str]) -> str | None:
    """Return the list for a finding's location: whole, so that a program can read it, unless it is extremely long.

    Then the first hosts of it, still as a list that can be read. None without any.
    """
    return _limited(_fold(names), LONGEST_PLACE)[0] or None


def place_ranks(ranks: Iterable[int]) -> str | None:
    """Return ranks for a finding's location, as ranges: all of a small job, the first of a large one. None: no rank."""
    listed = sorted(set(ranks))
    small = not listed or listed[-1] < _SMALL_JOB
    return (rank_ranges(listed) if small else first_ranges(listed)) or None


def first_ranges(ranks: Iterable[int], most: int = _RANGES, *, dots: bool = False) -> str:
    """Return the first ranges of ranks, for a message.

    :param dots: show people that there are more
    """
    parts = rank_ranges(ranks).split(",")
    return ",".join(parts[:most]) + (",…" if dots and len(parts) > most else "")


def _limited(items: Sequence[_HostPattern], most: int) -> tuple[str, int]:
    """As many hosts as fit into so many characters, and how many are left."""
    shown: list[str] = []
    room = most
    left = sum(item.hosts for item in items)
    for item in items:
        text, hosts = _cut(item, room, first=not shown)
        if hosts == 0:
            break
        shown.append(text)
        room -= len(text) + 1
        left -= hosts
        if hosts < item.hosts:
            break
    return ",".join(shown), left


def _cut(item: _HostPattern, room: int, *, first: bool) -> tuple[str, int]:
    """An item, or those of its ranges that fit into so many characters; and the hosts that this stands for."""
    text = item.text()
    if len(text) <= room:
        return text, item.hosts
    varying = [place for place, values in enumerate(item.numbers) if len(values) > 1]
    if len(varying) != 1:
        return (text, item.hosts) if first else ("", 0)
    (place,) = varying
    values = item.numbers[place]
    room -= sum(map(len, item.texts)) + sum(len(other[0]) for other in item.numbers if other is not values) + 2
    kept = 0
    for low, high in _runs(values):
        room -= len(_range(values[low], values[high])) + (kept > 0)
        if room < 0 and (kept or not first):
            break
        kept = high + 1
    if kept == 0:
        return "", 0
    part = item._replace(numbers=(*item.numbers[:place], values[:kept], *item.numbers[place + 1 :]))
    return part.text(), kept


def _fold(names: Iterable[str]) -> list[_HostPattern]:
    """The names as items, in the order in which people count."""
    shapes: dict[tuple[str, ...], list[_HostPattern]] = {}
    for name in set(names):
        texts, numbers = _split(name)
        shapes.setdefault(texts, []).append(_HostPattern(texts, tuple((number,) for number in numbers)))
    found: list[_HostPattern] = []
    for items in shapes.values():
        found.extend(_fold_shape(items))
    return sorted(found, key=_order)


def _split(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts between the numbers of a name, and its numbers."""
    parts = _NUMBER.split(name)
    if any(len(number) > _MOST_DIGITS for number in parts[1::2]):
        return (name,), ()
    return tuple(parts[::2]), tuple(parts[1::2])


def _fold_shape(items: list[_HostPattern]) -> list[_HostPattern]:
    """Join items that differ in one position only: first in the position with the most numbers, the host's own."""
    places = range(len(items[0].numbers))
    distinct = {place: len({item.numbers[place] for item in items}) for place in places}
    for place in sorted(places, key=lambda place: (-distinct[place], -place)):
        if distinct[place] < 2:
            break
        alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
        for item in items:
            others = (*item.numbers[:place], *item.numbers[place + 1 :])
            alike.setdefault(others, []).extend(item.numbers[place])
        items = [
            _HostPattern(items[0].texts, (*others[:place], tuple(sorted(values, key=_value)), *others[place:]))
            for others, values in alike.items()
        ]
    return items


def _order(item: _HostPattern) -> tuple[tuple[str, int, int], ...]:
    firsts = (_value(values[0]) for values in item.numbers)
    return tuple((text, *number) for text, number in zip(item.texts, (*firsts, (0, 0)), strict=True))


def _value(number: str) -> tuple[int, int]:
    """Numbers sort by value; ``1`` and ``01`` are two hosts."""
    return int(number), len(number)


def _runs(values: Sequence[str]) -> list[tuple[int, int]]:
    """First and last place of each run of numbers that follow one another with the same zeros in front."""
    runs: list[tuple[int, int]] = []
    for place, value in enumerate(values):
        if runs:
            low, high = runs[-1]
            if value == str(int(values[high]) + 1).zfill(len(values[low])):
                runs[-1] = (low, place)
                continue
        runs.append((place, place))
    return runs


def _ranges(values: Sequence[str]) -> list[str]:
    return [_range(values[low], values[high]) for low, high in _runs(values)]


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"
