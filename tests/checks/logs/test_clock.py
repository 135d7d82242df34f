"""Times as loggers write them, against the calendar of Python's library."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.logs.clock import LogClock, epoch, full, midnight, of_day, offset, year_in


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 4, 14 * 4))
def test_a_full_time_is_the_calendar_s(moment: datetime, quarters: int) -> None:
    zone = timezone(timedelta(minutes=15 * quarters))
    aware = moment.replace(tzinfo=zone)
    text = aware.isoformat(sep="T", timespec="microseconds")
    value = full(text[:10], text[11:26], text[26:])
    assert value == pytest.approx(aware.timestamp(), abs=1e-4)


@pytest.mark.parametrize(
    ("date", "time"),
    [("2025-02-30", "07:43:25"), ("2025-13-01", "07:43:25"), ("2025-11-22", "25:00:00"), ("x", "y"), ("", "")],
)
def test_no_such_time(date: str, time: str) -> None:
    assert full(date, time) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("07:43:25", 27805), ("07:43:25,5", 27805.5), ("07:43:25.123456789", 27805.123456789)]
)
def test_times_of_the_day(text: str, seconds: float) -> None:
    assert of_day(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("zone", "seconds"), [("Z", 0), ("", 0), (" UTC", 0), ("+01:00", 3600), ("-0830", -30600), (" +0200", 7200)]
)
def test_zones(zone: str, seconds: int) -> None:
    assert offset(zone) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1763797405", 1763797405.0),
        ("1763797405123", 1763797405.123),
        ("1763797405.5", 1763797405.5),
        ("12", None),
        ("no", None),
    ],
)
def test_seconds_since_the_epoch(text: str, seconds: float | None) -> None:
    assert epoch(text) == seconds


def test_a_day_without_a_year_has_its_neighbour_s() -> None:
    clock = LogClock(2023)
    assert clock.day(11, 22, "07:43:25") == full("2023-11-22", "07:43:25")
    clock.saw(2024)
    assert clock.day(11, 22, "07:43:25") == full("2024-11-22", "07:43:25")
    assert clock.day(2, 30, "07:43:25") is None


def test_a_day_without_any_year_is_not_in_the_future() -> None:
    now = datetime.now(timezone.utc)
    for ahead in (-200, 0, 100):
        day = now + timedelta(days=ahead)
        value = LogClock().day(day.month, min(day.day, 28), "00:00:00")
        assert value is not None
        assert value < now.timestamp() + 3 * 86_400


def test_a_year_is_guessed_until_a_line_has_one() -> None:
    clock = LogClock()
    assert not clock.guessed
    clock.day(3, 1, "10:00:00")
    assert clock.guessed
    clock.saw(2024)
    assert not clock.guessed


def test_january_after_december_is_the_next_year() -> None:
    clock = LogClock(2024)
    before, after = clock.day(12, 31, "23:59:59"), clock.day(1, 1, "00:00:01")
    assert before is not None
    assert after == before + 2


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("[2025-11-22 07:43:25,1] x", 2025),
        ("2025-11-22T07:43:25Z", 2025),
        ("time : 2025-11-22_07:43:25", 2025),
        ("torch 2.13", None),
        ("v2025-11", None),
    ],
)
def test_the_year_in_a_line(text: str, year: int | None) -> None:
    assert year_in(text) == year


@given(st.integers(-5, 10_005), st.integers(-2, 15), st.integers(-2, 40))
def test_days_that_are_none(year: int, month: int, day: int) -> None:
    value = midnight(year, month, day) if 1 <= month <= 12 else None
    try:
        expected = datetime(year, month, day, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return
    assert value == (expected if year >= 1970 else None)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999"])
def test_a_time_without_an_end_is_none(text: str) -> None:
    assert epoch(text) is None
