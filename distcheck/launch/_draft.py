"""The launch command while it is being read: what is known so far, and how a value comes in.

Each part of a command line (wrappers, launcher, variables) writes into one draft; :meth:`Draft.finish` makes the
immutable :class:`~distcheck.launch.model.LaunchCommand` of it. A value that only the shell knows goes to ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from ._shell import has_expansion
from .model import HIGHEST_PORT, LaunchCommand, LaunchProblem


def integer(text: str) -> int | None:
    """The number, as Python's ``int`` reads it (the launchers use it too), or None."""
    try:
        return int(text)
    except ValueError:
        return None


class Draft:
    """What has been read of a command so far."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.launcher = "other"
        self.wrappers: list[str] = []
        self.assignments: dict[str, str] = {}
        self.fields: dict[str, Any] = {}
        self.unknown: set[str] = set()
        self.problems: list[LaunchProblem] = []

    def copy(self) -> Draft:
        """A draft of its own with the same content, to try a reading on."""
        other = Draft(self.environ)
        other.__dict__.update({name: copy(value) for name, value in vars(self).items()})
        return other

    def take(self, other: Draft) -> None:
        """Go on with what another draft holds."""
        self.__dict__.update(other.__dict__)

    def assign(self, name: str, value: str) -> None:
        """A variable is set for the command: it is in the environment of what follows."""
        self.assignments[name] = value
        self.environ[name] = value

    def set(self, field: str, value: Any) -> None:
        """A value is known."""
        self.unknown.discard(field)
        self.fields[field] = value

    def leave_open(self, fields: Iterable[str]) -> None:
        """These can't be known before the shell runs."""
        for field in fields:
            self.fields.pop(field, None)
            self.unknown.add(field)

    def problem(self, kind: str, word: str, text: str) -> None:
        """Something can't work."""
        self.problems.append(LaunchProblem(kind, word, text))

    def text(self, field: str, value: str) -> None:
        """A field that is a text."""
        if has_expansion(value):
            self.leave_open((field,))
        else:
            self.set(field, value)

    def number(
        self,
        field: str,
        value: str,
        word: str,
        *,
        low: int | None = None,
        high: int | None = None,
        what: str = "a whole number",
    ) -> None:
        """A field that is a whole number between two bounds, both included."""
        if has_expansion(value):
            self.leave_open((field,))
            return
        number = integer(value)
        if number is None or (low is not None and number < low) or (high is not None and number > high):
            self.problem("bad-value", word, f"{word} is {value!r}, expected {what}")
        else:
            self.set(field, number)

    def port(self, field: str, value: str, word: str) -> None:
        """A field that is a port."""
        self.number(field, value, word, low=0, high=HIGHEST_PORT, what=f"a port from 0 to {HIGHEST_PORT}")

    def script(self, rest: Sequence[str], *, module: bool) -> None:
        """The words from the script (or module) on."""
        self.text("script", rest[0])
        self.set("module", module)
        self.set("script_args", tuple(rest[1:]))

    def finish(self, argv: Sequence[str]) -> LaunchCommand:
        """The immutable command."""
        return LaunchCommand(
            launcher=self.launcher,
            wrappers=tuple(self.wrappers),
            assignments=self.assignments,
            argv=tuple(argv),
            problems=tuple(self.problems),
            unknown=frozenset(self.unknown),
            **self.fields,
        )
