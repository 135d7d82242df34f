"""Opcodes with an argument in the stream: frames, lengths, numbers, texts and indexes of the memo."""

from __future__ import annotations

import re
from struct import Struct

from .machine_state import MachineState
from .opcodes import CODES, COUNTED, HIGHEST_PROTOCOL, NAMES, PLAIN, TEXTS
from .trace_builder import StoppedError
from .values import CONSTANT, LONGEST_NAME, TEXT, UNKNOWN, WINDOW, OutOfTimeError, printable

_LARGEST = (1 << 63) - 1
four_bytes = Struct("<I").unpack_from
_INTEGER = rb"\s*[+-]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*)\s*\Z"
_LONG = _INTEGER.replace(rb"\s*\Z", rb"L?\s*\Z")
#: Python takes no more digits than these (``sys.int_info.default_max_str_digits``), older ones take forever.
_LONGEST_NUMBER = 4300


class ArgumentOpcodes(MachineState):
    """Reads arguments from the stream."""

    def _bytes(self, offset: int, start: int, number: int) -> bytes:
        """``number`` bytes from ``start`` on, which belong to the opcode at ``offset``."""
        if start + number > self.size:
            raise self._cut(offset)
        content = self.window.read(start, number)
        if len(content) < number:
            raise self._cut(offset)
        return content

    def _line(self, offset: int, start: int) -> tuple[bytes, int, int]:
        """The line from ``start`` on, of the opcode at ``offset``: its beginning, its size, the next offset.

        Where the bytes end first, unpicklers take what there is for the line but its last byte, and go on.
        """
        window = self.window
        end = window.data.find(b"\n", start - window.base) if window.base <= start else -1
        if end >= 0:
            end += window.base
        else:
            place = start
            while end < 0 and place < self.size:
                chunk = window.fetch(place, WINDOW)
                if not chunk:
                    raise self._cut(offset)
                found = chunk.find(b"\n")
                end = place + found if found >= 0 else -1
                place += len(chunk)
        after = end + 1 if end >= 0 else self.size
        if after <= start:
            raise self._cut(offset)
        size = after - start - 1
        return window.read(start, min(size, LONGEST_NAME + 1)), size, after

    def _proto(self, offset: int) -> int:
        version = self._bytes(offset, offset + 1, 1)[0]
        if version > HIGHEST_PROTOCOL:
            raise self._impossible(
                offset, f"announces protocol {version}, and the highest there is is {HIGHEST_PROTOCOL}"
            )
        self.protocol = version
        self.notes.protocol = max(version, self.notes.protocol)
        # Names are mapped by the protocol that holds where they are fetched.
        self.lines.clear()
        self.pairs.clear()
        return offset + 2

    def _frame(self, offset: int) -> int:
        size = int.from_bytes(self._bytes(offset, offset + 1, 8), "little")
        if size > _LARGEST:
            raise self._impossible(offset, f"announces {size} bytes")
        end = offset + 9 + size
        if end > self.size:
            # The unpickler in C stops here, the one in Python goes on.
            self._later("cut", offset, f"announces {size} bytes, and {self.size - offset - 9} are left")
        if self.frame_end and (offset + 9 > self.frame_end or end > self.frame_end):
            self._frame_crossed(offset)
        self.frame_end = max(end, self.frame_end)
        return offset + 9

    def _frame_crossed(self, offset: int) -> None:
        self.notes.unresolved(offset, "an opcode crosses the end of its FRAME: unpicklers disagree about what follows")

    def _extent(self, offset: int) -> int:
        """Where the opcode at an offset ends, its argument included."""
        head = self.window.read(offset, 1)
        if not head or head[0] not in NAMES:
            return offset + 1
        name = NAMES[head[0]]
        if head[0] in COUNTED:
            width = COUNTED[head[0]][0]
            start = offset + 1 + width
            return start + int.from_bytes(self.window.read(offset + 1, width), "little")
        if name in _LINES:
            after = offset + 1
            for _ in range(_LINES[name]):
                try:
                    after = self._line(offset, after)[2]
                except (StoppedError, OutOfTimeError):
                    return self.size
            return after
        return offset + 1 + _ARGUMENTS.get(name, PLAIN.get(head[0], 1) - 1)

    def _counted(self, offset: int) -> int:
        """A value behind its length: long texts, bytes, long integers."""
        opcode = self.window.read(offset, 1)[0]
        width, signed = COUNTED[opcode]
        size = int.from_bytes(self._bytes(offset, offset + 1, width), "little", signed=signed)
        if size < 0 or size > _LARGEST:
            raise self._impossible(offset, f"has a length of {size} bytes")
        start = offset + 1 + width
        if start + size > self.size:
            raise self._cut(offset)
        if opcode == CODES["BINUNICODE8"] and size < self.short:
            self._check(self.window.read(start, size), offset)
        self.stack.append(offset << 4 | (TEXT if opcode in TEXTS else CONSTANT))
        return start + size

    def _number(self, offset: int) -> int:
        """INT, LONG, FLOAT. The unpickler in C reads them to the first zero byte, and is lax about what it takes."""
        line, size, after = self._line(offset, offset + 1)
        name = self._name(offset)
        sound = size <= _LONGEST_NUMBER
        if sound and name == "FLOAT":
            try:
                float(line)
            except ValueError:
                sound = False
        elif sound:
            sound = re.match(_INTEGER if name == "INT" else _LONG, line) is not None
        if not sound:
            self._later("broken", offset, f"holds {printable(repr(line[:40]))}, which is no number")
        self.stack.append(offset << 4 | CONSTANT)
        return after

    def _text_line(self, offset: int) -> int:
        line, size, after = self._line(offset, offset + 1)
        if self.window.read(offset, 1) == b"S":
            first, last = line[:1], self.window.read(offset + size, 1)
            if size < 2 or first != last or first not in b"'\"":
                raise self._impossible(offset, "holds text without quotes")
        elif size <= LONGEST_NAME:
            try:
                line.decode("raw-unicode-escape")
            except UnicodeDecodeError:
                raise self._impossible(offset, "holds text with a broken escape") from None
        self.stack.append(offset << 4 | TEXT)
        return after

    def _index(self, offset: int) -> tuple[int, int]:
        line, size, after = self._line(offset, offset + 1)
        try:
            index = int(line.partition(b"\0")[0]) if size <= LONGEST_NAME else -1
        except ValueError:
            index = -1
        if b"\0" in line:
            self._later("broken", offset, f"holds {printable(repr(line[:40]))}, which is no number")
        if not 0 <= index <= _LARGEST:
            raise self._impossible(offset, f"holds {printable(repr(line[:40]))}, which is no index of the memo")
        return index, after

    def _get(self, offset: int) -> int:
        index, after = self._index(offset)
        self.stack.append(self._recall(index, offset))
        return after

    def _put(self, offset: int) -> int:
        index, after = self._index(offset)
        value = self.stack[-1]
        if not value:
            raise self._underflow(offset)
        self._store(index, value)
        return after

    def _next_buffer(self, offset: int) -> int:
        self._later("broken", offset, "requests a buffer that is not in the stream")
        self.stack.append(offset << 4 | CONSTANT)
        return offset + 1

    def _readonly_buffer(self, offset: int) -> int:
        if not self.stack[-1]:
            raise self._underflow(offset)
        return offset + 1

    def _extension(self, offset: int) -> int:
        width = {"EXT1": 1, "EXT2": 2, "EXT4": 4}[self._name(offset)]
        code = int.from_bytes(self._bytes(offset, offset + 1, width), "little", signed=width == 4)
        if code <= 0:
            raise self._impossible(offset, f"has the extension code {code}")
        self.notes.unresolved(
            offset, "a global is named by an extension code of copyreg, which each process registers for itself"
        )
        self.stack.append(offset << 4 | UNKNOWN)
        return offset + 1 + width


#: opcodes with arguments that are lines, and how many; of other opcodes, bytes of their argument
_LINES = {
    **dict.fromkeys(("INT", "LONG", "FLOAT", "STRING", "UNICODE", "GET", "PUT", "PERSID"), 1),
    **dict.fromkeys(("GLOBAL", "INST"), 2),
}
_ARGUMENTS = {
    **dict.fromkeys(("PROTO", "BINGET", "BINPUT", "EXT1"), 1),
    **dict.fromkeys(("LONG_BINGET", "LONG_BINPUT", "EXT4"), 4),
    "EXT2": 2,
    "FRAME": 8,
}
