"""``distcheck log --follow``: read what a running job appends, and print the root cause when it changes."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import time
from typing import TYPE_CHECKING

from distcheck.checks.logs.diagnose import diagnose, timeline_of
from distcheck.checks.logs.matching import Matcher
from distcheck.checks.logs.model import LogReading, LogSource
from distcheck.checks.logs.reading import SourceReader, matcher_of, read, signatures
from distcheck.checks.logs.sources import PIECE, find
from distcheck.core.checker import load_plug_ins
from distcheck.core.model import Report
from distcheck.reporters import escape

from . import output
from .log_output import finish, with_subject

if TYPE_CHECKING:
    from .log_output import LogOptions

#: Seconds between two reads of the files.
_PAUSE_S = 0.5
#: Seconds between two searches for new files.
_SEARCH_S = 5.0


class _Tail:
    """One file as it grows; a file that was emptied or replaced is read from its beginning again."""

    def __init__(self, source: LogSource, matcher: Matcher) -> None:
        self.source = source
        self._matcher = matcher
        self._reader = SourceReader(source, matcher)
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        #: the files that were read under this name, rotated away or not
        self.files: set[tuple[int, int]] = set()
        self._earlier: list[LogReading] = []

    def more(self) -> bool:
        """Read what was appended; whether there was anything."""
        try:
            with open(self.source.path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                identity = (status.st_dev, status.st_ino)
                if self._identity not in (None, identity) or status.st_size < self._offset:
                    if self._identity != identity:
                        self._read_the_rest()
                    self._earlier.append(self._reader.reading())
                    self._reader = SourceReader(self.source, self._matcher)
                    self._offset = 0
                self._identity = identity
                self.files.add(identity)
                file.seek(self._offset)
                grew = False
                while data := file.read(PIECE):
                    self._reader.feed(data)
                    self._offset += len(data)
                    grew = True
                return grew
        except OSError:
            # the file is missing for now: rotated, or its folder was removed
            return False

    def _read_the_rest(self) -> None:
        """Read what was written between the last read and the rename. It holds the end of a job that died."""
        folder = os.path.dirname(self.source.path) or "."
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                status = entry.stat()
                if (status.st_dev, status.st_ino) != self._identity:
                    continue
                with open(entry.path, "rb", buffering=0) as file:
                    file.seek(self._offset)
                    while data := file.read(PIECE):
                        self._reader.feed(data)
                return

    def readings(self) -> list[LogReading]:
        return [*self._earlier, self._reader.reading()]


class _Pipe:
    """Standard input, or a pipe with a name (``<(kubectl logs -f …)``), as it comes."""

    def __init__(self, source: LogSource, matcher: Matcher) -> None:
        self._reader = SourceReader(source, matcher)
        self._descriptor = 0 if source.path == "-" else os.open(source.path, os.O_RDONLY)
        self.open = True

    def more(self) -> bool:
        grew = False
        while self.open and select.select([self._descriptor], [], [], 0)[0]:
            data = os.read(self._descriptor, PIECE)
            if data:
                self._reader.feed(data)
                grew = True
            else:
                self.open = False
        return grew

    def readings(self) -> list[LogReading]:
        return [self._reader.reading()]


class _Follower:
    """All files that are followed, and the last root cause that was printed."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        load_plug_ins()
        self._matcher = matcher_of(signatures())
        self._tails: dict[str, _Tail | _Pipe] = {}
        self._whole: dict[str, LogReading] = {}
        self._next_search = 0.0
        self._reported: tuple[object, ...] | None = None

    def find_new_files(self) -> None:
        """Find new files in folders. Each search costs a walk, so not every read does it."""
        if time.monotonic() < self._next_search:
            return
        self._next_search = time.monotonic() + _SEARCH_S
        for item in find(self.options.paths):
            path = item.source.path
            if path in self._tails:
                continue
            if path == "-" or _is_pipe(path):
                self._tails[path] = _Pipe(item.source, self._matcher)
            elif item.form == "log" and not item.source.problem and item.grows:
                self._tails[path] = _Tail(item.source, self._matcher)
            elif path not in self._whole and not self._was_followed(path):
                # what is no growing text (an error.json, a dump, a compressed part) is read once
                self._whole.update((path, reading) for reading in read([path])[:1])

    def _was_followed(self, path: str) -> bool:
        """Whether a file is one that was read under the name that it had before it was rotated."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        tails = [tail for tail in self._tails.values() if isinstance(tail, _Tail)]
        return any((status.st_dev, status.st_ino) in tail.files for tail in tails)

    def more(self) -> bool:
        self.find_new_files()
        # each one is to be read, whatever the others gave
        grown = [tail.more() for tail in self._tails.values()]
        return any(grown)

    def report(self) -> Report:
        readings = [reading for tail in self._tails.values() for reading in tail.readings()]
        options = self.options
        return with_subject(
            diagnose(
                timeline_of([*readings, *self._whole.values()]),
                selection=options.selection,
                every_event=options.given["every_event"],
            )
        )

    def print_change(self) -> None:
        """Print one line when the root cause changes. The whole summary comes at the end."""
        story = self.report().story
        if story["outcome"] == "clean":
            return
        first = story["first"]
        now = (story["code"], first["path"], first["line"])
        if now == self._reported:
            return
        self._reported = now
        named = f"{story['code']} {story['name']}" if story["code"] else "a failure that no rule names"
        text = first["text"].splitlines()[0] if first["text"] else ""
        output.say(escape(f"distcheck log: {named}: {first['path']}:{first['line']}: {text}"))

    @property
    def has_ended(self) -> bool:
        """Whether no more text can come: all inputs are pipes that were closed."""
        return bool(self._tails) and all(isinstance(tail, _Pipe) and not tail.open for tail in self._tails.values())


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def follow(options: LogOptions) -> int:
    """Follow until Ctrl-C, the end of a pipe or ``--idle`` seconds without output, and return the exit status."""
    watch = _Follower(options)
    idle = options.given["idle"]
    last = time.monotonic()
    try:
        while True:
            if watch.more():
                last = time.monotonic()
                watch.print_change()
            elif watch.has_ended or (idle is not None and time.monotonic() - last >= idle):
                break
            time.sleep(_PAUSE_S)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    return finish(options, watch.report())
