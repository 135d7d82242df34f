"""Who wrote anything into a log, from a sample of its lines: all of a small one, some of each piece of a large one.

Taking a line apart costs a hundred times what searching it costs, so the label that a launcher writes before each
line of a process (``[rank3]:``) is taken apart once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .model import LONGEST_TEXT, LineAuthor, RankStream
from .prefixes import UNKNOWN_WRITER, LineHead, Prefixes

#: Bytes of a log up to which all its lines are read, and of each further piece.
ALL_UP_TO = 8 << 20
OF_EACH_PIECE = 64 << 10
#: Lines that are parsed of the part that is read whole, of each further piece, and of the end.
_MOST_PARSED = 20_000
_MOST_OF_PIECE = 100
_MOST_AT_END = 10_000
#: Processes that are distinguished, and labels that are known, at most.
_MOST_VOICES = 20_000
_MOST_LABELS = 50_000
_LONGEST = 1000

#: The label that a line begins with, after the time that a container's log has before it.
_LABEL = re.compile(
    rb"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?)?"
    rb"(\[[^\]\s]{1,40}\]:?"
    rb"|[\w.-]{1,120}:\d{1,8}:\d{1,8} (?:\[-?\d{1,4}\] )?(?:[\w./-]{1,200}:\d{1,6} )?NCCL (?:INFO|WARN)(?= )"
    rb"|\(\w+ pid=\d+[^)]{0,40}\)|\S{1,80}(?= |$))"
)


class _SampledStream(NamedTuple):
    first_line: int
    last_line: int
    last: bytes


class RankStreams:
    """Listens to lines in the order of the file."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self._heard: dict[LineAuthor, _SampledStream] = {}
        self._labels: dict[bytes | None, LineAuthor | None] = {}
        self._left = _MOST_PARSED

    def copy(self) -> RankStreams:
        """A copy that hears more without changing this one."""
        other = RankStreams(self._prefixes)
        other._heard = self._heard.copy()
        other._labels = self._labels
        other._left = self._left
        return other

    def note(self, who: LineAuthor, line: int, text: bytes) -> None:
        """A line is known to be of this process."""
        heard = self._heard.get(who)
        if heard is None:
            if len(self._heard) < _MOST_VOICES:
                self._heard[who] = _SampledStream(line, line, text[:_LONGEST])
        elif line >= heard.last_line:
            self._heard[who] = _SampledStream(heard.first_line, line, text[:_LONGEST])
        elif line < heard.first_line:
            self._heard[who] = heard._replace(first_line=line)

    def listen(self, text: bytes, first_line: int, *, at_end: bool = False, whole: bool = True) -> None:
        """Read a text's lines.

        :param whole: all of them; else at a part
        :param at_end: the last words of everybody matter more than the first
        """
        if at_end:
            self._left = _MOST_AT_END
        elif not whole:
            self._left = _MOST_OF_PIECE
        lines = (text if whole else text[:OF_EACH_PIECE]).split(b"\n")
        found = [match[1] if (match := _LABEL.match(raw)) else None for raw in lines]
        # of a known label only its first and last line matter
        known = {label for label in set(found) if self._labels.get(label) is not None}
        firsts = dict(zip(reversed(found), range(len(found) - 1, -1, -1), strict=True))
        lasts = dict(zip(found, range(len(found)), strict=True))
        for label in sorted(known, key=firsts.__getitem__):
            self._note_label(label, lines, first_line, firsts[label], lasts[label])
        if len(known) == len(lasts):
            return
        for place, label in enumerate(found):
            if label in known:
                continue
            raw = lines[place]
            if self._labels.get(label) is not None:
                known.add(label)
                self._note_label(label, lines, first_line, place, lasts[label])
            elif self._left > 0 and raw.strip():
                self.note(self._who(raw, label), first_line + place, raw)

    def _note_label(self, label: bytes | None, lines: list[bytes], first_line: int, first: int, last: int) -> None:
        """The lines with a label are known to be of its process."""
        who = self._labels.get(label) or UNKNOWN_WRITER
        for place in (first, last):
            self.note(who, first_line + place, lines[place])

    def _who(self, raw: bytes, label: bytes | None) -> LineAuthor:
        self._left -= 1
        who = self._prefixes.parse(raw[: 4 * _LONGEST].decode("utf-8", "replace")).who
        if who != UNKNOWN_WRITER and label and label not in self._labels and len(self._labels) < _MOST_LABELS:
            # the label may be known only where it alone shows the writer
            alone = self._prefixes.parse(label.decode("utf-8", "replace") + " words follow").who
            self._labels[label] = who if alone == who else None
        return who

    def result(self, shown: Callable[[str], str]) -> tuple[RankStream, ...]:
        """The processes, in the order in which they first spoke.

        :param shown: makes a text fit to be shown
        """
        rank_streams = []
        for who, heard in sorted(self._heard.items(), key=lambda item: item[1].first_line):
            head: LineHead = self._prefixes.parse(heard.last.decode("utf-8", "replace"))
            text = shown(head.text.strip()[:LONGEST_TEXT])
            rank_streams.append(RankStream(who, 0, heard.first_line, heard.last_line, head.time, text))
        return tuple(rank_streams)
