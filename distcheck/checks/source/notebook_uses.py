"""Whether a cell of a notebook uses a function or class that another cell defines.

A name in a comment is no use. One in a text or in a magic may be one, and so may a name that the notebook composes.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from distcheck.core.patterns import lazy

from .program import Program, cached
from .source_text import last_name
from .summary import Scope
from .unused_code import USES_ANY_NAME
from .vocabulary import PLAIN_DECORATORS

#: Marks of nbdev: the cell is copied to a module.
_EXPORTED = lazy(r"^[ \t]*#[ \t]*\|?[ \t]*exports?\b", re.MULTILINE)
_WORD = lazy(r"[^\W\d]\w*")


def unused_in_notebook(program: Program, file: int, scope: int) -> tuple[str, bool] | None:
    """Return the function or class around a scope if no cell that runs uses it, and False: no user may import it."""
    scopes = program.index.scopes[file]
    name = _outermost(scopes, scope)
    return None if name is None or name in _used(program, file) else (f"{name}()", False)


@cached
def _used(program: Program, file: int) -> frozenset[str]:
    """Return the functions and classes of a notebook that its cells use, and those that these use; all if unknown."""
    facts = program.index.files[file]
    scopes = program.index.scopes[file]
    defined = {one.name for one in scopes[1:] if one.parent == 0 and one.kind in ("function", "class")}
    magics = program.magics(file)
    stem = facts.path.replace("\\", "/").rpartition("/")[2].removesuffix(".ipynb")
    text = facts.text
    if magics is None or USES_ANY_NAME.search(text) or _EXPORTED.search(text) or program.uses_name(file, stem):
        return frozenset(defined)
    users: dict[str | None, set[str]] = {None: {word for line in magics for word in _WORD.findall(line)}}
    terms = program.terms[file]
    for one in scopes[1:]:
        called = (terms[term][1] if terms[term][0] == "c" else term for term in one.decorators)
        if one.parent == 0 and any(last_name(terms, term) not in PLAIN_DECORATORS for term in called):
            users[None].add(one.name)
    around = {
        line: one.name if one.kind in ("function", "class") else None
        for one in scopes[1:]
        if one.parent == 0
        for line in range(one.line, one.end_line + 1)
    }
    try:
        for line, name in _names(text):
            users.setdefault(around.get(line), set()).add(name)
    except (tokenize.TokenError, SyntaxError):
        return frozenset(defined)
    used: set[str] = set()
    waiting: list[str | None] = [None]
    while waiting:
        new = (users.get(waiting.pop(), set()) & defined) - used
        used |= new
        waiting.extend(new)
    return frozenset(used)


def _outermost(scopes: list[Scope], scope: int) -> str | None:
    """Return the function or class of the module that a scope belongs to, or None."""
    found = None
    while scope > 0:
        if scopes[scope].kind in ("function", "class"):
            found = scopes[scope].name
        scope = scopes[scope].parent
    return found


def _names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the names in code and in texts with their lines, other than those of definitions."""
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and before not in ("def", "class"):
            yield token.start[0], token.string
        elif token.type not in (tokenize.NAME, tokenize.COMMENT):
            yield from ((token.start[0], word) for word in _WORD.findall(token.string))
        before = token.string
