"""Launch lines that end before their options: a backslash that continues nothing, or none where one was meant.

For the shell a backslash continues a line only as its last character, and a comment ends the command (bash(1),
"QUOTING" and "COMMENTS"). No program is called ``--lr``, so a line that begins with an option was a part of the launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .context import is_complete, shown
from .model import LaunchFile, LaunchFiles, LaunchSite

#: A backslash that makes a blank literal, with the blanks or the comment after it.
_CONTINUES_NOTHING = lazy(r"(?<!\\)(?P<own>(?:\\\\)*\\)(?P<rest>[ \t]+(?P<comment>#.*)?)$")
#: A line of options. A list in a document (``- one``) has a blank after its dash.
_OPTIONS = lazy(r"[ \t]*(?P<option>--?[A-Za-z][\w.-]*)(?:[= \t\\]|$)")
#: What may follow the last word of a launch that ends with its line, or with a backslash that continues nothing.
_TAIL = lazy(r"[ \t\\]*(?:[ \t]#.*)?$")
_NO_COMMAND = lazy(r"[ \t]*(?:#.*)?$")
_FENCE = lazy(r"[ \t>]*(?:```|~~~)")
#: Longest stretch of comments and empty lines within one launch.
_MAX_LINES = 20


class _Cut(NamedTuple):
    """How a launch line ends before its options."""

    #: the line that should go on, and the next one with options
    line: int
    rest: int
    option: str
    why: str
    #: the columns to replace in the line, and the text; None if no single edit repairs it
    edit: tuple[int, int, str] | None


@probe(rules.DC815)
def launch_lines_are_whole(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The options in the lines after a launch belong to it."""
    seen: set[tuple[str, int]] = set()
    for file, site in launch_files.sites():
        if file.kind not in ("shell", "markdown") or site.span.path != file.path or not is_complete(site):
            continue
        cut = _cut(file, site)
        if cut is None or (file.path, cut.line) in seen:
            continue
        seen.add((file.path, cut.line))
        yield _found(file, site, cut)


def _cut(file: LaunchFile, site: LaunchSite) -> _Cut | None:
    """Return how the launch ends before its options, or None."""
    last = site.span.end_line
    if not 1 <= last <= len(file.lines):
        return None
    text = file.lines[last - 1]
    tail = text[site.span.end_column - 1 :]
    # a launch in quotes, in parentheses or before a pipe goes on after the words of its command
    if _TAIL.match(tail) is None:
        return None
    rest = _next_command(file, last)
    if rest is None:
        return None
    options = _OPTIONS.match(file.lines[rest - 1])
    if options is None:
        return None
    # a backslash at the end of the line before the comment or the empty line
    if rest > last + 1:
        if file.kind == "markdown" and not text.endswith("\\") and not file.lines[last].strip():
            return None  # a document that describes options one by one
        comment = next((number for number in range(last + 1, rest) if file.lines[number - 1].strip()), None)
        why = f"line {comment} is a comment" if comment is not None else f"line {last + 1} is empty"
        return _Cut(last, rest, options["option"], why, None)
    literal = _CONTINUES_NOTHING.search(text)
    if literal is not None:
        why = f"in line {last} a {'comment' if literal['comment'] else 'blank'} follows the backslash"
        return _Cut(last, rest, options["option"], why, (literal.start("rest") + 1, len(text) + 1, ""))
    if text.endswith("\\"):
        return None
    end = len(text.rstrip())
    edit = None if "#" in tail else (end + 1, len(text) + 1, " \\")
    return _Cut(last, rest, options["option"], f"line {last} ends without a backslash", edit)


def _next_command(file: LaunchFile, line: int) -> int | None:
    """Return the number of the next line that is neither empty nor a comment, within the block of a document."""
    for number in range(line + 1, min(len(file.lines), line + _MAX_LINES) + 1):
        text = file.lines[number - 1]
        if file.kind == "markdown" and _FENCE.match(text):
            return None
        if not _NO_COMMAND.match(text):
            return number
    return None


def _found(file: LaunchFile, site: LaunchSite, cut: _Cut) -> Finding:
    start, end, text = cut.edit or (0, 0, "")
    launcher = "the launch" if site.command.launcher == "other" else shown(site.command.launcher)
    script = shown(site.command.script) if site.command.script else launcher
    repair = "join the lines: a backslash is the last character of each line but the last, and no comment is between"
    return rules.DC815.found(
        f"{cut.why}, so the command ends there: the shell runs {shown(cut.option)} of line {cut.rest} as a command, "
        f"and {script} does not get it",
        severity=Severity.WARNING if file.kind == "markdown" else None,
        where=site.where()._replace(line=cut.line, column=1, end_line=cut.line, end_column=None),
        evidence={"option": cut.option, "next_line": cut.rest},
        fix=Fix(
            repair,
            edits=(Edit(file.path, cut.line, start, cut.line, end, text),) if cut.edit else (),
            where="launch-line",
            risk="the launch then gets options that it did not get so far" if cut.edit else None,
        ),
    )
