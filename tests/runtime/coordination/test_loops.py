"""The loop around a loader: where it stands, and whether it may end before the batches do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from distcheck.runtime.coordination.loops import loop_around

LOADER = range(3)


class Asked:
    """Something to walk through that looks who asks."""

    def __init__(self) -> None:
        self.seen: tuple[str, bool | None] = ("", None)

    def __iter__(self) -> Iterator[int]:
        frame, frames = sys._getframe(1), []
        while frame is not None and frame.f_code.co_filename == __file__:
            frames.append(frame)
            frame = frame.f_back  # type: ignore[assignment]
        self.seen = loop_around(frames)
        return iter(LOADER)


def to_the_end(loader: Any) -> None:
    for _, batch in enumerate(loader):
        for part in [batch]:
            if part:
                break


def make_loader(loader: Any) -> Any:
    return loader


def made_in_place(loader: Any) -> None:
    for _ in make_loader(loader):
        pass


def with_break(loader: Any) -> None:
    for batch in loader:
        try:
            if batch == 1:
                break
        finally:
            pass


def with_return(loader: Any) -> None:
    for _ in loader:
        while True:
            return


def first_ones(loader: Any) -> None:
    for _ in islice(loader, 2):
        pass


def given(loader: Any) -> Iterator[int]:
    for batch in loader:  # noqa: UP028 - as scripts write it
        yield batch


def from_a_generator(loader: Any) -> None:
    for _ in given(loader):
        break


def by_hand(loader: Any) -> None:
    next(iter(loader))


@pytest.mark.parametrize(
    ("function", "bounded"),
    [
        (to_the_end, False),
        (made_in_place, False),
        (with_break, True),
        (with_return, True),
        (first_ones, True),
        (from_a_generator, True),
        (by_hand, None),
    ],
)
def test_a_loop_and_its_end(function: Callable[[Any], None], bounded: bool | None) -> None:
    asked = Asked()
    function(asked)
    place, found = asked.seen
    assert found is bounded
    assert bool(place) is (bounded is not None)
