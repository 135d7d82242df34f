"""Loops and branches around a line of a script: whether two ranks at two lines took different branches."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator

from .locations import split_place
from .model import CodeBlock, Positions

#: Names in scripts, Accelerate, Lightning and Transformers.
_RANK = re.compile(r"rank|master|is_main|main_process|process_index|global_zero|world_process_zero", re.IGNORECASE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def with_blocks(positions: Positions, folder: str = "") -> Positions:
    """Return positions with the blocks around the lines at which ranks are; each file is read once.

    :param folder: to which paths are relative; "": the working directory
    """
    places = {frame.place for position in positions.ranks for frame in position.stack if frame.own}
    places |= {call.place for mismatch in positions.mismatches for _, call in mismatch.calls if call.place}
    return positions._replace(around={place: _around_place(place, folder) for place in sorted(places)})


def around(path: str, line: int) -> tuple[CodeBlock, ...]:
    """Return the blocks of the same function that contain a line, outermost first; () if the file cannot be read."""
    inside = [item for item in _blocks(path) if item[1].first <= line <= item[1].last]
    # blocks around the function belong to its caller
    start = max((index for index, (kind, _) in enumerate(inside) if kind == "function"), default=-1) + 1
    return tuple(block for _, block in inside[start:])


def _around_place(place: str, folder: str) -> tuple[CodeBlock, ...]:
    path, line = split_place(place)
    return around(os.path.join(folder, path or ""), line or 0)


@functools.lru_cache(maxsize=64)
def _blocks(path: str) -> tuple[tuple[str, CodeBlock], ...]:
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    found = [item for node in ast.walk(tree) for item in _made_by(node)]
    return tuple(sorted(found, key=lambda item: (item[1].first, -item[1].last)))


def _made_by(node: ast.AST) -> Iterator[tuple[str, CodeBlock]]:
    if isinstance(node, _FUNCTIONS):
        yield "function", CodeBlock("function", node.lineno, node.end_lineno or node.lineno)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        # an else belongs to the code after the loop
        yield "block", CodeBlock("loop", node.lineno, _last(node.body))
    elif isinstance(node, ast.If):
        for arm in filter(None, (node.body, node.orelse)):
            yield "block", CodeBlock("branch", arm[0].lineno, _last(arm), _names_a_rank(node.test))
    elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
        for arm in filter(None, (*(handler.body for handler in getattr(node, "handlers", ())), _orelse(node))):
            yield "block", CodeBlock("branch", arm[0].lineno, _last(arm))
    elif isinstance(node, ast.match_case):
        yield "block", CodeBlock("branch", node.body[0].lineno, _last(node.body))
    elif isinstance(node, (ast.BoolOp, ast.IfExp)):
        yield "block", CodeBlock("branch", node.lineno, node.end_lineno or node.lineno, _names_a_rank(node))


def _orelse(node: ast.AST) -> list[ast.stmt]:
    return list(getattr(node, "orelse", ()))


def _names_a_rank(test: ast.AST) -> bool:
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(test))
    return any(_RANK.search(name) for name in names if isinstance(name, str))


def _last(body: list[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno
