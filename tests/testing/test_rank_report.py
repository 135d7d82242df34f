"""Who is named, and what is shown of each rank: from hand-made sights of ranks."""

from __future__ import annotations

from distcheck.testing.rank import RankReport, StackLine
from distcheck.testing.rank_report import RankOutcome, RanksFailed, failed

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
IN_BARRIER = (
    StackLine("/home/me/test_it.py", 5, "body", "dist.barrier()"),
    StackLine("/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", 83, "wrapper"),
    StackLine(TORCH, 5356, "barrier", "work.wait()"),
)
IN_REDUCE = (StackLine("/home/me/test_it.py", 7, "body", "dist.all_reduce(x)"), StackLine(TORCH, 3252, "all_reduce"))
SLEEPS = (
    StackLine("/home/me/test_it.py", 3, "body", "time.sleep(9)"),
    StackLine("/usr/lib/python3.11/x.py", 1, "inner"),
)


def running(rank: int, places: tuple[StackLine, ...] = (), recorder: tuple[str, ...] = (), **other: str) -> RankOutcome:
    return RankOutcome(rank, "running", started=True, places=places, recorder=recorder, **other)  # type: ignore[arg-type]


def raised(rank: int, kind: str, message: str, outcome: str = "failed") -> RankOutcome:
    return RankOutcome(rank, "raised", RankReport(outcome, kind, message, f"trace of {message}"), started=True)


def died(rank: int, how: str) -> RankOutcome:
    return RankOutcome(rank, "died", detail=how, started=True)


def returned(rank: int) -> RankOutcome:
    return RankOutcome(rank, "returned", started=True)


def told(*seen: RankOutcome) -> RanksFailed:
    return failed(seen, 10.0, root="/home/me")


def test_one_that_raised() -> None:
    error = told(returned(0), raised(1, "ValueError", "bad shape\nmore"))
    assert str(error) == "rank 1 of 2 failed: ValueError: bad shape"
    assert error.sections == (("rank 1 failed", "trace of bad shape\nmore"),)
    assert list(error.failures) == [1]
    assert error.failures[1][:4] == (1, "raised", "ValueError", "bad shape\nmore")
    assert error.full_text().endswith("rank 1 failed\ntrace of bad shape\nmore")


def test_an_assertion_is_told_by_its_comparison() -> None:
    assert str(told(raised(0, "AssertionError", "assert 1 == 2"))) == "rank 0 of 1 failed: assert 1 == 2"


def test_ranks_that_failed_alike_are_told_once() -> None:
    error = told(*(raised(rank, "ValueError", "x") for rank in range(3)), raised(3, "KeyError", "'y'"))
    assert str(error) == "ranks 0-2 of 4 failed: ValueError: x\nrank 3 of 4 failed: KeyError: 'y'"
    assert [title for title, _ in error.sections] == ["ranks 0-2 failed", "rank 3 failed"]


def test_many_ways_to_fail_are_cut() -> None:
    error = told(*(raised(rank, "ValueError", str(rank)) for rank in range(9)))
    assert str(error).splitlines()[-1] == "and 5 more"
    assert len(error.sections) == 9


def test_who_died_is_blamed_before_who_lost_it() -> None:
    lost = raised(0, "RuntimeError", "Connection closed by peer [127.0.0.1]:4711")
    error = told(lost, died(1, "it was killed by SIGKILL"))
    assert str(error) == "rank 1 of 2 died: it was killed by SIGKILL"
    assert [title for title, _ in error.sections] == ["rank 1 died", "rank 0 lost the others"]


def test_who_raised_is_named_beside_who_died() -> None:
    error = told(raised(0, "ValueError", "mine"), died(1, "it exited with status 3"))
    assert str(error).splitlines() == [
        "rank 1 of 2 died: it exited with status 3",
        "rank 0 of 2 failed: ValueError: mine",
    ]


def test_lost_peers_alone_are_told_as_they_are() -> None:
    error = told(raised(0, "RuntimeError", "Connection closed by peer"), returned(1))
    assert str(error) == "rank 0 of 2 failed: RuntimeError: Connection closed by peer"


def test_who_is_elsewhere_is_blamed_before_who_waits() -> None:
    barrier = ("#2 gloo:all_reduce [[3]] scheduled", "#3 gloo:barrier [] scheduled")
    error = told(running(0, IN_BARRIER, barrier), running(1, SLEEPS), running(2, IN_BARRIER, barrier))
    assert str(error) == (
        "not all of 3 ranks came to the end within 10 s: rank 1 is at test_it.py:3 (time.sleep(9)); ranks 0,2 wait in "
        "barrier (#3)"
    )
    assert [title for title, _ in error.sections] == ["rank 1 still running", "ranks 0,2 still running"]
    assert error.sections[1][1].splitlines() == [
        "test_it.py:5 in body",
        "    dist.barrier()",
        "…/torch/distributed/c10d_logger.py:83 in wrapper",
        "…/torch/distributed/distributed_c10d.py:5356 in barrier",
        "    work.wait()",
        "last collectives: #2 all_reduce [[3]], #3 barrier []",
    ]


def test_who_returned_early_is_named() -> None:
    error = told(running(0, IN_BARRIER), returned(1), returned(2))
    assert str(error).endswith("rank 0 waits in barrier; ranks 1-2 returned without it")


def test_ranks_in_different_collectives() -> None:
    error = told(running(0, IN_BARRIER), running(1, IN_REDUCE))
    assert str(error).endswith("rank 0 is in barrier at test_it.py:5; rank 1 is in all_reduce at test_it.py:7")


def test_one_that_was_stopped() -> None:
    error = told(running(0, IN_BARRIER), running(1, kernel="T"))
    assert str(error).endswith("rank 1 is stopped (SIGSTOP); rank 0 waits in barrier")
    assert error.sections[0] == ("rank 1 still running", "stopped (SIGSTOP): its stack cannot be read")


def test_ranks_without_a_group() -> None:
    error = told(*(RankOutcome(rank, "running", places=IN_BARRIER) for rank in range(2)))
    assert str(error).endswith("ranks 0-1 had no process group yet")
    assert error.sections[0][1].startswith("it had not come to the body yet")


def test_a_stack_that_could_not_be_had_is_said() -> None:
    error = told(running(0))
    assert str(error).endswith("rank 0 is at an unknown line")
    assert "its stack could not be had" in error.sections[0][1]


def test_a_fork_behind_a_gpu_is_explained() -> None:
    text = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, …"
    assert "start='spawn'" in str(told(raised(0, "RuntimeError", text)))


def test_skips_beside_a_failure_are_named_as_such() -> None:
    error = told(raised(0, "Skipped", "no GPU", "skipped"), raised(1, "ValueError", "x"))
    assert {failure.outcome for failure in error.failures.values()} == {"skipped", "failed"}
    assert "rank 0 of 2 skipped: no GPU" in str(error)
