"""Read plain data from a pickle: numbers, strings, containers, and names that are not imported.

Readers use it for what they need to continue: the shape of an array, the number of storages. It creates no object that
a stream names, and keeps little of large values. It judges nothing; that is the task of :mod:`.machine`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from .opcodes import CODES, COUNTED, NAMES, TEXTS
from .source_bytes import ByteSource
from .trace import Global

#: Longer strings and numbers are not kept.
_KEPT_BYTES = 256
#: Entries of one container that are kept, by default.
_KEPT_ITEMS = 100
_WINDOW = 1 << 16


class UnreadableError(Exception):
    """The stream is no plain data, is damaged, or is longer than it may be."""


class SkippedValue:
    """A value that was not kept."""


OPAQUE = SkippedValue()
#: What a reader puts in the place of something that it filled.
ARRAY = SkippedValue()


class Instance:
    """What a call gives: the name that is called, its arguments, and the states that were set."""

    def __init__(self, function: Any, arguments: Any) -> None:
        self.function = function
        self.arguments = arguments
        self.states: list[Any] = []


#: Called after each BUILD with what was filled and the offset after the opcode; gives where to go on, and whether what
#: was filled is replaced by something that is not known.
AfterBuild = Callable[[Any, int], "tuple[int, bool]"]
_MARK = SkippedValue()
_FIXED = {
    CODES["BININT"]: "<i",
    CODES["BININT1"]: "<B",
    CODES["BININT2"]: "<H",
    CODES["BINFLOAT"]: ">d",
}
_CONSTANTS = {CODES["NONE"]: None, CODES["NEWTRUE"]: True, CODES["NEWFALSE"]: False}
_INDEXES = {"BINGET": 1, "BINPUT": 1, "LONG_BINGET": 4, "LONG_BINPUT": 4}


class _LiteralReader:
    def __init__(
        self,
        source: ByteSource,
        start: int,
        opcodes: int,
        items: int,
        after_build: AfterBuild | None,
        on_id: Callable[[Any], None] | None,
    ) -> None:
        self._source = source
        self._left = opcodes
        self._items = items
        self._after_build = after_build
        self._on_id = on_id
        self.at = start
        self._window = b""
        self._window_at = start
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def _take(self, size: int) -> bytes:
        inside = self.at - self._window_at
        if inside < 0 or inside + size > len(self._window):
            self._window = self._source.read(self.at, max(_WINDOW, size))
            self._window_at, inside = self.at, 0
            if len(self._window) < size:
                raise UnreadableError("it ends too early")
        self.at += size
        return self._window[inside : inside + size]

    def _line(self) -> bytes:
        start = self.at
        line = self._source.read(start, 4096)
        end = line.find(b"\n")
        if end < 0:
            raise UnreadableError("a line that does not end")
        self.at = start + end + 1
        return line[:end]

    def _marked(self) -> list[Any]:
        found: list[Any] = []
        while self._stack:
            value = self._stack.pop()
            if value is _MARK:
                found.reverse()
                return found
            found.append(value)
        raise UnreadableError("no mark on the stack")

    def run(self) -> Any:
        while True:
            self._left -= 1
            if self._left < 0 or len(self._memo) > self._LARGEST_MEMO:
                raise UnreadableError("it is too long")
            code = self._take(1)[0]
            if code not in NAMES:
                raise UnreadableError("no opcode")
            name = NAMES[code]
            if name == "STOP":
                return self._stack.pop()
            self._step(code, name)

    _LARGEST_MEMO = 300_000

    def _step(self, code: int, name: str) -> None:
        stack = self._stack
        if code in COUNTED:
            stack.append(self._counted(code, name))
        elif code in _FIXED:
            stack.append(struct.unpack(_FIXED[code], self._take(struct.calcsize(_FIXED[code])))[0])
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif name in ("INT", "LONG", "FLOAT", "STRING", "UNICODE"):
            stack.append(_of_line(name, self._line()))
        elif name in ("PROTO", "FRAME"):
            self._take(1 if name == "PROTO" else 8)
        elif name in _INDEXES or name in ("GET", "PUT", "MEMOIZE"):
            self._memory(name)
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("POP", "DUP"):
            stack.append(stack[-1]) if name == "DUP" else stack.pop()
        elif name == "POP_MARK":
            self._marked()
        elif name in ("EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"):
            stack.append({"EMPTY_TUPLE": (), "EMPTY_LIST": [], "EMPTY_DICT": {}, "EMPTY_SET": OPAQUE}[name])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            width = int(name[-1])
            if len(stack) < width:
                raise UnreadableError("an empty stack")
            stack[-width:] = [tuple(stack[-width:])]
        elif name in ("TUPLE", "LIST", "FROZENSET"):
            items = self._marked()
            stack.append(tuple(items) if name == "TUPLE" else items[: self._items] if name == "LIST" else OPAQUE)
        elif name == "DICT":
            stack.append(_filled({}, self._marked()))
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"):
            self._fill(name)
        else:
            self._calls(name)

    def _counted(self, code: int, name: str) -> Any:
        width, signed = COUNTED[code]
        size = int.from_bytes(self._take(width), "little", signed=signed)
        if size < 0 or size > self._source.size - self.at:
            raise UnreadableError("it ends too early")
        if size > _KEPT_BYTES:
            self.at += size
            return OPAQUE
        content = self._take(size)
        if name in ("LONG1", "LONG4"):
            return int.from_bytes(content, "little", signed=True)
        return content.decode("utf-8", "surrogateescape") if code in TEXTS else content

    def _memory(self, name: str) -> None:
        if name == "MEMOIZE":
            index = len(self._memo)
        elif name in ("GET", "PUT"):
            index = _number(self._line())
        else:
            index = int.from_bytes(self._take(_INDEXES[name]), "little")
        if name.endswith("GET"):
            if index not in self._memo:
                raise UnreadableError("an empty place of the memo")
            self._stack.append(self._memo[index])
        else:
            self._memo[index] = self._stack[-1]

    def _fill(self, name: str) -> None:
        if name in ("APPEND", "SETITEM"):
            width = 1 if name == "APPEND" else 2
            if len(self._stack) <= width:
                raise UnreadableError("an empty stack")
            items = self._stack[-width:]
            del self._stack[-width:]
        else:
            items = self._marked()
        target = self._stack[-1]
        if isinstance(target, list) and name.startswith("APPEND"):
            target.extend(items[: max(0, self._items - len(target))])
        elif isinstance(target, dict) and name.startswith("SETITEM"):
            _filled(target, items)

    def _calls(self, name: str) -> None:
        stack = self._stack
        if name == "GLOBAL":
            module, attribute = self._line(), self._line()
            stack.append(Global(module.decode("utf-8", "replace"), attribute.decode("utf-8", "replace")))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            known = isinstance(module, str) and isinstance(attribute, str)
            stack.append(Global(module, attribute) if known else OPAQUE)
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, function = stack.pop(), stack.pop()
            stack.append(Instance(function, arguments))
        elif name == "NEWOBJ_EX":
            stack.pop()
            arguments, function = stack.pop(), stack.pop()
            stack.append(Instance(function, arguments))
        elif name in ("INST", "OBJ"):
            items = self._marked()
            if name == "INST":
                items.insert(0, Global(self._line().decode("latin-1"), self._line().decode("latin-1")))
            stack.append(Instance(items[0], tuple(items[1:])))
        elif name == "BUILD":
            state, target = stack.pop(), stack[-1]
            if isinstance(target, Instance):
                if len(target.states) >= _KEPT_ITEMS:
                    raise UnreadableError("an instance that is filled too often")
                target.states.append(state)
            if self._after_build is not None:
                self.at, replaced = self._after_build(target, self.at)
                if replaced:
                    stack[-1] = ARRAY
        elif name == "BINPERSID":
            saved = stack.pop()
            if self._on_id is not None:
                self._on_id(saved)
            stack.append(Instance(OPAQUE, saved))
        elif name == "PERSID":
            self._line()
            stack.append(OPAQUE)
        else:
            raise UnreadableError(f"the opcode {name}")


def _of_line(name: str, line: bytes) -> Any:
    """A value that protocol 0 writes as a line."""
    if name in ("INT", "LONG"):
        return _number(line)
    if name == "FLOAT" or len(line) > _KEPT_BYTES:
        return OPAQUE
    if name == "UNICODE":
        return line.decode("raw-unicode-escape", "replace")
    quoted = line.strip()
    return quoted[1:-1].decode("latin-1") if b"\\" not in quoted else OPAQUE


def _number(line: bytes) -> int:
    try:
        return int(line.strip(b" \tL\r") or b"x")
    except ValueError:
        raise UnreadableError("no number") from None


def _filled(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    """Pairs whose key is a short string are kept; no reader needs others."""
    for key, value in zip(items[::2], items[1::2], strict=False):
        if isinstance(key, str) and (key in target or len(target) < _KEPT_ITEMS):
            target[key] = value
    return target


def read_value(
    source: ByteSource,
    start: int = 0,
    *,
    opcodes: int = 10_000_000,
    items: int = _KEPT_ITEMS,
    after_build: AfterBuild | None = None,
    on_id: Callable[[Any], None] | None = None,
) -> tuple[Any, int]:
    """The value of the pickle at ``start`` and the offset after it; of a list the first ``items``.

    ``on_id`` is called with each persistent id.

    Raises :class:`UnreadableError` where it is no plain data, is damaged, or has more than ``opcodes``.
    """
    reader = _LiteralReader(source, start, opcodes, items, after_build, on_id)
    try:
        return reader.run(), reader.at
    except (IndexError, RecursionError):
        raise UnreadableError("an empty stack") from None
