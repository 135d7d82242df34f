"""A function that is called once a module has been imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distcheck.runtime.coordination.import_hook import when_imported

NAME = "imported_here"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / f"{NAME}.py"
    path.write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield path
    sys.meta_path[:] = before
    sys.modules.pop(NAME, None)


def test_it_is_called_before_the_import_returns_and_once(module: Path) -> None:
    seen: list[int] = []
    when_imported(NAME, lambda found: seen.append(found.value))
    assert seen == []
    importlib.reload(importlib.import_module(NAME))
    assert seen == [1]
    when_imported(NAME, lambda found: seen.append(found.value + 1))
    assert seen == [1, 2]


def test_a_test_whether_the_module_is_installed_is_no_import(module: Path) -> None:
    seen: list[str] = []
    when_imported(NAME, lambda found: seen.append("first"))
    when_imported(NAME, lambda found: seen.append("second"))
    assert importlib.util.find_spec(NAME) is not None
    assert seen == []
    importlib.import_module(NAME)
    assert sorted(seen) == ["first", "second"]


def test_a_module_that_fails_calls_nothing(module: Path) -> None:
    module.write_text("raise ImportError('broken')\n")
    seen: list[object] = []
    when_imported(NAME, seen.append)
    with pytest.raises(ImportError, match="broken"):
        importlib.import_module(NAME)
    assert seen == []
    assert importlib.util.find_spec("no_such_module_at_all") is None
