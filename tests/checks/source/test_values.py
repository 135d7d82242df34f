"""For whom conditions hold together: the algebra that decides what is divergent."""

from __future__ import annotations

import pytest

from distcheck.checks.source.values import ALWAYS, NOT, NOT_CLEAR, RankCondition, Who, both, either


@pytest.mark.parametrize(
    ("conditions", "who"),
    [
        ([], Who.EVERYONE),
        ([RankCondition(Who.DISTRIBUTED), RankCondition(Who.MAIN)], Who.MAIN),
        ([RankCondition(Who.LOCAL_MAIN), RankCondition(Who.MAIN)], Who.MAIN),
        ([RankCondition(Who.UNCLEAR, False), RankCondition(Who.OTHERS)], Who.OTHERS),
        ([RankCondition(Who.BY_DATA), RankCondition(Who.SOME)], Who.SOME),
        ([RankCondition(Who.EVERYONE), RankCondition(Who.UNCLEAR, False)], Who.UNCLEAR),
    ],
)
def test_the_narrowest_of_several_conditions_decides(conditions: list[RankCondition], who: str) -> None:
    assert both(conditions).who == who


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # not distributed or rank == 0: the main process wherever there are several
        ([RankCondition(Who.SINGLE), RankCondition(Who.MAIN)], RankCondition(Who.MAIN, True)),
        ([RankCondition(Who.SINGLE)], RankCondition(Who.SINGLE, True)),
        ([RankCondition(Who.MAIN), RankCondition(Who.OTHERS)], ALWAYS),
        ([RankCondition(Who.MAIN), RankCondition(Who.ONE)], RankCondition(Who.SOME, True)),
        # rank == 0 or save_on_all: no longer certain
        ([RankCondition(Who.MAIN), NOT_CLEAR], RankCondition(Who.MAIN, False)),
        ([RankCondition(Who.DISTRIBUTED), RankCondition(Who.MAIN)], ALWAYS),
    ],
)
def test_one_of_several_conditions(conditions: list[RankCondition], expected: RankCondition) -> None:
    assert either(conditions) == expected


def test_the_inverse_of_the_inverse_is_the_condition() -> None:
    assert all(NOT[NOT[who]] == who for who in NOT)
