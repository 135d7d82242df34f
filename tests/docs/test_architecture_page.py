"""docs/architecture.md names every package and top-level module, and none that does not exist."""

from __future__ import annotations

import re

from .documents import DOCS, ROOT


def test_the_layout_is_that_of_the_package() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"## Layout\n\n```\ndistcheck/\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    # a name stands at two spaces; the lines that describe it further are indented more
    named = re.findall(r"^  (\w+(?:\.py|/)) ", block[1], re.MULTILINE)
    package = ROOT / "distcheck"
    modules = {path.name for path in package.glob("*.py")} - {"__main__.py"}
    folders = {f"{path.name}/" for path in package.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert set(named) == modules | folders
    assert len(named) == len(set(named))
