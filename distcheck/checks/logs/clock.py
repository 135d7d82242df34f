"""Reads the times that loggers, launchers, containers and kernels write before a line, as seconds since the epoch.

A time without a zone is taken as UTC: only differences between times of one log matter. It knows nothing of what
stands around a time.
"""

from __future__ import annotations

import math
import re
import time as system
from collections.abc import Iterator
from functools import lru_cache

MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_S = 86_400
#: A log is not from the future: without a year, a date this far ahead is taken as last year's (zones differ by less).
_AHEAD_S = 2 * _DAY_S
#: Half a year: January after December is the next year, and not eleven months back.
_HALF_A_YEAR_S = 182 * _DAY_S

_YEAR = re.compile(r"(?<![\d.])((?:19|20)\d\d)[-/](?:0[1-9]|1[0-2])[-/](?:0[1-9]|[12]\d|3[01])(?=[T _\]]\d\d?:)")
_ZONE = re.compile(r" ?([+-])(\d\d):?(\d\d)?$")


@lru_cache(maxsize=512)
def midnight(year: int, month: int, day: int) -> int | None:
    """Seconds from the epoch to the beginning of a day in UTC; None for a day that no calendar has.

    After H. Hinnant, *chrono-Compatible Low-Level Date Algorithms*, ``days_from_civil``.
    """
    if not (1970 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1]):
        return None
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days * _DAY_S


@lru_cache(maxsize=256)
def offset(zone: str) -> int:
    """Seconds that a zone is ahead of UTC: ``+01:00``, ``-0800``, ``Z``; 0 for what is none."""
    match = _ZONE.match(zone) if zone else None
    if match is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
    return -seconds if match[1] == "-" else seconds


def of_day(text: str) -> float | None:
    """Seconds since midnight of ``07:43:25``, ``07:43:25.123456789``, ``07:43:25,123``."""
    try:
        hours, minutes, seconds = int(text[0:2]), int(text[3:5]), int(text[6:8])
        fraction = float("0." + text[9:18]) if len(text) > 9 else 0.0
    except ValueError:
        return None
    if hours > 23 or minutes > 59 or seconds > 60:
        return None
    return hours * 3600 + minutes * 60 + seconds + fraction


def full(date: str, time: str, zone: str = "") -> float | None:
    """``2025-11-22`` or ``2025/11/22`` or ``20251122``, with a time of the day and a zone."""
    digits = date.replace("-", "").replace("/", "")
    try:
        begin = midnight(int(digits[0:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return None
    rest = of_day(time)
    return None if begin is None or rest is None else begin + rest - offset(zone)


def epoch(text: str) -> float | None:
    """Seconds, milliseconds or nanoseconds since the epoch, as a number in text."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    while value > 1e11:
        value /= 1000
    return value if value > 1e8 else None


def year_in(text: str) -> int | None:
    """The year of a full date in a text; None where there is none."""
    match = _YEAR.search(text)
    return int(match[1]) if match else None


#: The numbers of a progress bar that tqdm draws of work with a known or an unknown end:
#: ``41%|##  | 410/1000 [08:12<11:48``.
_BAR = re.compile(
    rb"(?<!\d)(?:(?P<done>\d{1,3})%\|[^|\r\n]{0,200}\|[^\[\r\n]{0,60}|\d{1,12} ?\w{0,12} )"
    rb"\[(?:(?P<days>\d{1,3}) days?, )?(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)[<,]"
)

#: Characters of the name of the work, which stands before these numbers.
_LONGEST_BAR_NAME = 80
_BEFORE_BAR = (b"\r", b"\n", b"|", b"[", b"]")


def bars_in(text: bytes, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where each progress bar in a part of a text begins, with its name, and where its times end."""
    for match in _BAR.finditer(text, first, end):
        start = max(first, match.start() - _LONGEST_BAR_NAME)
        yield max(start, *(text.rfind(sign, start, match.start()) + 1 for sign in _BEFORE_BAR)), match.end()
        first = match.end()


def of_bar(text: str) -> tuple[int | None, float] | None:
    """Return the percentage (None: its end is unknown) and the seconds that a progress bar shows, or None."""
    match = _BAR.search(text.encode())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    done = None if match["done"] is None else int(match["done"])
    return done, days * _DAY_S + hours * 3600 + minutes * 60 + seconds


class LogClock:
    """Reads dates without a year, as syslog and glog write them: they get the year of their neighbours.

    :param year: the year of a neighbour that has one
    """

    def __init__(self, year: int | None = None) -> None:
        self._known = year
        self._last: float | None = None
        #: no line has a year, and a date was read as one of today's year or the last
        self.guessed = False

    def saw(self, year: int | None) -> None:
        """A line of the same log names this year."""
        if year is not None:
            self._known = year
            self.guessed = False

    def day(self, month: int, day: int, time: str) -> float | None:
        """The time of a day without a year."""
        rest = of_day(time)
        year = self._known
        if rest is None:
            return None
        if year is None:
            now = system.time()
            year = system.gmtime(now).tm_year
            begin = midnight(year, month, day)
            if begin is None or begin > now + _AHEAD_S:
                year -= 1
            self._known = year
            self.guessed = True
        begin = midnight(year, month, day)
        if begin is None:
            return None
        value = begin + rest
        if self._last is not None and value < self._last - _HALF_A_YEAR_S:
            begin = midnight(year + 1, month, day)
            value = value if begin is None else begin + rest
        self._last = value
        return value
