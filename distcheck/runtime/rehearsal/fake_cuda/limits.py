"""What could not be simulated, as the script came across it: each item once for each line that needed it."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from distcheck.core.resources import PACKAGE


class NotSimulated(NamedTuple):
    """Something that only a real GPU has."""

    #: ``torch.cuda.CUDAGraph``
    what: str
    #: what was done in place of it
    instead: str
    #: ``train.py:88``, the line of the user's that needed it; empty where none is on the stack
    place: str

    @property
    def text(self) -> str:
        """``train.py:88: torch.compile: the function runs uncompiled``."""
        return f"{self.place}: {self.what}: {self.instead}" if self.place else f"{self.what}: {self.instead}"


class CannotSimulateError(RuntimeError):
    """The script needs what only a real GPU has, and can't go on without it."""


_notes: dict[NotSimulated, None] = {}
_OURS = PACKAGE


def note(what: str, instead: str) -> None:
    """Record what was needed, with the line that needed it."""
    _notes[NotSimulated(what, instead, caller())] = None


def refuse(what: str, why: str) -> CannotSimulateError:
    """The exception to raise where the script can't go on without it; it may catch it."""
    note(what, "an error was raised")
    return CannotSimulateError(f"{what} can't be rehearsed without a GPU: {why}")


def notes() -> tuple[NotSimulated, ...]:
    """All of this process, in the order in which they came up."""
    return tuple(_notes)


def caller() -> str:
    """The innermost line of the user's own on this thread's stack."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if _is_users(path):
            return f"{_short(path)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def _is_users(path: str) -> bool:
    if path.startswith("<"):
        return path in {"<stdin>", "<string>"}
    if path.startswith(_OURS + os.sep) or f"{os.sep}site-packages{os.sep}" in path or "dist-packages" in path:
        return False
    return not path.startswith(os.path.dirname(os.__file__) + os.sep)


def _short(path: str) -> str:
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if relative.startswith("..") else relative
