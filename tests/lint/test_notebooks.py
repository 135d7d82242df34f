"""A finding in a notebook names cells wherever it speaks of a line: in its sentence, its help, and its evidence."""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise
from pathlib import Path

from distcheck import rules
from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.core.checker import Checker
from distcheck.core.model import Finding

from .cases import Case, all_cases


def _as_notebook(text: str) -> str:
    """A cell for each statement of the module."""
    lines = text.splitlines(keepends=True)
    starts = [
        min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        for node in ast.parse(text).body
    ]
    bounds = [0, *(start - 1 for start in starts[1:]), len(lines)]
    cells = [lines[start:end] for start, end in pairwise(bounds)]
    return json.dumps(
        {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "nbformat": 4, "metadata": {}}
    )


def _findings(case: Case) -> list[Finding]:
    notebook = SourceFile("nb.ipynb", _as_notebook(case.text(case.paths[0])).encode)
    program = analyse([notebook], whole=True)
    checker = Checker(modules=("distcheck.checks.source",), plug_ins=False)
    return list(checker.plan(type(program), command="lint", closed=True).run(program).findings)


def test_every_line_of_a_notebook_is_one_of_a_cell(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = set()
    wrong = []
    for rule in rules.ALL:
        for case in [case for case in all_cases(rule.code) if case.bad and len(case.paths) == 1][:3]:
            for found in _findings(case):
                seen.add(found.code)
                texts = [found.message, found.fix.text, json.dumps(found.evidence, default=str)]
                wrong += [
                    (case.name, found.code, text)
                    for text in texts
                    if re.search(r"nb\.ipynb:\d|\blines? \d+\b(?! of cell)", text)
                ]
    assert not wrong, "\n".join(map(str, wrong))
    assert len(seen) > 60
