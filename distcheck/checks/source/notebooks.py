"""Reads a Jupyter notebook as one Python source: its code cells one after another, without what is no Python.

Magics and shell lines (``%cd``, ``!pip``, ``%%bash``, ``x = !ls``, a bare ``pip install x``) are blanked in place, so
that each line of the source still is one line of one cell. It judges nothing, and a cell that is no Python is left to
the parser.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from .source_parsing import parses

#: Cell magics whose body is Python that runs in the notebook's own process.
_PYTHON_CELLS = frozenset(("capture", "prun", "time", "timeit"))
_CELL_MAGIC = lazy(r"\s*%%(?P<name>[^\s]+)")
#: A statement that IPython understands, and Python does not: ``%magic``, ``!shell``, ``?help``, ``help?``.
_LINE_MAGIC = lazy(
    r"(?P<indent>\s*)(?:%{1,2} ?[\w.]|!{1,2}|\?{1,2})(?P<rest>.*)|(?P<help_indent>\s*)%?[\w.*]+\?{1,2}\s*$"
)
#: Magics that IPython's automagic runs without ``%``, as far as arguments may follow (IPython 9, ``%lsmagic``, and the
#: aliases of a POSIX shell).
_AUTOMAGIC = lazy(
    r"(?P<indent>\s*)(?:alias|autoreload|bookmark|cat|cd|code_wrap|colors|conda|config|cp|debug|edit?|env|gui|hist(?:ory)?"
    r"|l[dfklsx]|ldir|less|load(?:_ext|py)?|log(?:off|on|start|state|stop)|macro|mamba|man|matplotlib|micromamba|mkdir|more"
    r"|mv|notebook|pastebin|pdb|p(?:def|doc|file|info2?|search|source)|pip|popd|prun|pushd|pwd|pycat|pylab|recall"
    r"|reload_ext|rep|rerun|reset|rm|rmdir|run|save|sc|set_env|store|sx|system|tb|time|timeit|unalias|unload_ext|uv|who"
    r"|whos|writefile|xdel|xmode)"
    # what follows is no assignment, and nothing that continues an expression
    r"[ \t]+(?!(?:[-+*/%&|^@<>!=]|//|\*\*|<<|>>)?=|[:,)\]}]|(?:and|or|if|in|is|not|else|for|as)\b).+"
)
#: The first line of a cell that hands all of it to another language (Databricks).
_LANGUAGE_LINE = lazy(r"\s*%(?:sh|bash|sql|md|scala|r|R|fs)\s*$")
#: The prompts of Python and IPython, which a cell may have been pasted with.
_PROMPT = lazy(r"^\s*(?:>>>|\.{3,}|In \[\d+\]:|\.{2,}:)(?: |$)")
_FIRST_PROMPT = lazy(r"\s*(?:>>>|In \[\d+\]:)(?: |$)")
_ASSIGNED_MAGIC = lazy(r"(?P<target>\s*[\w.,\[\]'\"][\w.,\s\[\]'\"]*=)\s*(?:%[a-zA-Z]|!).*")
#: What can open or close a bracket or a text, for the search for the starts of statements.
_MARK = lazy(r"'''|\"\"\"|[\"'#\[\](){}\\]")


class NotebookSource(NamedTuple):
    """A notebook as Python source."""

    source: str
    #: for each line of the source its cell, counted from 1 over cells of all kinds, and its line in it, from 1
    cells: tuple[tuple[int, int], ...]


def to_source(data: bytes) -> NotebookSource:
    """The Python source of a notebook; one in another language has none. Raises ValueError for what is no notebook."""
    plain = _notebook(data)
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    if _language(plain) == "python":
        for number, text in _code_cells(plain):
            for index, line in enumerate(python_lines(text), 1):
                lines.append(line)
                places.append((number, index))
    return NotebookSource("".join(f"{line}\n" for line in lines), tuple(places))


def _notebook(data: bytes) -> dict[str, Any]:
    try:
        plain = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("the notebook is no UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the notebook is no JSON: {error}") from None
    if not isinstance(plain, dict) or not isinstance(plain.get("cells", plain.get("worksheets")), list):
        raise ValueError("it is no notebook: its JSON holds no cells")
    return plain


def magics(data: bytes) -> Iterator[str]:
    """Yield the lines of code cells that only IPython understands. Raises ValueError for what is no notebook."""
    for _, text in _code_cells(_notebook(data)):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line, plain in zip(lines, python_lines(text), strict=True):
            if line.strip() != plain.strip():
                yield line


def python_lines(text: str) -> list[str]:
    """Return the lines of one cell, with what only IPython understands blanked."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is not None and (magic := _CELL_MAGIC.match(lines[first])) is not None:
        if magic["name"] not in _PYTHON_CELLS:
            return [""] * len(lines)
        lines[first] = ""
    if parses("\n".join(lines)):
        return lines
    if first is not None and _LANGUAGE_LINE.match(lines[first]) is not None:
        return [""] * len(lines)
    return list(_blanked(_at_the_margin(lines, first)))


