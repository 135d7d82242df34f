"""The state of the pickle machine: window, stack, marks, memo and limits, and how a stream can be broken."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from time import monotonic

from .known_functions import KnownFunctions
from .opcodes import NAMES
from .source_bytes import ByteSource, ScanLimits
from .trace import Global
from .trace_builder import MOST_CHARACTERS, StoppedError, TraceBuilder
from .values import WINDOW, Values, Window

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
UNSEEN = 255


class MachineState:
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
        self.kinds = bytearray([UNSEEN]) * 256
        self.renderings_left = 1000

    def _reset(self) -> None:
        """Begin a pickle: stack, marks and memo are empty."""
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

    def _later(self, ended: str, offset: int, why: str) -> None:
        """Some unpicklers stop here, others go on: the machine goes on, and reports the stream as broken at its end."""
        if self.late is None:
            self.late = StoppedError(ended, offset, f"{self._name(offset)} at offset {offset} {why}")

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
