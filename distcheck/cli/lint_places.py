"""Where findings of ``distcheck lint`` are in Python files and notebooks, with the line of source that is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from distcheck.core.model import Finding

if TYPE_CHECKING:
    from distcheck.checks.source.link import FileFacts


def as_one_source(finding: Finding, files: Mapping[str, FileFacts]) -> Finding:
    """The finding with its line in the cells of the notebook one after another, where comments and texts count too."""
    where = finding.where
    if where.cell is None or where.line is None:
        return finding
    cells = files[where.path or ""].cells
    line = cells.index((where.cell, where.line)) + 1
    end_line = None if where.end_line is None else line + where.end_line - where.line
    return finding._replace(where=where._replace(cell=None, line=line, end_line=end_line))


def with_cells(text: str, cells: Sequence[tuple[int, int]]) -> str:
    """Return a message of Python's parser whose ``on line 31`` names the cell, if it is about a notebook."""

    def named(found: re.Match[str]) -> str:
        number = int(found[1])
        return "on line {1} of cell {0}".format(*cells[number - 1]) if 0 < number <= len(cells) else found[0]

    return re.sub(r"\bon line (\d+)", named, text)


def in_place(finding: Finding, files: Mapping[str, FileFacts], known: dict[str, list[str]]) -> Finding:
    """Return the finding with its line of source, and in a notebook with its cell.

    :param known: lines by path, kept from one finding to the next
    """
    where = finding.where
    facts = files.get(where.path or "")
    if facts is None or where.line is None:
        return finding
    evidence = dict(finding.evidence)
    if facts.path not in known:
        known[facts.path] = facts.lines
    lines = known[facts.path]
    if where.line <= len(lines):
        evidence["source"] = lines[where.line - 1]
    if where.line <= len(facts.cells):
        cell, line = facts.cells[where.line - 1]
        end_line = None if where.end_line is None else line + where.end_line - where.line
        where = where._replace(cell=cell, line=line, end_line=end_line)
    return finding._replace(where=where, evidence=evidence)
