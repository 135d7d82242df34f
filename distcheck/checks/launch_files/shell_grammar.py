"""The shell grammar: the syntax tree of a text, its comments, and text that is no shell."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import time
from collections.abc import Container, Iterator
from typing import Any

from distcheck.core import archived
from distcheck.core.patterns import lazy

from .fragments import Fragment, placeholder

#: Characters per slice for the grammar, and its time limit. Text that is no shell can take hours; 5 MB of real scripts
#: took 2 s.
_SLICE = 262_144
PARSE_LIMIT_S = 20
# Placeholders in a template or manual; the grammar gets an expansion of the same length.
_TEMPLATE = lazy(r"\$?\{\{.*?\}\}|\{%.*?%\}|(?<=[\s=:])<[A-Za-z][\w-]*>(?=[\s:\"']|$)", re.MULTILINE)
#: A line that begins like a launch line.
_LAUNCH_LINE = lazy(
    r"^[ \t]*(torchrun|srun|mpirun|accelerate[ \t]+launch|deepspeed|python3?[ \t]+-m[ \t]+torch\.distributed)\b"
    r".*(?:\.py\b|\\$)",
    re.MULTILINE,
)
#: Longest text that is parsed a second time, in characters.
_MAX_REPAIR_LENGTH = 200_000
_INSTALL = "pip install 'tree-sitter>=0.25' 'tree-sitter-bash>=0.25'"
_BUILD = (
    "build this file with 'python{}.{} tools/build_pyz.py --compiled' on a host of this kind".format(*sys.version_info)
    + f", or {_INSTALL}"
)
#: Tokens that the grammar inserts to close a statement.
_ENDS = {"fi": "an if", "done": "a loop", "esac": "a case"}


def with_plain_line_ends(fragment: Fragment) -> Fragment:
    """Return the text without carriage returns before line ends: they change offsets, not columns."""
    text = fragment.text
    if "\r\n" not in text:
        return fragment
    pieces = tuple(
        piece._replace(offset=piece.offset - text.count("\r\n", 0, piece.offset)) for piece in fragment.pieces
    )
    return Fragment(text.replace("\r\n", "\n"), fragment.path, pieces)


@functools.cache
def why_missing() -> str | None:
    """Return why the grammar is missing and what to install, or None. Nothing replaces it."""
    archived.add_compiled()
    try:
        import tree_sitter
        import tree_sitter_bash  # noqa: F401
    except ImportError as error:
        return f"tree-sitter does not import ({error}); {_BUILD if archived.in_archive() else _INSTALL}"
    if not hasattr(tree_sitter, "QueryCursor"):
        return f"the tree-sitter that is installed is older than 0.25; {_INSTALL}"
    try:
        _grammar()
    except (TypeError, ValueError) as error:
        return f"tree-sitter and tree-sitter-bash do not fit together ({error}); {_INSTALL}"
    return None


@functools.cache
def _grammar() -> tuple[Any, Any]:
    """Return the parser and the query for comments."""
    import tree_sitter
    import tree_sitter_bash

    language = tree_sitter.Language(tree_sitter_bash.language())
    return tree_sitter.Parser(language), tree_sitter.Query(language, "(comment) @comment")


def parse(text: str) -> Any:
    """Return the root of the syntax tree, or None after the time limit; byte offsets are character offsets."""
    if text.rstrip().endswith("\\"):
        # bash ends the last line there; the grammar waits for another one
        last = len(text.rstrip()) - 1
        text = f"{text[:last]} {text[last + 1 :]}"
    if not text.isascii():
        # each character becomes one byte of the same class: a part of a word
        text = re.sub(r"[^\x00-\x7f]", "x", text)
    if "{{" in text or "{%" in text or ">" in text:
        text = _TEMPLATE.sub(
            lambda match: " " * len(match[0]) if match[0].startswith("{%") else placeholder(len(match[0])), text
        )
    if "$(((" in text:
        text = _without_brackets(text)
    data = text.encode("ascii")
    parser = _grammar()[0]
    if len(data) <= _SLICE:
        return parser.parse(data).root_node
    end = time.monotonic() + PARSE_LIMIT_S
    try:
        # between slices the parser can be stopped
        tree = parser.parse(
            lambda offset, point: data[offset : offset + _SLICE],
            progress_callback=lambda offset, has_error: time.monotonic() > end,
        )
    except ValueError:
        parser.reset()
        return None
    return tree.root_node


def _without_brackets(text: str) -> str:
    """Return the text with ``$(((a)) && b)`` hidden from the grammar, which reads arithmetic there."""
    start = text.find("$(((")
    # a limit for generated text
    for _ in range(100):
        if start < 0:
            break
        depth = 0
        end = start
        for position in range(start + 1, min(len(text), start + 1000)):
            depth += (text[position] == "(") - (text[position] == ")")
            if depth == 0:
                end = position + 1
                break
        within = (1 if character == "(" else -1 for character in text[start + 3 : end - 2] if character in "()")
        if end > start and (text[end - 2 : end] != "))" or min(itertools.accumulate(within), default=0) < 0):
            text = text[:start] + placeholder(end - start) + text[end:]
        start = text.find("$(((", start + 4)
    return text


def comments_of(root: Any, fragment: Fragment) -> Iterator[tuple[int, str]]:
    """Yield line in the file and text of each comment."""
    import tree_sitter

    for node in tree_sitter.QueryCursor(_grammar()[1]).captures(root).get("comment", ()):
        start, end = node.start_byte, node.end_byte
        yield fragment.location(start)[0], fragment.text[start:end]


def problem_of(root: Any, fragment: Fragment) -> tuple[str, int, int] | None:
    """Return the first error that the grammar can't recover from: an unclosed statement or quote, or None.

    The grammar fails on some valid shell text and recovers. The text in between is read as far as possible, without a
    problem.
    """
    missing: list[Any] = []
    errors: list[Any] = []
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_missing:
            missing.append(node)
        elif node.is_error:
            errors.append(node)
        nodes.extend(child for child in node.children if child.has_error or child.is_missing)
    text = fragment.text
    length = len(text.rstrip())
    if not errors and len(missing) == 1 and missing[0].type in _ENDS and missing[0].end_byte >= length:
        end = missing[0]
        begin = end.start_byte if end.parent is None else end.parent.start_byte
        return (f"{_ENDS[end.type]} has no {end.type}", *fragment.location(begin))
    for error in sorted(errors, key=lambda error: error.start_byte):
        quote = next((child for child in error.children if child.type == '"'), None)
        if quote is not None and error.end_byte >= length:
            why = "the grammar of the shell does not understand what begins at this quote; launch lines behind it may "
            return (why + "not have been read", *fragment.location(quote.start_byte))
    if errors and length < _MAX_REPAIR_LENGTH and not parse(text + "'\n").has_error:
        first = min(error.start_byte for error in errors)
        return ("a single quote is never closed; launch lines behind it were not read", *fragment.location(first))
    return None


def unread_of(root: Any, fragment: Fragment, found: Container[int]) -> Iterator[tuple[str, int, int]]:
    """Yield the first unread line that looks like a launch line, in a text with syntax errors.

    :param found: the lines of the file with launch lines
    """
    for match in _LAUNCH_LINE.finditer(fragment.text):
        line, column = fragment.location(match.start(1))
        if line in found:
            continue
        node = root.descendant_for_byte_range(match.start(1), match.start(1))
        while node is not None and node.type not in ("comment", "heredoc_body", "function_definition"):
            node = node.parent
        if node is None:
            yield "the shell parser can't parse this part: the line was skipped", line, column
            return


def nodes_in(root: Any, *kinds: str) -> Iterator[Any]:
    """Yield the nodes of some kinds in order, an outer one before those in it."""
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        if node.type in kinds:
            yield node
        open_nodes.extend(reversed(node.named_children))
