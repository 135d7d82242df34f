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


_ALONE = """import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

class Trainer:
    def __init__(self, model):
        self.model = model

    def save(self):
        torch.save(self.model.state_dict(), "last.pt")

def main(rank, size):
    trainer = Trainer(torch.nn.Linear(2, 2))
    trainer.save()
"""
_ON_RANKS = """class Trainer:
    def __init__(self, model):
        self.model = model

    def save(self):
        if dist.get_rank() == 0:
            torch.save(self.model.state_dict(), "last.pt")

def main(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    trainer = Trainer(torch.nn.Linear(2, 2))
    trainer.save()
    dist.destroy_process_group()

mp.spawn(main, args=(2,), nprocs=2)
"""


def _writes(*cells: str) -> list[int | None]:
    """Return the cells in which every rank writes the same file."""
    text = json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells], "nbformat": 4})
    program = analyse([SourceFile("nb.ipynb", text.encode)], whole=True)
    checker = Checker(modules=("distcheck.checks.source",), plug_ins=False)
    found = checker.plan(type(program), command="lint", closed=True).run(program).findings
    return [one.where.cell for one in found if one.code == "DC720"]


def test_a_cell_calls_the_definitions_that_stand_last() -> None:
    unguarded = _ON_RANKS.replace("        if dist.get_rank() == 0:\n    ", "")
    assert _writes(_ALONE + "main(0, 1)\n", _ON_RANKS) == []
    assert _writes(_ALONE + "main(0, 1)\n", unguarded) == [2]
    # ranks run the first definitions before a later cell replaces them
    first = _ALONE.replace(
        "    trainer =", '    dist.init_process_group("gloo", rank=rank, world_size=size)\n    trainer ='
    )
    assert _writes(first + "mp.spawn(main, args=(2,), nprocs=2)\n", _ON_RANKS) == [1]
    # the function of the first cell stays, and finds the class of the second one
    assert _writes(first, _ON_RANKS.replace("def main(", "def other(")) == []
    assert _writes(first, "mp.spawn(main, args=(2,), nprocs=2)\n", _ON_RANKS) == [1]
