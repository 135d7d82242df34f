"""Read launcher options as Python's argparse reads them, for a table of options.

torchrun, accelerate and deepspeed all leave their command line to argparse, with the script as a positional and the
rest as a remainder. The rules (CPython ``Lib/argparse.py``, 3.10 to 3.14): a long option may be cut short where only
one option string begins so (two spellings of one option count as two), a value may look like a negative number but
not like an option, ``--`` ends the options, and nothing behind the script is an option. It knows no launcher.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ._shell import has_expansion, is_expansion
from .model import LaunchProblem

_NEGATIVE_NUMBER = r"-\d+|-\d*\.\d+"
#: Dashes that text processors and web pages put in the place of two hyphens.
_LONG_DASHES = "\u2012\u2013\u2014\u2015\u2212"
#: Names between these lengths, in characters with their hyphens, are compared with the options.
_SHORTEST_NAME, _MAX_NAME_LENGTH = 6, 64
# What a variable's name says about what it holds.
_HOLDS_SCRIPT = r"(?i)SCRIPT|FILE|ENTRY|PROGRAM|MODULE|MAIN|TRAIN\b|\.py"
_HOLDS_OPTIONS = r"(?i)(?:\b|_)ARGS?|OPTS|OPTIONS|FLAGS|PARAMS|DIST|LAUNCH|RDZV|\[[@*]\]|\$[@*]"


class OptionTable(NamedTuple):
    """The options of one launcher."""

    launcher: str
    #: every spelling of every option, to the option's name
    options: Mapping[str, str]
    #: names of the options that take no value
    flags: frozenset[str]
    #: long options may be cut short (argparse's ``allow_abbrev``)
    abbreviations: bool = True
    #: an option that is not listed is unknown to the launcher, not only to this table
    complete: bool = True
    #: beginnings of long options that all take a value, written with ``_`` (``--fsdp_``)
    families: tuple[str, ...] = ()
    #: what stands in a message about an option that the launcher does not have
    release: str = ""


class GivenValue(NamedTuple):
    """A value, and the option or variable that gave it, as it was written."""

    value: str
    word: str


class OptionReading(NamedTuple):
    """What a launcher reads out of its words."""

    given: Mapping[str, GivenValue]
    flags: frozenset[str]
    #: from the script on; empty where there is none
    rest: tuple[str, ...]
    problems: tuple[LaunchProblem, ...]
    #: a variable among the options may hold any more of them
    open_ended: bool
    #: ``--`` stood before the script
    separated: bool


def candidates(word: str, table: OptionTable) -> list[tuple[str, str | None]] | None:
    """The options that a word can mean, each with the value that is glued to it.

    None: the word is no option; an empty list: an option that the launcher does not have; several: ambiguous.
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
    """Words behind the script that argparse calls ambiguous all the same, before Python 3.12.8 and 3.13.1.

    Those versions sort out every word of the line before the script claims the rest (CPython gh-58573,
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
    """Read the words behind the launcher's name, up to and including the script and its arguments."""
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
        """What a variable in the place of the script holds: ``options``, the ``script``, or perhaps ``both``."""
        likely = re.search(_HOLDS_OPTIONS, word) is not None
        if not likely and (re.search(_HOLDS_SCRIPT, word) or "module" in self.flags):
            return "script"
        if self.variables_are_options:
            return "options"
        ahead = _OptionReader(self.words[self.position + 1 :], self.table, variables_are_options=True).read()
        if ahead.problems or not ahead.rest:
            # What follows is no line of options that ends in a script.
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
            f"{self.table.launcher} can't tell which option {name} is, expected one of {', '.join(spellings)} in full",
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
        """Whether the word behind an option that is not known is its value: the script must not be taken for it."""
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
    # Where the table is not complete, a word that is merely alike may be an option of another release.
    near = difflib.get_close_matches(spelling, plain, n=1, cutoff=0.8 if table.complete else 0.9)
    # --nprocs is far from --nproc-per-node by letters, and still nothing else can be meant.
    near = near or [option for option in plain if option.startswith(spelling[:-1]) and len(spelling) > _SHORTEST_NAME]
    return plain[near[0]] if len(near) == 1 else None
