"""What arithmetic and comparisons make of ranks, sizes and constants: pure functions, each row by itself."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from distcheck.checks.source import values
from distcheck.checks.source.algebra import (
    arithmetic,
    compare_atom,
    compare_constants,
    compare_rank,
    device_of,
    item_of,
    truth,
)
from distcheck.checks.source.values import NOT_CLEAR, Atom, RankCondition, Value, const

OPERATORS = {
    "==": operator.eq, "is": operator.eq, "!=": operator.ne, "is not": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def of(kind: str, detail: Any = None) -> Value:
    return Value((Atom(kind, detail),))


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize(("one", "other"), [(1, 2), (2, 2), (3, 2), ("gloo", "nccl")])
def test_constants_are_compared_as_python_does(sign: str, one: Any, other: Any) -> None:
    assert compare_constants(sign, one, other) is OPERATORS[sign](one, other)


def test_constants_that_python_does_not_compare_are_not_clear() -> None:
    assert compare_constants("<", 1, "gloo") == NOT_CLEAR
    assert compare_constants("in", 1, 2) == NOT_CLEAR


@pytest.mark.parametrize(
    ("sign", "number", "who"),
    [
        ("==", 0, values.MAIN), ("is", 0, values.MAIN), ("<", 1, values.MAIN), ("<=", 0, values.MAIN),
        ("!=", 0, values.OTHERS), ("is not", 0, values.OTHERS), (">", 0, values.OTHERS), (">=", 1, values.OTHERS),
        ("==", 1, values.ONE), ("!=", 1, values.ALL_BUT_ONE), (">", 1, values.SOME), ("<", 2, values.SOME),
        (">=", 0, values.DISTRIBUTED), ("<", 0, values.SINGLE), ("==", -1, values.SINGLE), ("!=", -1, values.DISTRIBUTED),
    ],
)  # fmt: skip
def test_for_which_ranks_a_comparison_with_the_rank_is_true(sign: str, number: int, who: str) -> None:
    assert compare_rank(sign, values.GLOBAL_RANK, True, const(number), False).who == who


@pytest.mark.parametrize(
    ("kind", "sign", "answer"),
    [
        (values.UNKNOWN, "is", NOT_CLEAR),
        (values.METHOD, "is", False),
        (values.LIST, "is", False),
        (values.LIST, "is not", True),
    ],
)
def test_what_is_none(kind: str, sign: str, answer: object) -> None:
    assert compare_atom(sign, Atom(kind), const(None), False) == answer


def test_a_method_that_is_only_supposed_may_be_none() -> None:
    assert compare_atom("is", Atom(values.METHOD, certain=False), const(None), False) == NOT_CLEAR


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (values.NODE_RANK, values.DEVICE_COUNT, values.NODE_OFFSET),
        (values.LOCAL_RANK, values.UNIFORM, values.RANK_DEPENDENT),
        (values.GLOBAL_RANK, values.UNIFORM, values.RANK_DEPENDENT),
        (values.DEVICE_COUNT, values.WORLD_SIZE, values.WORLD_SIZE),
        (values.WORLD_SIZE, values.UNIFORM, values.UNIFORM),
        (values.UNIFORM, values.WORLD_SIZE, values.UNIFORM),
    ],
)
def test_what_a_product_is(left: str, right: str, kind: str) -> None:
    assert [atom.kind for atom in arithmetic("*", of(left), of(right))] == [kind]


def test_only_a_whole_number_is_an_index() -> None:
    assert device_of(Atom(values.CONST, 3)) == ("cuda", (Atom(values.CONST, 3),))
    assert device_of(Atom(values.CONST, True)) == ("", ())
    # a value of this rank's data that has a number is no constant
    assert device_of(Atom(values.BATCH, 3)) == ("", ())


def test_items_of_a_list_are_alike_and_those_of_a_module_are_not_known() -> None:
    inside = (Atom(values.LOCAL_RANK),)
    assert list(item_of(Value((Atom(values.LIST, of=inside),)), 5)) == list(inside)
    assert item_of(Value((Atom(values.MODULE, of=inside),)), 5) == values.NOTHING_KNOWN


def test_several_conditions_of_ranks_are_joined_and_one_stays_as_it_is() -> None:
    main, others = Atom(values.TEST, values.MAIN), Atom(values.TEST, values.OTHERS)
    assert truth(Value((main,))) == RankCondition(values.MAIN)
    assert truth(Value((main, others))).who not in (values.MAIN, values.OTHERS)
