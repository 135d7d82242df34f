"""Parses a source file, and reads the comments in it that are for distcheck."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings

from distcheck.core.patterns import lazy

_COMMENTS = lazy(rb"noqa|distcheck", re.IGNORECASE)
_OURS = lazy(rb"noqa[ \t]*:[ \t]*[^\n]*DC|distcheck[ \t]*:", re.IGNORECASE)
_BARE = lazy(r"\bnoqa\b", re.IGNORECASE)
_COMMENT = lazy(r"noqa|distcheck\s*:", re.IGNORECASE)


def parse(text: bytes | str) -> ast.Module:
    """Return the syntax tree of a source; what Python would warn of in it (an unknown escape) is not ours to print.

    :raises SyntaxError, ValueError, RecursionError, MemoryError: as :func:`ast.parse`
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parses(text: str) -> bool:
    """Return whether Python can parse a source."""
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def comments_in(text: bytes | str) -> list[tuple[int, str]]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    lower = data.lower()
    if (b"noqa" not in lower and b"distcheck" not in lower) or not _COMMENTS.search(data):
        return []
    if not _OURS.search(data):
        # only bare ones: what looks like one within a text does no harm
        lines = re.split(r"\r\n?|\n", text if isinstance(text, str) else data.decode("utf-8", "replace"))
        places = [(number, line, line.find("#")) for number, line in enumerate(lines, 1)]
        return [(number, line[at:]) for number, line, at in places if at >= 0 and _BARE.search(line, at)]
    found = []
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT and _COMMENT.search(token.string):
                found.append((token.start[0], token.string))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # what was read until here counts; the parser reports the rest
    return found
