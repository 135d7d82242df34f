"""The state of a shell at a point of its text: variables, functions, folder, with branches and merges.

Nothing is copied for a branch. Each branch records its changes, and they are undone before the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy
from distcheck.core.spans import Span

from .fragments import Fragment

#: A cell without a value.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()

FOLDER = ("folder",)
ARGUMENTS = ("arguments",)
EXPORT_ALL = ("export all",)

#: Longest value in characters; the kernel passes no longer word to a program (MAX_ARG_STRLEN, Linux).
MAX_VALUE_LENGTH = 131_072
#: A text that is one variable, also an array.
_WHOLE_VARIABLE = lazy(r"\"?\$(?:\{(?P<braced>[A-Za-z_]\w*)(?:\[[@*]\])?\}|(?P<plain>[A-Za-z_]\w*))\"?")
#: Most values of one variable by the branch that the shell has taken.
_MAX_ALTERNATIVES = 6


class SubstitutedText(NamedTuple):
    """A part of a text from elsewhere in the file, or in another form: an inserted value."""

    start: int
    end: int
    span: Span
    #: as in ``WordPart``
    origins: tuple[Origin, ...]
    known: bool


class ShellSource(Fragment):
    """A shell text, with the parts that an outer shell inserted."""

    def __init__(self, fragment: Fragment, opaque: Sequence[SubstitutedText] = ()) -> None:
        # the table of line starts is reused: it is as long as the text
        self.__dict__.update(fragment.__dict__)
        #: in order, none within another
        self.opaque = tuple(opaque)
        self._opaque_ends = [item.end for item in opaque]
        self.fragment = fragment

    def span(self, start: int, end: int) -> Span:
        """Return the range in the file; for inserted text, the place of the insertion."""
        if not self.opaque:
            return self.fragment.span(start, end)
        first = self.opaque_at(start)
        last = self.opaque_at(max(end - 1, start))
        head = first.span if first else self.fragment.span(start, max(end, start))
        tail = last.span if last else self.fragment.span(start if end <= start else end - 1, end)
        return Span(self.path, head.line, head.column, tail.end_line, tail.end_column)

    def opaque_at(self, offset: int) -> SubstitutedText | None:
        """Return the inserted text at an offset, or None."""
        return next(self._overlapping(offset, offset + 1), None)

    def put_in(self, start: int, end: int) -> list[SubstitutedText]:
        """Return the inserted texts between two offsets, cut to them."""
        found = []
        for item in self._overlapping(start, end):
            first, last = max(start, item.start), min(end, item.end)
            if (first, last) != (item.start, item.end):
                origins = tuple(origin.piece(first - item.start, last - item.start) for origin in item.origins[:1])
                item = item._replace(start=first, end=last, origins=origins)
            found.append(item)
        return found

    def _overlapping(self, start: int, end: int) -> Iterator[SubstitutedText]:
        for index in range(bisect_right(self._opaque_ends, start), len(self.opaque)):
            if self.opaque[index].start >= end:
                return
            yield self.opaque[index]


class Origin(NamedTuple):
    """The location of a value that is used elsewhere."""

    #: its text; None: another file's, at ``fixed``
    source: ShellSource | None
    start: int = 0
    end: int = 0
    #: the value equals this text
    exact: bool = True
    fixed: Span | None = None

    def piece(self, start: int, end: int) -> Origin:
        """Return the location of a part of the value."""
        if not self.exact or self.source is None:
            return self._replace(exact=False)
        return self._replace(start=self.start + start, end=self.start + end)

    def span(self) -> Span | None:
        return self.fixed if self.source is None else self.source.span(self.start, self.end)


class WordPart(NamedTuple):
    """A part of a word."""

    text: str
    #: false: unknown until the shell runs; ``text`` is how it is written
    known: bool = True
    #: an unquoted expansion, which is split at blanks
    splits: bool = False
    #: its range in the text that uses it
    start: int = 0
    end: int = 0
    #: the text equals that range
    exact: bool = False
    #: where the inserted value is written: first itself, then each variable that it came from
    origins: tuple[Origin, ...] = ()

    def piece(self, start: int, end: int) -> WordPart:
        """Return a part of it."""
        if start == 0 and end == len(self.text):
            return self
        origins = tuple(origin.piece(start, end) for origin in self.origins[:1])
        if self.exact:
            return self._replace(
                text=self.text[start:end], start=self.start + start, end=self.start + end, origins=origins
            )
        return self._replace(text=self.text[start:end], origins=origins)


Value = tuple[WordPart, ...]


class Alternative(NamedTuple):
    """What a variable holds if the shell has taken one of several branches."""

    value: Value | None
    elements: tuple[Value, ...] | None
    #: the tests of that branch
    conditions: tuple[str, ...]


class ShellVariable(NamedTuple):
    """A variable of the shell."""

    #: None: it is set to an unknown value
    value: Value | None
    #: of an array; None for others, and for an unknown array
    elements: tuple[Value, ...] | None = None
    exported: bool = False
    #: the index of its last assignment, -1 without one in the text
    setting: int = -1
    #: false: it was unset
    present: bool = True
    #: some path to this point does not set it, so it may have its inherited value
    perhaps: bool = False
    #: the tests under which it was assigned
    conditions: tuple[str, ...] = ()
    #: what it holds by the branch, if branches differ and the value is unknown for that reason
    alternatives: tuple[Alternative, ...] = ()


def name_of_variable(text: str) -> str | None:
    """Return the name if a text is one variable, also an array, with or without quotes; otherwise None."""
    match = _WHOLE_VARIABLE.fullmatch(text)
    return None if match is None else match["braced"] or match["plain"]


def with_alternatives(value: Value, state: State, conditions: tuple[str, ...]) -> tuple[Alternative, ...]:
    """Return what a value is by the branch, if a variable in it differs by the branch: ``"$LAUNCHER train.py"``."""
    for at, part in enumerate(value):
        name = None if part.known else name_of_variable(part.text)
        found = None if name is None else state.variable(name)
        if found is None or not found.alternatives:
            continue
        return tuple(
            Alternative((*value[:at], *one.value, *value[at + 1 :]), None, (*conditions, *one.conditions))
            for one in found.alternatives
            if one.value is not None
        )
    return ()


def text_of(value: Value | None) -> str | None:
    """Return the text of a value, or None if unknown."""
    if value is None:
        return None
    parts = []
    for part in value:
        if not part.known:
            return None
        parts.append(part.text)
    return "".join(parts)


class State:
    """The cells of a shell's state, with branches."""

    def __init__(self) -> None:
        self._cells: dict[Any, Any] = {}
        self._journals: list[dict[Any, Any]] = []
        #: variables that may have changed since the last query
        self._touched: set[str] = set()

    def get(self, key: Any) -> Any:
        return self._cells.get(key)

    def variable(self, name: str) -> ShellVariable | None:
        """Return a variable, or None if the text does not touch it: it may be inherited."""
        found: ShellVariable | None = self._cells.get(name)
        return found

    def variables(self) -> list[tuple[str, ShellVariable]]:
        return [(name, cell) for name, cell in self._cells.items() if isinstance(cell, ShellVariable)]

    def changed(self) -> list[tuple[str, ShellVariable | None]]:
        """Return the variables that may have changed since the last call, with their current value."""
        names, self._touched = sorted(self._touched), set()
        return [(name, self._cells.get(name)) for name in names]

    def functions(self) -> list[tuple[str, str]]:
        return [key for key in self._cells if isinstance(key, tuple) and key[0] == "function"]

    def set(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            self._touched.add(key)
        if self._journals and key not in self._journals[-1]:
            self._journals[-1][key] = self._cells.get(key, ABSENT)
        if value is ABSENT:
            self._cells.pop(key, None)
        else:
            self._cells[key] = value

    def attempt(self, run: Callable[[], int]) -> tuple[dict[Any, Any], int]:
        """Run a branch and restore the state; return its changes and its result."""
        self._journals.append({})
        try:
            result = run()
        finally:
            journal = self._journals.pop()
            changes = {key: self._cells.get(key, ABSENT) for key in journal}
            self._touched.update(key for key in journal if isinstance(key, str))
            for key, old in journal.items():
                if old is ABSENT:
                    self._cells.pop(key, None)
                else:
                    self._cells[key] = old
        return changes, result

    def merge(self, branches: Sequence[dict[Any, Any]]) -> None:
        """Merge several branches: equal values stay known."""
        if len(branches) == 1:
            for key, value in branches[0].items():
                self.set(key, value)
            return
        keys: dict[Any, None] = {}
        for branch in branches:
            keys.update(dict.fromkeys(branch))
        for key in keys:
            base = self._cells.get(key, ABSENT)
            self.set(key, _merged(key, [branch.get(key, base) for branch in branches]))


def _merged(key: Any, values: list[Any]) -> Any:
    first = values[0]
    if all(value == first for value in values):
        return first
    if isinstance(key, tuple):
        if key[0] == "function":
            return next(value for value in reversed(values) if value is not ABSENT)
        return None
    there: list[ShellVariable] = [value for value in values if value is not ABSENT]
    last = max(there, key=lambda item: item.setting)
    return ShellVariable(
        None
        if len(there) < len(values)
        else _merged_value(key, [item.value if item.present else None for item in there]),
        None if len(there) < len(values) else _merged_elements(key, [item.elements for item in there]),
        exported=any(item.exported for item in there),
        setting=last.setting,
        perhaps=len(there) < len(values) or any(item.perhaps or not item.present for item in there),
        alternatives=_alternatives(there),
    )


def _alternatives(variables: Sequence[ShellVariable]) -> tuple[Alternative, ...]:
    """Return what the variables of several branches hold; nothing if there are too many, or only one."""
    found: dict[Alternative, None] = {}
    for one in variables:
        own = Alternative(one.value, one.elements, one.conditions)
        found.update(dict.fromkeys(one.alternatives or ((own,) if one.value or one.elements else ())))
    return tuple(found) if 1 < len(found) <= _MAX_ALTERNATIVES else ()


def _merged_value(name: str, values: Sequence[Value | None]) -> Value | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if len({_shown(value) for value in known}) == 1:
        return known[0]
    shortest = min(known, key=len)
    if not shortest or any(_shown(value[: len(shortest)]) != _shown(shortest) for value in known):
        return None
    # one branch has appended to it: X="$X --more"; the addition may be a part of its last word
    added = [value[len(shortest)].text for value in known if len(value) > len(shortest)]
    apart = (WordPart(" "),) if all(text[:1].isspace() for text in added) else ()
    return (*shortest, *apart, WordPart(f"${name}", known=False, splits=True))


def _shown(value: Value) -> tuple[tuple[str, bool], ...]:
    return tuple((part.text, part.known) for part in value)


def _merged_elements(name: str, values: Sequence[tuple[Value, ...] | None]) -> tuple[Value, ...] | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    shortest = min(known, key=len)
    begins = list(map(_shown, shortest))
    if shortest and all(list(map(_shown, value[: len(shortest)])) == begins for value in known):
        if all(len(value) == len(shortest) for value in known):
            return shortest
        return (*shortest, (WordPart(f"${{{name}[@]}}", known=False, splits=True),))
    return None


def single_origin(origins: Sequence[tuple[Origin, ...]]) -> Origin | None:
    """Return the nearest location of a word as a whole; each part gives its possible locations."""
    for first in reversed(origins[0] if origins else ()):
        current = first
        for following in origins[1:]:
            behind = next((p for p in following if p.source is current.source and p.start == current.end), None)
            if behind is None or not behind.exact:
                break
            current = current._replace(end=behind.end)
        else:
            if current.exact and current.source is not None:
                return current
    return None
