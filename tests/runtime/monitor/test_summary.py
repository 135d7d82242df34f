"""What a job tells at its end, from hand-made accounts of its ranks."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding
from distcheck.runtime.coordination.ledger import CallSiteTotals, Ledger, Summary, read_summary
from distcheck.runtime.coordination.long_waits import LongWait, long_waits
from distcheck.runtime.coordination.model import CollectiveCall, Position, Positions
from distcheck.runtime.coordination.protocol import ledger_key, packed
from distcheck.runtime.monitor.summary import arrival, not_checked, numbers, sentence, slow_rank
from tests.runtime.coordination.test_coordinator import Store


def site(total_s: float, calls: int = 1000, operation: str = "all_reduce", **more: Any) -> CallSiteTotals:
    return CallSiteTotals("train.py:88", operation, "0", True, calls, total_s, more.pop("longest_s", 0.1), **more)


def ledger(rank: int, *sites: CallSiteTotals, **more: Any) -> Ledger:
    given: dict[str, Any] = {"cores": 8, "state": "left", "status": 0, "span_s": 1000.0, "backends": {"0": "gloo"}}
    given.update(more)
    return Ledger(
        rank, given.pop("host", "gpu01"), calls=sum(item.calls for item in sites),
        in_calls_s=sum(item.total_s for item in sites), sites=sites, **given,
    )  # fmt: skip


def job(*seconds: float, long: tuple[LongWait, ...] = (), **more: Any) -> Summary:
    """Each rank with the seconds that it has spent in the calls of one line."""
    ledgers = tuple(ledger(rank, site(total), **more) for rank, total in enumerate(seconds))
    return Summary(ledgers, len(ledgers), long)


def judged(summary: Summary) -> list[Finding]:
    return list(
        Checker(modules=("distcheck.runtime.monitor.summary",), plug_ins=False)
        .plan(Summary, command="watch", closed=True)
        .run(summary)
        .findings
    )


# who came last


def test_the_one_that_waits_least_comes_last() -> None:
    found = arrival(job(120.0, 118.0, 4.0, 122.0))
    assert found is not None
    assert found.last == 2
    assert found.late_s == pytest.approx(116.0)
    assert found.lost_s == pytest.approx(116.0 + 114.0 + 118.0)
    assert found.most.text == "all_reduce at train.py:88"


@pytest.mark.parametrize(
    "ledgers",
    [
        # returns before it has ended
        (ledger(0, site(9.0), backends={"0": "nccl"}), ledger(1, site(1.0), backends={"0": "nccl"})),
        # one side is done long before the other
        (ledger(0, site(9.0, operation="broadcast")), ledger(1, site(1.0, operation="broadcast"))),
        # not all have made them
        (ledger(0, site(9.0)), ledger(1)),
        (ledger(0, site(9.0, calls=7)), ledger(1, site(1.0, calls=8))),
        # a call that does not wait
        (ledger(0, site(9.0)._replace(waits=False)), ledger(1, site(1.0)._replace(waits=False))),
        (ledger(0, site(9.0)),),
    ],
)
def test_good_nobody_is_last_where_calls_do_not_tell(ledgers: tuple[Ledger, ...]) -> None:
    summary = Summary(ledgers, len(ledgers))
    assert arrival(summary) is None
    assert judged(summary) == []


def test_bad_a_rank_that_all_others_wait_for() -> None:
    (finding,) = judged(job(120.0, 118.0, 4.0, 122.0))
    assert finding.code == "DC514"
    assert finding.severity.word == "warning"
    assert finding.message == (
        "rank 2 on gpu01 comes last: the others waited 116 s for it in 1000 calls, 12% of the job, most in all_reduce "
        "at train.py:88"
    )
    assert (finding.where.path, finding.where.line, finding.where.rank) == ("train.py", 88, 2)
    (finding,) = judged(job(120.04, 118.04, 4.0, 122.04))
    assert finding.evidence == {"late_s": 116.0, "calls": 1000, "span_s": 1000.0, "lost_rank_s": 348.1}


@pytest.mark.parametrize(
    "summary",
    [
        # alike
        job(20.0, 21.0, 19.0, 20.5),
        # with two, neither is the normal one
        job(120.0, 4.0),
        # nobody stands apart: work is uneven
        job(120.0, 80.0, 40.0, 4.0),
        # it is last, and it costs nothing
        job(12.0, 12.1, 4.0, 12.2),
        # twenty seconds, and a twentieth of the job is more
        job(24.0, 24.1, 4.0, 24.2),
        # ranks wait for each other's cores
        job(120.0, 118.0, 4.0, 122.0, cores=2),
        # few calls, long ones: rank 2 evaluates
        Summary(tuple(ledger(rank, site(total, calls=12)) for rank, total in enumerate((900.0, 901.0, 4.0, 902.0))), 4),
        # one long wait: rank 2 has saved a checkpoint once
        Summary(
            tuple(
                ledger(rank, site(total, longest_s=total - 10.0))
                for rank, total in enumerate((300.0, 301.0, 14.0, 302.0))
            ),
            4,
        ),
    ],
)
def test_good_no_rank_comes_last(summary: Summary) -> None:
    assert judged(summary) == []


def test_a_core_for_each_rank_is_enough() -> None:
    assert [finding.code for finding in judged(job(120.0, 118.0, 4.0, 122.0, cores=4))] == ["DC514"]


def test_one_call_is_all_that_there_is() -> None:
    """Of several the longest one is left out: it says nothing about who is slow."""
    ledgers = tuple(ledger(rank, site(total, calls=1, longest_s=total)) for rank, total in enumerate((9.0, 1.0, 8.0)))
    found = arrival(Summary(ledgers, 3))
    assert found is not None
    assert found.last == 1


@pytest.mark.parametrize(("state", "status", "healthy"), [("left", 0, True), ("left", 1, False), ("raised", 0, False)])
def test_which_end_is_summed_up(state: str, status: int, healthy: bool) -> None:
    summary = Summary((ledger(0), ledger(1, state=state, status=status)), 2)
    assert summary.healthy is healthy
    assert not summary._replace(world_size=3).healthy


# long waits


def test_who_waits_for_one_that_waits_is_not_counted() -> None:
    """Rank 0 waits for rank 1, and rank 1 in another group for rank 2, which computes."""
    calls = CollectiveCall(5, "all_reduce"), CollectiveCall(2, "all_reduce", "1")
    positions = Positions(
        (
            Position(0, state="waiting", call=calls[0], since_s=90.0, entered={"0": 5}),
            Position(1, state="waiting", call=calls[1], since_s=80.0, entered={"0": 4, "1": 2}),
            Position(2, entered={"0": 5}), Position(3, entered={"0": 5}),
        ),
        4, 20.0, groups={"1": (1, 2)},
    )  # fmt: skip
    (found,) = long_waits(positions)
    assert (found.waiting, found.missing, found.limit) == ("1", "2", "")
    (limited,) = long_waits(positions._replace(timeouts={"1": 100.0}))
    assert limited.limit == "the group's timeout of 100 s would end the job"
    gone = positions._replace(ranks=(*positions.ranks[:2], Position(2, state="left"), positions.ranks[3]))
    assert list(long_waits(gone)) == []
    assert list(long_waits(positions._replace(hang_timeout_s=81.0))) == []


@pytest.mark.parametrize(("timeout_s", "seconds"), [(0.0, 60.0), (1800.0, 60.0), (100.0, 50.0), (30.0, 20.0)])
def test_when_a_long_wait_is_worth_a_line(timeout_s: float, seconds: float) -> None:
    """Never before the patience is over."""
    assert WAIT._replace(timeout_s=timeout_s).report_after_s(20.0) == seconds
    assert WAIT._replace(timeout_s=0.0).report_after_s(40.0) == 120.0


WAIT = LongWait("barrier #3 at train.py:9", "train.py:9", "1-7", "0", 400.0, "tokenize() at data.py:33", 600.0)


def test_bad_all_wait_long_for_one() -> None:
    (finding,) = judged(job(1.0, 1.0, 1.0, long=(WAIT,)))
    assert (finding.code, finding.severity.word) == ("DC726", "warning")
    assert finding.message == (
        "ranks 1-7 waited for 400 s in barrier #3 at train.py:9, for rank 0, which was in tokenize() at data.py:33; "
        "the group's timeout of 600 s would end the job"
    )
    assert finding.where.rank == 0


def test_good_a_long_wait_far_from_the_timeout_is_worth_knowing_only() -> None:
    (finding,) = judged(job(1.0, 1.0, 1.0, long=(WAIT._replace(timeout_s=3600.0),)))
    assert (finding.code, finding.severity.word) == ("DC726", "info")
    assert finding.message.endswith("data.py:33")
    now = slow_rank(WAIT._replace(timeout_s=0.0, waiting="1"), now=True)
    assert now.message.startswith("rank 1 waits for 400 s in barrier #3")
    assert now.message.endswith("which is in tokenize() at data.py:33; nothing hangs")


# groups


def test_bad_ranks_that_leave_with_their_group() -> None:
    summary = Summary((ledger(0), ledger(1, kept_group=True), ledger(2, kept_group=True)), 3)
    (finding,) = judged(summary)
    assert (finding.code, finding.severity.word) == ("DC743", "info")
    assert finding.message == "ranks 1-2 ended without destroy_process_group()"
    assert (finding.where.rank, finding.where.ranks) == (None, "1-2")
    (finding,) = judged(Summary((ledger(0), ledger(1, kept_group=True)), 2))
    assert (finding.where.rank, finding.where.ranks) == (1, None)
    (finding,) = judged(Summary((ledger(0, kept_group=True),), 1))
    assert finding.message == "all ranks ended without destroy_process_group()"


def test_good_groups_are_destroyed() -> None:
    assert judged(Summary((ledger(0), ledger(1)), 2)) == []


# in one line, and in numbers


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (
            job(120.0, 118.0, 4.0, 122.0),
            "4 ranks, 17 min; 1,000 calls of collectives took 0% (rank 2, which came last) to 12% (rank 3) of the time; "
            "ranks waited for others most in all_reduce at train.py:88",
        ),
        (job(1.0, 1.1, 1.0), "3 ranks, 17 min; 1,000 calls of collectives"),
        (Summary((ledger(0, span_s=9.0),), 1), "1 rank, 9 s; 0 calls of collectives"),
        (Summary((ledger(0, span_s=119 * 60.0),), 1), "1 rank, 119 min; 0 calls of collectives"),
        (Summary((ledger(0, span_s=130 * 60.0),), 1), "1 rank, 2 h 10 min; 0 calls of collectives"),
        (
            Summary(tuple(ledger(rank, looks=300, open_looks=60 + 30 * rank) for rank in range(2)), 2),
            "2 ranks, 17 min; 0 calls of collectives, and those of C++, were under way in 20% (rank 0, which came "
            "last) to 30% (rank 1) of the time",
        ),
    ],
)
def test_one_line_says_it(summary: Summary, said: str) -> None:
    assert sentence(summary) == said


def test_numbers_hold_what_the_line_tells() -> None:
    plain = numbers(job(120.0, 118.0, 4.0, 122.0))
    assert (plain["last"], plain["late_s"]) == (2, 116.0)
    assert plain["most"]["call"] == "all_reduce at train.py:88"
    assert [item["in_calls_s"] for item in plain["ranks"]] == [120.0, 118.0, 4.0, 122.0]
    plain = numbers(Summary((ledger(0, looks=300, open_looks=60), ledger(1)), 2))
    assert [item["open_part"] for item in plain["ranks"]] == [0.2, None]


def test_what_can_not_be_told_is_not_checked() -> None:
    assert not_checked(job(1.0, 2.0)) == ()
    (item,) = not_checked(job(1.0, 2.0, backends={"0": "nccl"}))
    assert (item.what, item.why) == (
        "DC514, waiting in groups of nccl",
        "calls return before their collectives have ended",
    )
    (item,) = not_checked(job(1.0, 2.0, cores=1))
    assert item.why == "more ranks than cores on gpu01: they wait for each other"
    items = not_checked(job(1.0, 2.0, recorder=False, error="all_reduce: TypeError: what"))
    assert [item.why for item in items] == [
        "the flight recorder is off (TORCH_FR_BUFFER_SIZE=0)", "all_reduce: TypeError: what"
    ]  # fmt: skip


def test_accounts_are_gathered_from_the_store() -> None:
    store = Store()
    summary = job(120.0, 118.0, 4.0)
    for item in summary.ledgers[:2]:
        store.set(ledger_key(item.rank), packed(item))
    assert not read_summary(store, 3).healthy
    store.set(ledger_key(2), packed(summary.ledgers[2]))
    assert read_summary(store, 3) == summary
    assert read_summary(store, 3).healthy
    store.set(ledger_key(2), packed(summary.ledgers[2]._replace(status=1)))
    assert not read_summary(store, 3).healthy
