"""Decisive lines of logs from public threads: the settled cause comes first, and no other cause is invented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from distcheck.core.model import Severity

from .cases import told

_TEXT = (Path(__file__).parent / "threads.txt").read_text("utf-8")


class _Thread(NamedTuple):
    """A thread and what its lines show."""

    source: str
    cause: str
    rank: int | None
    never: str
    lines: str


def _threads() -> list[_Thread]:
    threads = []
    for block in re.split(r"(?m)^=== ", _TEXT)[1:]:
        head, _, lines = block.partition("\n")
        source, cause, *rest = head.split()
        given = dict(word.split("=") for word in rest)
        rank = int(given["rank"]) if "rank" in given else None
        threads.append(_Thread(source, cause, rank, given.get("never", ""), lines))
    return threads


@pytest.mark.parametrize("thread", _threads(), ids=lambda thread: thread.source)
def test_the_settled_cause_comes_first(thread: _Thread, tmp_path: Path) -> None:
    report = told({"run.log": thread.lines.encode()}, tmp_path / "log")
    story = report.story
    assert story["outcome"] in ({"cause"} if thread.cause != "none" else {"unnamed", "consequences"})
    assert story.get("code") == (None if thread.cause == "none" else thread.cause)
    if thread.cause == "none":
        assert not [finding.code for finding in report.findings if finding.severity is Severity.ERROR]
    if thread.rank is not None:
        assert story["guilty"].get("rank") == thread.rank
    assert thread.never not in {finding.code for finding in report.findings}


def test_a_fifth_of_the_threads_is_of_no_rule() -> None:
    threads = _threads()
    assert len({thread.source for thread in threads}) == len(threads)
    assert sum(thread.cause == "none" for thread in threads) * 5 >= len(threads)
