"""The values of the symbolic machine, each one integer, and how they read as Python text.

A value is ``detail << 4 | kind``. A value in the stream is known by its offset, and read again only on request (a
name, an argument that is shown). The contents of the last few thousand containers and calls are remembered. So a memo
entry costs eight bytes, and no content of a stream is held.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import count
from time import monotonic

from .opcodes import CODES, COUNTED, TEXTS
from .source_bytes import ByteSource
from .trace import Global

#: Kinds of values. Zero is no value: a mark on the stack, or an entry of the memo that was never stored.
TEXT, CONSTANT, TUPLE, LIST, DICT, SET, FROZENSET, GLOBAL, RESULT, PERSISTENT, UNKNOWN = range(1, 12)
#: of a target or a result, in words
KIND_NAMES = {
    TEXT: "constant",
    CONSTANT: "constant",
    TUPLE: "tuple",
    LIST: "list",
    DICT: "dict",
    SET: "set",
    FROZENSET: "frozenset",
    GLOBAL: "global",
    RESULT: "instance",
    PERSISTENT: "persistent",
    UNKNOWN: "unknown",
}
KIND = 15
#: The empty tuple. Serial numbers of things start at 1.
EMPTY = TUPLE
#: ``RESULT``: the global that was called in 20 bits, then the serial number.
OWNER = 0xFFFFF
#: Detail of a value whose content was given up.
NOWHERE = 1 << 58

#: Containers and calls whose content is remembered, a power of two; and the entries of each that are.
REMEMBERED = 4096
ENTRIES = 40
#: A text that is longer is no name: bytes.
LONGEST_NAME = 4096
#: Texts that were read again are kept up to this many.
_TEXTS_AT_HAND = 1024
_DEEPEST = 8
#: of a text that is an argument, in characters; of a call
_SHOWN_TEXT = 120
_SHOWN = 200
#: Bytes that are checked in one go.
WINDOW = 256 << 10

_ESCAPE = rb"(?s)\\(?:(\n)|x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))"
_PLAIN_ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def printable(text: str, most: int = _SHOWN) -> str:
    """Text of a stranger as it may stand on a terminal: escaped where it can't be printed, and cut."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in cut)


class OutOfTimeError(Exception):
    """The time that a file may take is spent."""


