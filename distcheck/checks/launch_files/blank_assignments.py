"""Assignments that are a command for the shell, so that a launch gets another value: ``NAME = value``, ``$NAME=value``.

For the shell, the name of an assignment, its ``=`` and its value are one word, and the name is literal (bash(1),
"PARAMETERS").
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .context import setting, shown
from .fragments import Fragment
from .model import LaunchFile, LaunchFiles, LaunchSite
from .shell_grammar import parse, why_missing

#: Where such an assignment may stand, before the file is parsed.
_LIKELY = lazy(
    r"^[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*(?:[ \t]+=|=[ \t]+[^\s#|&;])"
    r"|(?:^|[;&|]|\bthen|\bdo|\belse)[ \t]*\$\{?\w+\}?=",
    re.MULTILINE,
)
#: ``$NAME=`` as the beginning of a command.
_EXPANDED = lazy(r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})=")
_NAME = lazy(r"[A-Za-z_]\w*")
#: One word that is a value: a number, a text in quotes, a name with a slash. Not a file that may be run.
_VALUE = lazy(r"""[0-9][\w.e+-]*|"[^"]*"|'[^']*'|[\w.-]+(?:/[\w.-]+)+/?""")
_RUNS = lazy(r"\.(?:sh|bash|py|pl|exe|bin)[\"']?$|^(?:\.|/|[\"']?/)|(?:^|/)(?:bin|sbin)/")


class _Blank(NamedTuple):
    """An assignment with a blank around its ``=``, or with a dollar sign before its name."""

    name: str
    #: the value as it is written; empty if there are several words
    value: str
    start: int
    end: int
    #: whether the shell replaces the name by the value of the variable
    expanded: bool = False


@probe(rules.DC808)
def assignments_are_one_word(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A variable of a launch is assigned without blanks around its ``=``."""
    if why_missing() is not None:
        return
    for file in launch_files.files:
        if file.kind != "shell" or not file.sites or file.problems:
            continue
        text = "\n".join(file.lines)
        if _LIKELY.search(text) is None:
            continue
        root = parse(text)
        if root is None or root.has_error:
            continue
        source = Fragment(text, file.path)
        reported: set[str] = set()
        for blank in _blanks(root, text):
            site = _user_of(blank, file, source)
            if site is not None and blank.name not in reported:
                reported.add(blank.name)
                yield _found(blank, site, source)


def _blanks(root: Any, text: str) -> Iterator[_Blank]:
    """Yield the commands that were meant as assignments, in order."""
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        if node.type != "command":
            open_nodes.extend(reversed(node.named_children))
            continue
        words = [text[child.start_byte : child.end_byte] for child in node.named_children]
        kinds = [child.type for child in node.named_children]
        if "\n" in text[node.start_byte : node.end_byte]:
            continue
        expanded = _EXPANDED.match(text[node.start_byte : node.end_byte])
        if expanded is not None:
            is_word = all(one.end_byte == two.start_byte for one, two in itertools.pairwise(node.named_children))
            value = text[node.start_byte + expanded.end() : node.end_byte] if is_word else ""
            name = expanded["name"] or expanded["braced"]
            yield _Blank(name, value, node.start_byte, node.end_byte, expanded=True)
        elif kinds[:1] == ["command_name"] and _NAME.fullmatch(words[0]) and len(words) > 1 and words[1][:1] == "=":
            rest = [word for word in (words[1][1:], *words[2:]) if word]
            # a program that is called with = as an argument: a test, expr
            if words[0] not in ("test", "expr", "let", "alias", "set", "read", "echo", "printf"):
                yield _Blank(words[0], rest[0] if len(rest) == 1 else "", node.start_byte, node.end_byte)
        elif (
            kinds == ["variable_assignment", "command_name"]
            and words[0].endswith("=")
            and _VALUE.fullmatch(words[1])
            and not _RUNS.search(words[1])
        ):
            yield _Blank(words[0][:-1], words[1], node.start_byte, node.end_byte)


def _user_of(blank: _Blank, file: LaunchFile, source: Fragment) -> LaunchSite | None:
    """Return the first launch after the assignment that uses the variable, if nothing else in the file sets it."""
    name = re.escape(blank.name)
    if blank.expanded:
        # the name is never set, so that what else sets it does not matter
        if re.search(rf"\$(?:{name}\b|\{{{name}\b)", source.text[blank.end :]) is None:
            return None
        line = source.location(blank.start)[0]
        return next((site for site in file.sites if site.span.path == file.path and site.span.line > line), None)
    if re.search(rf"(?:^|[\s;&(])(?:{name}\+?=[^\s=]|(?:read|for)\b[^\n]*\b{name}\b)|\$\{{{name}:?=", source.text):
        return None
    line = source.location(blank.start)[0]
    used = re.compile(rf"\$(?:{name}\b|\{{{name}\}})")
    for site in file.sites:
        if site.span.path != file.path or site.span.line <= line or setting(site, blank.name) is not None:
            continue
        if any(used.search(word.written) or used.search(word.text) for word in site.words):
            return site
    return None


def _found(blank: _Blank, site: LaunchSite, source: Fragment) -> Finding:
    span = source.span(blank.start, blank.end)
    written = source.text[blank.start : blank.end]
    if blank.expanded:
        return _never_set(blank, site, source)
    runs = blank.name if not written.startswith(f"{blank.name}=") else blank.value
    edits = (span.replaced_by(f"{blank.name}={blank.value}"),) if blank.value else ()
    return rules.DC808.found(
        f"{shown(written)} sets nothing: the shell runs {shown(runs)} as a command, and the launch in line "
        f"{site.span.line} gets an empty {blank.name}",
        where=span.where(variable=blank.name),
        evidence={"variable": blank.name, "used_in_line": site.span.line},
        fix=Fix(
            f"write it without blanks: {blank.name}={blank.value or '…'}",
            edits=edits,
            where="job-script",
            risk="the launch then gets a value that it did not get so far" if edits else None,
        ),
    )


def _never_set(blank: _Blank, site: LaunchSite, source: Fragment) -> Finding:
    """Return the finding of ``$NAME=value``: bash(1) expands the word, and runs the result as a command."""
    span = source.span(blank.start, blank.end)
    edits = (span.replaced_by(f"{blank.name}={blank.value}"),) if blank.value else ()
    return rules.DC808.found(
        f"{shown(source.text[blank.start : blank.end])} does not set {blank.name}, so the launch in line "
        f"{site.span.line} gets the old value: the shell runs the result as a command",
        where=span.where(variable=blank.name),
        evidence={"variable": blank.name, "launch_in_line": site.span.line},
        fix=Fix(
            f"drop the dollar sign: {blank.name}={blank.value or '…'}",
            edits=edits,
            where="job-script",
            risk="the launch then gets a value that it did not get so far" if edits else None,
        ),
    )
