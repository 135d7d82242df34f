"""Words as the text of a shell: the same words, in their places."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.launch_files.fragments import Fragment, Piece
from distcheck.checks.launch_files.plain_commands import as_shell_text, joined

TEXT = st.text(st.sampled_from(list("ab'\"\\ $=-\n*é")), max_size=12)


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_a_shell_reads_the_same_words(words: list[str]) -> None:
    fragments = [Fragment(word, "f", (Piece(0, number + 1, 5),)) for number, word in enumerate(words)]
    assert shlex.split(as_shell_text(fragments, "f").text) == words


@given(st.lists(st.text(st.sampled_from(list('ab"\\$=*é')), min_size=1), min_size=1, max_size=5))
def test_each_character_keeps_its_place(words: list[str]) -> None:
    fragments = [Fragment(word, "f", (Piece(0, number + 1, 5),)) for number, word in enumerate(words)]
    whole = as_shell_text(fragments, "f")
    position = 0
    for number, word in enumerate(words):
        position = whole.text.index(word, position)
        for index in range(len(word)):
            assert whole.location(position + index) == (number + 1, 5 + index)
        position += len(word)


def test_a_quote_in_a_word_keeps_the_places_behind_it() -> None:
    whole = as_shell_text([Fragment("it's", "f", (Piece(0, 3, 7),)), Fragment("x", "f", (Piece(0, 3, 20),))], "f")
    assert whole.text == "'it'\\''s' x"
    assert [whole.location(offset) for offset in (0, 1, 7, 10)] == [(3, 6), (3, 7), (3, 10), (3, 20)]


def test_no_words() -> None:
    assert as_shell_text([], "f").text == ""


def test_stretches_are_put_together() -> None:
    source = Fragment("abc \\\n  def \\\n  ghi\n", "f")
    whole = joined(source, [(0, 4), (8, 12), (16, 19)])
    assert whole.text == "abc def ghi"
    assert [whole.location(offset) for offset in (0, 4, 8)] == [(1, 1), (2, 3), (3, 3)]
