"""The plug-in of the page is the one of the tests, whole: its project file, and both of its modules."""

from __future__ import annotations

import re

from .documents import DOCS, ROOT


def test_the_project_file_and_the_modules_are_those_of_the_tests() -> None:
    text = (DOCS / "plugins.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:toml|python)\n(.*?)```", text, re.DOTALL)
    for block, name in zip(blocks, ("pyproject.toml", "our_site/probes.py", "our_site/logs.py"), strict=True):
        assert block.strip() in (ROOT / "tests" / "plugin" / name).read_text(encoding="utf-8")
