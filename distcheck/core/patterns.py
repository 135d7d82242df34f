"""Regular expressions of modules, compiled when one is first used: a short run needs few of them.

Python tries alternatives that begin with a word boundary or a lookbehind at each character. To find first whether the
text holds a literal of one of them takes a small part of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, AnyStr, cast


class _Lazy:
    """Has the methods of the pattern; each is kept here once it was used."""

    def __init__(self, text: Any, flags: int) -> None:
        self._made = (text, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)
        return found


class _Guarded(_Lazy):
    """Searches only texts that hold one of its literals."""

    def __init__(self, text: Any, flags: int, literals: tuple[Any, ...]) -> None:
        super().__init__(text, flags)
        self.literals = literals
        self._pattern = _Lazy(text, flags)

    def search(self, text: Any, *span: int) -> re.Match[Any] | None:
        found: re.Match[Any] | None = self._pattern.search(text, *span) if self._may_match(text) else None
        return found

    def finditer(self, text: Any, *span: int) -> Iterator[re.Match[Any]]:
        found: Iterator[re.Match[Any]] = self._pattern.finditer(text, *span) if self._may_match(text) else iter(())
        return found

    def _may_match(self, text: Any) -> bool:
        return any(literal in text for literal in self.literals)


def lazy(text: AnyStr, flags: int = 0, *, literals: tuple[AnyStr, ...] = ()) -> re.Pattern[AnyStr]:
    """Return a pattern for its methods only: ``re`` itself does not take it in place of a pattern.

    A test compiles all of them, so that a wrong one is found there.

    :param literals: one of them is in every match; ``search`` and ``finditer`` pass over texts without any
    """
    made = _Guarded(text, flags, literals) if literals else _Lazy(text, flags)
    return cast("re.Pattern[AnyStr]", made)
