"""Logs which lines this rank prints, with the call site: the first few of each call site and step.

Only a digest of the text is stored.
"""

from __future__ import annotations

import builtins
import copy
import logging
import os
import sys
import zlib
from typing import Any

from distcheck.runtime.coordination.frames import innermost_own, is_own, shown_path
from distcheck.runtime.coordination.patching import stand_in
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Lines of one call site that are logged in one step, and steps that are.
_MOST_IN_A_STEP = 2
_MOST_STEPS = 6


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Listen to ``print`` and to what ``logging`` writes to the terminal."""
    lines = _PrintedLines(event_log)
    lines.listen_to_print()
    lines.listen_to_logging()


class _PrintedLines:
    def __init__(self, event_log: EventLog) -> None:
        self.event_log = event_log
        self._pid = os.getpid()
        self._seen: dict[str, dict[int, int]] = {}

    def _wanted(self, place: str) -> bool:
        # a loader's worker prints what its rank requested
        if not place or os.getpid() != self._pid:
            return False
        steps = self._seen.setdefault(place, {})
        step = self.event_log.step
        if step not in steps and len(steps) >= _MOST_STEPS:
            return False
        steps[step] = steps.get(step, 0) + 1
        return steps[step] <= _MOST_IN_A_STEP

    def _note(self, how: str, place: tuple[str, str], text: str) -> None:
        self.event_log.note("prints.line", place=place, how=how, digest=zlib.crc32(text.encode(errors="replace")))

    def listen_to_print(self) -> None:
        real = builtins.print

        def print(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
            if file is None or file is sys.stdout or file is sys.stderr:
                place = innermost_own(sys._getframe(1))
                if self._wanted(place[0]):
                    # made into text once: what a value's own text costs, or does, is as it was
                    values = tuple(str(value) for value in values)
                    text = (" " if sep is None else str(sep)).join(values)
                    if text.strip():
                        self._note("print", place, text)
            real(*values, sep=sep, end=end, file=file, flush=flush)

        builtins.print = stand_in(print, real, builtins)

    def listen_to_logging(self) -> None:
        real = logging.StreamHandler.emit

        def emit(handler: Any, record: logging.LogRecord) -> None:
            try:
                if is_own(record.pathname) and handler.stream in (sys.stdout, sys.stderr):
                    place = f"{shown_path(record.pathname)}:{record.lineno}"
                    if self._wanted(place):
                        self._note("logging", (place, record.funcName), _without_time(handler, record))
            except Exception:  # noqa: BLE001 - the script must not fail because of us
                self.event_log.count_lost("prints.line")
            real(handler, record)

        setattr(logging.StreamHandler, "emit", emit)  # noqa: B010 - a type does not matter here


def _without_time(handler: logging.Handler, record: logging.LogRecord) -> str:
    """Return the line as if it were always printed at the same time."""
    still = copy.copy(record)
    still.created = still.msecs = still.relativeCreated = 0
    return handler.format(still)
