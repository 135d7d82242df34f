"""The page of a rule in its parts, from the Markdown that is shipped with the package."""

from __future__ import annotations

import re
from typing import NamedTuple

from .resources import read_shipped


class Page(NamedTuple):
    """A page in its parts."""

    code: str
    name: str
    summary: str
    #: Markdown by section
    sections: dict[str, str]
    text: str

    @property
    def messages(self) -> tuple[str, ...]:
        """The literal error messages, with … for what varies."""
        return tuple(re.findall(r"^- `(.+)`", self.sections.get("Error messages", ""), re.MULTILINE))


def read_page(code: str) -> Page | None:
    """The page of a rule, None where it has none yet."""
    try:
        text = read_shipped("distcheck.rules", f"pages/{code}.md")
    except FileNotFoundError:
        return None
    return parse_page(text.decode())


def parse_page(text: str) -> Page:
    """A page from its Markdown; raises ValueError where its first line is no title."""
    head, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    title = re.match(r"# (DC\d+|[A-Z]+\d+) ([\w-]+)\n", head)
    if title is None:
        raise ValueError(f"a page begins with '# CODE name', not with {text[:40]!r}")
    sections = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Page(title[1], title[2], head[title.end() :].strip(), sections, text)
