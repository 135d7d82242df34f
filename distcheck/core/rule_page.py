"""The page of a rule in its parts, from the Markdown that is shipped with the package.

A page begins with front matter, from which ``tools/make_rules.py`` generates the catalogue:

    ---
    code: DC401
    name: master-port-in-use
    severities: error, info
    checks: env, log
    summary: The port for the rendezvous is taken
    default: off
    measured: 27 right, 1 wrong
    ---

The first severity is the default, the others are those that a finding may have. ``default: off`` stands only on the
page of a rule that has to be selected. Unless the rule or the file is named, ``lint`` reports a rule with ``default:
info`` at ``info``, because it is too often wrong in public code. With ``default: note`` it does so with ``--preview``
as well, because the rule is mostly wrong there. With ``default: warning`` only its errors are: in a few files it is at
most a warning, and else ``info``. One with ``default: many`` it reports at ``info`` in more than a few files, because
too few of its findings there were judged right, and one with ``default: unjudged`` because none was judged.
``measured`` counts those that were judged last. ``tools/measure_precision.py pages`` writes all of these but ``off``
and ``info``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .model import FEW_FILES, InFolders, Rule, Severity
from .resources import read_shipped

#: The keys of front matter, in their order.
_KEYS = ("code", "name", "severities", "checks", "summary", "default", "measured")
_OPTIONAL = ("default", "measured")
_LEVELS = {level.word: level for level in Severity}
_IN_FOLDERS: dict[str, InFolders] = {
    "many": "many",
    "unjudged": "many",
    "info": "info",
    "note": "note",
    "warning": "warning",
}


class Page(NamedTuple):
    """A page in its parts."""

    rule: Rule
    #: Markdown by section
    sections: dict[str, str]
    #: ``27 right, 1 wrong``: the findings in public code that were judged last; empty without a judgement
    measured: str = ""
    #: whether a finding in public code was ever judged, where that decides the level
    is_judged: bool = True

    @property
    def text(self) -> str:
        """The page as Markdown, with a title in place of the front matter."""
        parts = [f"## {name}\n\n{body}\n" for name, body in self.sections.items()]
        if notes := self.notes:
            parts.insert(0, f"{notes}\n")
        return "\n".join((f"# {self.rule.code} {self.rule.name}\n\n{self.rule.summary}.\n", *parts))

    @property
    def notes(self) -> str:
        """How often the rule is right, and what follows for its level; empty where nothing was measured."""
        notes = (
            [f"Its findings in the last sample of public code, read one by one: {self.measured}."]
            if self.measured
            else []
        )
        many = "too few of all its findings in public code were judged, or right"
        if not self.is_judged:
            many = "no finding in public code was judged yet"
        why = {
            "many": f"at level `info` in more than {FEW_FILES} files, as {many}",
            "info": "at level `info`, because it is too often wrong in public code",
            "note": "at level `info`, because it is mostly wrong in public code",
            "warning": f"at most as a warning, and at level `info` in more than {FEW_FILES} files, because its errors "
            "are mostly wrong in public code",
        }.get(self.rule.in_folders)
        if why is not None:
            preview = "" if self.rule.in_folders in ("note", "warning") else " or `--preview`"
            notes.append(
                f"`lint` reports this rule {why}. It has its own level with `--select {self.rule.code}`{preview}, and "
                "in files that are named."
            )
        return " ".join(notes)

    @property
    def messages(self) -> tuple[str, ...]:
        """The literal error messages, with … for what varies."""
        return tuple(re.findall(r"^- `(.+)`", self.sections.get("Error messages", ""), re.MULTILINE))


def read_page(code: str) -> Page | None:
    """Return the page of a rule, None where it has none."""
    try:
        text = read_shipped("distcheck.rules", f"pages/{code}.md")
    except FileNotFoundError:
        return None
    return parse_page(text.decode())


def parse_page(text: str) -> Page:
    """Return a page from its Markdown; raises ValueError for front matter that is absent or wrong."""
    found = re.match(r"---\n(.*?)^---\n", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"a page begins with front matter between two lines '---', not with {text[:40]!r}")
    values = dict(re.findall(r"^(\w+): (.+)$", found[1], re.MULTILINE))
    _, *parts = re.split(r"^## (.+)\n", text[found.end() :], flags=re.MULTILINE)
    sections = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Page(_rule(values, found[1]), sections, values.get("measured", ""), values.get("default") != "unjudged")


def _rule(values: dict[str, str], text: str) -> Rule:
    missing = [key for key in _KEYS if key not in values and key not in _OPTIONAL]
    if missing or list(values) != [key for key in _KEYS if key in values] or len(values) != text.count("\n"):
        raise ValueError(f"front matter has the lines {', '.join(_KEYS)}, in this order, not {text!r}")
    levels = values["severities"].split(", ")
    default = values.get("default")
    if not set(levels) <= set(_LEVELS) or default not in (None, "off", *_IN_FOLDERS):
        raise ValueError(f"expected severities out of {', '.join(_LEVELS)}, off, {', '.join(_IN_FOLDERS)}: {text!r}")
    severities = tuple(_LEVELS[level] for level in levels)
    checks = tuple(values["checks"].split(", "))
    return Rule(
        values["code"], values["name"], severities[0], checks, values["summary"], severities,
        default != "off", _IN_FOLDERS.get(default or "", "own"),
    )  # fmt: skip
