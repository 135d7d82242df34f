"""Strict JSON and visible texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.reporters.plain import advice, dump, visible

from .any_report import TEXTS
from .invented import ENV

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_whatever_is_dumped_is_strict_json(value: object) -> None:
    text = dump(value)
    assert text.isascii()
    read = json.loads(text, parse_constant=pytest.fail)
    json.dumps(read, ensure_ascii=False).encode()  # raises where half of a character is left


def test_numbers_that_json_lacks_are_words() -> None:
    assert json.loads(dump({"a": float("nan"), "b": [float("inf")]})) == {"a": "nan", "b": ["inf"]}
    assert dump("\udc80") == '"\\\\udc80"\n'


def test_line_breaks_stay_and_nothing_else() -> None:
    assert visible("a\nb\x1b[31m\r") == "a\nb\\x1b[31m\\r"


def test_advice_says_where_and_what_to_mind() -> None:
    assert advice(ENV.findings[0]) == (
        "fix (in the launch line): take another port\n"
        "torchrun --master-port=29501 train.py\n"
        "note: all nodes need the same"
    )
