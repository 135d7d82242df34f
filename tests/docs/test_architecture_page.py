"""docs/architecture.md names every room of the package, and none that is not there."""

from __future__ import annotations

import re

from .documents import DOCS, ROOT


def test_the_rooms_are_those_of_the_package() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"## The rooms\n\n```\ndistcheck/\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    # a room stands at two spaces; what tells more of it stands farther in, and may name others
    rooms = re.findall(r"^  (\w+(?:\.py|/)) ", block[1], re.MULTILINE)
    package = ROOT / "distcheck"
    modules = {path.name for path in package.glob("*.py")} - {"__main__.py"}
    folders = {f"{path.name}/" for path in package.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert set(rooms) == modules | folders - {"commands/"}
    assert "commands/ one module each" in block[1]
    assert len(rooms) == len(set(rooms))
