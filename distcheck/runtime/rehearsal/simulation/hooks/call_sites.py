"""Find the code that opens a file, makes a folder or downloads, from the stack and, if necessary, from the source."""

from __future__ import annotations

import ast
import functools
import os
import re
from types import FrameType
from typing import NamedTuple

from distcheck.core.resources import PACKAGE
from distcheck.runtime.coordination.frames import is_own, shown_path
from distcheck.runtime.coordination.loops import source_tree

_OURS = PACKAGE + os.sep
#: Functions that fetch a file and put it somewhere.
_FETCHERS = {
    "urlretrieve": "urllib.request", "download_url_to_file": "torch.hub", "_urlretrieve": "torchvision.datasets.utils",
    "download_url": "torchvision.datasets.utils", "_download_archive": "torch.hub", "download": "wget",
    "_get_torchhome": "torch.hub", "get_file": "keras.utils", "stream_url": "torchaudio",
}  # fmt: skip


def outer(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not ours."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def called_by_script(frame: FrameType | None) -> bool:
    """Whether the script's own code made a call, and not a library that it uses.

    :param frame: the innermost frame to check; our own are skipped
    """
    frame = outer(frame)
    return frame is not None and is_own(frame.f_code.co_filename)


def own_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the script."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def is_made_in_call(frame: FrameType, function: str, parameter: str) -> bool:
    """Return whether the first argument of a call in the current line of a frame is a new value: no name, no part.

    :param function: last part of the name of the function that is called
    """
    tree = source_tree(frame.f_code.co_filename)
    calls = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Call)
        and function in _names(node.func)
        and node.lineno <= (frame.f_lineno or 0) <= (node.end_lineno or 0)
    ]
    if len(calls) != 1:
        return False
    given = [*calls[0].args[:1], *(item.value for item in calls[0].keywords if item.arg == parameter)]
    return len(given) == 1 and isinstance(given[0], (ast.Call, ast.BinOp, ast.UnaryOp))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def library_call(frame: FrameType | None) -> str:
    """Return the library function that the user's line called to write a file: ``torch.save``; "" for ``open``."""
    frame = outer(frame)
    last = None
    while frame is not None and not is_own(frame.f_code.co_filename):
        last = last if frame.f_code.co_filename.startswith(_OURS) else frame
        frame = frame.f_back
    if last is None or frame is None:
        return ""
    name = last.f_code.co_name
    if name == "__init__" and "self" in last.f_locals:
        name = type(last.f_locals["self"]).__name__
    return f"{_module(last).partition('.')[0]}.{name}"


def is_called_by_own(frame: FrameType | None) -> bool:
    """Return whether the user's own code called urllib, not a library."""
    frame = outer(frame)
    while frame is not None and _module(frame).startswith(("urllib", "http")):
        frame = outer(frame.f_back)
    return frame is not None and is_own(frame.f_code.co_filename)


def fetcher(frame: FrameType | None) -> str:
    """The function that fetches a file for the script: the outermost one that is known."""
    found = ""
    while frame is not None and not is_own(frame.f_code.co_filename):
        module, name = _module(frame), frame.f_code.co_name
        if name in _FETCHERS and module.partition(".")[0] == _FETCHERS[name].partition(".")[0]:
            found = f"{_FETCHERS[name]}.{name}" if not name.startswith("_") else found or _FETCHERS[name]
        elif module.startswith(("torchvision.datasets", "torchaudio.datasets", "torchtext.datasets")):
            found = found or module
        frame = frame.f_back
    return found


