"""Frames of Python stacks: to which code they belong, and their location as a report names it."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType, TracebackType

from distcheck.core.resources import PACKAGE

from .model import Frame

_OURS = PACKAGE + os.sep
#: Deepest stack that is read.
_DEEPEST = 200
_known: dict[CodeType, str] = {}
_shown: dict[str, str] = {}
_scripts: set[str] = set()
_left_out: set[str] = set()


def this_is_own(path: str) -> None:
    """Count a file as the user's own, wherever it lies: the script that runs."""
    _scripts.add(path)
    _known.clear()


def leave_out_inside(path: str) -> None:
    """Hide frames below a file of ours: its own waits are not the script's."""
    _left_out.add(path)


def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({os.path.join(paths[name], "") for name in ("stdlib", "platstdlib", "purelib", "platlib")})


_LIBRARIES = _libraries()


def is_own(path: str) -> bool:
    """Return whether a file is neither Python's, nor installed, nor ours."""
    if path in _scripts:
        return True
    if path.startswith(("<", _OURS)) or "site-packages" in path or "dist-packages" in path:
        return False
    return not path.startswith(_LIBRARIES)


def shown_path(path: str) -> str:
    """Return a path relative to the working directory if it lies below it."""
    found = _shown.get(path)
    if found is None:
        found = path
        if os.path.isabs(path):
            try:
                folder = os.getcwd() + os.sep
            except OSError:
                folder = ""
            if folder and path.startswith(folder):
                found = path[len(folder) :]
        _shown[path] = found
    return found


def innermost_own(frame: FrameType | None) -> tuple[str, str]:
    """Return the innermost frame of the user's code: ``("train.py:88", "main")``, or ``("", "")``."""
    while frame is not None:
        code = frame.f_code
        path = _known.get(code)
        if path is None:
            path = _known[code] = shown_path(code.co_filename) if is_own(code.co_filename) else ""
        if path:
            return f"{path}:{frame.f_lineno}", code.co_name
        frame = frame.f_back
    return "", ""


def _frame(path: str, line: int | None, function: str) -> Frame:
    """Return the path of an installed file from its package on."""
    own, shown = is_own(path), shown_path(path)
    for folder in () if own else ("/site-packages/", "/dist-packages/"):
        shown = shown.rpartition(folder)[2]
    return Frame(shown, line or 0, function, own)


def stack_of(frame: FrameType | None) -> tuple[Frame, ...]:
    """Return a stack, innermost first, without our own frames."""
    found: list[Frame] = []
    while frame is not None and len(found) < _DEEPEST:
        path = frame.f_code.co_filename
        if path in _left_out:
            found.clear()
        if not path.startswith(_OURS) and not path.startswith("<frozen runpy"):
            found.append(_frame(path, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)


def stack_of_trace(trace: TracebackType | None) -> tuple[Frame, ...]:
    """Return where an exception was raised, innermost first, without our own frames."""
    found: list[Frame] = []
    while trace is not None and len(found) < _DEEPEST:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith(_OURS) and not path.startswith("<frozen runpy"):
            found.append(_frame(path, trace.tb_lineno, trace.tb_frame.f_code.co_name))
        trace = trace.tb_next
    return tuple(reversed(found))


def main_frame(thread: int) -> FrameType | None:
    """Return the current frame of a thread."""
    return sys._current_frames().get(thread)