def _at_the_margin(lines: list[str], first: int | None) -> list[str]:
    """Return the lines without prompts, and without the indentation of the first one, as IPython runs them."""
    if first is None:
        return lines
    if _FIRST_PROMPT.match(lines[first]) is not None:
        lines = [_PROMPT.sub("", line, count=1) for line in lines]
    text = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    indent = text[: len(text) - len(text.lstrip())]
    return [line.removeprefix(indent) for line in lines] if indent else lines


def _language(plain: dict[str, Any]) -> str:
    """Return the language of the notebook's kernel, ``python`` if it names none."""
    metadata = plain.get("metadata")
    if isinstance(metadata, dict):
        for table, key in (("language_info", "name"), ("kernelspec", "language")):
            found = metadata.get(table)
            if isinstance(found, dict) and isinstance(found.get(key), str):
                return "python" if found[key].lower() in ("python", "ipython") else found[key]
    return "python"


def _code_cells(plain: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the code cells with their numbers; nbformat 3 keeps them in worksheets, and their text under ``input``."""
    sheets = plain["worksheets"] if "cells" not in plain else [plain]
    number = 0
    for sheet in sheets:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for cell in cells if isinstance(cells, list) else ():
            number += 1
            if not isinstance(cell, dict) or cell.get("cell_type") != "code":
                continue
            text = cell.get("source", cell.get("input", ""))
            if isinstance(text, list):
                text = "".join(part for part in text if isinstance(part, str))
            if isinstance(text, str) and text:
                yield number, text


def _blanked(lines: list[str]) -> Iterator[str]:
    """Yield the lines, with ``pass`` for each magic: it may be all that a block holds."""
    depth = 0
    quotes: str | None = None
    continued = False
    in_magic = False
    for line in lines:
        if in_magic:
            in_magic = line.endswith("\\")
            yield ""
            continue
        if depth == 0 and quotes is None and not continued:
            magic = _LINE_MAGIC.fullmatch(line)
            if magic is None and (automagic := _AUTOMAGIC.fullmatch(line)) is not None and not parses(line.strip()):
                in_magic = line.endswith("\\")
                yield f"{automagic['indent']}pass"
                continue
            assigned = None if magic is not None else _ASSIGNED_MAGIC.fullmatch(line)
            if magic is not None or assigned is not None:
                in_magic = line.endswith("\\")
                if assigned is not None:
                    yield f"{assigned['target']} None"
                elif magic is not None:
                    yield f"{magic['indent'] or magic['help_indent'] or ''}pass"
                continue
        depth, quotes, continued = _state_behind(line, depth, quotes)
        yield line


def _state_behind(line: str, depth: int, quotes: str | None) -> tuple[int, str | None, bool]:
    """Open brackets, the open long text, and whether a backslash goes on, behind a line."""
    position = 0
    while (match := _MARK.search(line, position)) is not None:
        mark = match[0]
        position = match.end()
        if mark == "\\":
            if position == len(line):
                return depth, quotes, True
            position += 1
        elif quotes is not None:
            # a short text ends with its line at the latest
            if mark == quotes or (len(quotes) == 1 and mark[0] == quotes):
                position = match.start() + len(quotes)
                quotes = None
        elif mark[0] in "\"'":
            quotes = mark
        elif mark == "#":
            break
        elif mark in "([{":
            depth += 1
        else:
            depth = max(depth - 1, 0)
    return depth, quotes if quotes is not None and len(quotes) == 3 else None, False
