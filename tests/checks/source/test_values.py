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
    Who,
    both,
    either,
)


@pytest.mark.parametrize(
    ("conditions", "who"),
    [
        ([], EVERYONE),
        ([Who(DISTRIBUTED), Who(MAIN)], MAIN),
        ([Who(LOCAL_MAIN), Who(MAIN)], MAIN),
        ([Who(UNCLEAR, False), Who(OTHERS)], OTHERS),
        ([Who(BY_DATA), Who(SOME)], SOME),
        ([Who(EVERYONE), Who(UNCLEAR, False)], UNCLEAR),
    ],
)
def test_the_narrowest_of_several_conditions_decides(conditions: list[Who], who: str) -> None:
    assert both(conditions).who == who


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # not distributed or rank == 0: the main process wherever there are several
        ([Who(SINGLE), Who(MAIN)], Who(MAIN, True)),
        ([Who(SINGLE)], Who(SINGLE, True)),
        ([Who(MAIN), Who(OTHERS)], ALWAYS),
        ([Who(MAIN), Who(ONE)], Who(SOME, True)),
        # rank == 0 or save_on_all: no longer certain
        ([Who(MAIN), NOT_CLEAR], Who(MAIN, False)),
        ([Who(DISTRIBUTED), Who(MAIN)], ALWAYS),
    ],
)
def test_one_of_several_conditions(conditions: list[Who], expected: Who) -> None:
    assert either(conditions) == expected


def test_the_inverse_of_the_inverse_is_the_condition() -> None:
    assert all(NOT[NOT[who]] == who for who in NOT)
