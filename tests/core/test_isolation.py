"""Readers in a process of their own: forked, or in a fresh Python where this one has threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.core import isolation
from distcheck.core.model import ReaderCrashed, Unavailable
from distcheck.core.registry import Reader
from tests import readers_in_a_module as readers


@pytest.fixture(params=["forked", "fresh"])
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr("distcheck.core.isolation.may_fork", lambda: request.param == "forked")

    def begin(function: Callable[[Any], int], limit_s: float = 5, values: list[Any] | None = None) -> Any:
        reader = Reader(int, function, limit_s, isolated=True, of_this_host=True, of_launch=False)
        return isolation.start(reader, values or [0])

    return begin


def test_it_answers_from_another_process(start: Callable[..., Any]) -> None:
    assert start(readers.read_pid).result() not in (0, os.getpid())


def test_it_takes_long_values(start: Callable[..., Any]) -> None:
    assert start(readers.measure, values=["x" * 1_000_000]).result() == 1_000_000


def test_what_it_raises_comes_back(start: Callable[..., Any]) -> None:
    with pytest.raises(Unavailable, match="nothing to read"):
        start(readers.read_nothing).result()
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by zero"):
        start(readers.read_badly).result()


def test_one_that_hangs_is_ended_and_not_waited_for(start: Callable[..., Any]) -> None:
    child = start(readers.read_for_ever)
    answers: list[BaseException] = []

    def ask() -> None:
        try:
            child.result()
        except Unavailable as error:
            answers.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    begin = time.monotonic()
    child.leave()
    thread.join(10)
    assert time.monotonic() - begin < 5
    assert not thread.is_alive()
    assert [type(answer) for answer in answers] == [ReaderCrashed]


@pytest.mark.slow
def test_one_whose_parent_forgets_it_ends_by_itself(start: Callable[..., Any]) -> None:
    child = start(readers.read_for_ever, limit_s=0)
    with pytest.raises(Unavailable, match="signal 14"):
        child.result()
