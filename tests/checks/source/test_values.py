"""For whom conditions hold together: the algebra that decides what is divergent."""

from __future__ import annotations

import pytest

from distcheck import rules
from distcheck.checks.source.certainty import certainty_of, severity_for
from distcheck.checks.source.values import (
    ALWAYS,
    NOT,
    NOT_CLEAR,
    NOTHING_KNOWN,
    Atom,
    Certainty,
    FlowStep,
    Kind,
    RankCondition,
    Value,
    Who,
    added,
    both,
    const,
    either,
    join,
    merged,
    value_of,
)
from distcheck.core.model import Rule, Severity


@pytest.mark.parametrize(
    ("conditions", "who"),
    [
        ([], Who.EVERYONE),
        ([RankCondition(Who.DISTRIBUTED), RankCondition(Who.MAIN)], Who.MAIN),
        ([RankCondition(Who.LOCAL_MAIN), RankCondition(Who.MAIN)], Who.MAIN),
        ([RankCondition(Who.UNCLEAR, Certainty.GUESSED), RankCondition(Who.OTHERS)], Who.OTHERS),
        ([RankCondition(Who.BY_DATA), RankCondition(Who.SOME)], Who.SOME),
        ([RankCondition(Who.EVERYONE), RankCondition(Who.UNCLEAR, Certainty.GUESSED)], Who.UNCLEAR),
    ],
)
def test_the_narrowest_of_several_conditions_decides(conditions: list[RankCondition], who: str) -> None:
    assert both(conditions).who == who


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # not distributed or rank == 0: the main process wherever there are several
        ([RankCondition(Who.SINGLE), RankCondition(Who.MAIN)], RankCondition(Who.MAIN)),
        ([RankCondition(Who.SINGLE)], RankCondition(Who.SINGLE)),
        ([RankCondition(Who.MAIN), RankCondition(Who.OTHERS)], ALWAYS),
        ([RankCondition(Who.MAIN), RankCondition(Who.ONE)], RankCondition(Who.SOME)),
        # rank == 0 or save_on_all: no longer certain
        ([RankCondition(Who.MAIN), NOT_CLEAR], RankCondition(Who.MAIN, Certainty.GUESSED)),
        ([RankCondition(Who.DISTRIBUTED), RankCondition(Who.MAIN)], ALWAYS),
    ],
)
def test_one_of_several_conditions(conditions: list[RankCondition], expected: RankCondition) -> None:
    assert either(conditions) == expected


def test_the_inverse_of_the_inverse_is_the_condition() -> None:
    assert all(NOT[NOT[who]] == who for who in NOT)


RANK = value_of(Kind.GLOBAL_RANK)
STEP = FlowStep(0, 1, "merged: here", Certainty.MERGED)


@pytest.mark.parametrize(
    ("steps", "certainty"),
    [
        ([], Certainty.PROVEN),
        ([Certainty.PROVEN, Certainty.PROVEN], Certainty.PROVEN),
        ([Certainty.PROVEN, Certainty.MERGED], Certainty.MERGED),
        ([Certainty.MERGED, Certainty.MERGED], Certainty.WEAK),
        ([Certainty.MERGED] * 5, Certainty.WEAK),
        ([Certainty.MERGED, Certainty.GUESSED], Certainty.GUESSED),
    ],
)
def test_steps_that_are_not_proven_add_up(steps: list[int], certainty: int) -> None:
    assert added(*steps) == certainty


@pytest.mark.parametrize(
    ("values", "within_one_object", "certainty"),
    [
        ([RANK, RANK], False, Certainty.PROVEN),
        ([RANK, value_of(Kind.RANK)], False, Certainty.PROVEN),
        ([RANK, value_of(Kind.LOCAL_RANK)], False, Certainty.MERGED),
        ([RANK, value_of(Kind.LOCAL_RANK)], True, Certainty.MERGED),
        # one caller passes a number; an attribute has a number until the rank is known
        ([RANK, const(0)], False, Certainty.MERGED),
        ([RANK, const(None)], True, Certainty.PROVEN),
        # the number stands in for the rank
        ([join((RANK, const(0))), RANK], False, Certainty.PROVEN),
        ([RANK, NOTHING_KNOWN], True, Certainty.MERGED),
    ],
)
def test_values_that_do_not_agree_prove_nothing(values: list[Value], within_one_object: bool, certainty: int) -> None:
    found = merged(values, STEP, within_one_object=within_one_object).get(Kind.GLOBAL_RANK)
    assert found is not None
    assert found.certainty == certainty
    assert (STEP in found.flow) == (certainty == Certainty.MERGED)


def test_an_alternative_that_is_proven_is_preferred() -> None:
    guessed = value_of(Kind.GLOBAL_RANK, certainty=Certainty.GUESSED)
    found = join((guessed, RANK)).get(Kind.GLOBAL_RANK)
    assert found is not None and found.certainty == Certainty.PROVEN


@pytest.mark.parametrize(
    ("rule", "level", "certainty", "severity"),
    [
        (rules.DC701, Severity.ERROR, Certainty.PROVEN, Severity.ERROR),
        (rules.DC701, Severity.ERROR, Certainty.MERGED, Severity.WARNING),
        (rules.DC701, Severity.ERROR, Certainty.WEAK, Severity.INFO),
        (rules.DC701, Severity.ERROR, Certainty.GUESSED, Severity.INFO),
        (rules.DC201, Severity.WARNING, Certainty.MERGED, Severity.WARNING),
        (rules.DC201, Severity.INFO, Certainty.PROVEN, Severity.INFO),
        # a rule without the level of a warning
        (rules.DC754, Severity.ERROR, Certainty.MERGED, Severity.INFO),
    ],
)
def test_only_what_is_proven_is_an_error(rule: Rule, level: Severity, certainty: int, severity: Severity) -> None:
    assert severity_for(rule, level, certainty) is severity


def test_a_condition_of_an_alternative_counts_as_well() -> None:
    atom = Atom(Kind.GLOBAL_RANK, when=RankCondition(Who.MAIN, Certainty.MERGED))
    assert certainty_of(atom) == Certainty.MERGED
    assert certainty_of(atom, RankCondition(Who.MAIN, Certainty.MERGED)) == Certainty.WEAK
