"""One process reads for those that read the same at once, and hands nothing to other users."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.core import shared_reading
from distcheck.core.shared_reading import read_together

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="abstract sockets are Linux's")

_FORK = multiprocessing.get_context("fork")
_AS_ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
NOBODY = 65534


class Reader:
    """A process that reads what others may wait for: it is in ``read`` until ``release`` is called."""

    def __init__(self, name: str, answer: bytes, before: Callable[[], None] = lambda: None) -> None:
        self.in_read, self.go_on = _FORK.Event(), _FORK.Event()
        self.answers: Any = _FORK.SimpleQueue()
        self.process = _FORK.Process(target=self._run, args=(name, answer, before), daemon=True)
        self.process.start()

    def _run(self, name: str, answer: bytes, before: Callable[[], None]) -> None:
        def read() -> bytes:
            self.in_read.set()
            self.go_on.wait(30)
            return answer

        before()
        self.answers.put(read_together(name, read))

    def release(self) -> bytes:
        self.go_on.set()
        found: bytes = self.answers.get()
        self.process.join(30)
        return found


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


def as_another_user() -> None:
    """Act under the address of this user, as a process that guesses it."""
    mine = os.geteuid()
    os.setuid(NOBODY)
    shared_reading.os.geteuid = lambda: mine  # type: ignore[attr-defined]


def waits(reader: Reader) -> bool:
    """Whether a process waits for another one's answer, and does not read itself."""
    return not reader.in_read.wait(1.0)


def test_all_get_what_the_first_one_reads(name: str) -> None:
    first = Reader(name, b"first")
    assert first.in_read.wait(30)
    others = [Reader(name, b"other") for _ in range(3)]
    assert all(map(waits, others))
    # what is read under another name is another matter
    assert read_together(f"{name} too", lambda: b"too") == b"too"
    assert first.release() == b"first"
    assert [other.release() for other in others] == [b"first"] * 3
    # nothing stays: who comes later reads
    assert read_together(name, lambda: b"later") == b"later"


def test_who_waits_for_a_process_that_is_killed_reads(name: str) -> None:
    first = Reader(name, b"first")
    assert first.in_read.wait(30)
    others = [Reader(name, b"other") for _ in range(2)]
    assert all(map(waits, others))
    assert first.process.pid is not None
    os.kill(first.process.pid, signal.SIGKILL)
    assert [other.release() for other in others] == [b"other"] * 2


def test_an_error_is_that_of_its_own_process(name: str) -> None:
    def fails() -> bytes:
        raise OSError("a reason")

    with pytest.raises(OSError, match="a reason"):
        read_together(name, fails)
    assert read_together(name, lambda: b"later") == b"later"


@_AS_ROOT
def test_another_user_answers_no_one(name: str) -> None:
    stranger = Reader(name, b"forged", before=as_another_user)
    assert stranger.in_read.wait(30)
    assert read_together(name, lambda: b"own") == b"own"
    assert stranger.release() == b"forged"


@_AS_ROOT
def test_another_user_gets_no_answer(name: str) -> None:
    first = Reader(name, b"secret")
    assert first.in_read.wait(30)
    stranger = Reader(name, b"own", before=as_another_user)
    assert first.release() == b"secret"
    assert stranger.release() == b"own"


def test_where_no_socket_is_allowed_each_process_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(shared_reading.socket.socket):  # type: ignore[name-defined,misc]
        def bind(self, address: Any) -> None:
            raise PermissionError

    monkeypatch.setattr(shared_reading.socket, "socket", Refused)
    assert read_together(name, lambda: b"own") == b"own"


def test_a_user_who_connects_again_and_again_does_not_hold_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer went out for as long as connections arrived."""

    class Endless:
        accepted = 0

        def setblocking(self, _flag: bool) -> None: ...

        def accept(self) -> tuple[socket.socket, None]:
            self.accepted += 1
            assert self.accepted < 10_000, "it does not end"
            ours, theirs = socket.socketpair()
            theirs.close()
            return ours, None

    monkeypatch.setattr(shared_reading, "_is_equal", lambda _connected: False)
    endless = Endless()
    shared_reading._hand_on(endless, b"answer")  # type: ignore[arg-type]
    assert endless.accepted >= shared_reading._MOST_WAITING
