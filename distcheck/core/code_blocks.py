"""Loops and branches around a line of a script. Scripts are parsed, never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck.core.patterns import lazy

#: Names in scripts, Accelerate, Lightning and Transformers.
_RANK = lazy(r"rank|master|is_main|main_process|process_index|global_zero|world_process_zero", re.IGNORECASE)
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class CodeBlock(NamedTuple):
    """Lines of a script that run together, or not at all."""

    #: ``loop``; ``branch``: an arm of an ``if``, a ``match``, an ``except``, or what follows an ``if`` on the rank that
    #: leaves the function or loop; ``function``: a function or class
    kind: str
    first: int
    last: int
    #: a branch whose test names a rank
    by_rank: bool = False
    #: a loop that makes as many turns as the source states
    fixed: bool = False

    def holds(self, line: int) -> bool:
        return self.first <= line <= self.last


def blocks_in(source: bytes, *, behind_exits: bool = True) -> tuple[CodeBlock, ...]:
    """Return all blocks of a script, outermost first; () if it cannot be parsed.

    :param behind_exits: what follows an ``if`` on the rank that leaves counts as a branch
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    nodes = list(ast.walk(tree))
    found = [item for node in nodes for item in _made_by(node)]
    if behind_exits:
        found += [item for node in nodes for item in _behind_exits(node)]
    return tuple(sorted(found, key=lambda block: (block.first, -block.last)))


def around(blocks: Sequence[CodeBlock], line: int) -> tuple[CodeBlock, ...]:
    """Return the blocks of the same function that contain a line, outermost first."""
    inside = [block for block in blocks if block.holds(line)]
    # blocks around the function belong to its caller
    start = max((index for index, block in enumerate(inside) if block.kind == "function"), default=-1) + 1
    return tuple(inside[start:])


def _made_by(node: ast.AST) -> Iterator[CodeBlock]:
    if isinstance(node, _FUNCTIONS):
        yield CodeBlock("function", node.lineno, node.end_lineno or node.lineno)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        # an else belongs to the code after the loop
        yield CodeBlock("loop", node.lineno, _last(node.body), fixed=_is_fixed(node))
    elif isinstance(node, ast.If):
        for arm in filter(None, (node.body, node.orelse)):
            yield CodeBlock("branch", arm[0].lineno, _last(arm), _names_a_rank(node.test))
    elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
        for arm in filter(None, (*(handler.body for handler in getattr(node, "handlers", ())), _orelse(node))):
            yield CodeBlock("branch", arm[0].lineno, _last(arm))
    elif isinstance(node, ast.match_case):
        yield CodeBlock("branch", node.body[0].lineno, _last(node.body))
    elif isinstance(node, (ast.BoolOp, ast.IfExp)):
        yield CodeBlock("branch", node.lineno, node.end_lineno or node.lineno, _names_a_rank(node))


def _behind_exits(node: ast.AST) -> Iterator[CodeBlock]:
    """Yield what follows an ``if`` on the rank whose arm returns, raises, or goes on with the loop."""
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        if not isinstance(body, list):
            continue
        for index, statement in enumerate(body[:-1]):
            leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], _EXITS)
            if leaves and not statement.orelse and _names_a_rank(statement.test):
                yield CodeBlock("branch", body[index + 1].lineno, _last(body), by_rank=True)


def _is_fixed(loop: ast.AST) -> bool:
    """Return whether a loop walks over a range of numbers to its end."""
    items = getattr(loop, "iter", None)
    if not isinstance(items, ast.Call) or getattr(items.func, "id", "") != "range" or items.keywords:
        return False
    ways_out = (ast.Break, ast.Return, ast.Raise)
    return all(isinstance(one, ast.Constant) for one in items.args) and not any(
        isinstance(node, ways_out) for node in ast.walk(loop)
    )


def _orelse(node: ast.AST) -> list[ast.stmt]:
    return list(getattr(node, "orelse", ()))


def _names_a_rank(test: ast.AST) -> bool:
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(test))
    return any(_RANK.search(name) for name in names if isinstance(name, str))


def _last(body: list[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno
