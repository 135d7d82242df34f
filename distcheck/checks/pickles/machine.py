"""A symbolic pickle machine: it follows all opcodes with a stack, marks and a memo of symbols, and records a trace.

Nothing that a stream names is imported, fetched or called. The semantics are those of CPython's C unpickler
(``Modules/_pickle.c``, 3.8 to 3.14). Where only the Python unpickler continues, the machine continues and records the
error. Time is linear in the opcodes, :class:`.ScanLimits` bounds the memory, and large strings are not read.
"""

from __future__ import annotations

import re
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from array import array
from collections.abc import Callable, Sequence
from itertools import islice, repeat
from operator import length_hint
from struct import Struct
from time import monotonic

from .known_functions import KnownFunctions
from .opcodes import CODES, COUNTED, HIGHEST_PROTOCOL, NAMES, PLAIN, TEXTS
from .source_bytes import ByteSource, ScanLimits
from .trace import Global, Trace, Unresolved
from .trace_builder import MOST_CHARACTERS, StoppedError, TraceBuilder
from .values import (
    CONSTANT,
    DICT,
    EMPTY,
    ENTRIES,
    FROZENSET,
    GLOBAL,
    KIND,
    KIND_NAMES,
    LIST,
    LONGEST_NAME,
    OWNER,
    PERSISTENT,
    REMEMBERED,
    RESULT,
    SET,
    TEXT,
    TUPLE,
    UNKNOWN,
    WINDOW,
    OutOfTimeError,
    Values,
    Window,
    printable,
)

#: Different globals that one stream may name; checkpoints name some dozens.
_MOST_GLOBALS = 10_000
#: Streams after the first of a file that get a trace of their own; all further ones share one.
_OWN_TRACES = 64
#: Entries of the memo far beyond its end, of which each costs as much as twenty others.
_SPARSE_COST = 20
_MARK_COST = 4
#: An entry of the stack, which is copied where a container takes it.
_STACK_COST = 2
_GAP = 1024
#: No pickler leaves gaps: an index that is so far beyond what was stored is there to take memory.
_FAR = 1 << 20
#: Values on the stack that keep their detail.
_FRESH = 64 << 10
#: Wider than any opcode without its string: bytes.
_WIDEST = 9
#: A string of up to so many bytes is checked: it must be UTF-8. Longer ones are skipped.
_SMALL = 64 << 10
_LARGEST = (1 << 63) - 1

_four_bytes = Struct("<I").unpack_from

# What the inner loop does with an opcode. Below ``_WIDTHS`` it is a plain constant of so many bytes.
_WIDTHS = 10
_BINGET, _LONG_BINGET, _MARK, _TEXT1, _TEXT4 = range(10, 15)
_MEMOIZE, _BINPUT, _LONG_BINPUT = range(15, 18)
_TUPLE1, _TUPLE2, _TUPLE3, _TUPLE, _EMPTY_TUPLE = range(20, 25)
_DICT, _LIST, _SETITEMS, _SETITEM, _APPENDS, _APPEND = range(30, 36)
_LISTED = _APPENDS
_RARE, _STOP = range(40, 42)
_UNSEEN = 255
_KINDS: dict[int, int] = {
    **dict.fromkeys(NAMES, _RARE),
    **PLAIN,
    CODES["MEMOIZE"]: _MEMOIZE,
    CODES["BINGET"]: _BINGET,
    CODES["BINPUT"]: _BINPUT,
    CODES["SHORT_BINUNICODE"]: _TEXT1,
    CODES["LONG_BINPUT"]: _LONG_BINPUT,
    CODES["BINUNICODE"]: _TEXT4,
    CODES["LONG_BINGET"]: _LONG_BINGET,
    CODES["MARK"]: _MARK,
    CODES["TUPLE1"]: _TUPLE1,
    CODES["TUPLE2"]: _TUPLE2,
    CODES["TUPLE3"]: _TUPLE3,
    CODES["TUPLE"]: _TUPLE,
    CODES["EMPTY_TUPLE"]: _EMPTY_TUPLE,
    CODES["EMPTY_DICT"]: _DICT,
    CODES["EMPTY_LIST"]: _LIST,
    CODES["SETITEMS"]: _SETITEMS,
    CODES["APPENDS"]: _APPENDS,
    CODES["APPEND"]: _APPEND,
    CODES["SETITEM"]: _SETITEM,
    CODES["STOP"]: _STOP,
}
#: The rare opcodes and the methods that do them.
_HANDLERS = {
    **dict.fromkeys((code for code in COUNTED if _KINDS[code] == _RARE), "_counted"),
    **{
        CODES[name]: method
        for names, method in (
            ("PROTO", "_proto"),
            ("FRAME", "_frame"),
            ("POP", "_pop"),
            ("POP_MARK", "_pop_mark"),
            ("DUP", "_dup"),
            ("GLOBAL", "_global"),
            ("STACK_GLOBAL", "_stack_global"),
            ("INST", "_inst"),
            ("OBJ", "_obj"),
            ("REDUCE", "_reduce"),
            ("NEWOBJ", "_newobj"),
            ("NEWOBJ_EX", "_newobj_ex"),
            ("BUILD", "_build"),
            ("PERSID", "_persid"),
            ("BINPERSID", "_binpersid"),
            ("EXT1 EXT2 EXT4", "_extension"),
            ("LIST", "_list"),
            ("DICT", "_dict"),
            ("FROZENSET", "_frozenset"),
            ("EMPTY_SET", "_empty_set"),
            ("ADDITEMS", "_additems"),
            ("INT LONG FLOAT", "_number"),
            ("STRING UNICODE", "_text_line"),
            ("GET", "_get"),
            ("PUT", "_put"),
            ("NEXT_BUFFER", "_next_buffer"),
            ("READONLY_BUFFER", "_readonly_buffer"),
        )
        for name in names.split()
    },
}
#: plain constants as regular expressions
_SHAPES = {code: re.escape(bytes([code])) + b"." * (width - 1) for code, width in PLAIN.items()}
#: No pickler writes more items at a time than 1000.
_BATCH = 1001
#: Shorter batches than this are followed one by one, so that small lists can be shown: bytes.
_WORTHWHILE = 128


