"""A symbolic pickle machine: it follows all opcodes with a stack, marks and a memo of symbols, and records a trace.

Nothing that a stream names is imported, fetched or called. The semantics are those of CPython's C unpickler
(``Modules/_pickle.c``, 3.8 to 3.14). Where only the Python unpickler continues, the machine continues and records the
error. Time is linear in the opcodes, :class:`.ScanLimits` bounds the memory, and large strings are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice, repeat
from operator import length_hint

from .machine_arguments import four_bytes
from .machine_objects import UNHASHABLE, ObjectOpcodes
from .machine_state import UNSEEN
from .opcodes import CODES, COUNTED, NAMES, PLAIN
from .source_bytes import ByteSource, ScanLimits
from .trace import Global, Trace, Unresolved
from .trace_builder import StoppedError
from .values import (
    CONSTANT,
    DICT,
    EMPTY,
    ENTRIES,
    KIND,
    KIND_NAMES,
    LIST,
    REMEMBERED,
    RESULT,
    TEXT,
    TUPLE,
    OutOfTimeError,
)

#: Streams after the first of a file that get a trace of their own; all further ones share one.
_OWN_TRACES = 64


# What the inner loop does with an opcode. Below ``_WIDTHS`` it is a plain constant of so many bytes.
_WIDTHS = 10
_BINGET, _LONG_BINGET, _MARK, _TEXT1, _TEXT4 = range(10, 15)
_MEMOIZE, _BINPUT, _LONG_BINPUT = range(15, 18)
_TUPLE1, _TUPLE2, _TUPLE3, _TUPLE, _EMPTY_TUPLE = range(20, 25)
_DICT, _LIST, _SETITEMS, _SETITEM, _APPENDS, _APPEND = range(30, 36)
_LISTED = _APPENDS
_RARE, _STOP = range(40, 42)
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


class _Machine(ObjectOpcodes):
    """Follows the opcodes of one pickle after the other."""

    def follow(self, start: int, together: Trace | None = None) -> Trace:
        """Follow one pickle; with ``together`` its notes are added to those of the one before."""
        if together is None:
            self._begin()
        self._reset()
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
        shapes = [shape for code, shape in _SHAPES.items() if self.kinds[code] != UNSEEN]
        if not shapes:
            return ()
        one = b"(?:" + b"|".join(shapes) + b")"
        runs = (one + b"{1,%d}" % _BATCH, b"(?:" + one * 2 + b"){1,%d}" % _BATCH)
        return tuple(re.compile(run, re.DOTALL).match for run in runs)

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
                        if plain_seen != (seen := sum(kinds[code] != UNSEEN for code in PLAIN)):
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
                    index = data[position + 1] if kind == _BINGET else four_bytes(data, position + 1)[0]
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
                    end = begin + four_bytes(data, position + 1)[0]
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
                    self._store(four_bytes(data, position + 1)[0], value)
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
                elif kind == _LONG_BINPUT and four_bytes(data, position + 1)[0] == len(memo):
                    remember(value)
                    position += 5
        raise StoppedError("budget", base + position, f"more than {self.limits.opcodes} opcodes")


_HASH_WATCHED = UNHASHABLE | {TUPLE}