def folder_options(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """Return the frame that makes a folder, and whether it passed ``exist_ok`` to ``makedirs`` or ``Path.mkdir``."""
    frame = outer(frame)
    while frame is not None:
        module, name = _module(frame), frame.f_code.co_name
        if (module == "os" and name == "makedirs") or (module.startswith("pathlib") and name == "mkdir"):
            if frame.f_locals.get("exist_ok"):
                return frame, True
            above = outer(frame.f_back)
            if module == "os" and above is not None and _module(above) == "os" and above.f_code.co_name == "makedirs":
                return above, True  # a folder on the way: makedirs itself forgives
            return frame.f_back, False
        return frame, False
    return None, False


def folder_call(frame: FrameType | None) -> str:
    frame = outer(frame)
    if frame is None:
        return "os.mkdir"
    module, name = _module(frame), frame.f_code.co_name
    if module == "os" and name == "makedirs":
        return "os.makedirs"
    return "Path.mkdir" if module.startswith("pathlib") else "os.mkdir"


_FORGIVING = {"FileExistsError", "OSError", "IOError", "EnvironmentError"}
_CATCHES_ALL = {"Exception", "BaseException", ""}


def is_caught(frame: FrameType | None) -> bool:
    """Return whether a caller handles an existing folder: by ``try`` or ``suppress``."""
    innermost = True
    for _ in range(12):
        frame = outer(frame)
        if frame is None:
            return False
        names = _caught_at(frame.f_code.co_filename, frame.f_lineno or 0)
        if names & _FORGIVING or (innermost and names & _CATCHES_ALL):
            return True
        innermost = innermost and not is_own(frame.f_code.co_filename)
        frame = frame.f_back
    return False


def _caught_at(path: str, line: int) -> set[str]:
    return {name for first, last, names in _handlers(path) if first <= line <= last for name in names}


@functools.lru_cache(maxsize=64)
def _handlers(path: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """Return the first and last line of each guarded block, and the names of the exceptions that it catches."""
    tree = source_tree(path)
    if tree is None:
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and node.body:
            types = [handler.type for handler in node.handlers]
            names = frozenset(name for one in types for name in _names(one))
            found.append((node.body[0].lineno, node.body[-1].end_lineno or 0, names))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and "suppress" in _names(call.func):
                    names = frozenset(name for one in call.args for name in _names(one))
                    found.append((node.lineno, node.end_lineno or 0, names))
    return tuple(found)


def _names(node: ast.expr | None) -> set[str]:
    if node is None:
        return {""}
    if isinstance(node, ast.Tuple):
        return {name for one in node.elts for name in _names(one)}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    return {node.id} if isinstance(node, ast.Name) else set()


#: A condition on the rank: few ranks pass it.
_ABOUT_RANKS = re.compile(r"rank|main|master|primary|zero|leader|coordinator", re.IGNORECASE)
_EXISTENCE_CHECKS = frozenset({"exists", "isdir", "is_dir", "isfile", "is_file", "lexists"})


def asked_at(frame: FrameType | None) -> str:
    """``train.py:5``: the line of the ``if`` that checks whether a path exists before the user's line creates it;
    "" if there is none, or if an ``if`` around it checks the rank."""
    frame = outer(frame)
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    path, line = frame.f_code.co_filename, frame.f_lineno or 0
    around = [test for test in _conditions(path) if test.first <= line <= test.last]
    if any(_ABOUT_RANKS.search(test.text) for test in around):
        return ""
    return next((f"{shown_path(path)}:{test.line}" for test in reversed(around) if test.queries), "")


class _Condition(NamedTuple):
    """An ``if``: the lines of its body, and what it checks."""

    first: int
    last: int
    line: int
    text: str
    queries: bool


@functools.lru_cache(maxsize=64)
def _conditions(path: str) -> tuple[_Condition, ...]:
    tree = source_tree(path)
    found = []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.If):
            calls = [one for one in ast.walk(node.test) if isinstance(one, ast.Call)]
            queries = [one for one in calls if _names(one.func) & _EXISTENCE_CHECKS]
            line = queries[0].lineno if queries else node.lineno
            last = node.body[-1].end_lineno or node.body[-1].lineno
            found.append(_Condition(node.body[0].lineno, last, line, ast.unparse(node.test), bool(queries)))
    return tuple(found)
