"""A function in a Python of its own: where nothing can be written."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytest

from distcheck.cli import subprocess_call


def no_folder(*_: Any, **__: Any) -> None:
    raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")


def call() -> subprocess_call.Answer:
    from distcheck.cli.prolog_words import one_line

    return subprocess_call.call(one_line, ["a\tb"], 60, lambda: None)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="keeps its files in memory")
def test_no_folder_for_temporary_files_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", no_folder)
    assert call().value == "a b"


def test_without_files_in_memory_it_takes_a_temporary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert call().value == "a b"


def test_where_there_is_neither_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "TemporaryFile", no_folder)
    with pytest.raises(subprocess_call.Broken, match="no folder for temporary files; name one in TMPDIR"):
        call()