class Window:
    """The stretch of a source that is checked, and the one before it. ``deadline``: by :func:`time.monotonic`."""

    def __init__(self, source: ByteSource, deadline: float) -> None:
        self.source = source
        self._deadline = deadline
        self.size = source.size
        self.data = b""
        self.base = 0
        self._before = b""
        self._before_base = 0

    def move(self, offset: int, size: int) -> bytes:
        """Check ``size`` bytes from ``offset`` on."""
        self._before, self._before_base = self.data, self.base
        self.data, self.base = self.fetch(offset, size), offset
        return self.data

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``."""
        for data, base in ((self.data, self.base), (self._before, self._before_base)):
            start = offset - base
            if start >= 0 and start + size <= len(data):
                return data[start : start + size]
        return self.fetch(offset, size)

    def fetch(self, offset: int, size: int) -> bytes:
        """The same, past the window. Raises OutOfTimeError."""
        if monotonic() > self._deadline:
            raise OutOfTimeError
        return self.source.read(offset, size)


class Values:
    """What the machine remembers of the values that it made."""

    def __init__(self, window: Window) -> None:
        self.window = window
        #: what is named in the stream; the first entry stands for what can't be known
        self.globals: list[Global | None] = [None]
        self.next_serial = count(1).__next__
        #: serial number % REMEMBERED → serial number, content
        self.things: list[tuple[int, Sequence[int]]] = [(-1, ())] * REMEMBERED
        self._texts: dict[int, str | None] = {}

    def keep(self, kind: int, items: Sequence[int]) -> int:
        """A new container with this content."""
        serial = self.next_serial()
        self.things[serial % REMEMBERED] = (serial, items[:ENTRIES])
        return serial << 4 | kind

    def keep_result(self, index: int, parts: Sequence[int]) -> int:
        """What a call gives. ``parts``: what is called, its arguments, its keyword arguments where it has some."""
        serial = self.next_serial()
        self.things[serial % REMEMBERED] = (serial, parts)
        return serial << 24 | index << 4 | RESULT

    def fill(self, value: int, items: Sequence[int]) -> None:
        """Remember what is added to a list, dictionary or set."""
        serial = value >> 4
        place = serial % REMEMBERED
        owner, held = self.things[place]
        if owner != serial:
            self.things[place] = (serial, items[:ENTRIES])
        elif len(held) < ENTRIES:
            self.things[place] = (serial, (*held, *items[: ENTRIES - len(held)]))

    def items(self, value: int) -> Sequence[int] | None:
        """What a container or a call is made of (the first entries); None where that is not remembered."""
        if value == EMPTY:
            return ()
        serial = value >> 24 if value & KIND == RESULT else value >> 4
        owner, items = self.things[serial % REMEMBERED]
        return items if owner == serial else None

    def _given_up(self, value: int) -> bool:
        """Whether the content of a list, dictionary or set was forgotten; else it has none."""
        serial = value >> 4
        return self.things[serial % REMEMBERED][0] > serial

    def faded(self, value: int) -> int:
        """The same value without its detail, so that many of them cost no memory."""
        kind = value & KIND
        if kind in (0, GLOBAL):
            return value
        return value & 0xFFFFFF if kind == RESULT else _FADED[kind]

    def owner(self, value: int) -> Global | None:
        """The global that a value is, or whose call gave it."""
        kind = value & KIND
        if kind == GLOBAL:
            return self.globals[value >> 4]
        return self.globals[value >> 4 & OWNER] if kind == RESULT else None

    def text(self, value: int) -> str | None:
        """A text constant; None where it is no text, can't be decoded, or is too long to be a name."""
        if value & KIND != TEXT:
            return None
        try:
            return self._texts[value]
        except KeyError:
            pass
        place = value >> 4
        if place == NOWHERE:
            return None
        opcode, content, complete = self._content(place, LONGEST_NAME)
        text = _decoded(opcode, content) if complete else None
        if len(content) <= 200:
            if len(self._texts) >= _TEXTS_AT_HAND:
                self._texts.clear()
            self._texts[value] = text
        return text

    def weight(self, value: int) -> int:
        """How many elements a tuple has when it is written out, as far as it is remembered."""
        weights: dict[int, int] = {}
        waiting = [value]
        while waiting:
            one = waiting[-1]
            inner = [item for item in self.items(one) or () if item & KIND == TUPLE]
            missing = [item for item in inner if item not in weights]
            if missing and one not in weights:
                weights[one] = 1  # a tuple that holds itself, in the end
                waiting += missing
            else:
                weights[one] = min(1 << 40, 1 + sum(weights[item] for item in inner))
                waiting.pop()
        return weights[value]

    def integer(self, value: int) -> int | None:
        """An integer constant; None where it is none or not remembered."""
        place = value >> 4
        if value & KIND != CONSTANT or place == NOWHERE:
            return None
        head = self.window.read(place, 5)
        if head and head[0] in _INTEGERS:
            width, signed = _INTEGERS[head[0]]
            return int.from_bytes(head[1 : 1 + width], "little", signed=signed)
        opcode, content, complete = self._content(place, 64)
        if opcode in (CODES["LONG1"], CODES["LONG4"]):
            return int.from_bytes(content, "little", signed=True) if complete else None
        try:
            return int(content.rstrip(b"L")) if complete and opcode in (CODES["INT"], CODES["LONG"]) else None
        except ValueError:
            return None

    def payload(self, value: int) -> tuple[int, int, str] | None:
        """Where the bytes of a string constant are: offset, size, how its text is written (empty: it is bytes)."""
        place = value >> 4
        if value & KIND not in (TEXT, CONSTANT) or place == NOWHERE:
            return None
        head = self.window.read(place, 9)
        if head[:1] == b"V":
            return place + 1, self._line_size(place + 1), "raw-unicode-escape"
        if not head or head[0] not in COUNTED or head[0] in (CODES["LONG1"], CODES["LONG4"]):
            return None
        width = COUNTED[head[0]][0]
        return (
            place + 1 + width,
            int.from_bytes(head[1 : 1 + width], "little"),
            "latin-1" if value & KIND == TEXT else "",
        )

    def _line_size(self, start: int) -> int:
        place = start
        while chunk := self.window.fetch(place, WINDOW):
            end = chunk.find(b"\n")
            if end >= 0:
                return place + end - start
            place += len(chunk)
        return place - start

    def _content(self, offset: int, most: int) -> tuple[int, bytes, bool]:
        """Of the constant at an offset: opcode, the bytes of its value, and whether these are all of them."""
        data = self.window.data
        start = offset - self.window.base
        if 0 <= start < len(data) - 5:  # most often, and worth a short cut
            opcode = data[start]
            if opcode == _BINUNICODE or opcode == _SHORT_BINUNICODE:  # noqa: SIM109 (faster so)
                if opcode == _BINUNICODE:
                    size = int.from_bytes(data[start + 1 : start + 5], "little")
                    start += 5
                else:
                    size = data[start + 1]
                    start += 2
                if size <= most and start + size <= len(data):
                    return opcode, data[start : start + size], True
        head = self.window.read(offset, 9)
        opcode = head[0] if head else 0
        if opcode in COUNTED:
            width, signed = COUNTED[opcode]
            size = int.from_bytes(head[1 : 1 + width], "little", signed=signed)
            return opcode, self.window.read(offset + 1 + width, min(size, most)), size <= most
        line = self.window.read(offset + 1, min(most, self.window.size - offset - 1))
        end = line.find(b"\n")
        return opcode, line[:end] if end >= 0 else line[:-1], end >= 0 or len(line) < most

    def _shown_text(self, value: int) -> str:
        place = value >> 4
        if place == NOWHERE:
            return "'…'"
        opcode, content, complete = self._content(place, 4 * _SHOWN_TEXT)
        text = _decoded(opcode, content)
        while text is None and not complete and len(content) > 4 * _SHOWN_TEXT - 4:  # cut within a character
            content = content[:-1]
            text = _decoded(opcode, content)
        if text is None:
            text, quoted = "", repr(content[:_SHOWN_TEXT])
        else:
            quoted = repr(text[:_SHOWN_TEXT])
        return quoted if complete and len(text) <= _SHOWN_TEXT else f"{quoted[:-1]}…{quoted[-1]}"

    def _shown_constant(self, value: int) -> str:
        """A plain constant as a literal."""
        place = value >> 4
        if place == NOWHERE:
            return "…"
        opcode, content, complete = self._content(place, 64)
        if opcode in _LITERALS:
            return _LITERALS[opcode]
        if opcode in _NUMBERS:
            head = self.window.read(place, 9).ljust(9, b"\0")
            return repr(struct.unpack(_NUMBERS[opcode], head[1 : 1 + struct.calcsize(_NUMBERS[opcode])])[0])
        if opcode in (CODES["LONG1"], CODES["LONG4"]):
            return repr(int.from_bytes(content, "little", signed=True)) if complete else "…"
        if opcode in (CODES["INT"], CODES["LONG"], CODES["FLOAT"]):
            line = content.decode("latin-1").strip()
            return printable({"00": "False", "01": "True"}.get(line, line.rstrip("L")) if complete else line + "…", 64)
        if opcode in COUNTED:
            quoted = repr(content) if complete else f"{content!r}…"
            return f"bytearray({quoted})" if opcode == CODES["BYTEARRAY8"] else quoted
        return "…"

    def shown(self, value: int, room: int = _SHOWN) -> str:
        """A value as it would stand in Python: printable, at most ``room`` characters."""
        parts: list[str] = []
        length = 0
        waiting: list[tuple[int | str, int]] = [(value, 0)]
        while waiting and length <= room:
            item, depth = waiting.pop()
            text = item if isinstance(item, str) else self._open(item, depth, waiting)
            parts.append(text)
            length += len(text)
        whole = "".join(parts)
        return whole if len(whole) <= room and not waiting else whole[: room - 1] + "…"

    def _open(self, value: int, depth: int, waiting: list[tuple[int | str, int]]) -> str:
        """What a value starts with; what follows is put on ``waiting``, last first."""
        kind = value & KIND
        if kind == TEXT:
            return self._shown_text(value)
        if kind == CONSTANT:
            return self._shown_constant(value)
        if kind == GLOBAL:
            owner = self.globals[value >> 4]
            return printable(owner.path) if owner is not None else "…"
        if kind in (0, UNKNOWN):
            return self._shown_unknown(value)
        items = self.items(value)
        follows: list[int | str]
        if kind == RESULT:
            if items is None or depth > _DEEPEST:
                owner = self.owner(value)
                return f"{printable(owner.path) if owner is not None else '…'}(…)"
            follows = [items[0], *self._arguments(items)]
            start = ""
        elif kind == PERSISTENT:
            start, follows = "persistent_load(", [*(items or ("…",)), ")"]
        else:
            start, end = _BRACKETS[kind]
            if items is None and kind in (LIST, DICT, SET) and not self._given_up(value):
                items = ()
            if kind == SET and items is not None and not items:
                return "set()"
            if depth > _DEEPEST:
                return f"{start}…{end}"
            follows = ["…"] if items is None else _separated(items, kind == DICT)
            follows.append(",)" if kind == TUPLE and items is not None and len(items) == 1 else end)
        waiting.extend((item, depth + 1) for item in reversed(follows))
        return start

    def _arguments(self, parts: Sequence[int]) -> list[int | str]:
        arguments = self.items(parts[1]) if parts[1] & KIND == TUPLE else None
        if arguments is not None:
            shown = _separated(arguments, False)
        elif parts[1] & KIND == TUPLE:
            shown = ["…"]
        else:
            shown = ["*", parts[1]]
        if len(parts) > 2:
            shown += [", **" if shown else "**", parts[2]]
        return ["(", *shown, ")"]

    def _shown_unknown(self, value: int) -> str:
        place = value >> 4
        if not value or place == NOWHERE:
            return "…"
        head = self.window.read(place, 5)
        widths = {CODES["EXT1"]: 1, CODES["EXT2"]: 2, CODES["EXT4"]: 4}
        if head and head[0] in widths:
            return f"<extension {int.from_bytes(head[1 : 1 + widths[head[0]]], 'little')}>"
        return "<computed>"


