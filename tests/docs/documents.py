"""The documents of the project as the tests look at them: their titles, fences, links and places."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ROOT / "distcheck" / "rules" / "pages"
#: the modules that make pages stand where Sphinx looks for extensions
sys.path.append(str(DOCS / "_ext"))

#: What is made while Sphinx starts: git does not know it, and a checkout does not have it.
MADE = re.compile(r"(rules|cli)/.*|errors|facts")
_FENCE = re.compile(r"^(?P<fence>```+|~~~+)(?P<info>[^\n`]*)\n.*?^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)


def written() -> list[Path]:
    """The documents that people write, for Sphinx."""
    found = sorted(path for path in DOCS.rglob("*.md") if not path.relative_to(DOCS).parts[0].startswith("_"))
    return [path for path in found if not MADE.fullmatch(name_of(path)) and "files" not in path.parts]


def linked() -> list[Path]:
    """Every document whose links a reader may follow."""
    return [*sorted(ROOT.glob("*.md")), *written(), *sorted(PAGES.glob("*.md"))]


def name_of(path: Path) -> str:
    """What Sphinx calls a document: ``recipes/slurm``."""
    return path.relative_to(DOCS).with_suffix("").as_posix()


def fences(text: str) -> Iterator[str]:
    """What stands behind the opening of each fenced block."""
    return (match["info"].strip() for match in _FENCE.finditer(text))


def prose(text: str) -> str:
    """A document without its fenced blocks and comments, and without inline code."""
    text = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.DOTALL)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", text, flags=re.DOTALL)


def titles(text: str) -> list[str]:
    """The headings of the first level."""
    return re.findall(r"^# (.+)$", _FENCE.sub("", text), re.MULTILINE)


def places(text: str) -> set[str]:
    """The anchors that GitHub and MyST make of the headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number = 0
        while (name := slug if number == 0 else f"{slug}-{number}") in found:
            number += 1
        found.add(name)
    return found
