"""Which part of a line of source is shown, and where the carets stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.model import Where
from distcheck.reporters.excerpt import columns, excerpt


@pytest.mark.parametrize(
    ("source", "where", "parts"),
    [
        ("    f(x)", (5, 9), ("    ", "f(x)", "")),
        ("a = f(x)  # why", (5, 9), ("a = ", "f(x)", "  # why")),
        ("\tf(x)", (2, 6), ("    ", "f(x)", "")),
        ("a\x1b[2J", (1, 2), ("", "a", "\\x1b[2J")),
        ("f(x)", (None, None), ("", "f", "(x)")),
        ("f(x)", (9, 12), ("f(x)", "", "")),
    ],
)
def test_the_parts_of_a_line(source: str, where: tuple[int | None, int | None], parts: tuple[str, str, str]) -> None:
    shown = excerpt(source, Where("a.py", 1, where[0], 1, where[1]), 80)
    assert (shown.before, shown.marked, shown.behind) == parts
    assert (shown.indent, shown.width) == (len(parts[0]), len(parts[1]))


def test_what_goes_on_in_the_next_line_is_marked_to_the_end() -> None:
    assert excerpt("f(a,  ", Where("a.py", 1, 1, 3, 2), 80).marked == "f(a,"


def test_wide_letters_take_two_columns() -> None:
    shown = excerpt("漢字 = f()", Where("a.py", 1, 6, 1, 9), 80)
    assert (shown.marked, shown.indent, shown.width) == ("f()", 7, 3)


def test_a_line_of_many_tabs_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(text: str) -> int:
        nonlocal asked
        asked += 1
        return columns(text)

    monkeypatch.setattr("distcheck.reporters.excerpt.columns", counted)
    shown = excerpt("\t" * 1000 + "f(x)", Where("a.py", 1, 1001, 1, 1005), 60)
    assert (shown.before.strip(), shown.marked) == ("…", "f(x)")
    assert asked < 10 * 1000


@given(st.text(max_size=300), st.integers(1, 320), st.integers(0, 40), st.integers(20, 100))
def test_it_fits_and_what_is_not_cut_is_as_it_was(source: str, column: int, length: int, room: int) -> None:
    shown = excerpt(source, Where("a.py", 1, column, 1, column + length), room)
    line = shown.before + shown.marked + shown.behind
    # one escaped letter can be wider than all the room that is left
    assert columns(line) <= room + 10
    assert shown.indent == columns(shown.before)
    assert shown.width == columns(shown.marked)
    if source.isprintable() and columns(source.rstrip()) <= room:
        assert line == source.rstrip()
    elif source.isprintable() and column <= len(source.rstrip()) and length and "…" not in source:
        assert shown.marked[:1] == source[column - 1]
