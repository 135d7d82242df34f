"""The options and the words of the prolog's one line."""

from __future__ import annotations

from typing import NamedTuple

#: Seconds that a run may take, from the start of Python to the exit status.
LIMIT_S = 5.0

#: Longest line, in characters without the line's end.
LONGEST_LINE = 120
#: What each line begins with.
NAME = "distcheck prolog: "
#: The words after it; scripts may rely on them. Only FAILED comes with status 1.
OK, WARNING, FAILED, NOT_CHECKED = "ok", "warning", "FAILED", "NOT CHECKED"


class PrologOptions(NamedTuple):
    """What the command line asks for."""

    ignore: tuple[str, ...] = ()
    #: seconds for all of it
    limit_s: float = LIMIT_S
    config: str | None = None
    isolated: bool = False


def one_line(text: str) -> str:
    """A text as printable ASCII of at most LONGEST_LINE characters, whatever a device calls itself."""
    words = " ".join(text.replace(" °C", " C").replace("…", "...").split())
    plain = "".join(char if " " <= char <= "~" else ascii(char)[1:-1] for char in words)
    return plain if len(plain) <= LONGEST_LINE else plain[: LONGEST_LINE - 3] + "..."
