"""The event log of a rehearsed rank: one file for each process, one line for each event, without buffering.

A written line survives the process. An event that can't be logged is counted, and raises nothing into the script.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.frames import innermost_own
from distcheck.runtime.coordination.logged_events import LoggedEvent

#: Rows of one kind that a process writes at most; a rehearsal is short, and a loop may be long.
_MOST = 20_000


class EventLog:
    """The event log of this process and of its forks: each opens its own file.

    :param folder: where the files are
    :param begun: ``time.time()`` when the rehearsal began
    :param rank: global rank; None while it is not known
    """

    def __init__(self, folder: str, begun: float, rank: int | None = None) -> None:
        self.folder = folder
        self.begun = begun
        self.rank = rank
        #: optimizer steps that were done
        self.step = 0
        #: called once before this process ends: after its steps, with its script, or because it raised
        self.at_end: list[Callable[[], object]] = []
        #: the collectives of this process
        self.calls = CallRecorder()
        #: notes that could not be taken, by their kind
        self.lost: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._pid = 0
        self._file = -1

    def note(self, kind: str, *, place: tuple[str, str] | None = None, **data: Any) -> None:
        """Log one event.

        :param place: the call site, ``(path:line, function)``; by default the innermost own line above the caller
        :param data: plain JSON values
        """
        try:
            count = self._written[kind] = self._written.get(kind, 0) + 1
            if count > _MOST:
                self.count_lost(kind)
                return
            where, function = innermost_own(sys._getframe(1)) if place is None else place
            row = LoggedEvent(kind, self.rank, os.getpid(), time.time() - self.begun, self.step, where, function, data)
            os.write(self._descriptor(), json.dumps(row, default=str).encode() + b"\n")
        except Exception:  # noqa: BLE001 - the script must not fail because of us
            self.count_lost(kind)

    def count_lost(self, kind: str) -> None:
        """Count an event that could not be logged."""
        self.lost[kind] = self.lost.get(kind, 0) + 1

    def close(self) -> None:
        """Call the functions that add rows at the end."""
        todo, self.at_end = self.at_end, []
        for last in todo:
            try:
                last()
            except Exception:  # noqa: BLE001 - the script must not fail because of us
                self.count_lost("end")

    def _descriptor(self) -> int:
        pid = os.getpid()
        if pid != self._pid:
            # a fork has its parent's number of the file, and must not write into it
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(os.path.join(self.folder, f"{pid}.jsonl"), flags, 0o600)
            self._pid = pid
        return self._file


def read_rows(folder: str) -> tuple[LoggedEvent, ...]:
    """All rows of a rehearsal, in the order of time; a process that became a rank late lends its number to its rows."""
    rows: list[LoggedEvent] = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            mine = [_row(line) for line in file if line.endswith("\n")]
        ranks = {row.rank for row in mine if row.rank is not None}
        if len(ranks) == 1:
            rank = ranks.pop()
            mine = [row._replace(rank=rank) for row in mine]
        rows += mine
    return tuple(sorted(rows, key=lambda row: row.at_s))


def _row(line: str) -> LoggedEvent:
    kind, rank, pid, at_s, step, place, function, data = json.loads(line)
    return LoggedEvent(kind, rank, pid, at_s, step, place, function, data)
