"""Spans: where a call, an argument or an operand stands in its file, its source, and edits of it.

Only this module reads a syntax tree while findings are made, of the few files that have some.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from distcheck.core.model import Edit, Where
from distcheck.core.spans import Span

from .link import FileFacts
from .values import FlowStep


class Located(Protocol):
    """An event with its location in a file, such as a call."""

    @property
    def file(self) -> int:
        """The number of the file."""

    @property
    def path(self) -> str:
        """The path of the file."""

    @property
    def kind(self) -> str:
        """The kind of event."""

    @property
    def event(self) -> tuple[Any, ...]:
        """The row of the summary; its fourth to seventh items are the location."""

    @property
    def span(self) -> Span:
        """The location in the file."""


class SourceSpans:
    """The sources of the files of a program, by position."""

    def __init__(self, files: Sequence[FileFacts]) -> None:
        self._texts = files
        self._trees: dict[int, dict[tuple[int, int, int, int], Any]] = {}
        self._lines: dict[int, list[str]] = {}
        self._numbers = {file.path: number for number, file in enumerate(files)}

    def lines(self, file: int) -> list[str]:
        """Return the lines of a file."""
        if file not in self._lines:
            self._lines[file] = self._texts[file].lines
        return self._lines[file]

    def span(self, file: int, line: int, column: int, end_line: int, end_column: int) -> Span:
        """A span from the byte columns of the parser."""
        return Span(
            self._texts[file].path,
            line,
            self._column(file, line, column),
            end_line,
            self._column(file, end_line, end_column),
        )

    def _column(self, file: int, line: int, column: int) -> int:
        lines = self.lines(file)
        if not 0 < line <= len(lines):
            return column + 1
        text = lines[line - 1]
        return column + 1 if text.isascii() else len(text.encode("utf-8")[:column].decode("utf-8", "replace")) + 1

    def source(self, span: Span) -> str:
        """Return the text of a span."""
        file = self._numbers[span.path]
        lines = self.lines(file)[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    def where(self, file: int, span: Span, function: str | None = None) -> Where:
        """Return the location of a finding; in a notebook lines are those of the cell."""
        cell, line = self._cell(file, span.line)
        return Where(
            path=span.path,
            line=line,
            column=span.column,
            end_line=line + span.end_line - span.line,
            end_column=span.end_column,
            cell=cell,
            object=function,
        )

    def argument_span(self, call: Located, position: int | None, name: str | None = None) -> Span | None:
        """Return where the value of an argument stands."""
        node = self._node(call)
        if node is None:
            return None
        value = None
        if name is not None:
            value = next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
        if value is None and position is not None and position < len(node.args):
            value = node.args[position]
        if value is None:
            return None
        return self.span(call.file, value.lineno, value.col_offset, value.end_lineno, value.end_col_offset)

    def operand_spans(self, row: Located) -> list[Span]:
        """Where the operands of a comparison, ``or`` or conditional expression (test, first, second) stand, in order;
        where the value of an assignment stands."""
        node = self._node(row)
        if node is None:
            return []
        if hasattr(node, "comparators"):
            operands = [node.left, *node.comparators]
        elif hasattr(node, "orelse"):
            operands = [node.test, node.body, node.orelse]
        else:
            operands = getattr(node, "values", None) or [getattr(node, "value", None)]
        return [
            self.span(row.file, item.lineno, item.col_offset, item.end_lineno, item.end_col_offset)
            for item in operands
            if item is not None
        ]

    def entry_span(self, call: Located, position: int, key: str) -> Span | None:
        """Return where the value of a key stands in a dict that is written out as an argument."""
        node = self._node(call)
        if node is None or position >= len(node.args):
            return None
        given = node.args[position]
        for name, item in zip(getattr(given, "keys", ()), getattr(given, "values", ()), strict=True):
            if name is not None and getattr(name, "value", None) == key:
                return self.span(call.file, item.lineno, item.col_offset, item.end_lineno, item.end_col_offset)
        return None

    def _node(self, row: Located) -> Any:
        """The syntax of a call, a comparison or an assignment: parsed once more, for the few files whose findings need
        it.
        """
        node = self._parsed_alone(row)
        if node is not None:
            return node
        if row.file not in self._trees:
            import ast

            from .source_parsing import parse

            found: dict[tuple[int, int, int, int], Any] = {}
            for node in ast.walk(parse(self._texts[row.file].text)):
                if isinstance(node, (ast.Call, ast.Compare, ast.Assign, ast.BoolOp, ast.IfExp)):
                    found[(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)] = node
            self._trees[row.file] = found
        return self._trees[row.file].get(row.event[3:7])

    def _parsed_alone(self, row: Located) -> Any:
        """Return the syntax of an expression from its own text, with the positions that it has in its file.

        None for a statement, and where a part of a file can't be parsed alone.
        """
        import ast

        line, column, end_line, end_column = row.event[3:7]
        lines = [text.encode("utf-8", "surrogateescape") for text in self.lines(row.file)[line - 1 : end_line]]
        if row.kind not in ("call", "compare", "or", "choice") or len(lines) != end_line - line + 1:
            return None
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][column:]
        try:
            # in brackets, a line may end anywhere
            node = ast.parse(b"(" + b"\n".join(lines) + b"\n)", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if not isinstance(node, (ast.Call, ast.Compare, ast.BoolOp, ast.IfExp)):
            return None
        for part in ast.walk(node):
            if isinstance(part, (ast.expr, ast.keyword)):
                # the bracket takes one column of the first line
                if part.lineno == 1:
                    part.col_offset += column - 1
                if part.end_lineno == 1:
                    part.end_col_offset = (part.end_col_offset or 0) + column - 1
                part.lineno += line - 1
                part.end_lineno = (part.end_lineno or 1) + line - 1
        own = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        return node if own == (line, column, end_line, end_column) else None

    def repetitions(self, row: Located) -> list[tuple[Span, str, str]]:
        """The places of ``[call(…)] * n`` in a statement, each with the sources of the call and of ``n``; none that
        holds a comment, which an edit would take away.
        """
        import ast

        from .source_parsing import parse

        text = self.source(row.span)
        if not text.isascii():
            return []
        try:
            tree = parse(text)
        except SyntaxError:  # a part of a statement that is none alone
            return []
        found = []
        for node in ast.walk(tree):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, ast.List) and len(one.elts) == 1 and isinstance(one.elts[0], ast.Call):
                    whole, element, count = (ast.get_source_segment(text, part) for part in (node, one.elts[0], other))
                    if whole and element and count and "#" not in whole:
                        found.append((_within(row.span, node), element, count))
        return found

    def last_argument_end(self, call: Located) -> tuple[Span, bool] | None:
        """Return the span of a call's last argument and whether a comma follows it, for adding one more; None without
        arguments.
        """
        node = self._node(call)
        if node is None or not (node.args or node.keywords):
            return None
        last = max([*node.args, *node.keywords], key=lambda item: (item.end_lineno, item.end_col_offset))
        span = self.span(call.file, last.lineno, last.col_offset, last.end_lineno, last.end_col_offset)
        rest = self.source(Span(call.path, span.end_line, span.end_column, call.span.end_line, call.span.end_column))
        rest = re.sub(r"#[^\n]*", "", rest)
        return span, "," in rest

    def argument_edit(self, call: Located, text: str) -> Edit | None:
        """Return the edit that adds ``text`` (``name=value``) as the last argument of a call."""
        found = self.last_argument_end(call)
        span = call.span
        if found is None:
            lines = self.lines(call.file)
            if lines and lines[span.end_line - 1][span.end_column - 2 : span.end_column - 1] == ")":
                return Edit(span.path, span.end_line, span.end_column - 1, span.end_line, span.end_column - 1, text)
            return None
        return found[0].followed_by(f", {text}")

    def flow(self, *flows: Iterable[FlowStep]) -> list[str]:
        """Return the way of values as lines for ``evidence["flow"]``: ``train.py:31: the global rank, from RANK``."""
        lines = []
        for flow in flows:
            for step in flow:
                # what joins values stands at no line of its own
                place = f"{self.place(step.file, step.line)}: " if step.file >= 0 else ""
                lines.append(f"{place}{step.text}")
        return list(dict.fromkeys(lines))

    def place(self, file: int, line: int) -> str:
        """``train.py:31``; in a notebook ``nb.ipynb:cell 3:2``."""
        cell, line = self._cell(file, line)
        path = self._texts[file].path
        return f"{path}:{line}" if cell is None else f"{path}:cell {cell}:{line}"

    def line_name(self, file: int, line: int) -> str:
        """``line 31``; in a notebook ``line 2 of cell 3``."""
        cell, line = self._cell(file, line)
        return f"line {line}" if cell is None else f"line {line} of cell {cell}"

    def source_line(self, file: int, where: Where) -> int:
        """Return the line of a finding in the source of the file, 0 if it has none; in a notebook see :meth:`where`."""
        line = where.line or 0
        return line if where.cell is None else self._texts[file].cells.index((where.cell, line)) + 1

    def _cell(self, file: int, line: int) -> tuple[int | None, int]:
        """Return the cell of a line of a notebook and its line there; elsewhere None and the line."""
        cells = self._texts[file].cells
        return cells[line - 1] if 0 < line <= len(cells) else (None, line)


def _within(outer: Span, node: Any) -> Span:
    """Return where a node of a part of a file stands in the file, when that part was parsed alone."""
    return Span(
        outer.path,
        outer.line + node.lineno - 1,
        node.col_offset + (outer.column if node.lineno == 1 else 1),
        outer.line + node.end_lineno - 1,
        node.end_col_offset + (outer.column if node.end_lineno == 1 else 1),
    )
