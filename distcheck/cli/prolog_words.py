"""The options of the prolog, and the text of its one line."""

from __future__ import annotations

from typing import NamedTuple

#: Seconds that a run may take, from the start of Python to the exit status.
LIMIT_S = 5.0

#: Longest line, in characters without the line's end.
LONGEST_LINE = 120
#: The beginning of each line.
NAME = "distcheck prolog: "
#: The words after it; scripts may rely on them. Only FAILED comes with status 1.
OK, WARNING, FAILED, NOT_CHECKED = "ok", "warning", "FAILED", "NOT CHECKED"


class PrologOptions(NamedTuple):
    """The options of the command line."""

    ignore: tuple[str, ...] = ()
    #: seconds for the whole run
    limit_s: float = LIMIT_S
    config: str | None = None
    isolated: bool = False
    #: rules that drain the node as well if they were not checked
    must_check: tuple[str, ...] = ()


def one_line(text: str, room: int = LONGEST_LINE) -> str:
    """Return a text as printable ASCII of at most `room` characters."""
    words = " ".join(text.replace(" °C", " C").replace("…", "...").split())
    plain = "".join(char if " " <= char <= "~" else ascii(char)[1:-1] for char in words)
    return plain if len(plain) <= room else plain[: room - 3] + "..."
