"""Regular expressions of modules, compiled when one is first used: a short run needs few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Has the methods of the pattern; each is kept here once it was used."""

    def __init__(self, text: Any, flags: int) -> None:
        self._made = (text, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)
        return found


def lazy(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern for its methods only: ``re`` itself does not take it in place of a pattern.

    A test compiles all of them, so that a wrong one is found there.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(text, flags))
