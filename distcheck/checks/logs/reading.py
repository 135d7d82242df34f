"""Read logs in one pass and bounded memory: lines that match, their writers and times, and tracebacks.

Most of a log is ordinary: a line is taken apart only where a signature fits it, or while a traceback or a launcher's
report is open. Whose numbers mean the same process is for :mod:`.joining`, what follows from it all for the probes.
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence

from distcheck.core.redaction import mask, mask_forms
from distcheck.core.registry import plug_in_signatures
from distcheck.core.signature import Kind, Signature
from distcheck.rules.signatures import every

from .clock import bars_in
from .event_store import BUDGET, Events
from .headings import SECTION, SECTION_ROWS, Sections, named_above
from .known_lines import KnownLines
from .leading_rows import ERROR_LINE, ERROR_LINES, EXCEPTION, FRAME, REPORTS, RESTART, STARTERS, TRACEBACK
from .matching import LONGEST_LINE, Matcher
from .model import LONGEST_TEXT, Dump, LineAuthor, LogReading, LogSource, Traceback, WorkerFailure
from .prefixes import UNKNOWN_WRITER, LineHead, Prefixes
from .rank_streams import ALL_UP_TO, RankStreams
from .sources import LogInput, Text, find
from .torchrun_report import FailureReport
from .tracebacks import BOXED_TEXT, Finished, Tracebacks, raised_by

#: Rows of waits that ended. What was at work before the first of them is read from its progress bar.
_WAITS = ("watchdog-timeout", "store-wait-ended", "store-key-missing", "gloo-timeout", "unique-id-timeout")
WORK = "one-rank-works"
_MOST_BARS_READ = 4
_BYTES_BEFORE = 32 << 10
_MOST_BARS = 8

_HEADER = "Traceback (most recent call last):"
#: Tracebacks without their first line that are followed: a log begins within one, and prints of stacks are many.
_MOST_HEADLESS = 200
#: Programs whose own traceback only reports that a worker failed.
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_SPAWN = "torch/multiprocessing/spawn.py"
_LAUNCHERS_MODULES = ("torch/distributed/run.py", "accelerate/commands/launch.py", "deepspeed/launcher/runner.py")
#: Lines that resemble an error are searched until so many were found.
_MOST_ERROR_LINES = 3000
#: After so many lines of a signature that were not kept, it is not searched in the next bytes. For a notice, lines that
#: add nothing to what their writers had printed are enough.
_NOISY = 5000
_NOISY_NOTICES = 2000
_QUIET_BYTES = 64 << 20
#: Lines that are taken one by one, in all and since anything came of it: 512 ranks write tracebacks of 60 lines at
#: once.
_MOST_DENSE = 400_000
_MOST_IN_VAIN = 60_000
#: Tracebacks of one process after which no more of it are followed: their messages are only counted by then. After so
#: many that were passed over, tracebacks are not searched in the next bytes.
_MOST_TRACEBACKS = 5000
_MOST_PASSED_OVER = 5000
_QUIET_TRACEBACKS_BYTES = 8 << 20
#: Rows of launchers' reports that are kept.
_MOST_WORKERS = 20_000
#: The row of a line that lists a process with its rank.
_LISTED = "process-of-rank"
#: Bytes for each known line, below which all lines are compared with them before the text is searched.
_SELDOM = 4096
#: Rows whose lines are more than an event: they lead the reading, or what is around them is read as well.
_LEADING = frozenset((TRACEBACK, FRAME, *REPORTS, RESTART, SECTION, *_WAITS))
#: Bytes after which a line without an end is cut.
_LONGEST_CARRIED = 1 << 20
#: Bytes that are collected before they are read.
_ENOUGH = 256 << 10
#: Lines from which the styles of prefixes are learned: so many of the first piece and of each of the next.
_SAMPLE = 300
_SAMPLE_LATER = 50
_PIECES_LEARNED = 24
#: The end that is kept for :attr:`Reading.tail`.
_TAIL_BYTES = 64 << 10
_TAIL_LINES = 200

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|[@-Z\\^_=>78])")
#: Words next to which a credential may stand that has no form of its own.
_CREDENTIALS = re.compile(r"(?i)token|secret|passw|credential|api.?key|access.?key|private.?key|bearer")
#: One of these is in each text of ASCII that the pattern fits; they are found in a twentieth of its time.
_WORDS_OF_CREDENTIALS = ("token", "secret", "passw", "credential", "key", "bearer")


def signatures() -> tuple[Signature, ...]:
    """All rows that logs are searched for: ours, those of plug-ins, and those that lead the reading."""
    return (*every(), *plug_in_signatures(), *STARTERS, *SECTION_ROWS, *ERROR_LINES)


@functools.lru_cache(maxsize=2)
def matcher_of(rows: tuple[Signature, ...]) -> Matcher:
    """A matcher, kept: compiling hundreds of patterns takes longer than reading a small log."""
    return Matcher(rows)


@functools.lru_cache(maxsize=1024)
def shown(text: str) -> str:
    """The text without what looks like a credential."""
    lower = text.lower()
    if text.isascii() and not any(word in lower for word in _WORDS_OF_CREDENTIALS):
        return mask_forms(text)
    return mask(text) if _CREDENTIALS.search(text) else mask_forms(text)


class SourceReader:
    """Reads one source as its bytes come: a file's pieces, or what a running job prints.

    :param matcher: of :func:`signatures`
    :param budget: bytes that the events may take
    """

    def __init__(
        self, source: LogSource, matcher: Matcher, *, budget: int = BUDGET, tail_lines: int = _TAIL_LINES
    ) -> None:
        self.source = source
        self._matcher = matcher
        self._budget = budget
        self._prefixes = Prefixes()
        self._tracebacks = Tracebacks()
        self._report = FailureReport()
        self._events = Events(budget)
        self._voices = RankStreams(self._prefixes)
        self._sections = Sections()
        self._workers: list[WorkerFailure] = []
        self._notes: list[str] = []
        self._bytes = 0
        #: line breaks so far
        self._lines = 0
        self._pieces = 0
        self._waiting: list[bytes] = []
        self._unseen = 0
        self._end = b""
        self._last_piece = (b"", 1)
        self._tail_lines = tail_lines
        #: numbers of the events of lines in which a traceback may end
        self._recent: dict[int, list[int]] = {}
        #: lines in which tracebacks begin that have no first line
        self._headless: set[int] = set()
        self._dense = 0
        self._in_vain = 0
        #: whole tracebacks of each process, and those that were passed over
        self._raised: dict[LineAuthor, int] = {}
        self._passed_over = 0
        self._error_lines = 0
        self._bars_read = 0
        self._noise: dict[int, int] = {}
        #: rows that are not searched, and the byte up to which
        self._muted: dict[int, float] = {}
        self._known_lines = KnownLines()
        #: how many of the last text were known
        self._repeats = 0
        self._styles = self._prefixes.styles

    def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere."""
        self._bytes += len(data)
        self._waiting.append(data)
        self._unseen += len(data)
        if self._unseen >= _ENOUGH:
            self._take_whole_lines()

    def reading(self) -> LogReading:
        """What is known so far, the last line as if nothing followed it; more may be fed afterwards."""
        if not self._pieces:
            # a good part of a log shows which prefixes it has: until that is there, all is read again
            other = SourceReader(self.source, self._matcher, budget=self._budget, tail_lines=self._tail_lines)
            other._bytes = self._bytes
        else:
            self._take_whole_lines()
            other = self._copy()
            other._pieces = _PIECES_LEARNED
        if rest := b"".join(self._waiting):
            other._search(rest)
        other._finish()
        return other._result()

    def note(self, *notes: str, problem: str = "") -> None:
        """Add what is worth knowing of how the source was read."""
        self.source = self.source._replace(notes=(*self.source.notes, *notes), problem=problem or self.source.problem)

    # --- from bytes to lines ---

    def _take_whole_lines(self) -> None:
        self._unseen = 0
        data = b"".join(self._waiting)
        cut = data.rfind(b"\n") + 1
        if len(data) - cut > _LONGEST_CARRIED:
            redrawn = data.rfind(b"\r", cut) + 1
            if not redrawn:
                self._note_once("lines of more than 1 MB were read in parts")
            cut = redrawn or len(data)
        self._waiting = [data[cut:]] if cut < len(data) else []
        if cut:
            self._search(data[:cut])

    def _note_once(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _search(self, data: bytes) -> None:
        """Inspect text that ends at the end of a line, or where a line is cut."""
        data = _plain(data)
        self._learn(data)
        if self._styles != self._prefixes.styles:
            self._styles = self._prefixes.styles
            self._forget_lines()
        first_line = self._lines + 1
        # behind a carriage return a line begins, but no other line of the file
        self._walk(data, data.replace(b"\r", b"\n") if b"\r" in data else data)
        self._lines += data.count(b"\n")
        self._end = (self._end + data)[-_TAIL_BYTES:]
        self._last_piece = (data, first_line)
        self._voices.listen(data, first_line, whole=self._bytes <= ALL_UP_TO)
        if not self._is_dense():
            self._recent.clear()

    def _learn(self, data: bytes) -> None:
        if self._pieces < _PIECES_LEARNED:
            most = _SAMPLE_LATER if self._pieces else _SAMPLE
            lines = data[: 400 * most].decode("utf-8", "replace").split("\n")[:most]
            if not self._pieces and len(data) > 400 * most:
                middle = data[len(data) // 2 :][: 200 * most].decode("utf-8", "replace").split("\n")[1:most]
                lines += middle
            self._prefixes.learn(lines)
        self._pieces += 1

    def _walk(self, data: bytes, text: bytes) -> None:
        """Go from one line that matters to the next; both texts differ in carriage returns alone."""
        place, counted, line = 0, 0, self._lines + 1
        searched, repeats = self._without_known(data, text)
        spans = self._spans(searched, 0)
        span = next(spans, None)
        while place < len(text):
            dense = self._is_dense()
            if dense:
                start = place
            elif span is not None:
                start = text.rfind(b"\n", 0, span[0]) + 1 if span[1] - span[0] >= LONGEST_LINE else span[0]
            else:
                break
            end = text.find(b"\n", start)
            end = len(text) if end < 0 else end
            pieces = []
            while span is not None and span[0] <= end:
                pieces.append(span)
                span = next(spans, None)
            line += data.count(b"\n", counted, start)
            counted = start
            while repeats and repeats[-1][0] < line:
                self._is_known(repeats.pop())
            again = self._line(data, text, start, end, line, pieces)
            if repeats and (self._is_dense() or repeats[-1][1] not in self._known_lines):
                # each line counts from here, or none is known after a restart
                searched, repeats, again = text, [], True
            if again:
                spans = self._spans(searched, end + 1)
                span = next(spans, None)
            place = end + 1
        while repeats:
            self._is_known(repeats.pop())

    def _without_known(self, data: bytes, text: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
        """The text with blanks for its known lines, and these, the last first; the text itself where they are few."""
        often, self._repeats = self._repeats * _SELDOM > len(text), 0
        if not often or data is not text or self._is_dense():
            return text, []
        lines = text.split(b"\n")
        numbers = self._known_lines.among(lines)
        repeats = [(self._lines + 1 + number, lines[number]) for number in reversed(numbers)]
        for number in numbers:
            lines[number] = b" " * len(lines[number])
        return b"\n".join(lines), repeats

    def _spans(self, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        if start >= len(text):
            return iter(())
        over = [row for row, until in self._muted.items() if until < self._bytes]
        for row in over:
            del self._muted[row]
        return self._matcher.spans(text, start, frozenset(self._muted))

    # --- lines that matter ---

    def _is_dense(self) -> bool:
        """Whether each line counts: something that was begun is not over."""
        if self._dense >= _MOST_DENSE or self._in_vain >= _MOST_IN_VAIN:
            return False
        return self._tracebacks.open or self._report.open

    def _line(
        self, data: bytes, text: bytes, start: int, end: int, line: int, pieces: Sequence[tuple[int, int]]
    ) -> bool:
        """Take one line (or the part behind a carriage return); return whether other rows are searched from here."""
        dense = self._is_dense()
        if not pieces and start == end:
            return False
        first = min(pieces[0][0] if pieces and end - start > LONGEST_LINE else start, end)
        raw = text[first : min(end, first + LONGEST_LINE)]
        behind = data[start - 1 : start] == b"\r"
        if not dense and not behind and self._is_known((line, raw)):
            return False
        head = self._head(data, start, raw)
        muted = False
        names: set[str] = set()
        boxed = head.text.startswith("│") and BOXED_TEXT.match(head.text) is not None
        for piece in pieces if not boxed else ():
            found = self._fitting(text[slice(*piece)], head)
            names.update(self._matcher.rows[number].name for number, _ in found)
            muted = self._note_fits(found, head, line) or muted
        if not dense and not behind and len(pieces) == 1 and names.isdisjoint(_LEADING):
            self._note_known(raw, head.who, line, ERROR_LINE in names)
        if pieces:
            self._voices.note(head.who, line, raw)
        if not names.isdisjoint(_WAITS) and self._bars_read < _MOST_BARS_READ:
            self._bars_read += 1
            self._note_bars(data, text, start, end, line)
        if TRACEBACK in names and not self._tracebacks.open:
            self._in_vain = 0
        if SECTION in names and self._sections.begin(line, head.text):
            self._begin_section()
            dense = False
        passed_over = TRACEBACK in names and self._is_loud(head.who)
        if passed_over:
            muted = self._pass_over() or muted
        if (
            FRAME in names
            and not self._tracebacks.open
            and len(self._headless) < _MOST_HEADLESS
            and not self._is_loud(head.who)
        ):
            self._headless.add(line)
            self._tracebacks.feed(line, head._replace(text=_HEADER))
            dense = True
        begins = TRACEBACK in names and self._in_vain < _MOST_IN_VAIN and self._dense < _MOST_DENSE
        if (dense or begins) and not passed_over:
            if TRACEBACK in names and head.who == UNKNOWN_WRITER and head.time is None:
                self._tracebacks.name_next(head.who, named_above(self._above(text, start), self._prefixes))
            self._follow_tracebacks(line, head)
        if self._report.open or not names.isdisjoint(REPORTS):
            self._note_workers(self._report.feed(line, head))
        return muted

    def _begin_section(self) -> None:
        """End what was begun: the lines from here are another process's, and repeat none before."""
        for finished in self._tracebacks.finish():
            self._note_traceback(finished)
        self._events.begin_part()
        self._forget_lines()

    def _above(self, text: bytes, start: int) -> str:
        """The last line with text before this one."""
        before = text[max(0, start - LONGEST_LINE) : start].rstrip() or self._end[-LONGEST_LINE:].rstrip()
        return before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")

    def _is_known(self, repeat: tuple[int, bytes]) -> bool:
        """Count a line, given with its number, that repeats a failure; return whether it is one."""
        line, raw = repeat
        known = self._known_lines.repeat(raw, line)
        self._repeats += known
        return known

    def _count_known(self) -> None:
        """Bring the counts of known lines to the events."""
        self._known_lines.hand_over(self._events, self._voices)

    def _forget_lines(self) -> None:
        self._count_known()
        self._known_lines.forget()

    def _note_known(self, raw: bytes, who: LineAuthor, line: int, looks_bad: bool) -> None:
        """Keep a line whose events are kept, to count it where it comes again. A notice is soon searched no more."""
        numbers = self._recent.get(line, ())
        kept = [event for number in numbers if (event := self._events[number]) is not None]
        if any(event.kind < Kind.NOTICE for event in kept) and (
            not looks_bad or self._error_lines >= _MOST_ERROR_LINES
        ):
            self._known_lines.add(raw, who, numbers)

    def _head(self, data: bytes, start: int, raw: bytes) -> LineHead:
        head = self._prefixes.parse(raw.decode("utf-8", "replace"))
        if head.who == UNKNOWN_WRITER and data[start - 1 : start] == b"\r":
            # the launcher's label stands before the first part alone
            begin = data.rfind(b"\n", max(0, start - _LONGEST_CARRIED), start) + 1
            first = re.split(rb"\r", data[begin : begin + LONGEST_TEXT], maxsplit=1)[0]
            label = self._prefixes.parse(first.decode("utf-8", "replace"))
            return head._replace(who=label.who, time=head.time if head.time is not None else label.time)
        return head

    def _fitting(self, raw: bytes, head: LineHead) -> list[tuple[int, dict[str, str]]]:
        """The rows that a line fits; where a container's log wraps lines in JSON, the rows that they fit."""
        if raw[:1] == b"{" and not head.text.startswith("{"):
            inner = head.text.encode("utf-8", "replace")
            found = [fit for part in inner.split(b"\n") for fit in self._matcher.fitting(part)]
            if found:
                return found
        return self._matcher.fitting(raw)

    def _note_fits(self, found: Sequence[tuple[int, dict[str, str]]], head: LineHead, line: int) -> bool:
        """Make events of the rows that a line fits, one for each name; whether one of them became noise."""
        named: dict[str, tuple[int, dict[str, str]]] = {}
        for number, values in found:
            name = self._matcher.rows[number].name
            if name in named:
                named[name] = (named[name][0], {**values, **named[name][1]})
            else:
                named[name] = (number, values)
        named.pop(TRACEBACK, None)
        named.pop(FRAME, None)
        named.pop(SECTION, None)
        looks_bad = named.pop(ERROR_LINE, None)
        if RESTART in named:
            self._events.begin_part()
            self._raised.clear()
            self._forget_lines()
        noisy = False
        for number, values in named.values():
            noisy = not self._add(number, values, head, line) or noisy
        if looks_bad is not None:
            self._error_lines += 1
            if not named:
                self._add(looks_bad[0], {}, head, line)
            if self._error_lines == _MOST_ERROR_LINES:
                numbers = [number for number, row in enumerate(self._matcher.rows) if row.name == ERROR_LINE]
                self._muted.update(dict.fromkeys(numbers, float("inf")))
                noisy = True
        return noisy

    def _add(self, number: int, values: dict[str, str], head: LineHead, line: int) -> bool:
        """Keep an event where there is room; false where its row is to be left alone for a while."""
        text = _cut(head.text, values)
        row, known = self._matcher.rows[number], len(self._events)
        who = _listed(head.who, values) if row.name == _LISTED else head.who
        event = self._events.add(row, who, line, head.time, text, values, clean=shown)
        if event is not None:
            self._recent.setdefault(line, []).append(event)
            if len(self._recent) > _MOST_IN_VAIN:
                self._recent.clear()
            if row.kind < Kind.NOTICE:
                return True
            if event == known:
                self._noise[number] = 0
                return True
        self._noise[number] = self._noise.get(number, 0) + 1
        if self._noise[number] < (_NOISY_NOTICES if row.kind >= Kind.NOTICE else _NOISY):
            return True
        self._noise[number] = 0
        self._muted[number] = self._bytes + _QUIET_BYTES
        self._note_once("some of the lines that repeat endlessly were dropped")
        return False

    def _note_bars(self, data: bytes, text: bytes, start: int, end: int, line: int) -> None:
        """Note the last progress bar of each process before a wait that ended: who was at work, and for how long."""
        noted: set[LineAuthor] = set()
        first = max(0, start - _BYTES_BEFORE)
        for bar_start, bar_end in reversed([*bars_in(text, first, end)]):
            begin = text.rfind(b"\n", 0, bar_start) + 1
            stop = text.find(b"\n", bar_end)
            head = self._prefixes.parse(text[begin : end if stop < 0 else stop].decode("utf-8", "replace"))
            close = text.find(b"]", bar_end, bar_end + 80)
            shown_bar = text[bar_start : max(bar_end, close + 1)].decode("utf-8", "replace").strip()
            # a bar ends no line: what follows it may be another process's
            who = head.who if shown_bar[-20:] in head.text else UNKNOWN_WRITER
            if who in noted or len(noted) >= _MOST_BARS:
                continue
            noted.add(who)
            values = {"work": shown_bar.partition("%|")[0].rstrip("0123456789 :")[-60:].strip() or "a progress bar"}
            row = Signature(WORK, Kind.RECORD, "", (), ("DC726",))
            at = line - data.count(b"\n", begin, start) if begin < start else line
            self._events.add(row, who, at, head.time, shown_bar[:LONGEST_TEXT], values, clean=shown)

    # --- what spans several lines ---

    def _is_loud(self, who: LineAuthor) -> bool:
        """Whether a process writes tracebacks without end."""
        return self._raised.get(who, 0) >= _MOST_TRACEBACKS

    def _pass_over(self) -> bool:
        """Skip a traceback; return whether none is searched from here."""
        self._events.dropped += 1
        self._passed_over += 1
        if self._passed_over < _MOST_PASSED_OVER:
            return False
        self._passed_over = 0
        numbers = [number for number, row in enumerate(self._matcher.rows) if row.name in (TRACEBACK, FRAME)]
        self._muted.update(dict.fromkeys(numbers, float(self._bytes + _QUIET_TRACEBACKS_BYTES)))
        self._note_once("some of the lines that repeat endlessly were dropped")
        return True

    def _follow_tracebacks(self, line: int, head: LineHead) -> None:
        self._dense += 1
        self._in_vain += 1
        # a container's log in JSON may hold several lines in one
        for text in head.text.split("\n"):
            for finished in self._tracebacks.feed(line, head._replace(text=text)):
                if finished.traceback.exception:
                    self._in_vain = 0
                self._note_traceback(finished)
            if self._tracebacks.went_on:
                self._in_vain = 0

    def _note_workers(self, workers: Sequence[WorkerFailure]) -> None:
        for worker in workers:
            if len(self._workers) < _MOST_WORKERS:
                self._in_vain = 0
                self._workers.append(worker._replace(message=shown(worker.message)))

    def _note_traceback(self, finished: Finished) -> None:
        """Give the lines of an exception its traceback; if none names the error, the exception is an event."""
        self._count_known()
        traceback, who = finished.traceback, finished.head.who
        self._raised[who] = self._raised.get(who, 0) + 1
        message = f"{traceback.exception}: {traceback.message}"
        code = {frame.code for frame in traceback.frames}
        known = False
        # they were noted in the order of their lines
        of_it = itertools.takewhile(lambda number: number >= finished.first_line, reversed(self._recent))
        for line in [*of_it][::-1]:
            for number in self._recent[line]:
                event = self._events[number]
                # the line below "-- Process 1 terminated" names no writer, and its traceback does
                unnamed = event is not None and line == finished.line and event.who == LineAuthor()
                if event is None or event.line != line or (event.who != who and not unnamed):
                    continue
                text = event.text.strip()
                if (line < finished.line or not traceback.exception) and (text in code or text.startswith('File "')):
                    # the text of the program, and nothing that it printed
                    self._remove(number)
                elif line == finished.line or text in message:
                    if event.signature == ERROR_LINE:
                        self._remove(number)
                    else:
                        self._events.attach(number, traceback, _raiser(finished))
                        known = known or event.kind <= Kind.TABLE
        if not known and (traceback.exception or finished.first_line not in self._headless):
            self._note_exception(finished)
        elif not known:
            self._note_unseen(finished)

    def _remove(self, number: int) -> None:
        self._events.remove(number)
        self._forget_lines()

    def _note_exception(self, finished: Finished) -> None:
        traceback = finished.traceback
        if self._note_unseen(finished):
            return
        message = traceback.message.strip().split("\n", 1)[0]
        text = f"{traceback.exception}: {message}" if message else traceback.exception
        if not text and traceback.frames:
            last = traceback.frames[-1]
            text = f'File "{last.path}", line {last.line}, in {last.function}'
        row = Signature(EXCEPTION, Kind.TABLE if _is_of_a_launcher(traceback) else Kind.FAILURE, "", ())
        time = finished.head.time
        number = self._events.add(row, _raiser(finished), finished.line, time, text[:LONGEST_TEXT], clean=shown)
        if number is not None:
            self._events.attach(number, traceback)

    def _note_unseen(self, finished: Finished) -> bool:
        """Note the rows that fit what no line of its own shows: a wrapped message, or one that is cut off.

        Return whether there are any.
        """
        traceback = finished.traceback
        lines = traceback.message.split("\n")
        code = traceback.frames[-1].code if traceback.frames and not traceback.exception else ""
        if len(lines) > 1:
            return self._note_fitting(finished, f"{traceback.exception}: {' '.join(map(str.strip, lines))}")
        return code.startswith("raise ") and any(
            self._note_fitting(finished, text) for text in (code, raised_by(code)) if text
        )

    def _note_fitting(self, finished: Finished, text: str) -> bool:
        found = False
        for number, values in self._matcher.fitting(text.encode()[:LONGEST_LINE]):
            row = self._matcher.rows[number]
            if row.kind > Kind.TABLE or row.name == ERROR_LINE:
                continue
            who, time = _raiser(finished), finished.head.time
            event = self._events.add(row, who, finished.line, time, _cut(text, values), values, clean=shown)
            if event is not None:
                self._events.attach(event, finished.traceback)
                found = True
        return found

    # --- the result ---

    def _copy(self) -> SourceReader:
        self._count_known()
        other = copy.copy(self)
        other._events = self._events.copy()
        other._voices = self._voices.copy()
        other._sections = self._sections.copy()
        other._tracebacks = copy.deepcopy(self._tracebacks)
        other._report = copy.deepcopy(self._report)
        other._workers = self._workers[:]
        other._notes = self._notes[:]
        other._headless = self._headless.copy()
        other._recent = {line: numbers[:] for line, numbers in self._recent.items()}
        other._noise, other._muted = dict(self._noise), dict(self._muted)
        other._raised = self._raised.copy()
        other._known_lines = self._known_lines.copy()
        return other

    def _finish(self) -> None:
        for finished in self._tracebacks.finish():
            self._note_traceback(finished)
        self._note_workers(self._report.finish())
        self._voices.listen(*self._last_piece, at_end=True)

    def _result(self) -> LogReading:
        self._count_known()
        lines = self._lines + (not self._end.endswith(b"\n") and self._end != b"")
        source = self.source._replace(
            bytes=self._bytes,
            lines=lines,
            notes=(*self.source.notes, *self._notes),
            year_guessed=self._prefixes.year_is_guessed,
        )
        return LogReading(
            source,
            self._sections.events(self._events.result()),
            self._sections.rank_streams(self._voices.result(shown), lines),
            tuple(self._workers),
            dropped=self._events.dropped,
            tail=tuple(self._tail(lines)),
        )

    def _tail(self, lines: int) -> Iterator[tuple[int, LineAuthor, str]]:
        last = self._end.decode("utf-8", "replace").removesuffix("\n").split("\n")
        for number, text in list(enumerate(last, lines - len(last) + 1))[-self._tail_lines :]:
            head = self._prefixes.parse(text)
            if head.text.strip():
                yield number, head.who, shown(head.text[:LONGEST_TEXT])


def _listed(who: LineAuthor, values: dict[str, str]) -> LineAuthor:
    """The process that a line lists with its rank: the writer, where it names no other one."""
    rank, local_rank, pid = (int(values[name]) if name in values else None for name in ("rank", "local_rank", "pid"))
    if pid is None:
        return who._replace(rank=rank)
    return LineAuthor(rank, local_rank, values.get("ip"), pid)


def _raiser(finished: Finished) -> LineAuthor:
    """Return the rank that a traceback names as the one that raised it, or else its writer."""
    return finished.head.who if finished.of_rank is None else LineAuthor(finished.of_rank)


def _is_of_a_launcher(traceback: Traceback) -> bool:
    """Whether a traceback only reports that a worker failed."""
    if not traceback.frames:
        return False
    if traceback.exception:
        # torch.multiprocessing.spawn up to torch 1.6: the message is the traceback of the process
        last = traceback.frames[-1].path.replace("\\", "/")
        return traceback.exception == "Exception" and not traceback.message and last.endswith(_SPAWN)
    path = traceback.frames[0].path
    return os.path.basename(path) in _LAUNCHERS or path.endswith(_LAUNCHERS_MODULES)


def _plain(data: bytes) -> bytes:
    """The text without colours, titles and holes."""
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    return data.translate(None, b"\0") if b"\0" in data else data


def _cut(text: str, values: dict[str, str]) -> str:
    """A text that is not too long, with what was found in it."""
    text = text.strip()
    if len(text) <= LONGEST_TEXT:
        return text
    found = max((text.find(value) for value in values.values() if value), default=0)
    begin = 0 if found < LONGEST_TEXT * 3 // 4 else found - LONGEST_TEXT // 2
    return text[begin : begin + LONGEST_TEXT]


# --- files ---


def read(
    paths: Sequence[str], *, jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[LogReading]:
    """Read files, folders and standard input (``-``), in processes of their own where there are several files.

    :param jobs: processes at most
    :param progress: called with the bytes that are done, and those of all files
    """
    inputs = find(paths)
    sizes = [_size(item) for item in inputs]
    total, done = sum(sizes), 0

    def note(amount: int) -> None:
        nonlocal done
        done += amount
        if progress is not None:
            progress(done, max(total, done))

    matcher = matcher_of(signatures()) if any(item.form == "log" for item in inputs) else None
    share = max(1 << 20, BUDGET // max(1, len(inputs)))
    tail = max(20, min(_TAIL_LINES, 20_000 // max(1, len(inputs))))

    def work(number: int, count: Callable[[int], None]) -> LogReading:
        return _read_input(inputs[number], matcher, share, tail, count)

    files = [number for number, item in enumerate(inputs) if item.form and item.source.path != "-"]
    if jobs < 2 or len(files) < 2 or not hasattr(os, "fork"):
        return [work(number, note) for number in range(len(inputs))]
    from distcheck.core.process_pool import in_processes

    def lost(number: int, why: str) -> LogReading:
        return LogReading(inputs[number].source._replace(problem=why))

    order = sorted(files, key=lambda number: -sizes[number])
    readings = in_processes(work, order, jobs=jobs, lost=lost, progress=lambda _, amount: note(amount))
    return [readings[number] if number in readings else work(number, note) for number in range(len(inputs))]


def _size(item: LogInput) -> int:
    try:
        return os.stat(item.source.path).st_size if item.form else 0
    except OSError:
        return 0


def _read_input(
    item: LogInput, matcher: Matcher | None, budget: int, tail_lines: int, count: Callable[[int], None]
) -> LogReading:
    if item.form in ("error-file", "dump"):
        return _read_record(item)
    if not item.form or matcher is None:
        return LogReading(item.source)
    reader = SourceReader(item.source, matcher, budget=budget, tail_lines=tail_lines)
    text = Text(item.source)
    done = 0
    for piece in text.pieces():
        reader.feed(piece)
        if text.done - done >= _PROGRESS_BYTES:
            count(text.done - done)
            done = text.done
    count(text.done - done)
    reader.note(*text.notes, problem=text.problem)
    return reader.reading()


#: Bytes after which progress is reported.
_PROGRESS_BYTES = 16 << 20


def _read_record(item: LogInput) -> LogReading:
    """An error file, or a flight recorder's dump."""
    try:
        with open(item.source.path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        return LogReading(item.source._replace(problem=error.strerror or str(error)))
    source = item.source._replace(bytes=len(data))
    if item.form == "dump":
        from .flight_recorder import read_dump

        dump: Dump = read_dump(data)
        if dump.rank is None and source.who.rank is not None:
            dump = dump._replace(rank=source.who.rank)
        return LogReading(source._replace(problem=dump.problem), dumps=(dump,))
    from .torchrun_report import read_error_file

    return LogReading(source, workers=tuple(read_error_file(data, source)))
