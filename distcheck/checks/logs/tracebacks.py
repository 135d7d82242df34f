"""Separate Python tracebacks that several processes wrote at once, with mixed lines.

Where prefixes name the writer of a line, that decides. Among lines without a prefix, continuity does: whose code
calls the function of the next frame, whose code waits to be shown, whose ``raise`` fits the exception. It works on
lines that :mod:`.prefixes` has taken apart, and knows no signatures.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .model import LONGEST_TEXT, LineAuthor, Traceback, TracebackFrame
from .prefixes import UNKNOWN_WRITER, LineHead

#: Lines of a message that are kept; torch's own longest explanations have nine.
MESSAGE_LINES = 10
#: Tracebacks that may be open at once, in all and without anything that distinguishes them.
MOST_OPEN = 20_000
MOST_ALIKE = 512
#: Frames kept of one traceback: the first where the program began, the last where it failed.
MOST_FRAMES = 100
_FIRST_FRAMES = 30
#: Lines of the same writer that fit nowhere, after which a traceback counts as cut off.
PATIENCE = 100
#: The same for lines of anybody: 16,384 ranks with 60 lines each may stand between two lines of one.
_LONG_PATIENCE = 1_000_000
_KEPT_FRAMES = 50_000
#: Lines after an exception in which "During handling of …" may follow it.
_LINGERING = 4


#: A line of code that raises an exception, and the texts in it.
_RAISES = lazy(r"\braise (?P<name>[A-Z]\w{2,60})\((?P<arguments>.{0,400})")
_LITERAL = lazy(r"\"([^\"]*)\"|'([^']*)'")


def raised_by(code: str) -> str:
    """Return the last line of a traceback for its last line of code: ``E: text`` for ``raise E("text")``, or ``""``."""
    match = _RAISES.search(code)
    if match is None:
        return ""
    words = "".join(part[0] or part[1] for part in _LITERAL.findall(match["arguments"]))
    return f"{match['name']}: {words}" if words else match["name"]


class Finished(NamedTuple):
    """A traceback that is whole, or as much of it as there is."""

    #: where the exception stands; of a traceback that was cut off: its last line
    line: int
    #: where ``Traceback (most recent call last):`` stands
    first_line: int
    #: of its first line; the time is that of the first of its lines that has one
    head: LineHead
    traceback: Traceback
    #: the line of the exception that this one followed (``direct cause``, ``During handling``); 0: none
    after: int = 0
    #: the rank that raised it, if its first line names another one than the writer
    of_rank: int | None = None


_HEADER = "Traceback (most recent call last)"
_FRAME = lazy(r'File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,300}))?')
#: Frames as rich draws them, and the rest of its box.
_DRAWN = lazy(r"\s*[│|] (\S[^│|]{0,400}\.py):(\d{1,9})(?: in (\S{1,200})|\s*[│|]?$)")
#: What rich draws in its box besides frames: the code around them, and the values of variables.
BOXED_TEXT = lazy(r"│ (?:[ ❱] ?\s*\d{1,6} [│ ]|[│╭╰])")
_BOX = ("│", "╭", "╰", "❱")
#: What is no part of a message: the rules of torchrun's report, a progress bar, the last words of C++ at exit.
_NO_MESSAGE = lazy(
    r"[=*_~-]{20,}$|terminate called (?:after|without) |libc\+\+abi: |Fatal Python error: "
    r"|.{0,200}(?:\d%\||\d(?:it/s|s/it)\]|\[\d\d:\d\d<)"
)
_MARKS = lazy(r"[\s^~]+$")
_ELIDED = lazy(r"\s*(?:\[Previous line repeated \d+ more times?\]|\.\.\.<\d+ lines>\.\.\.)")
_TREE = lazy(r"(?: {2})*(?:\| ?|\+ (?=Exception Group)|\+-\+-|\+-{3,})")
_NAME = r"[A-Za-z_]\w{0,100}(?:\.(?:[A-Za-z_]\w{0,100}|<locals>)){0,12}"
_EXCEPTION = lazy(r"(" + _NAME + r"(?:\([\w.]{1,200}\))?)(?::(?: (.*))?)?$", re.DOTALL)
_SURE = lazy(
    r"(?:Error|Exception|Warning|Exit|Interrupt|Failure|Failed|Expired|Timeout|TimedOut|OutOfMemory|Fault|Group|Stop|Signal|"
    r"Signaled|Aborted|Abort|Refused|Closed|Killed|Cancelled|NotFound|Empty|Full|StopIteration|error|timeout|gaierror|herror|"
    r"Unavailable|Denied|Invalid|Interrupted|Died|Overflow)(?:\([\w.]+\))?$"
)
_SPAWNED = lazy(r"-- Process (\d{1,10}) terminated with the following error:")
#: torchrun's report indents the lines of a traceback after the first by two.
_IN_REPORT = lazy(r"\btraceback *: Traceback \(most recent call last\)")
#: ``torch.distributed.checkpoint``: every rank prints the exception of the rank that failed.
_OF_RANK = lazy(r"\(most recent call last\): \(RANK (\d{1,10})\)")
_RAY = lazy(r"ray::.{0,200}\(pid=(\d{1,10})(?:, ip=([\w.:-]+))?")
_CHAIN = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
#: Functions that a process, a thread or a program begins with.
_BEGINNINGS = frozenset(("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "_main", "spawn_main"))
#: Functions that are called by another name than their own.
_UNNAMED = lazy(
    r"(?:__\w+__|wrapper|wrapped|inner|decorator\w*|_call_impl|_wrapped_call_impl|decorate_context|<\w+>|forward|_\w*fn)$"
)


class _OpenTraceback:
    """A traceback whose end has not been seen."""

    __slots__ = (
        "after",
        "chain_line",
        "code_due",
        "exception",
        "exception_line",
        "first_line",
        "frames",
        "head",
        "indented",
        "last_line",
        "message",
        "of_rank",
        "prefixed",
        "state",
    )

    def __init__(self, line: int, head: LineHead, after: int) -> None:
        self.first_line = self.last_line = line
        self.head = head
        self.after = after
        #: where the first of the exceptions begins that this one follows from
        self.chain_line = line
        of_rank = _OF_RANK.search(head.text)
        self.of_rank = None if of_rank is None else int(of_rank[1])
        self.indented = _IN_REPORT.search(head.text) is not None
        self.frames: list[TracebackFrame] = []
        #: the last line named a frame, and its code may follow
        self.code_due = False
        self.exception = ""
        self.exception_line = 0
        self.message: list[str] = []
        #: the line with the exception names its writer, and so does each line of its message
        self.prefixed = False
        self.state: _State = (0, False, None)


_State = tuple[int, bool, "TracebackFrame | None"]


class _TracebackWriter:
    """The open tracebacks of one writer, in groups of equal states: in each, the first to come is served first."""

    def __init__(self) -> None:
        self.groups: dict[_State, deque[_OpenTraceback]] = {}
        self.count = 0
        #: the one whose line came last
        self.latest: _OpenTraceback | None = None
        #: one whose exception was seen and whose message may go on
        self.speaking: _OpenTraceback | None = None
        self.strangers = 0
        self.last_finished = 0
        self.last_chain = 0
        self.last_line = 0
        self.follows = 0
        #: who the tracebacks are of that come next, and those that follow from them, where a line before shows it
        self.next_named: LineAuthor | None = None
        self.named: LineAuthor | None = None

    def put(self, one: _OpenTraceback) -> None:
        state: _State = (len(one.frames), one.code_due, one.frames[-1] if one.frames else None)
        one.state = state
        self.groups.setdefault(state, deque()).append(one)
        self.latest = one
        self.count += 1

    def take(self, one: _OpenTraceback) -> None:
        group = self.groups[one.state]
        if group[0] is one:
            group.popleft()
        else:
            group.remove(one)
        if not group:
            del self.groups[one.state]
        self.count -= 1
        if self.latest is one:
            self.latest = None

    def candidates(self) -> list[_OpenTraceback]:
        """One of each state, and the latest before others of its state."""
        if self.count == 1 and self.latest is not None:
            return [self.latest]
        ones = [group[0] for group in self.groups.values()]
        latest = self.latest
        if latest is not None:
            ones = [latest if one.state == latest.state else one for one in ones]
        return ones


class _SeenTracebacks:
    """What earlier tracebacks of the file show about the next. Hundreds of ranks fail alike."""

    def __init__(self) -> None:
        #: the code of call sites that was seen right below them
        self.codes: dict[tuple[str, int], str] = {}
        #: names of functions that were seen in frames
        self.functions: set[str] = set()
        #: the exceptions that tracebacks with this last frame ended in
        self.raised: dict[TracebackFrame, str] = {}


class Tracebacks:
    """Takes lines in the order of the file, gives tracebacks back when they are whole."""

    def __init__(self) -> None:
        self._writers: dict[LineAuthor, _TracebackWriter] = {}
        self._frames: dict[TracebackFrame, TracebackFrame] = {}
        self._stacks: dict[tuple[TracebackFrame, ...], tuple[TracebackFrame, ...]] = {}
        self._known = _SeenTracebacks()
        self._open = 0
        #: whether the last line was a frame of what is open
        self.went_on = False
        #: lines for which one that seems over may still have a successor
        self._lingering = 0
        self._last_writer: _TracebackWriter | None = None
        self._swept = 0

    @property
    def open(self) -> bool:
        """Whether lines are still due: a file's other lines need not be fed while this is false."""
        return self._open > 0 or self._lingering > 0

    def feed(self, line: int, head: LineHead) -> list[Finished]:
        """Take one line.

        :param line: its number in the file
        """
        text = head.text
        done: list[Finished] = []
        self.went_on = False
        self._lingering -= self._lingering > 0
        headers = text.count(_HEADER) if "Traceback" in text else 0
        writer = self._writer_of(head, headers > 0 or text.lstrip().startswith("-- Process "))
        if writer is None:
            return done
        if headers:
            self._begin(line, head, writer, headers, done)
        elif self._continues(line, head, writer, done):
            writer.strangers = 0
        elif text.strip():
            self._stranger(line, writer, done)
        writer.last_line = line
        if line - self._swept > _LONG_PATIENCE // 10:
            self._sweep(line, done)
        return done

    def name_next(self, writer: LineAuthor, who: LineAuthor | None) -> None:
        """Note whose traceback the next line of a writer begins, if that is known."""
        if who is not None:
            self._writers.setdefault(writer, _TracebackWriter()).next_named = who

    def finish(self) -> list[Finished]:
        """The log is over: what is left, in the order of its lines."""
        left: list[_OpenTraceback] = []
        for writer in self._writers.values():
            if writer.speaking is not None:
                left.append(writer.speaking)
            left.extend(one for group in writer.groups.values() for one in group)
        self._writers.clear()
        self._open = self._lingering = 0
        self._last_writer = None
        return sorted(map(self._finished, left), key=lambda item: item.line)

    def _writer_of(self, head: LineHead, begins: bool) -> _TracebackWriter | None:
        who = head.who
        writer = self._writers.get(who)
        if writer is not None and (begins or writer.count or writer.speaking or who != UNKNOWN_WRITER):
            self._last_writer = writer
            return writer
        if begins:
            if len(self._writers) > MOST_OPEN:
                self._forget_idle()
            writer = self._writers[who] = _TracebackWriter()
            self._last_writer = writer
            return writer
        # the lines after the first of a logged traceback have no prefix
        if who == UNKNOWN_WRITER or (
            writer is None and who.rank is None and who.local_rank is None and who.task is None
        ):
            last = self._last_writer
            if last is not None and (last.count or last.speaking or last.follows or last.last_finished):
                return last if who == UNKNOWN_WRITER else None
        return None

    def _begin(self, line: int, head: LineHead, writer: _TracebackWriter, headers: int, done: list[Finished]) -> None:
        self._hush(writer, done)
        after, writer.follows = writer.follows, 0
        writer.last_finished = 0
        if not after:
            writer.named, writer.next_named = writer.next_named, None
        if writer.named is not None:
            head = head._replace(who=writer.named)
        for _ in range(min(headers, 8)):
            if writer.count >= MOST_ALIKE:
                self._cut_off(writer, min(self._of(writer), key=lambda one: one.last_line), done)
            one = _OpenTraceback(line, head, after)
            if after:
                one.chain_line = writer.last_chain
            writer.put(one)
            self._open += 1
        if self._open > MOST_OPEN:
            self._sweep(line, done, force=True)

    def _continues(self, line: int, head: LineHead, writer: _TracebackWriter, done: list[Finished]) -> bool:
        text = head.text
        tree = _TREE.match(text)
        if tree is not None:
            text = text[tree.end() :]
        frame = _FRAME.search(text) if 'File "' in text else None
        if frame is not None and not text[: frame.start()].strip():
            return self._frame(line, head, writer, frame, done)
        if text[:1] in _BOX or (writer.count and _DRAWN.match(text)):
            drawn = _DRAWN.match(text)
            return drawn is None or self._frame(line, head, writer, drawn, done)
        speaking = writer.speaking
        if speaking is not None and self._speaks_on(line, head, speaking, writer, text, done):
            return True
        stripped = text.strip()
        if stripped in _CHAIN:
            writer.follows = writer.last_finished
            return True
        if (spawned := _SPAWNED.match(stripped)) is not None:
            who = head.who
            if who.rank is None and who.local_rank is None:
                writer.next_named = who._replace(local_rank=int(spawned[1]))
            return True
        if not writer.count:
            return False
        if writer.latest is not None and writer.latest.indented and text[:2] == "  ":
            text = text[2:]
        if text[:1] == " " or not stripped:
            return self._code(line, writer, text, stripped)
        return self._exception(line, head, writer, text, done)

    def _frame(
        self, line: int, head: LineHead, writer: _TracebackWriter, match: re.Match[str], done: list[Finished]
    ) -> bool:
        frame = TracebackFrame(match[1], int(match[2]), (match[3] or "").rstrip())
        speaking = writer.speaking
        if speaking is not None and not writer.count and "RayTaskError" in speaking.exception:
            # Ray writes the stack of the remote side below its message, without a header
            remote = _RAY.search("\n".join(speaking.message))
            after = speaking.exception_line
            self._hush(writer, done)
            who = head.who
            if remote is not None and who.pid is None:
                who = who._replace(pid=int(remote[1]), host=who.host or remote[2])
            writer.put(_OpenTraceback(line, head._replace(who=who), after))
            self._open += 1
        if not writer.count:
            return False
        one = max(writer.candidates(), key=lambda one: _fits(one, frame))
        writer.take(one)
        one.frames.append(self._interned(frame))
        if len(self._known.functions) < _KEPT_FRAMES:
            self._known.functions.add(frame.function.rpartition(".")[2])
        if len(one.frames) > MOST_FRAMES:
            del one.frames[_FIRST_FRAMES]
        one.code_due = self.went_on = True
        self._touch(writer, one, line)
        return True

    def _code(self, line: int, writer: _TracebackWriter, text: str, stripped: str) -> bool:
        """A line of code below a frame, or marks below that."""
        if not stripped:
            return False
        latest = writer.latest
        direct = latest is not None and latest.last_line == writer.last_line
        is_mark = _MARKS.match(text) is not None or _ELIDED.match(text) is not None
        if is_mark:
            one = latest
        else:
            one = self._waiting_for(stripped, writer, latest if direct else None)
            if one is None and direct and latest is not None and latest.frames:
                # the second line of a statement
                one = latest
        if one is None:
            return False
        writer.take(one)
        if one.code_due and not is_mark:
            frame = one.frames[-1]
            if one.last_line == line - 1 and len(self._known.codes) < _KEPT_FRAMES:
                self._known.codes.setdefault((frame.path, frame.line), stripped)
            one.frames[-1] = self._interned(frame._replace(code=stripped[:LONGEST_TEXT]))
            one.code_due = False
        self._touch(writer, one, line)
        return True

    def _waiting_for(self, code: str, writer: _TracebackWriter, direct: _OpenTraceback | None) -> _OpenTraceback | None:
        """Whose last frame waits for this code: where it was seen before, else right above, else the longest."""
        due = [one for one in writer.candidates() if one.code_due]
        if len(due) < 2:
            return due[0] if due else None
        known = [self._known.codes.get((one.frames[-1].path, one.frames[-1].line)) for one in due]
        fitting = [one for one, seen in zip(due, known, strict=True) if seen == code]
        if not fitting:
            fitting = [one for one, seen in zip(due, known, strict=True) if seen is None] or due
        return direct if direct in fitting else min(fitting, key=lambda one: one.last_line)

    def _exception(self, line: int, head: LineHead, writer: _TracebackWriter, text: str, done: list[Finished]) -> bool:
        match = _EXCEPTION.match(text.rstrip())
        if match is None:
            return False
        name = match[1]
        ones = [one for one in writer.candidates() if one.frames]
        if not ones:
            if not _SURE.search(name):
                return False
            # a part of a group of exceptions, or a traceback without frames
            ones = writer.candidates()
        sure = _SURE.search(name) is not None and not name.startswith("nccl")
        if not sure:
            # any class can be raised; without one's name to go by, it has to follow at once
            ones = [one for one in ones if one is writer.latest and one.last_line == writer.last_line]
            if not ones or not (name[:1].isupper() or "." in name or _raises(ones[0], name)):
                return False
        one = max(ones, key=lambda one: _ends(one, name, writer, self._known))
        writer.take(one)
        self._hush(writer, done)
        if one.frames and len(self._known.raised) < _KEPT_FRAMES:
            self._known.raised.setdefault(one.frames[-1], name)
        one.exception, one.exception_line, one.last_line = name, line, line
        one.message, one.prefixed = [match[2] or ""], head.who != UNKNOWN_WRITER
        writer.speaking = one
        return True

    def _speaks_on(
        self, line: int, head: LineHead, one: _OpenTraceback, writer: _TracebackWriter, text: str, done: list[Finished]
    ) -> bool:
        """Whether a line goes on with the message of the exception before it; ends the message where it does not."""
        stripped = text.strip()
        if stripped and self._is_of_message(line, head, one, writer, text, stripped):
            one.message.append(text.rstrip())
            one.last_line = line
            return True
        if not stripped and one.message == [""]:
            # of an exception of mp.spawn: its message is below an empty line
            return True
        self._hush(writer, done)
        return not stripped

    def _is_of_message(
        self, line: int, head: LineHead, one: _OpenTraceback, writer: _TracebackWriter, text: str, stripped: str
    ) -> bool:
        if len(one.message) >= MESSAGE_LINES or head.time is not None or _NO_MESSAGE.match(stripped):
            return False
        if head.who == UNKNOWN_WRITER and (one.prefixed or line != one.last_line + 1):
            return False
        if stripped in _CHAIN or _SPAWNED.match(stripped):
            return False
        if not writer.count:
            return True
        if text[:1] == " ":
            return not any(other.code_due for other in writer.candidates())
        match = _EXCEPTION.match(stripped)
        return match is None or not _SURE.search(match[1]) or match[1].startswith("nccl")

    def _hush(self, writer: _TracebackWriter, done: list[Finished]) -> None:
        """Nothing can be added to the message of the last exception."""
        one = writer.speaking
        if one is not None:
            writer.speaking = None
            writer.last_finished, writer.last_chain = one.exception_line, one.chain_line
            self._open -= 1
            self._lingering = _LINGERING
            done.append(self._finished(one))

    def _stranger(self, line: int, writer: _TracebackWriter, done: list[Finished]) -> None:
        writer.follows = 0
        if not writer.count:
            return
        writer.strangers += 1
        if writer.strangers > PATIENCE:
            writer.strangers = 0
            for one in self._of(writer):
                self._cut_off(writer, one, done)

    def _of(self, writer: _TracebackWriter) -> list[_OpenTraceback]:
        return sorted((one for group in writer.groups.values() for one in group), key=lambda one: one.first_line)

    def _cut_off(self, writer: _TracebackWriter, one: _OpenTraceback, done: list[Finished]) -> None:
        writer.take(one)
        self._open -= 1
        done.append(self._finished(one))

    def _touch(self, writer: _TracebackWriter, one: _OpenTraceback, line: int) -> None:
        one.last_line = line
        writer.put(one)

    def _sweep(self, line: int, done: list[Finished], force: bool = False) -> None:
        """Drop what has had no further line for very long, or the oldest half where too many are open."""
        self._swept = line
        ones = [(one.last_line, id(one), one, writer) for writer in self._writers.values() for one in self._of(writer)]
        limit = line - _LONG_PATIENCE
        if force and ones:
            limit = max(limit, sorted(item[0] for item in ones)[len(ones) // 2])
        for last_line, _, one, writer in ones:
            if last_line <= limit:
                self._cut_off(writer, one, done)
        self._forget_idle()

    def _forget_idle(self) -> None:
        for who in [who for who, writer in self._writers.items() if not writer.count and writer.speaking is None]:
            del self._writers[who]

    def _interned(self, frame: TracebackFrame) -> TracebackFrame:
        """Return one object for equal frames. Hundreds of ranks fail at the same line."""
        if len(self._frames) > _KEPT_FRAMES:
            self._frames.clear()
        return self._frames.setdefault(frame, frame)

    def _finished(self, one: _OpenTraceback) -> Finished:
        frames = tuple(one.frames)
        if len(self._stacks) > _KEPT_FRAMES // 10:
            self._stacks.clear()
        frames = self._stacks.setdefault(frames, frames)
        message = "\n".join(one.message).strip()[: LONGEST_TEXT * 4]
        return Finished(
            one.exception_line or one.last_line,
            one.first_line,
            one.head,
            Traceback(frames, one.exception, message, one.chain_line),
            one.after,
            one.of_rank,
        )


@lru_cache(maxsize=4096)
def _called(code: str) -> frozenset[str]:
    """The names that a line of code calls."""
    return frozenset(re.findall(r"(\w+)\s*\(", code))


def _fits(one: _OpenTraceback, frame: TracebackFrame) -> tuple[int, int, int, int]:
    """Return how well a frame continues a traceback: by the call, then by line in the file, then whose turn it is."""
    if not one.frames:
        likely = 3 if frame.function in _BEGINNINGS else 1
    else:
        last = one.frames[-1]
        code = last.code
        if frame.function in _BEGINNINGS and frame.function != "_main":
            likely = 2 if last.function.startswith(("_", "run")) or not code else -2
        elif code.startswith("raise "):
            likely = -3
        elif frame.function.rpartition(".")[2] in _called(code):
            likely = 4
        elif not code or _UNNAMED.match(frame.function):
            likely = 2
        else:
            likely = 1
    # a traceback that waits for code may have none to show: a frame of a frozen module
    return likely, -len(one.frames), -int(one.code_due), -one.last_line


def _raises(one: _OpenTraceback, name: str) -> bool:
    return (
        bool(one.frames)
        and re.match(r"raise (?:\w+\.)*" + re.escape(name.rpartition(".")[2]) + r"\b", one.frames[-1].code) is not None
    )


def _ends(
    one: _OpenTraceback, name: str, writer: _TracebackWriter, known: _SeenTracebacks
) -> tuple[int, bool, int, bool, int, int]:
    """How well an exception ends a traceback: one whose last line calls what others go on to is not at its end."""
    last = one.frames[-1] if one.frames else None
    code = last.code if last is not None else ""
    if _raises(one, name):
        likely = 3
    elif code.startswith("raise "):
        likely = 1 if re.match(r"raise \w+$|raise \w+\.with_|raise \w+ from|raise [a-z]", code) else 0
    else:
        likely = 2
    before = known.raised.get(last) if last is not None else None
    direct = one is writer.latest and one.last_line == writer.last_line
    return (
        likely,
        known.functions.isdisjoint(_called(code)),
        0 if before is None else 1 if before == name else -1,
        direct,
        len(one.frames),
        -one.last_line,
    )
