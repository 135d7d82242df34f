"""For whom conditions hold together: the algebra that decides what is divergent."""

from __future__ import annotations

import pytest

from distcheck.checks.source.values import (
    ALWAYS,
    BY_DATA,
    DISTRIBUTED,
    EVERYONE,
    LOCAL_MAIN,
    MAIN,
    NOT,
    NOT_CLEAR,
    ONE,
    OTHERS,
    SINGLE,
    SOME,
    UNCLEAR,
    RankCondition,
    both,
    either,
)


@pytest.mark.parametrize(
    ("conditions", "who"),
    [
        ([], EVERYONE),
        ([RankCondition(DISTRIBUTED), RankCondition(MAIN)], MAIN),
        ([RankCondition(LOCAL_MAIN), RankCondition(MAIN)], MAIN),
        ([RankCondition(UNCLEAR, False), RankCondition(OTHERS)], OTHERS),
        ([RankCondition(BY_DATA), RankCondition(SOME)], SOME),
        ([RankCondition(EVERYONE), RankCondition(UNCLEAR, False)], UNCLEAR),
    ],
)
def test_the_narrowest_of_several_conditions_decides(conditions: list[RankCondition], who: str) -> None:
    assert both(conditions).who == who


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # not distributed or rank == 0: the main process wherever there are several
        ([RankCondition(SINGLE), RankCondition(MAIN)], RankCondition(MAIN, True)),
        ([RankCondition(SINGLE)], RankCondition(SINGLE, True)),
        ([RankCondition(MAIN), RankCondition(OTHERS)], ALWAYS),
        ([RankCondition(MAIN), RankCondition(ONE)], RankCondition(SOME, True)),
        # rank == 0 or save_on_all: no longer certain
        ([RankCondition(MAIN), NOT_CLEAR], RankCondition(MAIN, False)),
        ([RankCondition(DISTRIBUTED), RankCondition(MAIN)], ALWAYS),
    ],
)
def test_one_of_several_conditions(conditions: list[RankCondition], expected: RankCondition) -> None:
    assert either(conditions) == expected


def test_the_inverse_of_the_inverse_is_the_condition() -> None:
    assert all(NOT[NOT[who]] == who for who in NOT)