def _separated(items: Sequence[int], pairs: bool) -> list[int | str]:
    follows: list[int | str] = []
    for place, item in enumerate(items):
        if place:
            follows.append(": " if pairs and place % 2 else ", ")
        follows.append(item)
    if len(items) >= ENTRIES:
        follows.append(", …")
    return follows


def _decoded(opcode: int, content: bytes) -> str | None:
    """What an unpickler makes of the bytes of a text constant; None where it raises."""
    try:
        if opcode == CODES["UNICODE"]:
            return content.decode("raw-unicode-escape")
        if opcode == CODES["STRING"]:
            content = content.strip()[1:-1]
            return re.sub(_ESCAPE, _unescaped, content).decode("latin-1")
        if opcode in (CODES["BINSTRING"], CODES["SHORT_BINSTRING"]):
            return content.decode("latin-1")
        return content.decode("utf-8", "surrogatepass") if opcode in TEXTS else None
    except UnicodeDecodeError:
        return None


def _unescaped(found: re.Match[bytes]) -> bytes:
    _, hexadecimal, octal, plain = found.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if plain in (b"\\", b"'", b'"'):
        return plain
    if plain is not None:
        return _PLAIN_ESCAPES.get(plain, found.group())
    return b""


_FADED = {kind: NOWHERE << 4 | kind for kind in KIND_NAMES}
_BRACKETS = {TUPLE: ("(", ")"), LIST: ("[", "]"), DICT: ("{", "}"), SET: ("{", "}"), FROZENSET: ("frozenset({", "})")}
_BINUNICODE, _SHORT_BINUNICODE = CODES["BINUNICODE"], CODES["SHORT_BINUNICODE"]
_LITERALS = {CODES["NONE"]: "None", CODES["NEWTRUE"]: "True", CODES["NEWFALSE"]: "False"}
_NUMBERS = {CODES["BININT"]: "<i", CODES["BININT1"]: "<B", CODES["BININT2"]: "<H", CODES["BINFLOAT"]: ">d"}
_INTEGERS = {CODES["BININT"]: (4, True), CODES["BININT1"]: (1, False), CODES["BININT2"]: (2, False)}
