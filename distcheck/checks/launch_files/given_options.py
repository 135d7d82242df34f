"""Which values a launch line gives the options of its script, and whether the path of a finding is taken with them.

The conditions come from the source, see :mod:`..source.option_paths`. A value that only the shell knows is unknown, and
so are all options that are not passed where a line passes on what it got (``"$@"``).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import LAUNCH, NEEDS

from .yaml_text import Node

Expression = tuple[Any, ...]


class _Unknown:
    """Stands for a value that is not known."""


#: Placeholders and variables in a word.
_OPEN = lazy(r"[$`<>{}]|^\[|\.\.\.|…")
#: A word that stands for any number of options.
_ANY_OPTIONS = lazy(r"\$[@*]|\$\{[@*]|^\[|^<|^\.\.\.$|^…$|\$\{?\w*(?i:arg|opt|flag|extra|param|cmd|config)")
#: More launch lines of one script are not kept.
_MOST_LAUNCHES = 60
_NUMBER = lazy(r"-\d*\.?\d+(?:[eE][+-]?\d+)?")
_YES = frozenset({"true", "yes", "y", "t", "1", "on"})
_CONVERT: dict[str, Callable[[str], Any]] = {"": str, "str": str, "int": int, "float": float, "bool": bool}


def _is_in(one: Any, other: Any) -> bool:
    return bool(one in other)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "is": operator.eq, "!=": operator.ne, "is not": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "in": _is_in,
    "not in": lambda one, other: one not in other,
}  # fmt: skip
#: Rules about what fails in one process as well: all launches of a script count.
_IN_ONE_PROCESS = ("DC611",)


class GivenOptions:
    """The values that one launch gives to options.

    :param words: what the script gets
    :param configuration: returns the configuration file that the words name, or None
    :param one_per_gpu: the launch shows as many GPUs as it starts processes
    """

    def __init__(
        self,
        words: Sequence[str],
        configuration: Callable[[], Node | None] = lambda: None,
        *,
        one_per_gpu: bool = False,
    ) -> None:
        self.words = words
        self.one_per_gpu = one_per_gpu
        self.configuration = functools.cache(configuration)
        self._values: dict[Expression, Any] = {}

    def takes(self, needed: Expression) -> bool | None:
        """Return whether a script with these options takes a path, or None if that is not known."""
        return _truth(self._value(needed, None))

    def excluding(self, needed: Expression) -> str:
        """Return what the launch passes, or does not pass, so that a path is not taken."""
        for option in _options(needed):
            if _truth(self._value(needed, option)) is not False:
                continue
            if option[0] == "g":
                return "shows as many GPUs as it starts processes"
            if option[0] == "y":
                return f"has a configuration file with another {'.'.join(option[1:])}"
            for number, word in enumerate(self.words):
                if word.partition("=")[0] in option[2]:
                    has_value = option[3] is None and "=" not in word and number + 1 < len(self.words)
                    return f"passes {word} {self.words[number + 1]}" if has_value else f"passes {word}"
            return f"does not pass {max(option[2], key=len)}"
        return "has other options"

    def _value(self, needed: Expression, only: Expression | None) -> Any:
        """Return the value of an expression.

        :param only: the option that counts; all if None
        """
        kind = needed[0]
        if kind == "k":
            return needed[1]
        if kind in ("o", "y", "g"):
            if only not in (None, needed) or (kind == "g" and not self.one_per_gpu):
                return _Unknown
            if kind == "g":
                return False
            if needed not in self._values:
                known = _given(self.words, *needed[1:]) if kind == "o" else self._configured(needed[1:])
                self._values[needed] = known
            return self._values[needed]
        if kind == "not":
            truth = _truth(self._value(needed[1], only))
            return _Unknown if truth is None else not truth
        if kind in ("and", "or"):
            truths = [_truth(self._value(part, only)) for part in needed[1:]]
            decisive = kind == "or"
            return decisive if decisive in truths else _Unknown if None in truths else not decisive
        if kind == "if":
            truth = _truth(self._value(needed[1], only))
            return _Unknown if truth is None else self._value(needed[2 if truth else 3], only)
        if kind == "l":
            items = [self._operand(part, only) for part in needed[1:]]
            return _Unknown if _Unknown in items else items
        if kind == "=":
            left, right = (self._operand(part, only) for part in needed[2:4])
            if _Unknown in (left, right):
                return _Unknown
            try:
                return _COMPARE[needed[1]](left, right)
            except (TypeError, KeyError):
                return _Unknown
        return _Unknown

    def _operand(self, needed: Expression, only: Expression | None) -> Any:
        """Return the value of a part of a comparison: ``or`` and ``and`` give one of their values there."""
        if needed[0] not in ("and", "or"):
            return self._value(needed, only)
        value: Any = _Unknown
        for part in needed[1:]:
            value = self._operand(part, only)
            if value is _Unknown or bool(value) is (needed[0] == "or"):
                break
        return value

    def _configured(self, keys: tuple[str, ...]) -> Any:
        """Return a value of the configuration file; unknown if another word may replace it."""
        if any(keys[-1] in word and configuration_in(word) is None for word in self.words):
            return _Unknown
        root = self.configuration()
        node = None if root is None else root.get(*keys)
        if node is None or node.kind != "value" or node.open_ended:
            return _Unknown
        return None if node.is_null else node.scalar.value


def configuration_in(word: str) -> str | None:
    """Return the path of a configuration file in a word, or None."""
    path = word.rpartition("=")[2]
    return path if path.endswith((".yaml", ".yml", ".json")) and not _OPEN.search(path) else None


def _truth(value: Any) -> bool | None:
    return None if value is _Unknown else bool(value)


def _options(needed: Expression) -> Iterator[Expression]:
    if needed[0] in ("o", "y", "g"):
        yield needed
    elif needed[0] != "k":
        for part in needed[1:]:
            if isinstance(part, tuple):
                yield from _options(part)


def _given(
    words: Sequence[str],
    name: str,
    spellings: tuple[str, ...],
    action: str | None,
    default: Expression,
    kind: str,
    choices: tuple[Any, ...],
) -> Any:
    """Return the value of one option."""
    if not all(spelling.startswith("-") for spelling in spellings):
        # a positional argument: known by its choices only
        found = [word for word in words if word in choices]
        return found[0] if len(found) == 1 and action is None else _Unknown
    value: Any = None
    is_given = is_open = False
    after_option = False
    for number, word in enumerate(words):
        spelled, equals, text = word.partition("=")
        following = words[number + 1] if number + 1 < len(words) else "-"
        if spelled in spellings:
            is_given = True
            value = _passed(action, kind, text if equals else following, spelled)
        elif action in ("optional", "bool") and spelled.replace("_", "-") == f"--no-{name.replace('_', '-')}":
            is_given, value = True, False
        elif len(spelled) > 3 and any(one.startswith(spelled) for one in spellings):
            return _Unknown  # an abbreviation
        elif _ANY_OPTIONS.search(spelled) or (word.startswith("$") and not after_option):
            is_open = True
        after_option = word.startswith("-") and not equals
    if is_given:
        return value
    if len(words) == 1 and words[0].endswith((".json", ".yaml", ".yml")):
        is_open = True  # a file with all options
    if is_open or default[0] != "k":
        return _Unknown
    return _converted(default[1], kind) if isinstance(default[1], str) else default[1]


def _passed(action: str | None, kind: str, text: str, spelled: str) -> Any:
    """Return the value of an option that is given."""
    if action in ("store_true", "store_false"):
        return action == "store_true"
    if action == "bool" and (text.startswith("-") or text == ""):
        return True
    if action == "bool" and not _OPEN.search(text):
        return text.lower() in _YES
    if action == "optional":
        return not spelled.startswith("--no-")
    if action not in (None, "store") or _OPEN.search(text) or (text.startswith("-") and not _NUMBER.fullmatch(text)):
        return _Unknown
    return _converted(text, kind)


def _converted(text: str, kind: str) -> Any:
    """Return what the type of an option makes of a text."""
    if kind not in _CONVERT:
        return text.lower() in _YES if "bool" in kind.lower() else _Unknown
    try:
        return _CONVERT[kind](text)
    except ValueError:
        return _Unknown


class DocumentedLaunch(NamedTuple):
    """A launch line of a script."""

    #: ``README.md:12``
    where: str
    script_args: tuple[str, ...]
    #: it starts several ranks, or as many as a variable holds
    several: bool
    #: the folder in which it starts, as far as its file shows that
    folder: str
    #: it shows as many GPUs as it starts processes, on one host
    one_per_gpu: bool


class Needed(NamedTuple):
    """What the path of a finding needs of the launches of one script; evidence has it as a plain tuple."""

    script: str
    #: it starts its ranks itself
    spawns: bool
    #: one process can't have the finding
    alone: bool
    needed: Expression
    #: those in launch files
    launches: tuple[tuple[Any, ...], ...] = ()
    #: a launch line has options that are not known
    is_open: bool = False


def with_launches(
    finding: Finding, launches: Callable[[str], Iterable[DocumentedLaunch]], is_mentioned: Callable[[str], bool]
) -> Finding:
    """Return a finding with the launch lines of its scripts in launch files.

    :param is_mentioned: whether a comment starts a script with a launcher, so that its options are not known
    """
    needs = []
    for one in itertools.starmap(Needed, finding.evidence[NEEDS]):
        known = tuple(tuple(launch) for launch in itertools.islice(launches(one.script), _MOST_LAUNCHES + 1))
        is_open = len(known) > _MOST_LAUNCHES or is_mentioned(one.script)
        needs.append(tuple(one._replace(launches=known[:_MOST_LAUNCHES], is_open=is_open)))
    return finding._replace(evidence={**finding.evidence, NEEDS: tuple(needs)})


def by_launches(
    finding: Finding,
    launches: Callable[[str], Iterable[DocumentedLaunch]],
    is_mentioned: Callable[[str], bool],
    options: Callable[[str, DocumentedLaunch], GivenOptions],
) -> Finding:
    """Return a finding as its launch lines decide it: a note if no launch that can have it takes its path.

    :param launches: the launch lines of a script in documents
    :param options: returns what a launch line of a script gives to options
    """
    evidence = {key: value for key, value in finding.evidence.items() if key != NEEDS}
    undecided = finding._replace(evidence=evidence)
    if finding.severity == Severity.INFO:
        return undecided
    reasons: list[Callable[[], str]] = []
    for one in itertools.starmap(Needed, finding.evidence[NEEDS]):
        why = None
        for launch in (*itertools.starmap(DocumentedLaunch, one.launches), *launches(one.script)):
            if not launch.several and not one.spawns and finding.code not in _IN_ONE_PROCESS:
                if one.alone and why is None:
                    why = functools.partial("{} starts {} as one process".format, launch.where, one.script)
                continue
            given = options(one.script, launch)
            taken = given.takes(one.needed)
            if taken:
                return finding._replace(evidence={**evidence, LAUNCH: launch.where})
            if taken is None:
                return undecided
            why = functools.partial(_why_not, launch, given, one.needed, one.spawns)
        if why is None or one.is_open or is_mentioned(one.script):
            return undecided
        reasons.append(why)
    return undecided._replace(severity=Severity.INFO, message=f"{finding.message}; {reasons[0]()}")


def _why_not(launch: DocumentedLaunch, given: GivenOptions, needed: Expression, spawns: bool) -> str:
    several = " with several ranks" if launch.several or spawns else ""
    return f"no documented launch{several} reaches this line: {launch.where} {given.excluding(needed)}"
