"""Where ``import os`` can stand, for fixes that read ``os.environ``."""

from __future__ import annotations

import re

from distcheck.core.model import Edit

from .program import Program


def import_place(program: Program, file: int) -> int | None:
    """The line before which ``import os`` can stand, 0 where it is there already, None if there is none."""
    scopes = program.index.scopes[file]
    terms = program.terms[file]
    bound = [terms[number] for number in scopes[0].bindings.get("os", ())]
    if bound:
        return 0 if all(term == ("i", "os") for term in bound) else None
    for row in program.rows("import"):
        if row.file == file and row.at_module_level and not row.blocks and not row.payload[0].startswith("__future__."):
            lines = program.lines(file)
            line = row.line
            while line > 0 and not re.match(r"(import|from)\s", lines[line - 1]):
                line -= 1
            if line == 0:
                return None
            while (
                line <= len(lines) and (match := re.match(r"import (\w+)\s*(#|$)", lines[line - 1])) and match[1] < "os"
            ):
                line += 1
            return line
    return None


def import_edit(path: str, place: int) -> Edit:
    """Return the edit that adds ``import os`` before a line."""
    return Edit(path, place, 1, place, 1, "import os\n")
