"""Parse launcher options like Python's argparse, with a table of options.

torchrun, accelerate and deepspeed use argparse, with the script as a positional and the rest as a remainder. The rules
are those of CPython ``Lib/argparse.py``, 3.10 to 3.14:

- A long option may be abbreviated if only one option string begins so. Two spellings of one option count as two.
- A value may look like a negative number, but not like an option.
- ``--`` ends the options, and nothing after the script is an option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ._shell import has_expansion, is_expansion
from .model import LaunchProblem

_NEGATIVE_NUMBER = r"-\d+|-\d*\.\d+"
#: Dashes that text processors and web pages use instead of two hyphens.
_LONG_DASHES = "\u2012\u2013\u2014\u2015\u2212"
#: Shortest and longest name that is compared with the options, in characters with hyphens.
_SHORTEST_NAME, _MAX_NAME_LENGTH = 6, 64
# What the name of a variable suggests about its value.
_HOLDS_SCRIPT = r"(?i)SCRIPT|FILE|ENTRY|PROGRAM|MODULE|MAIN|TRAIN\b|\.py"
_HOLDS_OPTIONS = r"(?i)(?:\b|_)ARGS?|OPTS|OPTIONS|FLAGS|PARAMS|DIST|LAUNCH|RDZV|\[[@*]\]|\$[@*]"


class OptionTable(NamedTuple):
    """The options of one launcher."""

    launcher: str
    #: the option's name for every spelling
    options: Mapping[str, str]
    #: names of the options that take no value
    flags: frozenset[str]
    #: long options may be abbreviated (argparse's ``allow_abbrev``)
    abbreviations: bool = True
    #: the launcher refuses unlisted options
    complete: bool = True
    #: prefixes of long options with a value, written with ``_`` (``--fsdp_``)
    families: tuple[str, ...] = ()
    #: the release in a message about an unknown option
    release: str = ""


class GivenValue(NamedTuple):
    """A value, and the option or variable that gave it, as written."""

    value: str
    word: str


class OptionReading(NamedTuple):
    """What a launcher reads from its words."""

    given: Mapping[str, GivenValue]
    flags: frozenset[str]
    #: from the script on; empty where there is none
    rest: tuple[str, ...]
    problems: tuple[LaunchProblem, ...]
    #: a variable among the options may hold more of them
    open_ended: bool
    #: ``--`` stood before the script
    separated: bool


def candidates(word: str, table: OptionTable) -> list[tuple[str, str | None]] | None:
    """Return the options that a word can mean, each with the value after ``=``.

    None: the word is no option. An empty list: an unknown option. Several: ambiguous.
    """
    if not word.startswith("-"):
        return None
    if word in table.options:
        return [(table.options[word], None)]
    if word == "-":
        return None
    name, equals, glued = word.partition("=")
    value = glued if equals else None
    if equals and name in table.options:
        return [(table.options[name], value)]
    if table.families and name.replace("-", "_").replace("__", "--", 1).startswith(table.families):
        return [(name, value)]
    found: list[tuple[str, str | None]]
    if word.startswith("--"):
        found = [
            (table.options[option], value)
            for option in table.options
            if table.abbreviations and option.startswith(name)
        ]
    else:
        found = [(table.options[word[:2]], word[2:])] if word[:2] in table.options else []
    if found:
        return found
    if re.fullmatch(_NEGATIVE_NUMBER, word) or " " in word:
        return None
    return []


def shadowed(words: Sequence[str], table: OptionTable) -> tuple[str, ...]:
    """Return the words after the script that argparse calls ambiguous before Python 3.12.8 and 3.13.1.

    Those versions classify every word of the line before the script takes the rest (CPython gh-58573,
    pytorch/pytorch#120601).
    """
    found: list[str] = []
    for word in words:
        if word == "--":
            break
        if word.startswith("--") and len(candidates(word, table) or ()) > 1:
            found.append(word)
    return tuple(found)


def read_arguments(words: Sequence[str], table: OptionTable) -> OptionReading:
    """Parse the words after the launcher's name, up to the script and its arguments."""
    return _OptionReader(words, table, variables_are_options=False).read()


class _OptionReader:
    def __init__(self, words: Sequence[str], table: OptionTable, *, variables_are_options: bool) -> None:
        self.words = words
        self.table = table
        self.variables_are_options = variables_are_options
        self.position = 0
        self.given: dict[str, GivenValue] = {}
        self.flags: set[str] = set()
        self.problems: list[LaunchProblem] = []
        self.open_ended = False
        self.separated = False

    def read(self) -> OptionReading:
        while self.position < len(self.words):
            word = self.words[self.position]
            if word == "--":
                self.position += 1
                self.separated = True
                break
            if word[:1] and word[0] in _LONG_DASHES:
                self._problem("unknown-option", word, f"{word} begins with a long dash, expected two hyphens (--)")
                word = "--" + word.lstrip(_LONG_DASHES + "-")
            found = candidates(word, self.table)
            if found is None:
                holds = self._holds(word) if is_expansion(word) else "script"
                if holds == "script":
                    break
                self.open_ended = True
                if holds == "both":
                    return self._finish(())
                self.position += 1
            else:
                self.position += 1
                self._option(word, found)
        return self._finish(self.words[self.position :])

    def _finish(self, rest: Sequence[str]) -> OptionReading:
        return OptionReading(
            self.given, frozenset(self.flags), tuple(rest), tuple(self.problems), self.open_ended, self.separated
        )

    def _problem(self, kind: str, word: str, text: str) -> None:
        self.problems.append(LaunchProblem(kind, word, text))

    def _holds(self, word: str) -> str:
        """Return what a variable instead of the script holds: ``options``, the ``script``, or perhaps ``both``."""
        likely = re.search(_HOLDS_OPTIONS, word) is not None
        if not likely and (re.search(_HOLDS_SCRIPT, word) or "module" in self.flags):
            return "script"
        if self.variables_are_options:
            return "options"
        ahead = _OptionReader(self.words[self.position + 1 :], self.table, variables_are_options=True).read()
        if ahead.problems or not ahead.rest:
            # The rest is no line of options that ends in a script.
            return "both" if likely else "script"
        script = ahead.rest[0]
        sure = script.endswith(".py") or "module" in ahead.flags or is_expansion(script)
        if not likely and not sure:
            return "script"
        self.variables_are_options = True
        return "options"

    def _option(self, word: str, found: list[tuple[str, str | None]]) -> None:
        name = word.partition("=")[0]
        if not found:
            self._unknown(word, name)
            return
        if len(found) > 1:
            self._ambiguous(word, name, found)
            return
        option, glued = found[0]
        clustered = not word.startswith("--") and word[2:3] != "="
        name = word[:2] if clustered else name
        while option in self.table.flags:
            self.flags.add(option)
            if glued is None:
                return
            # -mr3 is -m -r3
            following = "-" + glued[:1]
            if not clustered or following not in self.table.options:
                self._problem("bad-value", word, f"{word} gives {glued!r} to {name}, which takes no value")
                return
            option, name, glued = self.table.options[following], following, glued[1:] or None
        self._valued(option, name, glued)

    def _valued(self, option: str, name: str, glued: str | None) -> None:
        if glued is not None:
            self.given[option] = GivenValue(glued, name)
            return
        following = self.words[self.position] if self.position < len(self.words) else None
        if following is None:
            self._problem("missing-value", name, f"{name} stands at the end of the command without its value")
        elif following == "--" or candidates(following, self.table) is not None:
            self._problem("missing-value", name, f"{name} expects a value and is followed by {following}")
        else:
            self.position += 1
            self.given[option] = GivenValue(following, name)

    def _ambiguous(self, word: str, name: str, found: list[tuple[str, str | None]]) -> None:
        spellings = [option for option in self.table.options if option.startswith(name)]
        self._problem(
            "unknown-option",
            word,
            f"{self.table.launcher} finds {name} ambiguous, expected one of {', '.join(spellings)} in full",
        )
        options = {option for option, _ in found}
        if not options & self.table.flags:
            before = len(self.problems)
            self._valued(found[0][0], name, found[0][1])
            del self.problems[before:]
            if len(options) > 1:
                self.given.pop(found[0][0], None)
        elif len(options) == 1:
            self.flags.update(options)

    def _unknown(self, word: str, name: str) -> None:
        if has_expansion(name):
            self.open_ended = True
            return
        near = _nearest(name, self.table)
        if near is not None or self.table.complete:
            hint = f", did you mean {near}" if near else ""
            release = f" ({self.table.release})" if self.table.release else ""
            self._problem("unknown-option", word, f"{self.table.launcher} has no option {name}{release}{hint}")
        if "=" not in word and self._takes_value(near):
            self.position += 1

    def _takes_value(self, near: str | None) -> bool:
        """Return whether the word after an unknown option is its value, not the script."""
        if self.position + 1 >= len(self.words):
            return False
        following = self.words[self.position]
        if following == "--" or candidates(following, self.table) is not None:
            return False
        if near is not None:
            return self.table.options[near] not in self.table.flags
        return not following.endswith(".py") and any(later.endswith(".py") for later in self.words[self.position + 1 :])


def _nearest(name: str, table: OptionTable) -> str | None:
    import difflib  # slow to import, and only needed where something is wrong

    spelling = "--" + name.strip("-").replace("_", "-")[:_MAX_NAME_LENGTH]
    plain: dict[str, str] = {}
    for option in table.options:
        if option.startswith("--") and (option.replace("_", "-") not in plain or "_" in name):
            plain[option.replace("_", "-")] = option
    # The table is incomplete: a similar word may be an option of another release.
    near = difflib.get_close_matches(spelling, plain, n=1, cutoff=0.8 if table.complete else 0.9)
    # --nprocs differs from --nproc-per-node in many letters, but its meaning is clear.
    near = near or [option for option in plain if option.startswith(spelling[:-1]) and len(spelling) > _SHORTEST_NAME]
    return plain[near[0]] if len(near) == 1 else None
