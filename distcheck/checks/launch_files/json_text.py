"""JSON with locations: each value of a file with its range, as DeepSpeed reads it.

DeepSpeed reads its configuration with hjson, so comments and trailing commas are valid. Values from a template
(``{{ batch }}``, ``$BATCH``, ``BATCH_SIZE`` for sed) are unknown. Reading stops at a syntax error; values
before it count.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy
from distcheck.core.spans import Span

from .fragments import Fragment
from .model import Scalar

#: Limit of nesting; configurations have about five levels.
MAX_DEPTH = 100

_SPACE = lazy(r"(?:[\s\ufeff]+|(?P<comment>#[^\n]*|//[^\n]*|/\*.*?\*/))", re.DOTALL)
_STRING = lazy(r'"(?:[^"\\\n]|\\[^\n])*"')
_NUMBER = lazy(r"-?(?:0|[1-9][0-9]*)(?P<broken>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.$+-])")
_WORD = lazy(r"(true|false|null|NaN|-?Infinity)(?![\w.$-])")
_TEMPLATE = lazy(r"(?:\{\{.*?\}\}|\$\{\{.*?\}\}|\$\{[^{}\n]*\}|\$[A-Za-z_]\w*|<[^<>\n]*>|[\w.+-])+", re.DOTALL)
#: A word in capitals, which a script replaces. ``TRUE`` and the like are other mistakes.
_PLACEHOLDER = lazy(r"(?!(?:TRUE|FALSE|NULL|NONE|NAN|INF|INFINITY|AUTO)\b)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*(?![\w.$+-])")
_WORDS = {"true": True, "false": False, "null": None, "NaN": None}
#: Limit of named values; a configuration has about fifty.
_MAX_VALUES = 20_000
#: Limit of digits in a whole number.
_MAX_NUMBER_LENGTH = 30


class JsonText(NamedTuple):
    """The contents of a JSON text."""

    #: by dotted name; tables and lists as plain values as well
    values: dict[str, Scalar]
    #: a duplicate key: its dotted name, and where it occurs the second time
    repeated: tuple[tuple[str, Span], ...] = ()
    comments: tuple[tuple[int, str], ...] = ()
    #: text, line and column, as in ``LaunchFile.problems``
    problems: tuple[tuple[str, int, int], ...] = ()


class _FaultError(Exception):
    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


def read_json(fragment: Fragment) -> JsonText:
    """Return all values of a text whose outermost value is a table. Never raises."""
    reader = _JsonReader(fragment)
    problems: tuple[tuple[str, int, int], ...] = ()
    try:
        reader.read()
    except _FaultError as fault:
        problems = ((f"no valid JSON: {fault.what}", *fragment.location(min(fault.at, len(fragment.text)))),)
    return JsonText(reader.values, tuple(reader.repeated), tuple(reader.comments), problems)


class _JsonReader:
    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        self.text = fragment.text
        self.at = 0
        self.values: dict[str, Scalar] = {}
        self.repeated: list[tuple[str, Span]] = []
        self.comments: list[tuple[int, str]] = []

    def read(self) -> None:
        self._skip()
        if self.text[self.at : self.at + 1] != "{":
            raise _FaultError("a table in braces is expected", self.at)
        self._table((), 0)
        self._skip()
        if self.at < len(self.text):
            raise _FaultError("the table has ended, and more follows", self.at)

    def _skip(self) -> None:
        while match := _SPACE.match(self.text, self.at):
            if match["comment"]:
                self.comments.append((self.fragment.location(match.start())[0], match["comment"].rstrip("\r")))
            self.at = match.end()

    def _value(self, name: tuple[str, ...] | None, depth: int) -> Any:
        """Return the value that begins here, or None if unknown, and store it under its name if it has one."""
        if depth > MAX_DEPTH:
            raise _FaultError(f"it is nested deeper than {MAX_DEPTH} levels", self.at)
        start = self.at
        sign = self.text[start : start + 1]
        known = True
        value: Any
        if sign == "{" and not self.text.startswith("{{", start):
            value = self._table(name, depth)
        elif sign == "[":
            value = self._list(depth)
        elif sign == '"':
            value = self._string()
            known = "{{" not in value and "${" not in value
        elif match := _NUMBER.match(self.text, start):
            self.at = match.end()
            broken = match["broken"] or len(match[0]) > _MAX_NUMBER_LENGTH
            value = float(match[0]) if broken else int(match[0])
        elif match := _WORD.match(self.text, start):
            self.at = match.end()
            value = _WORDS.get(match[1], float("inf"))
        elif (match := _PLACEHOLDER.match(self.text, start)) or (
            (match := _TEMPLATE.match(self.text, start)) and re.search(r"[${<]", match[0])
        ):
            self.at = match.end()
            value, known = None, False
        else:
            raise _FaultError(f"a value is expected, not {_shown(self.text, start)}", start)
        if name and len(self.values) < _MAX_VALUES:
            span = self.fragment.span(start, self.at)
            self.values[".".join(name)] = Scalar(value if known else None, span, self.text[start : self.at], known)
        return value if known else None

    def _table(self, name: tuple[str, ...] | None, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        opened = self.at
        self.at += 1
        while True:
            self._skip()
            if self.text[self.at : self.at + 1] == "}":
                self.at += 1
                return made
            start = self.at
            if start >= len(self.text):
                raise _FaultError("a brace is never closed", opened)
            if self.text[start] != '"':
                raise _FaultError(f"a name in double quotes is expected, not {_shown(self.text, start)}", start)
            key = self._string()
            if key in made:
                self.repeated.append((".".join((*(name or ()), key)), self.fragment.span(start, self.at)))
            self._skip()
            if self.text[self.at : self.at + 1] != ":":
                raise _FaultError(f"a colon is expected behind {key[:40]!r}", self.at)
            self.at += 1
            self._skip()
            made[key] = self._value(None if name is None else (*name, key), depth + 1)
            self._separator("}")

    def _list(self, depth: int) -> list[Any]:
        made: list[Any] = []
        opened = self.at
        self.at += 1
        while True:
            self._skip()
            if self.text[self.at : self.at + 1] == "]":
                self.at += 1
                return made
            if self.at >= len(self.text):
                raise _FaultError("a bracket is never closed", opened)
            # an item of a list has no name
            made.append(self._value(None, depth + 1))
            self._separator("]")

    def _separator(self, end: str) -> None:
        """Skip the comma after a value, or stop before the end of its table or list."""
        behind = self.at
        self._skip()
        sign = self.text[self.at : self.at + 1]
        if sign == ",":
            self.at += 1
        elif sign != end:
            raise _FaultError(f"a comma or {end!r} is expected behind the value", behind)

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise _FaultError("a text in quotes is never closed", self.at)
        self.at = match.end()
        inner = match[0][1:-1]
        if "\\" not in inner:
            return inner
        import json

        try:
            return str(json.loads(match[0], strict=False))
        except ValueError:
            raise _FaultError("a text holds an escape that JSON does not know", self.at) from None


def _shown(text: str, at: int) -> str:
    shown = text[at : at + 20].split("\n", 1)[0].strip()
    return repr(shown) if shown else "the end"
