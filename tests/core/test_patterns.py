"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys

import pytest

import distcheck
from distcheck.core.patterns import _Lazy, lazy


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
