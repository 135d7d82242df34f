"""Comments that silence findings: ``# noqa: DC201``, ``# distcheck: ignore[DC201]``, ``# distcheck: ignore-file[…]``.

A pure function from findings and comments to the findings that are left, those that were silenced, and what a comment
silences nothing. It reads no file, and knows nothing of per-file ignores and baselines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Where
from distcheck.core.patterns import lazy

_DIRECTIVE = lazy(
    r"#\s*distcheck:\s*(?P<kind>ignore-file|ignore)(?![\w-])\s*(?P<list>\[(?P<entries>[^\]]*)\])?"
    r"|#\s*noqa(?![\w-])(?:\s*:\s*(?P<codes>[^#]*))?",
    re.IGNORECASE,
)
#: A code in a list behind ``noqa``: what Flake8 and Ruff take for one (letters, then digits).
_CODE = lazy(r"[A-Za-z]+[0-9]+$")
#: What looks like a code of ours, however it is misspelt.
_OURS = lazy(r"DC[0-9A-Z]*$", re.IGNORECASE)


class Suppression(NamedTuple):
    """What one comment silences: rules by code (None: all of them) on its line or in its whole file."""

    line: int
    codes: tuple[str, ...] | None
    whole_file: bool
    #: written for us, so that it is worth a word where it silences nothing
    ours: bool
    text: str
    #: what names no rule, with the nearest that does
    unknown: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """Findings after the comments were heard."""

    kept: tuple[Finding, ...]
    silenced: tuple[Finding, ...]
    #: DC905, for comments that silence nothing
    unused: tuple[Finding, ...]
    #: (path, line, what is wrong) of entries that name no rule
    unknown: tuple[tuple[str, int, str], ...]


def read_comment(line: int, text: str) -> list[Suppression]:
    """Return what a comment silences; nothing for one that is about something else."""
    found = []
    for match in _DIRECTIVE.finditer(text):
        whole = match[0].strip()
        if match["kind"] is None:
            if match["codes"] is None:
                found.append(Suppression(line, None, False, False, whole))
                continue
            codes, unknown, length = _after_noqa(match["codes"])
            if codes or unknown:
                shown = text[match.start() : match.start("codes") + length].strip()
                found.append(Suppression(line, codes, False, True, shown, unknown))
            continue
        whole_file = match["kind"].lower() == "ignore-file"
        if match["list"] is None:
            found.append(Suppression(line, None, whole_file, True, whole))
            continue
        codes, unknown = _in_brackets(match["entries"])
        found.append(Suppression(line, codes, whole_file, True, whole, unknown))
    return found


def apply_suppressions(
    findings: Sequence[Finding],
    comments: Mapping[str, Iterable[tuple[int, str]]],
    *,
    checked_rule: Callable[[str], bool] = lambda code: True,
    lines_of: Callable[[Finding], Collection[int | None]] | None = None,
) -> Outcome:
    """Silence the findings that comments name, and report comments that silence nothing.

    A comment counts for a finding that begins or ends on its line.

    :param comments: by path: line and text of comments
    :param checked_rule: whether a rule was checked at all: a comment about one that was not is no unused one
    :param lines_of: the lines whose comments count for a finding, where it is not the first and the last
    """
    lines_of = _first_and_last if lines_of is None else lines_of
    by_path = {
        path: [item for line, text in found for item in read_comment(line, text)] for path, found in comments.items()
    }
    used: set[tuple[str, int, str, str]] = set()
    kept: list[Finding] = []
    silenced: list[Finding] = []
    for finding in findings:
        path = finding.where.path or ""
        items = by_path.get(path, ())
        lines = lines_of(finding) if items else ()
        heard = [item for item in items if _silences(item, finding, lines)]
        used.update((path, item.line, item.text, finding.code) for item in heard)
        (silenced if heard else kept).append(finding)
    unused: list[Finding] = []
    unknown: list[tuple[str, int, str]] = []
    for path, own in by_path.items():
        for item in own:
            unknown.extend((path, item.line, text) for text in item.unknown)
            idle = _unused(path, item, used, checked_rule)
            if idle is not None and not any(_silences(other, idle, (item.line,)) for other in own if other != item):
                unused.append(idle)
    return Outcome(tuple(kept), tuple(silenced), tuple(unused), tuple(unknown))


def _first_and_last(finding: Finding) -> tuple[int | None, int | None]:
    return finding.where.line, finding.where.end_line


def _silences(item: Suppression, finding: Finding, lines: Collection[int | None]) -> bool:
    if item.codes is not None and finding.code not in item.codes:
        return False
    return item.whole_file or (finding.where.line is not None and item.line in lines)


def _unused(
    path: str, item: Suppression, used: set[tuple[str, int, str, str]], checked_rule: Callable[[str], bool]
) -> Finding | None:
    """DC905 for a comment of which some or all silences nothing; a bare ``# noqa`` may be meant for other tools."""
    if not item.ours or (item.codes is not None and rules.DC905.code in item.codes):
        return None
    heard = {code for where, line, text, code in used if (where, line, text) == (path, item.line, item.text)}
    place = "in this file" if item.whole_file else "on this line"
    if item.codes is None:
        if heard:
            return None
        message = f"{item.text!r} silences nothing: no rule reports anything {place}"
    else:
        idle = [code for code in item.codes if code not in heard and checked_rule(code)]
        if not idle:
            return None
        message = f"{item.text!r} silences nothing of {', '.join(idle)}: not reported {place}"
    return rules.DC905.found(
        message,
        where=Where(path=path, line=item.line),
        evidence={"comment": item.text},
        fix=Fix("remove the comment, or the rules in it that silence nothing", where="code"),
    )


def _after_noqa(text: str) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Our codes behind ``noqa:``, what looks like one and is none, and how far the list goes; a reason may follow."""
    codes: list[str] = []
    unknown: list[str] = []
    position = 0
    for match in re.finditer(r"[,\s]*([^,\s]+)", text):
        word = match[1]
        name = _known(word)
        if name is not None:
            codes.append(name)
        elif _OURS.match(word):
            unknown.append(_why_unknown(word))
        elif not _CODE.match(word):
            break
        position = match.end()
    return tuple(dict.fromkeys(codes)), tuple(unknown), position


def _in_brackets(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    codes: list[str] = []
    unknown: list[str] = []
    for word in filter(None, re.split(r"[,\s]+", text)):
        name = _known(word)
        if name is None:
            unknown.append(_why_unknown(word))
        else:
            codes.append(name)
    return tuple(dict.fromkeys(codes)), tuple(unknown)


def _known(word: str) -> str | None:
    rule = rules.look_up(word)
    return None if rule is None else rule.code


def _why_unknown(word: str) -> str:
    try:
        rules.find(word)
    except rules.UnknownRule as error:
        return str(error)
    raise ValueError(f"{word!r} names a rule")