_INTEGER = rb"\s*[+-]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*)\s*\Z"
_LONG = _INTEGER.replace(rb"\s*\Z", rb"L?\s*\Z")
#: Python takes no more digits than these (``sys.int_info.default_max_str_digits``), older ones take forever.
_LONGEST_NUMBER = 4300


def run(source: ByteSource, start: int, limits: ScanLimits) -> Trace:
    """Follow the pickle at ``start`` to its STOP, or as far as it goes. Raises OSError where reading fails."""
    machine = _Machine(source, limits)
    try:
        return machine.follow(start)
    finally:
        machine.handlers.clear()  # else stack and memo live on until the next collection of circles


def follow(source: ByteSource, start: int, limits: ScanLimits) -> tuple[Trace, ...]:
    """The pickle at ``start`` and those directly after it; the limits hold for all of them together.

    Ends at the first bytes that begin no pickle. From the 65th on, all streams are one trace: what it states holds for
    some of them.
    """
    machine = _Machine(source, limits)
    try:
        traces = [machine.follow(start)]
        while traces[-1].ended == "stop" and traces[-1].end < source.size:
            shared = len(traces) > _OWN_TRACES
            after = machine.follow(traces[-1].end, together=traces[-1] if shared else None)
            if after.end == traces[-1].end:
                break
            if shared:
                traces[-1] = after
            else:
                traces.append(after)
        return tuple(traces)
    finally:
        machine.handlers.clear()


