"""The ``for`` statement that walks through a loader, found in the source of the frames above it."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator, Sequence
from types import FrameType

from .frames import shown_path

#: Calls that pass on an iterable item by item to its end.
_THROUGH = frozenset({
    "enumerate", "tqdm", "trange", "track", "iter", "list", "prepare", "log_every", "progress_bar",
    "track_iter_progress",
})  # fmt: skip
#: ``inspect.CO_GENERATOR`` and ``CO_ASYNC_GENERATOR``
_GENERATOR = 0x20 | 0x200

Loop = ast.For | ast.AsyncFor


def loop_around(frames: Sequence[FrameType]) -> tuple[str, bool | None]:
    """Return the location of the loop over the batches, and whether it may end before they do.

    :param frames: of the user's own code, innermost first
    :returns: ``("train.py:30", False)``; the second value is None if there is no visible loop
    """
    place, bounded = "", False
    for frame in frames:
        tree = source_tree(frame.f_code.co_filename)
        loop = None if tree is None else _innermost(tree, frame.f_lineno)
        if loop is None:
            return place, None
        if not place:
            place = f"{shown_path(frame.f_code.co_filename)}:{loop.lineno}"
        bounded = bounded or _may_end_early(loop)
        # the caller of a generator of the script decides how many items it reads
        if not frame.f_code.co_flags & _GENERATOR:
            return place, bounded
    return place, None


@functools.lru_cache(maxsize=64)
def source_tree(path: str) -> ast.Module | None:
    """Return the syntax tree of a file; None if it does not parse."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None


def _innermost(tree: ast.Module, line: int) -> Loop | None:
    """The loop whose source of items stands on a line."""
    found: Loop | None = None
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor)) and node.lineno <= line <= (node.iter.end_lineno or node.lineno):
            found = node
    return found


def _may_end_early(loop: Loop) -> bool:
    if any(isinstance(node, (ast.Break, ast.Return)) for node in _own_statements(loop.body)):
        return True
    items: ast.expr = loop.iter
    while isinstance(items, ast.Call):
        called = items.func.attr if isinstance(items.func, ast.Attribute) else getattr(items.func, "id", "")
        if called.lower().endswith("loader"):
            return False
        if called not in _THROUGH or not items.args:
            return True
        items = items.args[0]
    return False


def _own_statements(body: Sequence[ast.stmt], inner: bool = False) -> Iterator[ast.AST]:
    """The statements of a loop that could end it: a ``break`` of an inner loop could not."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if not (inner and isinstance(statement, ast.Break)):
            yield statement
        deeper = inner or isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        for name in ("body", "orelse", "finalbody"):
            yield from _own_statements(getattr(statement, name, []), (deeper and name == "body") or inner)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _own_statements(part.body, inner)
