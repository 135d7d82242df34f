"""What arithmetic and comparisons make of ranks, sizes and constants: pure functions, each row by itself."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from distcheck.checks.source.algebra import (
    arithmetic,
    compare_atom,
    compare_constants,
    compare_rank,
    device_of,
    formatted_text,
    item_of,
    truth,
    widest,
)
from distcheck.checks.source.values import (
    NOT_CLEAR,
    NOTHING_KNOWN,
    Atom,
    Certainty,
    Kind,
    NoConstant,
    RankCondition,
    Value,
    Who,
    const,
)

OPERATORS = {
    "==": operator.eq, "is": operator.eq, "!=": operator.ne, "is not": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


SUMS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


def of(kind: str, detail: Any = None) -> Value:
    return Value((Atom(kind, detail),))


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize(("one", "other"), [(1, 2), (2, 2), (3, 2), ("gloo", "nccl")])
def test_constants_are_compared_as_python_does(sign: str, one: Any, other: Any) -> None:
    assert compare_constants(sign, one, other) is OPERATORS[sign](one, other)


@pytest.mark.parametrize("sign", SUMS)
def test_numbers_are_computed_as_python_does(sign: str) -> None:
    assert arithmetic(sign, const(7), const(3)).constant == SUMS[sign](7, 3)


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (of(Kind.DEVICE_COUNT), Kind.NODE_RANK),
        (of(Kind.LOCAL_WORLD_SIZE), Kind.NODE_RANK),
        (const(8), Kind.RANK_DEPENDENT),
        (of(Kind.WORLD_SIZE), Kind.RANK_DEPENDENT),
        (of(Kind.UNKNOWN), Kind.RANK_DEPENDENT),
    ],
    ids=["GPUs", "processes of a host", "a number", "all processes", "not known"],
)
def test_only_a_rank_by_what_a_host_has_is_the_rank_of_a_node(size: Value, kind: str) -> None:
    assert [atom.kind for atom in arithmetic("//", of(Kind.GLOBAL_RANK), size)] == [kind]


def test_constants_that_python_does_not_compare_are_not_clear() -> None:
    assert compare_constants("<", 1, "gloo") == NOT_CLEAR
    assert compare_constants("in", 1, 2) == NOT_CLEAR


@pytest.mark.parametrize(
    ("sign", "number", "who"),
    [
        ("==", 0, Who.MAIN), ("is", 0, Who.MAIN), ("<", 1, Who.MAIN), ("<=", 0, Who.MAIN),
        ("!=", 0, Who.OTHERS), ("is not", 0, Who.OTHERS), (">", 0, Who.OTHERS), (">=", 1, Who.OTHERS),
        ("==", 1, Who.ONE), ("!=", 1, Who.ALL_BUT_ONE), (">", 1, Who.SOME), ("<", 2, Who.SOME),
        (">=", 0, Who.DISTRIBUTED), ("<", 0, Who.SINGLE), ("==", -1, Who.SINGLE), ("!=", -1, Who.DISTRIBUTED),
    ],
)  # fmt: skip
def test_for_which_ranks_a_comparison_with_the_rank_is_true(sign: str, number: int, who: str) -> None:
    assert compare_rank(sign, Kind.GLOBAL_RANK, True, const(number), False).who == who


@pytest.mark.parametrize(
    ("ranks", "who"),
    [
        ((0,), Who.MAIN), ((-1, 0), Who.MAIN), ((2,), Who.ONE), ((-1, 2), Who.ONE), ((0, 1), Who.SOME),
        ((-1,), Who.SINGLE), ((), Who.MEMBERS), ((0, NoConstant), Who.MEMBERS),
    ],
)  # fmt: skip
def test_for_which_ranks_a_list_has_the_rank(ranks: tuple[Any, ...], who: str) -> None:
    items = tuple(of(Kind.UNIFORM) if rank is NoConstant else const(rank) for rank in ranks)
    listed = Value((Atom(Kind.LIST, items=items),))
    assert compare_rank("in", Kind.GLOBAL_RANK, Certainty.PROVEN, listed, False) == RankCondition(who)


@pytest.mark.parametrize("kind", [Kind.ENV_TEXT, Kind.GLOBAL_RANK])
@pytest.mark.parametrize(("sign", "who"), [("is", Who.SINGLE), ("is not", Who.DISTRIBUTED)])
def test_only_a_run_without_other_ranks_has_no_rank(kind: str, sign: str, who: str) -> None:
    assert compare_atom(sign, Atom(kind, "RANK"), const(None), False) == RankCondition(who)


def test_the_name_of_a_variable_is_not_its_value() -> None:
    zero_or_one = Value((Atom(Kind.CONST, 0), Atom(Kind.CONST, 1)))
    assert compare_atom("==", Atom(Kind.ENV_TEXT, "RANK"), zero_or_one, False) == RankCondition(Who.ONE)
    assert compare_atom("==", Atom(Kind.CONST, "RANK"), zero_or_one, False) == NOT_CLEAR


@pytest.mark.parametrize(
    ("kind", "sign", "answer"),
    [
        (Kind.UNKNOWN, "is", NOT_CLEAR),
        (Kind.METHOD, "is", False),
        (Kind.LIST, "is", False),
        (Kind.LIST, "is not", True),
    ],
)
def test_what_is_none(kind: str, sign: str, answer: object) -> None:
    assert compare_atom(sign, Atom(kind), const(None), False) == answer


def test_a_method_that_is_only_supposed_may_be_none() -> None:
    assert compare_atom("is", Atom(Kind.METHOD, certainty=Certainty.GUESSED), const(None), False) == NOT_CLEAR


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (Kind.NODE_RANK, Kind.DEVICE_COUNT, Kind.NODE_OFFSET),
        (Kind.LOCAL_RANK, Kind.UNIFORM, Kind.RANK_DEPENDENT),
        (Kind.GLOBAL_RANK, Kind.UNIFORM, Kind.RANK_DEPENDENT),
        (Kind.DEVICE_COUNT, Kind.WORLD_SIZE, Kind.WORLD_SIZE),
        (Kind.WORLD_SIZE, Kind.UNIFORM, Kind.UNIFORM),
        (Kind.UNIFORM, Kind.WORLD_SIZE, Kind.UNIFORM),
    ],
)
def test_what_a_product_is(left: str, right: str, kind: str) -> None:
    assert [atom.kind for atom in arithmetic("*", of(left), of(right))] == [kind]


@pytest.mark.parametrize("other", [Kind.UNKNOWN, Kind.LOCAL_RANK])
def test_a_text_and_anything_else_is_a_text(other: str) -> None:
    device = Value((Atom(Kind.TEXT, "cuda:{}", of=(Atom(Kind.LOCAL_RANK),)),))
    for one, two, template in ((device, of(other), "cuda:{}{}"), (of(other), device, "{}cuda:{}")):
        assert [(atom.kind, atom.const) for atom in arithmetic("+", one, two)] == [(Kind.TEXT, template)]


def test_only_a_whole_number_is_an_index() -> None:
    assert device_of(Atom(Kind.CONST, 3)) == ("cuda", (Atom(Kind.CONST, 3),))
    assert device_of(Atom(Kind.CONST, True)) == ("", ())
    # a value of this rank's data that has a number is no constant
    assert device_of(Atom(Kind.BATCH, 3)) == ("", ())


def test_items_of_a_list_are_alike_and_those_of_a_module_are_not_known() -> None:
    inside = (Atom(Kind.LOCAL_RANK),)
    assert list(item_of(Value((Atom(Kind.LIST, of=inside),)), 5)) == list(inside)
    assert item_of(Value((Atom(Kind.MODULE, of=inside),)), 5) == NOTHING_KNOWN
    assert item_of(of(Kind.WRAPPED, "ddp"), 0) == NOTHING_KNOWN


def test_a_tuple_has_no_more_items_than_it_has() -> None:
    pair = Value((Atom(Kind.TUPLE, items=(const(1), const(2))),))
    assert item_of(pair, 1).constant == 2
    assert item_of(pair, 2) == NOTHING_KNOWN


def test_several_conditions_of_ranks_are_joined_and_one_stays_as_it_is() -> None:
    main, others = Atom(Kind.TEST, Who.MAIN), Atom(Kind.TEST, Who.OTHERS)
    assert truth(Value((main,))) == RankCondition(Who.MAIN)
    assert truth(Value((main, others))).who not in (Who.MAIN, Who.OTHERS)


def test_a_test_of_the_rank_is_no_flag_that_a_broadcast_may_set() -> None:
    main = RankCondition(Who.MAIN)
    flag, test = Atom(Kind.TEST, Who.UNCLEAR, when=main), Atom(Kind.TEST, Who.MAIN, when=main)
    unseen = Atom(Kind.UNKNOWN)
    assert truth(Value((flag, unseen))) == RankCondition(Who.MAIN, Certainty.GUESSED)
    assert truth(Value((test, unseen))) == RankCondition(Who.MAIN, Certainty.MERGED)


def test_membership_is_known_for_one_listing_of_constants_only() -> None:
    def listing(*names: str) -> Atom:
        return Atom(Kind.TUPLE, items=tuple(const(name) for name in names))

    gloo = Atom(Kind.CONST, "gloo")
    assert compare_atom("in", gloo, Value((listing("gloo", "mpi"),)), False) is True
    assert compare_atom("not in", gloo, Value((listing("gloo", "mpi"),)), False) is False
    assert compare_atom("in", gloo, Value((listing("nccl"), listing("mpi"))), False) == NOT_CLEAR
    assert compare_atom("in", gloo, Value((listing(),)), False) == NOT_CLEAR


def test_a_text_keeps_four_alternatives_of_each_part() -> None:
    (text,) = formatted_text("cuda:{}", [Value(tuple(Atom(Kind.CONST, number) for number in range(6))), const(7)]).atoms
    assert [atom.const for atom in text.of] == [0, 1, 2, 3, 7]


def test_several_ways_in_for_single_ranks_are_a_way_for_one() -> None:
    def way(*whos: str) -> RankCondition:
        return widest([RankCondition(who) for who in whos])

    assert way(Who.MAIN, Who.ONE) == RankCondition(Who.ONE, Certainty.MERGED)
    assert way(Who.MAIN, Who.ONE, Who.LOCAL_MAIN) == RankCondition(Who.LOCAL_MAIN, Certainty.MERGED)
    assert way(Who.MAIN, Who.MAIN) == RankCondition(Who.MAIN)
