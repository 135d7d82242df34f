"""Calls of ranks side by side: which belong together, and which can't (DC517)."""

from __future__ import annotations

from distcheck.runtime.coordination.model import SETUP, CollectiveCall
from distcheck.runtime.rehearsal.simulation.call_matching import CallTable, RankCall

X = CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float32",), reduce="sum", place="train.py:8")


def entry(rank: int, call: CollectiveCall = X, ordinal: int = 1, ranks: tuple[int, ...] = (0, 1, 2)) -> RankCall:
    return RankCall(rank, ranks, ordinal, call)


def test_all_of_a_group_meet_in_a_call() -> None:
    table = CallTable()
    tickets = [table.enter(entry(rank)) for rank in (2, 0)]
    assert not any(map(table.met, tickets))
    tickets.append(table.enter(entry(1)))
    assert all(map(table.met, tickets))
    assert not table.differing


def test_a_rank_that_has_gone_ahead_has_been_there() -> None:
    """A root that only sends does not wait for the others."""
    table = CallTable()
    first = table.enter(entry(0))
    table.enter(entry(0, ordinal=2))
    table.enter(entry(1))
    assert not table.met(first)
    table.enter(entry(2))
    assert table.met(first)


def test_good_uneven_parts_other_shapes_and_other_lines_agree() -> None:
    table = CallTable()
    for ordinal, calls in enumerate((
        (X, X._replace(sizes=((4, 5),), place="train.py:9", number=7)),
        (X._replace(operation="gather", sizes=((3,),)), X._replace(operation="gather", sizes=((5,),))),
        (X._replace(operation="all_gather_object", sizes=(), dtypes=()),) * 2,
    ), 1):  # fmt: skip
        for rank, call in enumerate(calls):
            table.enter(entry(rank, call, ordinal, (0, 1)))
    assert not table.differing


def test_bad_the_fewest_come_last() -> None:
    table = CallTable()
    for rank in range(4):
        ticket = table.enter(entry(rank, X._replace(reduce="max") if rank == 1 else X, ranks=(0, 1, 2, 3)))
    assert table.differing == [ticket]
    assert not table.met(ticket)
    found = table.mismatch(ticket)
    assert [ranks for ranks, _ in found.calls] == [(0, 2, 3), (1,)]
    assert found.calls[1][1].reduce == "max"


def test_bad_each_kind_of_difference() -> None:
    for other in (
        X._replace(operation="broadcast"), X._replace(sizes=((21,),)), X._replace(dtypes=("float64",)),
        X._replace(reduce="avg"), X._replace(peer=1),
    ):  # fmt: skip
        table = CallTable()
        table.enter(entry(0))
        table.enter(entry(1, other))
        assert len(table.differing) == 1, other


def test_bad_groups_made_in_another_order() -> None:
    table = CallTable()
    for rank, ranks in ((0, (0, 1)), (1, (1, 2))):
        table.enter(entry(rank, CollectiveCall(2, "new_group", SETUP, sizes=(ranks,)), 2))
    assert len(table.differing) == 1


def test_good_groups_of_one_name_with_other_ranks_are_not_one() -> None:
    table = CallTable()
    table.enter(entry(0, X, ranks=(0, 1)))
    table.enter(entry(2, X._replace(sizes=((9,),)), ranks=(2, 3)))
    assert not table.differing


def test_good_a_group_that_was_begun_anew() -> None:
    table = CallTable()
    for rank in (0, 1):
        for ordinal in (1, 2):
            table.enter(entry(rank, X, ordinal, (0, 1)))
    again = table.enter(entry(0, X, 1, (0, 1)))
    assert not table.met(again)
    assert table.met(table.enter(entry(1, X, 1, (0, 1))))
    assert not table.differing
