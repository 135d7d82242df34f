"""Suppression comments: what they silence, what they do not, and which are said to be in vain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck import rules
from distcheck.checks.source.suppressions import apply_suppressions, read_comment
from distcheck.core import registry
from distcheck.core.model import Finding, Fix, Rule, Where

PATH = "train.py"


def finding(rule: Rule, line: int, end_line: int | None = None, path: str = PATH) -> Finding:
    return rule.found("it is wrong", where=Where(path=path, line=line, end_line=end_line), fix=Fix("x", where="code"))


GLOBAL_RANK, SAVE = finding(rules.DC201, 3), finding(rules.DC720, 3)


def left(comment: str, *findings: Finding, line: int = 3) -> list[str]:
    return [item.code for item in apply_suppressions(findings, {PATH: [(line, comment)]}).kept]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: DC201",
        "#noqa:DC201",
        "# NoQA : dc201",
        "# noqa: E501, DC201",
        "# noqa: E501 DC201 one host only",
        "# noqa: DC201,W605 - one host only, DC720 is another matter",
        "# noqa: global-rank-as-device",
        "# distcheck: ignore[DC201]",
        "# distcheck:ignore [ DC201 , DC204 ] one host only",
        "# distcheck: ignore[global-rank-as-device]",
        "# type: ignore[attr-defined]  # noqa: DC201",
        "# noqa: E501  # distcheck: ignore[DC201]",
        "# distcheck: ignore-file[DC201]",
    ],
)
def test_a_comment_silences_the_rules_that_it_names(comment: str) -> None:
    assert left(comment, GLOBAL_RANK, SAVE) == ["DC720"]


@pytest.mark.parametrize(
    "comment",
    ["# noqa", "# a reason # noqa", "# distcheck: ignore", "# distcheck: ignore one host", "# distcheck: ignore-file"],
)
def test_a_comment_without_names_silences_all(comment: str) -> None:
    assert left(comment, GLOBAL_RANK, SAVE) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# noqa: because DC201 is wrong",
        "# noqa-not",
        "# noqafoo",
        "# distcheck: ignored",
        "# distcheck: ignore[]",
        "# distcheck: ignore-files[DC201]",
        "# type: ignore[DC201]",
        "# DC201",
    ],
)
def test_other_comments_silence_nothing(comment: str) -> None:
    assert left(comment, GLOBAL_RANK, SAVE) == ["DC201", "DC720"]


def test_the_first_and_the_last_line_of_a_finding_count_and_no_other() -> None:
    several = finding(rules.DC720, 3, end_line=7)
    heard = [line for line in range(1, 10) if not left("# noqa: DC720", several, line=line)]
    assert heard == [3, 7]


def test_a_comment_counts_for_its_own_file_only() -> None:
    other = finding(rules.DC201, 3, path="other.py")
    outcome = apply_suppressions([other], {PATH: [(3, "# distcheck: ignore-file[DC201]")], "other.py": []})
    assert outcome.kept == (other,)
    assert [item.where.path for item in outcome.unused] == [PATH]


def test_what_silences_nothing_is_said() -> None:
    comments = [(3, "# noqa: DC201, DC720"), (8, "# distcheck: ignore[DC720] later"), (9, "# distcheck: ignore")]
    outcome = apply_suppressions([GLOBAL_RANK], {PATH: comments})
    assert [(item.code, item.where.line) for item in outcome.unused] == [("DC905", 3), ("DC905", 8), ("DC905", 9)]
    assert "DC720" in outcome.unused[0].message
    assert "DC201:" not in outcome.unused[0].message
    assert outcome.silenced == (GLOBAL_RANK,)


@pytest.mark.parametrize(
    "comment", ["# noqa", "# noqa: E501", "# noqa: DC720, DC905", "# distcheck: ignore[DC720]  # noqa: DC905"]
)
def test_some_are_not_said_to_be_in_vain(comment: str) -> None:
    assert apply_suppressions([], {PATH: [(3, comment)]}).unused == ()


def test_a_rule_that_nobody_looked_for_is_not_silenced_in_vain() -> None:
    comments = {PATH: [(3, "# noqa: DC720, DC201")]}
    outcome = apply_suppressions([], comments, checked_rule=lambda code: code == "DC201")
    assert "DC720" not in outcome.unused[0].message.split("of ")[1]
    assert apply_suppressions([], comments, checked_rule=lambda code: False).unused == ()


def test_an_unknown_rule_is_said_with_the_nearest() -> None:
    comments = [(3, "# noqa: DC2O1"), (4, "# distcheck: ignore[globalrank-as-device, DC720]"), (5, "# noqa: nothing")]
    outcome = apply_suppressions([GLOBAL_RANK], {PATH: comments})
    assert [item[:2] for item in outcome.unknown] == [(PATH, 3), (PATH, 4)]
    assert "DC2O1" in outcome.unknown[0][2]
    assert "did you mean DC201" in outcome.unknown[1][2]
    assert outcome.kept == (GLOBAL_RANK,)


def test_a_plug_ins_rule_can_be_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rules.DC201._replace(code="XX001", name="our-own-rule")
    assert read_comment(1, "# noqa: XX001") == []
    monkeypatch.setitem(registry._registry.rules, rule.code, rule)
    (found,) = read_comment(1, "# noqa: XX001")
    assert found.codes == ("XX001",)


CODES = st.sampled_from(["DC201", "DC720", "DC905", "E501", "unguarded-save", "DC2O1", "", "words here"])
COMMENTS = st.one_of(
    st.text(),
    st.builds("# noqa: {}".format, st.lists(CODES).map(", ".join)),
    st.builds("# distcheck: ignore[{}] {}".format, st.lists(CODES).map(",".join), st.text()),
    st.builds("# distcheck: ignore-file[{}]".format, CODES),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), COMMENTS), max_size=4),
    st.lists(st.builds(finding, st.sampled_from([rules.DC201, rules.DC720]), st.integers(1, 6)), max_size=5),
)
def test_no_finding_is_lost_or_made_up(comments: list[tuple[int, str]], findings: list[Finding]) -> None:
    outcome = apply_suppressions(findings, {PATH: comments})
    assert sorted([*outcome.kept, *outcome.silenced], key=str) == sorted(findings, key=str)
    assert all(item.code == "DC905" for item in outcome.unused)
    whole = [text for _, text in comments if "ignore-file" in text.lower()]
    for item in outcome.silenced:
        assert whole or item.where.line in [line for line, _ in comments]
    for item in outcome.kept:
        assert f"# distcheck: ignore-file[{item.code}]" not in whole
        assert (item.where.line, f"# noqa: {item.code}") not in comments
