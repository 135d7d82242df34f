"""The launch command while it is parsed.

Each part of a command line (wrappers, launcher, variables) writes to one draft. :meth:`Draft.finish` returns the
immutable :class:`~distcheck.launch.model.LaunchCommand`. A value that only the shell knows is in ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from ._shell import has_expansion
from .model import HIGHEST_PORT, LaunchCommand, LaunchProblem, integer


class Draft:
    """What was read of a command so far."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.launcher = "other"
        self.wrappers: list[str] = []
        self.assignments: dict[str, str] = {}
        self.fields: dict[str, Any] = {}
        self.unknown: set[str] = set()
        self.problems: list[LaunchProblem] = []

    def copy(self) -> Draft:
        """Return an independent draft with the same content."""
        other = Draft(self.environ)
        other.__dict__.update({name: copy(value) for name, value in vars(self).items()})
        return other

    def take(self, other: Draft) -> None:
        """Continue with the content of another draft."""
        self.__dict__.update(other.__dict__)

    def assign(self, name: str, value: str) -> None:
        """Set a variable for the command and its environment."""
        self.assignments[name] = value
        self.environ[name] = value

    def set(self, field: str, value: Any) -> None:
        """Set a field to a known value."""
        self.unknown.discard(field)
        self.fields[field] = value

    def leave_open(self, fields: Iterable[str]) -> None:
        """Mark fields that only the shell knows."""
        for field in fields:
            self.fields.pop(field, None)
            self.unknown.add(field)

    def problem(self, kind: str, word: str, text: str) -> None:
        """Add a problem."""
        self.problems.append(LaunchProblem(kind, word, text))

    def refuse(self, word: str, value: str, expected: str) -> None:
        """Add the problem of a value that the launcher refuses."""
        self.problem("bad-value", word, f"{word} is {value!r}, expected {expected}")

    def text(self, field: str, value: str) -> None:
        """Set a text field."""
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
        """Set a field that is a whole number between two bounds, both included."""
        if has_expansion(value):
            self.leave_open((field,))
            return
        number = integer(value)
        if number is None or (low is not None and number < low) or (high is not None and number > high):
            self.refuse(word, value, what)
        else:
            self.set(field, number)

    def port(self, field: str, value: str, word: str) -> None:
        """Set a field that is a port."""
        self.number(field, value, word, low=0, high=HIGHEST_PORT, what=f"a port from 0 to {HIGHEST_PORT}")

    def script(self, rest: Sequence[str], *, module: bool) -> None:
        """Set the script (or module) and its arguments."""
        self.text("script", rest[0])
        self.set("module", module)
        self.set("script_args", tuple(rest[1:]))

    def finish(self, argv: Sequence[str]) -> LaunchCommand:
        """Return the immutable command."""
        return LaunchCommand(
            launcher=self.launcher,
            wrappers=tuple(self.wrappers),
            assignments=self.assignments,
            argv=tuple(argv),
            problems=tuple(self.problems),
            unknown=frozenset(self.unknown),
            **self.fields,
        )
