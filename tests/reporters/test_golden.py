"""What the formats for programs make of each sample is what was looked at by eye and kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distcheck.reporters import FORMATS

from . import golden


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with golden.checkout() as folder:
        yield folder


@pytest.mark.parametrize("output_format", golden.ENDINGS)
@pytest.mark.parametrize("name", golden.NAMES)
def test_it_is_as_it_was(root: Path, name: str, output_format: str) -> None:
    kept = golden.path_of(name, output_format).read_text(encoding="utf-8")
    assert golden.made(name, output_format, root) == kept, "if it is meant: python -m tests.reporters.golden"


def test_nothing_is_kept_that_is_not_made() -> None:
    wanted = {golden.path_of(name, output_format) for name in golden.NAMES for output_format in golden.ENDINGS}
    assert set(golden.FOLDER.glob("*/*")) == wanted


def test_every_format_for_programs_has_golden_files() -> None:
    elsewhere = {"full", "concise", "json", "json-lines", "html"}
    assert set(golden.ENDINGS) == set(FORMATS) - elsewhere
