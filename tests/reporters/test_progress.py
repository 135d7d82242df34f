"""The line of progress, on a real pseudo-terminal and where there is none."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from distcheck.reporters import progress
from distcheck.reporters.progress import Progress

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are of POSIX", allow_module_level=True)

import fcntl
import pty
import struct
import termios


class Terminal:
    """A pseudo-terminal: what is written to ``stream`` is read by :meth:`seen`."""

    def __init__(self, columns: int = 80, encoding: str = "utf-8") -> None:
        self.master, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self.master, False)
        self.stream: TextIO = os.fdopen(child, "w", encoding=encoding)
        self.encoding = encoding

    def seen(self) -> str:
        try:
            return os.read(self.master, 65536).decode(self.encoding)
        except BlockingIOError:
            return ""

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_one_line_is_rewritten_in_place_and_erased(terminal: Terminal, clock: list[float]) -> None:
    with Progress(terminal.stream) as line:
        clock[0] += 3.2
        line.show("measure", "all_reduce float32 4 MiB", 12, 88)
        assert terminal.seen() == "\r\x1b[Kmeasure · all_reduce float32 4 MiB · 12/88 · 3.2 s"
        clock[0] += 1
        line.show("verify")
        assert terminal.seen() == "\r\x1b[Kverify · 4.2 s"
    assert terminal.seen() == "\r\x1b[K"
    line.clear()
    assert terminal.seen() == ""


def test_it_writes_ten_times_a_second_at_most(terminal: Terminal, clock: list[float]) -> None:
    line = Progress(terminal.stream)
    written = 0
    for _ in range(1000):
        line.show("measure", "step")
        written += terminal.seen().count("\r")
        clock[0] += 0.001
    assert 9 <= written <= 11
    # what comes after an erasure is shown at once
    line.clear()
    terminal.seen()
    line.show("verify")
    assert "verify" in terminal.seen()


def test_a_narrow_terminal_keeps_the_seconds(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    narrow = Terminal(columns=24)
    Progress(narrow.stream).show("measure", "all_reduce float32 4 MiB", 12, 88)
    text = narrow.seen().removeprefix("\r\x1b[K")
    assert len(text) == 23
    assert text.endswith("… · 0.0 s")
    narrow.close()


def test_an_encoding_without_these_characters_gets_plain_ones(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = Terminal(encoding="ascii")
    Progress(plain.stream).show("measure", "all_reduce")
    assert plain.seen() == "\r\x1b[Kmeasure - all_reduce - 0.0 s"
    plain.close()


def test_values_do_not_steer_the_terminal(terminal: Terminal) -> None:
    Progress(terminal.stream).show("measure\x1b[2J\n")
    assert terminal.seen().removeprefix("\r\x1b[K").startswith("measure?[2J?")


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_it_is_silent_where_lines_are_not_to_be_rewritten(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    line = Progress(terminal.stream)
    line.show("measure")
    line.clear()
    assert terminal.seen() == ""
    assert not line.live


def test_it_is_silent_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream) as line:
        line.show("measure", "step", 1, 2)
    assert stream.getvalue() == ""


def test_a_terminal_that_goes_away_ends_nothing(terminal: Terminal) -> None:
    line = Progress(terminal.stream)
    line.show("measure")
    terminal.stream.close()
    line.clear()
    line.show("verify")
    assert not line.live
