"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distcheck
from distcheck.core.patterns import _Guarded, _Lazy, lazy


def test_it_has_the_methods_of_the_pattern() -> None:
    word = lazy(r"w(or)d", re.IGNORECASE)
    assert word.sub(r"\1", "a WORD") == "a OR"
    found = word.search("word")
    assert found is not None and found[1] == "or"
    assert (word.pattern, word.flags & re.IGNORECASE) == ("w(or)d", re.IGNORECASE)
    assert lazy(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_nothing_is_compiled_before_it_is_used() -> None:
    broken = lazy("(")
    with pytest.raises(re.error):
        broken.search("")


@pytest.mark.parametrize("package", ["core", "checks.source", "checks.launch_files", "checks.host"])
def test_good_every_one_compiles(package: str) -> None:
    folder = importlib.import_module(f"{distcheck.__name__}.{package}")
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(module.name)
    found = [
        value
        for name, module in sys.modules.items()
        if name.startswith(f"{folder.__name__}.")
        for value in vars(module).values()
        if isinstance(value, _Lazy)
    ]
    assert found
    assert all(value.pattern for value in found)


def test_a_text_without_a_literal_is_not_searched() -> None:
    word = lazy(r"\bword\b|\bother\(", literals=("word", "other("))
    assert word.search("a word") is not None
    assert [found[0] for found in word.finditer("word, swords, other(")] == ["word", "other("]
    assert word.search("swords") is None
    assert lazy("(", literals=("x",)).search("without it") is None
    assert list(lazy("(", literals=("x",)).finditer("without it")) == []


def _guarded() -> list[_Guarded]:
    modules = ("accumulation", "hand_averaged", "option_paths", "process_start", "unused_code")
    found = [importlib.import_module(f"distcheck.checks.source.{name}") for name in modules]
    return [value for module in found for value in vars(module).values() if isinstance(value, _Guarded)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_good_each_match_holds_one_of_the_literals(data: st.DataObject) -> None:
    guarded = data.draw(st.sampled_from(_guarded()))
    pattern = re.compile(guarded.pattern, guarded.flags)
    found = pattern.search(data.draw(st.from_regex(pattern)))
    assert found is not None
    assert any(literal in found[0] for literal in guarded.literals)
