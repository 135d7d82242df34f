"""The catalogue, looking rules up, and selecting among them."""

from __future__ import annotations

import re

import pytest

from distcheck import rules
from distcheck.rules import Selection, UnknownRule, find


def test_codes_and_names_are_unique_and_well_formed() -> None:
    assert len({rule.code for rule in rules.ALL}) == len({rule.name for rule in rules.ALL}) == len(rules.ALL)
    for rule in rules.ALL:
        assert re.fullmatch(r"DC[1-9]\d\d", rule.code)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
        assert rule.severity in rule.severities
        assert rule.summary
        assert not rule.summary.endswith(".")


def test_a_rule_is_found_by_code_or_name() -> None:
    assert find("DC401") is find("dc401") is find("Master-Port-In-Use") is rules.DC401


@pytest.mark.parametrize(
    ("typed", "meant"), [("DC41", "DC41"), ("master-port-inuse", "DC401"), ("shm-to-small", "DC320"), ("DC999", "DC9")]
)
def test_the_nearest_rule_is_named(typed: str, meant: str) -> None:
    with pytest.raises(UnknownRule, match=f"did you mean {meant}"):
        find(typed)


def taken(selection: Selection) -> set[str]:
    return {rule.code for rule in rules.ALL if selection.takes(rule)}


def test_all_rules_that_are_on_are_taken_without_a_selection() -> None:
    assert taken(Selection()) == {rule.code for rule in rules.ALL if rule.on_by_default}
    assert taken(Selection.of(["ALL"])) == {rule.code for rule in rules.ALL}
    assert "DC220" in taken(Selection.of(["DC220"]))
    assert "DC220" in taken(Selection.of((), ["DC220"]))


def test_the_more_exact_entry_wins() -> None:
    assert "DC401" not in taken(Selection.of(["DC4"], (), ["DC401"]))
    assert "DC402" in taken(Selection.of(["DC4"], (), ["DC401"]))
    assert taken(Selection.of(["DC401"], (), ["DC4"])) == {"DC401"}
    assert taken(Selection.of((), (), ["ALL"])) == set()
    assert "DC401" in taken(Selection.of((), ["DC401"], ["DC4"]))
    assert taken(Selection.of(["DC401,master-port-unwise"])) == {"DC401", "DC402"}
    assert taken(Selection.of(["DC401"], (), ["DC401"])) == set()


def test_what_names_no_rule_is_refused() -> None:
    with pytest.raises(UnknownRule, match="DC3"):
        Selection.of(["DC3xx"])
