"""What the changes of a log keep, so that a changed answer is the reader's fault and not theirs."""

from __future__ import annotations

import re

import pytest

from .noise import (
    STYLES,
    drop_rank,
    drop_rank_file,
    interleave,
    reprefix,
    shuffle_ranks,
    surround_with_noise,
    training_noise,
    truncate_ends,
)

LOG = b"".join(b"[rank%d]: line %d of %d\n" % (rank, line, rank) for rank in range(3) for line in range(40))
TRACEBACK = (
    b"[rank1]: Traceback (most recent call last):\n"
    b'[rank1]:   File "/workspace/train.py", line 3, in main\n'
    b"[rank1]:     work()\n"
    b"[rank1]: ValueError: no\n"
    b"W1122 08:03:24 1147 torch/distributed/elastic/api.py:900] Sending process 12 closing signal SIGTERM\n"
)


def own(log: bytes, rank: int) -> list[bytes]:
    return [line for line in log.splitlines() if line.startswith(b"[rank%d]" % rank)]


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_mixed_and_each_writers_order_stays(seed: int) -> None:
    mixed = shuffle_ranks(LOG, seed)
    assert mixed != LOG
    assert all(own(mixed, rank) == own(LOG, rank) for rank in range(3))
    assert sorted(mixed.splitlines()) == sorted(LOG.splitlines())
    assert mixed == shuffle_ranks(LOG, seed)


def test_several_logs_become_one() -> None:
    parts = [b"\n".join(own(LOG, rank)) for rank in range(3)]
    assert all(own(interleave(parts, 1), rank) == own(LOG, rank) for rank in range(3))


@pytest.mark.parametrize("style", STYLES)
def test_another_launcher_writes_the_same_text(style: str) -> None:
    lines = reprefix(LOG, style).splitlines()
    assert len(lines) == 120
    assert all(re.search(rb"line \d+ of %d$" % (number // 40), line) for number, line in enumerate(lines))
    assert (lines == LOG.splitlines()) == (style == "rank")


def test_the_ends_go() -> None:
    assert truncate_ends(LOG, 10, 5).splitlines() == LOG.splitlines()[10:-5]
    assert truncate_ends(LOG, 100, 100) == b"\n"


def test_a_rank_goes() -> None:
    assert not own(drop_rank(LOG, 1), 1)
    assert len(drop_rank(LOG, 1).splitlines()) == 80
    assert drop_rank_file({"a.log": b"1", "b.log": b"2"}, "a.log") == {"b.log": b"2"}


def test_noise_is_of_all_kinds_and_says_nothing_bad() -> None:
    noise = training_noise(5000)
    assert len(noise) == 5000
    assert any(b"\r" in line for line in noise)
    assert len({re.sub(rb"[\d.,:eE+-]+", b"0", line)[:20] for line in noise}) > 15
    assert not [line for line in noise if re.search(rb"Traceback|Error:|Exception:|Killed|signal", line)]


@pytest.mark.parametrize("seed", range(5))
def test_noise_leaves_tracebacks_whole(seed: int) -> None:
    result = surround_with_noise(TRACEBACK, 1000, seed)
    assert len(result.splitlines()) >= 1000
    assert b"\n".join(TRACEBACK.splitlines()[:4]) in result
    assert [line for line in result.split(b"\n") if line in TRACEBACK.splitlines()] == TRACEBACK.splitlines()