class _Machine:
    """The state of one unpickler, in symbols."""

    def __init__(self, source: ByteSource, limits: ScanLimits) -> None:
        self.window = Window(source, monotonic() + limits.seconds)
        self.size = source.size
        self.limits = limits
        self.widest = min(WINDOW, max(1024, limits.entries))
        #: of the next window, in bytes: small pickles are not worth a large one
        self.width = min(4096, self.widest)
        self.view: tuple[bytes, int, int, int, bool] = (b"", 0, 0, 0, False)
        #: texts of up to so many bytes are checked: they must be UTF-8
        self.short = min(_SMALL, self.widest // 2)
        self.opcodes_left = limits.opcodes
        #: bytes of batches that were skipped as a whole, and of how many opcodes they are at most
        self.swallowed = 0
        #: handlers of the rare opcodes that occurred
        self.handlers: dict[int, Callable[[int], int]] = {}
        self._begin()

    def _begin(self) -> None:
        """New notes."""
        self.notes = TraceBuilder()
        self.values = Values(self.window)
        self.written: dict[int, str] = {}
        self.indexes: dict[tuple[Global, str | None], int] = {}
        self.known = KnownFunctions(self.values, self.notes)
        self.kinds = bytearray([_UNSEEN]) * 256
        self.renderings_left = 1000

    def follow(self, start: int, together: Trace | None = None) -> Trace:
        """Follow one pickle; with ``together`` its notes are added to those of the one before."""
        if together is None:
            self._begin()
        self.stack = [0]
        self.marks: list[int] = []
        self.memo = array("Q")
        self.sparse: dict[int, int] = {}
        self.absent = 0
        self.dense = True
        self.protocol = 0
        self.faded_to = 0
        self.lines: dict[bytes, int] = {}
        self.pairs: dict[tuple[int, int], int] = {}
        self.late: StoppedError | None = None
        #: where the frame ends that was begun last; 0 outside of frames
        self.frame_end = 0
        ended: str = "stop"
        problem: Unresolved | None = None
        result: str | Global = "nothing"
        self.ticks = repeat(None, self.opcodes_left)
        self.swallowed = 0
        self.end = start
        try:
            self._walk(start)
            result = self._result(self.stack[-1])
        except StoppedError as stopped:
            ended, problem, self.end = stopped.ended, stopped.problem, stopped.problem.offset
            if self.end < self.frame_end < self._extent(self.end):
                self._frame_crossed(self.end)
        except OutOfTimeError:
            ended, self.end = "budget", self.window.base
            problem = Unresolved(self.end, f"more than {self.limits.seconds:g} seconds")
        if ended != "budget" and self.late is not None:
            ended, problem = self.late.ended, self.late.problem
        steps = self.opcodes_left - length_hint(self.ticks) + self.swallowed + len(self.memo)
        self.opcodes_left = max(0, self.opcodes_left - steps)
        return self.notes.trace(
            together.start if together is not None else start,
            self.end,
            ended,
            problem,
            result,
            self.values.globals,
            self.written,
            steps + (together.steps if together is not None else 0),
        )

    def _result(self, value: int) -> str | Global:
        if value & KIND == RESULT:
            return self.values.owner(value) or "unknown"
        return KIND_NAMES[value & KIND]

    # The window and what may be spent.

    def _move(self, offset: int, left: int) -> tuple[bytes, int, int, int, bool]:
        """Move the window: bytes, offset, how many are real, up to where any opcode fits in, whether it is the last."""
        if offset >= self.size:
            raise self._cut(offset)
        if self.swallowed > left:
            raise StoppedError("budget", offset, f"more than {self.limits.opcodes} opcodes")
        stack = self.stack
        held = (
            _STACK_COST * len(stack) + len(self.memo) + _MARK_COST * len(self.marks) + _SPARSE_COST * len(self.sparse)
        )
        if held > self.limits.entries:
            raise StoppedError("budget", offset, f"more than {self.limits.entries} entries of stack and memo")
        if len(stack) > _FRESH:
            # No more than a window's worth can have been replaced since they were faded.
            first = max(0, min(self.faded_to, len(stack)) - self.widest)
            stack[first:] = map(self.values.faded, stack[first:])
            self.faded_to = len(stack)
        data = self.window.move(offset, self.width)
        real = len(data)
        if real < self.width and offset + real < self.size:
            self.size = self.window.size = offset + real  # less than was promised
        if not data:
            raise self._cut(offset)
        last = offset + real >= self.size
        self.width = min(self.widest, 8 * self.width)
        self.view = (data + bytes(_WIDEST) if last else data, offset, real, max(0, real - _WIDEST + 1), last)
        return self.view

    def _first_use(self, opcode: int, offset: int) -> None:
        """An opcode occurs for the first time."""
        if opcode not in NAMES:
            raise StoppedError("broken", offset, f"opcode 0x{opcode:02x} at offset {offset} does not exist")
        self.notes.opcodes.setdefault(NAMES[opcode], offset)
        self.kinds[opcode] = _KINDS[opcode]
        if _KINDS[opcode] == _RARE:
            self.handlers[opcode] = getattr(self, _HANDLERS[opcode])

    def _batches(self) -> tuple[Callable[[bytes, int], re.Match[bytes] | None], ...]:
        """What matches a run of plain constants, and of pairs of them: only such opcodes as were seen before."""
        shapes = [shape for code, shape in _SHAPES.items() if self.kinds[code] != _UNSEEN]
        if not shapes:
            return ()
        one = b"(?:" + b"|".join(shapes) + b")"
        runs = (one + b"{1,%d}" % _BATCH, b"(?:" + one * 2 + b"){1,%d}" % _BATCH)
        return tuple(re.compile(run, re.DOTALL).match for run in runs)

    # The inner loop.

    def _walk(self, offset: int) -> None:
        """Follow opcodes from ``offset`` to STOP, which leaves its value on the stack."""
        stack, marks, memo, kinds, things = self.stack, self.marks, self.memo, self.kinds, self.values.things
        push, pop, remember, next_serial = stack.append, stack.pop, memo.append, self.values.next_serial
        handlers, watched, dense = self.handlers, self.known.watched, True
        plain_writes: dict[int, list[int]] = {}
        batches: tuple[Callable[[bytes, int], re.Match[bytes] | None], ...] = ()
        plain_seen = 0
        ticks = self.ticks
        before = offset
        data, base, real, room, last = self.view
        if not base <= offset < base + room:
            data, base, real, room, last = self._move(offset, self.opcodes_left)
        position = offset - base
        safe = room
        constant_at, text_at = base << 4 | CONSTANT, base << 4 | TEXT
        for _ in ticks:
            if position >= safe:
                if self.frame_end and base + position >= self.frame_end:
                    if base + position > self.frame_end:
                        self._frame_crossed(self.frame_end)
                    self.frame_end = 0
                if position >= room:
                    if not last:
                        base += position
                        position = 0
                        data, _, real, room, last = self._move(base, length_hint(ticks))
                        constant_at, text_at = base << 4 | CONSTANT, base << 4 | TEXT
                        if plain_seen != (seen := sum(kinds[code] != _UNSEEN for code in PLAIN)):
                            plain_seen, batches = seen, self._batches()
                    elif position >= real:
                        raise self._cut(before if position > real else base + real)
                    else:  # the last bytes, one opcode at a time
                        room = position + 1
                    before = base + position
                safe = min(room, self.frame_end - base) if self.frame_end else room
                if position >= safe:
                    continue
            kind = kinds[data[position]]
            if kind < _WIDTHS:
                push((position << 4) + constant_at)
                position += kind
                continue
            if kind < _MEMOIZE:
                if kind < _MARK:
                    index = data[position + 1] if kind == _BINGET else _four_bytes(data, position + 1)[0]
                    try:
                        value = memo[index]
                    except IndexError:
                        value = 0
                    push(value or self._recall(index, base + position))
                    position += 2 if kind == _BINGET else 5
                    continue
                if kind == _MARK:
                    position += 1
                    if batches and kinds[data[position]] < _WIDTHS and (above := stack[-1] & KIND) in (LIST, DICT):
                        run = batches[int(above == DICT)](data, position)
                        if run is not None and (end := run.end()) < safe and end - position > _WORTHWHILE:
                            closing = _APPENDS if above == LIST else _SETITEMS
                            if kinds[data[end]] == closing and (entry := plain_writes.get(closing)) is not None:
                                entry[1] += 1
                                self.swallowed += (end - position) // 2
                                position = end + 1
                                continue
                    marks.append(len(stack))
                    push(0)
                    continue
                if kind == _TEXT1:
                    begin = position + 2
                    end = begin + data[position + 1]
                else:
                    begin = position + 5
                    end = begin + _four_bytes(data, position + 1)[0]
                if end > real:
                    if base + end > self.size:
                        raise self._cut(base + position)
                    if not last and end - begin < self.short:
                        safe = room = 0  # read again, from here on
                        self.width = self.widest
                        continue
                elif not (piece := data[begin:end]).isascii():
                    self._check(piece, base + position)
                value = (position << 4) + text_at
                push(value)
                position = end
            elif kind < _TUPLE1:
                # Not where it was just pushed: an entry that is stored for the second time, or out of order.
                if not (value := stack[-1]):
                    raise self._underflow(base + position)
                if kind == _MEMOIZE:
                    self._memoize(value)
                    position += 1
                elif kind == _BINPUT:
                    self._store(data[position + 1], value)
                    position += 2
                elif base + position + 5 <= self.size:
                    self._store(_four_bytes(data, position + 1)[0], value)
                    position += 5
                else:
                    raise self._cut(base + position)
                dense = self.dense
                continue
            elif kind < _DICT:
                if kind == _TUPLE2:
                    second = pop()
                    first = stack[-1] if stack else 0
                    if not second or not first:
                        push(second)
                        raise self._underflow(base + position)
                    items: Sequence[int] = (first, second)
                elif kind == _TUPLE1:
                    if not (first := stack[-1]):
                        raise self._underflow(base + position)
                    items = (first,)
                elif kind == _TUPLE:
                    items = self._marked(base + position)
                    push(EMPTY)
                elif kind == _TUPLE3:
                    items = self._top(base + position, 3)
                    push(EMPTY)
                else:
                    items = ()
                    push(EMPTY)
                if items:
                    if watched and not watched.isdisjoint(items):
                        self.known.handed_over(base + position, items, "put into a tuple")
                    serial = next_serial()
                    things[serial % REMEMBERED] = (serial, items if len(items) <= ENTRIES else items[:ENTRIES])
                    value = stack[-1] = serial << 4 | TUPLE
                else:
                    value = EMPTY
                position += 1
            elif kind < _SETITEMS:
                value = next_serial() << 4 | (DICT if kind == _DICT else LIST)
                push(value)
                position += 1
            elif kind < _RARE:
                if kind == _SETITEM:
                    value, key = pop(), pop() if len(stack) > 1 else 0
                    items = (key, value)
                elif kind == _APPEND:
                    items = (pop(),)
                elif marks:
                    mark = marks.pop()
                    items = stack[mark + 1 :]
                    del stack[mark:]
                else:
                    items = self._marked(base + position)  # which raises: there is no mark
                if not (target := stack[-1] if stack else 0) or 0 in items:
                    raise self._underflow(base + position)
                if watched and not watched.isdisjoint(items):
                    self.known.handed_over(base + position, items, "put into a container")
                if target & KIND == (LIST if kind >= _LISTED else DICT):
                    if (entry := plain_writes.get(kind)) is None:
                        entry = plain_writes[kind] = self._write(base + position, target)
                    entry[1] += 1
                    serial = target >> 4
                    owner, held = things[serial % REMEMBERED]
                    if owner != serial:
                        things[serial % REMEMBERED] = (serial, items if len(items) <= ENTRIES else items[:ENTRIES])
                    elif len(held) < ENTRIES:
                        things[serial % REMEMBERED] = (serial, (*held, *items[: ENTRIES - len(held)]))
                else:
                    self._fill(base + position, target, items)
                if kind == _SETITEMS and len(items) & 1:
                    raise self._no_value(base + position)
                if kind < _LISTED:
                    for key in islice(items, 0, None, 2):
                        if key & KIND in _HASH_WATCHED:
                            self._hash(base + position, key, target)
                    if self.known.tensor_makers:
                        self.known.name_tensors(items)
                position += 1
                continue
            elif kind == _RARE:
                position = handlers[data[position]](base + position) - base
                watched, dense = self.known.watched, self.dense
                if self.frame_end:
                    safe = min(room, self.frame_end - base)
                if not (value := stack[-1]):
                    continue
            elif kind == _STOP:
                if not stack[-1]:
                    raise self._underflow(base + position)
                if watched and stack[-1] in watched:
                    self.known.handed_over(base + position, stack[-1:], "what the stream gives")
                self.end = base + position + 1
                return
            else:
                self._first_use(data[position], base + position)
                continue
            # What was just pushed is most often put into the memo.
            if position < safe and dense:
                kind = kinds[data[position]]
                if kind == _MEMOIZE:
                    remember(value)
                    position += 1
                elif kind == _BINPUT:
                    if data[position + 1] == len(memo):
                        remember(value)
                        position += 2
                elif kind == _LONG_BINPUT and _four_bytes(data, position + 1)[0] == len(memo):
                    remember(value)
                    position += 5
        raise StoppedError("budget", base + position, f"more than {self.limits.opcodes} opcodes")

    # Errors.

    def _spend(self, offset: int, characters: int) -> None:
        """Texts are about to be kept."""
        self.notes.characters += characters
        if self.notes.characters > MOST_CHARACTERS:
            why = f"more than {MOST_CHARACTERS} characters of names and calls"
            raise StoppedError("budget", offset, why)

    def _name(self, offset: int) -> str:
        head = self.window.read(offset, 1)
        return NAMES.get(head[0], "an opcode") if head else "an opcode"

    def _cut(self, offset: int) -> StoppedError:
        if offset >= self.size:
            return StoppedError("cut", offset, f"the bytes end at offset {self.size} without STOP")
        name = self._name(offset)
        return StoppedError(
            "cut", offset, f"the bytes end at offset {self.size}, in the middle of {name} at offset {offset}"
        )

    def _underflow(self, offset: int) -> StoppedError:
        state = "nothing is left above the last mark" if self.marks else "the stack is empty"
        return StoppedError("broken", offset, f"{state} where {self._name(offset)} at offset {offset} needs a value")

    def _no_value(self, offset: int) -> StoppedError:
        return StoppedError("broken", offset, f"{self._name(offset)} at offset {offset} has a key without a value")

    def _impossible(self, offset: int, why: str) -> StoppedError:
        return StoppedError("broken", offset, f"{self._name(offset)} at offset {offset} {why}")

    def _check(self, content: bytes, offset: int) -> None:
        try:
            content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            place = error.start
            raise self._impossible(offset, f"holds text that is no UTF-8 (byte {place})") from None

    # The stack.

    def _top(self, offset: int, number: int) -> list[int]:
        """Take values off the stack."""
        items = self.stack[-number:]
        if 0 in items:
            raise self._underflow(offset)
        del self.stack[-number:]
        return items

    def _marked(self, offset: int) -> list[int]:
        """Take what lies above the last mark, and the mark."""
        if not self.marks:
            raise self._impossible(offset, "needs a mark, and there is none")
        mark = self.marks.pop()
        items = self.stack[mark + 1 :]
        del self.stack[mark:]
        return items

    def _pop(self, offset: int) -> int:
        if self.stack[-1]:
            self.stack.pop()
        elif self.marks:
            del self.stack[self.marks.pop() :]
        else:
            raise self._underflow(offset)
        return offset + 1

    def _pop_mark(self, offset: int) -> int:
        self._marked(offset)
        return offset + 1

    def _dup(self, offset: int) -> int:
        value = self.stack[-1]
        if not value:
            raise self._underflow(offset)
        self.stack.append(value)
        return offset + 1

    # The memo.

    def _recall(self, index: int, offset: int) -> int:
        value = self.memo[index] if index < len(self.memo) else 0
        value = value or self.sparse.get(index, 0)
        if not value:
            if offset + 1 >= self.size or (self._name(offset) == "LONG_BINGET" and offset + 4 >= self.size):
                raise self._cut(offset)
            raise StoppedError("broken", offset, f"memo entry {index} is fetched but was never stored")
        return value

    def _store(self, index: int, value: int) -> None:
        memo, sparse = self.memo, self.sparse
        if index > _FAR + 64 * (len(memo) + len(sparse)):
            why = "an entry of the memo is so far out that the unpickler in C takes 16 bytes for each one below it"
            self.notes.unresolved(self.window.base, why)
        if index < len(memo):
            if not memo[index]:
                self.absent -= 1
            memo[index] = value
        elif index < _GAP + 2 * (len(memo) - self.absent):
            while len(memo) <= index:
                held = sparse.pop(len(memo), 0)
                self.absent += not held
                memo.append(held)
            self.absent -= not memo[index]
            memo[index] = value
        else:
            sparse[index] = value
        self.dense = not self.absent and not sparse

    def _memoize(self, value: int) -> None:
        """MEMOIZE stores at the number of entries that there are, whatever their indexes."""
        self._store(len(self.memo) - self.absent + len(self.sparse), value)

    # Bytes and lines.

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

    def _later(self, ended: str, offset: int, why: str) -> None:
        """Some unpicklers stop here, others go on: the machine goes on, and reports the stream as broken at its end."""
        if self.late is None:
            self.late = StoppedError(ended, offset, f"{self._name(offset)} at offset {offset} {why}")

    # Constants.

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

    # Containers.

    def _list(self, offset: int) -> int:
        return self._gather(offset, LIST)

    def _dict(self, offset: int) -> int:
        return self._gather(offset, DICT)

    def _frozenset(self, offset: int) -> int:
        return self._gather(offset, FROZENSET)

    def _gather(self, offset: int, kind: int) -> int:
        items = self._marked(offset)
        if self.known.watched and not self.known.watched.isdisjoint(items):
            self.known.handed_over(offset, items, "put into a container")
        for item in items[::2] if kind == DICT else items if kind == FROZENSET else ():
            self._hash(offset, item, kind)
        if kind == DICT:
            if len(items) & 1:
                raise self._no_value(offset)
            if self.known.tensor_makers:
                self.known.name_tensors(items)
        self.stack.append(self.values.keep(kind, items))
        return offset + 1

    def _empty_set(self, offset: int) -> int:
        self.stack.append(self.values.next_serial() << 4 | SET)
        return offset + 1

    def _additems(self, offset: int) -> int:
        items = self._marked(offset)
        target = self.stack[-1]
        if not target:
            raise self._underflow(offset)
        if self.known.watched and not self.known.watched.isdisjoint(items):
            self.known.handed_over(offset, items, "put into a container")
        for item in items:
            self._hash(offset, item, target)
        self._fill(offset, target, items)
        return offset + 1

    def _hash(self, offset: int, key: int, target: int) -> None:
        """A key or a member is hashed: what no container of Python takes ends the load."""
        self.known.hashed(offset, key)
        if key & KIND in _UNHASHABLE and target & KIND in _HASHING:
            words = f"uses a {KIND_NAMES[key & KIND]} as a key or member of a {KIND_NAMES[target & KIND]}"
            self._later("broken", offset, f"{words}, which can't be hashed")

    def _write(self, offset: int, target: int, names: Sequence[str] = ()) -> list[int]:
        """The entry of the notes for filling this target; the caller counts it up."""
        kind = target & KIND
        index = target >> 4 if kind == GLOBAL else target >> 4 & OWNER if kind == RESULT else 0
        words = "unknown" if kind == RESULT and not index else KIND_NAMES[kind]
        return self.notes.write(self._name(offset), words, index, offset, names)

    def _fill(self, offset: int, target: int, items: Sequence[int]) -> None:
        """Items are added to what is no plain list (APPEND, APPENDS) or dictionary (SETITEM, SETITEMS)."""
        self._write(offset, target)[1] += 1
        kind = target & KIND
        if kind == LIST and items and items[0] & KIND in _NO_INDEX and self._name(offset).startswith("SETITEM"):
            self._later("broken", offset, f"uses a {KIND_NAMES[items[0] & KIND]} as the index of a list")
        if kind in (LIST, DICT, SET):
            self.values.fill(target, items)
        elif kind in (GLOBAL, PERSISTENT):
            self.notes.unresolved(offset, f"{self._name(offset)} fills {self.known.words(target)}")

    # Names.

    def _known(self, module: str, name: str, opcode: str, offset: int) -> int:
        """The value for a global that the stream names, under its name in Python 3."""
        written = None
        if self.protocol < 3:
            mapped = NAME_MAPPING.get((module, name)) or (IMPORT_MAPPING.get(module, module), name)
            if mapped != (module, name):
                written = f"{module}.{name}"
                module, name = mapped
        return self._intern(Global(module, name), written, opcode, offset)

    def _intern(self, what: Global, written: str | None, opcode: str, offset: int) -> int:
        index = self.indexes.get((what, written))
        if index is None:
            index = len(self.values.globals)
            if index > _MOST_GLOBALS:
                raise StoppedError("budget", offset, f"more than {_MOST_GLOBALS} different globals")
            self._spend(offset, len(what.module) + len(what.name) + len(written or ""))
            self.values.globals.append(what)
            self.indexes[what, written] = index
            if written is not None:
                self.written[index] = written
            self.known.add(index, what)
        self.notes.naming(index, opcode, offset)
        return index << 4 | GLOBAL

    def _named_by_lines(self, offset: int) -> tuple[int, int]:
        """The global that the two lines after an opcode name, and the offset after them."""
        window = self.window
        start = offset + 1 - window.base
        end = window.data.find(b"\n", window.data.find(b"\n", start) + 1) if start >= 0 else -1
        name = self._name(offset)
        if end > start:
            raw = window.data[start : end + 1]
            value = self.lines.get(raw)
            if value is not None:
                self.notes.naming(value >> 4, name, offset)
                return value, window.base + end + 1
        first, first_size, middle = self._line(offset, offset + 1)
        second, second_size, after = self._line(offset, middle) if middle < self.size else (b"", 0, middle)
        cut = self.window.read(after - 1, 1) != b"\n" or middle == after
        if cut and not first_size:
            raise self._cut(offset)
        if not first_size or not (second_size or cut):
            raise self._impossible(offset, "has an empty name")
        if cut and name == "GLOBAL":
            # The name is unknown; unpicklers import the module all the same.
            second, second_size = b"", 0
        parts = []
        for line, size in ((first, first_size), (second, second_size)):
            try:
                text = line[:LONGEST_NAME].decode("ascii" if name == "INST" else "utf-8")
            except UnicodeDecodeError:
                if size <= LONGEST_NAME:
                    raise self._impossible(offset, "has a name that can't be decoded") from None
                text = line[:LONGEST_NAME].decode("latin-1")
            if size > LONGEST_NAME:
                self.notes.unresolved(offset, f"a global has a name of {size} bytes")
            parts.append(text)
        value = self._known(parts[0], parts[1], name, offset)
        if len(self.lines) < _MOST_GLOBALS and after - offset < 200:
            self.lines[window.read(offset + 1, after - offset - 1)] = value
        return value, after

    def _global(self, offset: int) -> int:
        value, after = self._named_by_lines(offset)
        self.stack.append(value)
        return after

    def _stack_global(self, offset: int) -> int:
        module, name = self._top(offset, 2)
        value = self.pairs.get((module, name))
        if value is not None:
            self.notes.naming(value >> 4, "STACK_GLOBAL", offset)
        else:
            module_text, name_text = self.values.text(module), self.values.text(name)
            if module_text is not None and name_text is not None:
                value = self._known(module_text, name_text, "STACK_GLOBAL", offset)
                if len(self.pairs) >= _MOST_GLOBALS:
                    self.pairs.clear()
                self.pairs[module, name] = value
            else:
                for part in (module, name):
                    if part & KIND in _NEVER_TEXT:
                        raise self._impossible(offset, f"takes {self.known.words(part)} for a name")
                self.notes.unresolved(offset, "STACK_GLOBAL fetches a global by a name that is computed or too long")
                value = offset << 4 | UNKNOWN
        self.stack.append(value)
        return offset + 1

    # Calls.

    def _apply(self, offset: int, opcode: str, parts: list[int]) -> int:
        """What a call gives; ``parts``: what is called, its arguments, perhaps its keyword arguments."""
        function = parts[0]
        if function & KIND == RESULT:
            function = self.known.called_by_partial(function) or function
        if self.known.watched and not self.known.watched.isdisjoint(parts[1:]):
            self.known.handed_over(offset, parts[1:], "handed to a call")
        if function & KIND == GLOBAL:
            index = function >> 4
            owner = index
            if function != parts[0]:
                owner = self.known.owner_by_partial(parts[0], index)
            elif index in self.known.special:
                owner = self.known.special_call(index, parts[1], offset)
            result = self.values.keep_result(owner, parts)
            variant = ""
            if index in self.known.apart and parts[1] != EMPTY:
                variant = self.known.variant(index, parts, result, offset)
            self._called(index, opcode, offset, result, variant=variant)
            return result
        result = self.values.keep_result(0, parts)
        text = "…"
        if self.renderings_left > 0:
            self.renderings_left -= 1
            text = self.values.shown(result)
        self.notes.unknown_call(opcode, text, offset)
        self.notes.unresolved(offset, f"{opcode} calls {self.known.words(function)}")
        return result

    def _called(
        self, index: int, opcode: str, offset: int, result: int, *, variant: str = "", suffix: str = ""
    ) -> None:
        entry = self.notes.calls.get((index, opcode, variant))
        if entry is None:
            text = variant or self.values.shown(result, 80 if suffix else 200) + suffix
            self._spend(offset, len(text))
            entry = self.notes.calls[index, opcode, variant] = ([offset, 0], printable(text))
        entry[0][1] += 1

    def _reduce(self, offset: int) -> int:
        function, arguments = self._top(offset, 2)
        if function in self.known.getters:
            folded = self._fold(arguments, offset)
            if folded:
                self.stack.append(folded)
                return offset + 1
            self.notes.unresolved(offset, "builtins.getattr is called with what can't be known")
        self.stack.append(self._apply(offset, "REDUCE", [function, arguments]))
        return offset + 1

    def _newobj(self, offset: int) -> int:
        self.stack.append(self._apply(offset, "NEWOBJ", self._top(offset, 2)))
        return offset + 1

    def _fold(self, arguments: int, offset: int) -> int:
        """``getattr(Outer, 'Inner')`` is the global ``Outer.Inner``; 0 where it is none.

        So is a bound method, which is written as ``getattr(instance, 'method')``, where the class is known.
        """
        items = self.values.items(arguments) if arguments & KIND == TUPLE else None
        if items is None or len(items) != 2 or items[0] in self.known.watched:
            return 0
        outer, attribute = self.values.owner(items[0]), self.values.text(items[1])
        if outer is None or not attribute or len(outer.name) + len(attribute) > LONGEST_NAME:
            return 0
        index = items[0] >> 4
        if items[0] & KIND == RESULT:
            index &= OWNER
            is_class = outer.name.rpartition(".")[2].lstrip("_")[:1].isupper()
            if not is_class or (attribute.startswith("__") and attribute.endswith("__")):
                return 0
        written = self.written.get(index)
        return self._intern(
            Global(outer.module, f"{outer.name}.{attribute}"),
            f"{written}.{attribute}" if written is not None else None,
            "getattr",
            offset,
        )

    def _newobj_ex(self, offset: int) -> int:
        self.stack.append(self._apply(offset, "NEWOBJ_EX", self._top(offset, 3)))
        return offset + 1

    def _inst(self, offset: int) -> int:
        value, after = self._named_by_lines(offset)
        self.stack.append(self._apply(offset, "INST", [value, self._arguments(offset, self._marked(offset))]))
        return after

    def _obj(self, offset: int) -> int:
        items = self._marked(offset)
        if not items:
            raise self._underflow(offset)
        self.stack.append(self._apply(offset, "OBJ", [items[0], self._arguments(offset, items[1:])]))
        return offset + 1

    def _arguments(self, offset: int, items: list[int]) -> int:
        """The tuple that INST and OBJ make of what lies above the mark."""
        if self.known.watched and not self.known.watched.isdisjoint(items):
            self.known.handed_over(offset, items, "handed to a call")
        return self.values.keep(TUPLE, items) if items else EMPTY

    def _build(self, offset: int) -> int:
        (state,) = self._top(offset, 1)
        target = self.stack[-1]
        if not target:
            raise self._underflow(offset)
        if state in self.known.watched:
            self.known.handed_over(offset, (state,), "used as state")
        names = self._attributes(state)
        self._write(offset, target, names)[1] += 1
        kind = target & KIND
        if not _HOOKS.isdisjoint(names):
            hook = next(name for name in names if name in _HOOKS)
            self.notes.unresolved(
                offset, f"BUILD gives {self.known.words(target)} a {hook} of its own, which others call"
            )
        if kind == RESULT and (index := target >> 4 & OWNER):
            known = (index, "BUILD", "") in self.notes.calls
            suffix = "" if known else f".__setstate__({self.values.shown(state, 100)})"
            self._called(index, "BUILD", offset, target, suffix=suffix)
            self.known.built(target, state)
            if index in self.known.dtypes:
                self.known.judge_dtype(offset, target, state)
        elif kind in (GLOBAL, PERSISTENT, UNKNOWN):
            listed = f" ({printable(', '.join(names[:5]), 100)})" if names else ""
            self.notes.unresolved(offset, f"BUILD sets attributes of {self.known.words(target)}{listed}")
        return offset + 1

    def _attributes(self, state: int) -> list[str]:
        """The names that BUILD would set, as far as they are known."""
        states = [state] if state & KIND != TUPLE else [*(self.values.items(state) or ())]
        names = []
        for one in states[:2]:
            if one & KIND == DICT:
                for key in (self.values.items(one) or ())[::2]:
                    if (text := self.values.text(key)) is not None:
                        names.append(printable(text, 60))
        return names

    # Persistent ids.

    def _persid(self, offset: int) -> int:
        line, _, after = self._line(offset, offset + 1)
        self.notes.foreign_id(offset, f"the text {printable(repr(line[:60].decode('latin-1')))}")
        self.stack.append(self.values.next_serial() << 4 | PERSISTENT)
        return after

    def _binpersid(self, offset: int) -> int:
        (identity,) = self._top(offset, 1)
        if identity in self.known.watched:
            self.known.handed_over(offset, (identity,), "a persistent id")
        requested = self.known.requested_storage(identity)
        if requested is not None:
            self.notes.storage(offset, *requested)
        elif self.renderings_left > 0:
            self.renderings_left -= 1
            self.notes.foreign_id(offset, self.values.shown(identity, 120))
        # torch before 1.6 wrote classes of modules so, with their source; it gives the class back.
        items = self.values.items(identity) if identity & KIND == TUPLE else None
        if items and len(items) == 4 and items[1] & KIND == GLOBAL and self.values.text(items[0]) == "module":
            self.stack.append(items[1])
        else:
            self.stack.append(self.values.keep(PERSISTENT, (identity,)))
        return offset + 1


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
#: Methods that pickle calls: where an instance has one of that name, its own is called. No pickle writes these.
_HOOKS = frozenset({"__setstate__", "__getstate__", "__reduce__", "__reduce_ex__", "__class__"})
#: What no unpickler takes for a name (STACK_GLOBAL).
_NEVER_TEXT = frozenset({CONSTANT, TUPLE, LIST, DICT, SET, FROZENSET, GLOBAL})
#: What Python can't hash, what hashes what it holds, and keys that are checked.
_UNHASHABLE = frozenset({LIST, DICT, SET})
_HASHING = frozenset({DICT, SET, FROZENSET})
_HASH_WATCHED = _UNHASHABLE | {TUPLE}
#: What a list does not take as an index.
_NO_INDEX = frozenset({TEXT, TUPLE, LIST, DICT, SET, FROZENSET})
