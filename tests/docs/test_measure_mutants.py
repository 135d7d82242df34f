"""The tool that runs mutants: which it draws, which are listed as equivalent, and when it fails. No mutant runs here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from .documents import ROOT


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_mutants", ROOT / "tools" / "measure_mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load_tool()
LISTED = ("a.py", "f", "if a | b:", "if a or b:")


def mutants(killed: int, survived: int, *others: tuple[str, ...]) -> list[tuple[str, int, list[object]]]:
    found = [tool.Mutant("a.py", "f", f"x = {number}", "x = 9", "killed") for number in range(killed)]
    found += [tool.Mutant("a.py", "f", f"y = {number}", "y = 9", "survived") for number in range(survived)]
    return [("an area", 100, [*found, *(tool.Mutant(*other) for other in others)])]


@pytest.mark.parametrize(
    ("areas", "good", "row"),
    [
        (mutants(9, 1), True, "| an area | 100 | 10 | 9 | 0 | 1 | 0 |"),
        (mutants(8, 1), False, "| an area | 100 | 9 | 8 | 0 | 1 | 0 |"),
        (mutants(8, 1, (*LISTED, "timed out")), False, "| an area | 100 | 10 | 8 | 1 | 1 | 0 |"),
        (mutants(9, 1, (*LISTED, "survived")), True, "| an area | 100 | 11 | 9 | 0 | 1 | 1 |"),
        (mutants(9, 0, (*LISTED, "killed")), False, "| an area | 100 | 10 | 10 | 0 | 0 | 0 |"),
    ],
    ids=["nine in ten", "fewer", "listed, and timed out", "listed, and survived", "listed, and killed"],
)
def test_it_fails_below_nine_in_ten_and_if_a_listed_mutant_is_killed(
    areas: list[tuple[str, int, list[object]]], good: bool, row: str
) -> None:
    text, found = tool.result(areas, {LISTED})
    assert found is good
    assert row in text.splitlines()


def test_it_prints_each_survivor_that_is_not_listed_and_both_shares() -> None:
    text, _ = tool.result(mutants(9, 1, (*LISTED, "survived")), {LISTED})
    assert "survived: a.py: f\n- y = 0\n+ y = 9" in text
    assert LISTED[2] not in text
    assert text.endswith("81.8 % of all killed, 90.0 % without the equivalent ones")


def test_a_row_of_the_page_names_a_fault() -> None:
    page = "| file | function | before | after | reason |\n| `a.py` | `f` | `if a \\| b:` | `if a or b:` | both are bool |\n"
    assert tool.equivalent(page) == {LISTED}


def test_each_listed_mutant_changes_a_line_that_is_there() -> None:
    listed = tool.equivalent(tool.PAGE.read_text(encoding="utf-8"))
    for file, _, before, _ in listed:
        lines = [line.strip() for line in (ROOT / "distcheck" / file).read_text(encoding="utf-8").splitlines()]
        assert before in " ".join(lines), (file, before)


def test_each_file_and_test_that_it_names_is_there() -> None:
    for files, tests in tool.AREAS.values():
        paths = [Path("distcheck", file) for file in files.split()] + [Path("tests", test) for test in tests.split()]
        assert not [path for path in paths if not (ROOT / path).exists()]


def test_the_draw_stays_when_lines_move_and_takes_one_mutant_for_each_position() -> None:
    named = [(f"mutant {number}", number // 3) for number in range(60)]

    def draw(moved: int, *seed: str) -> list[str]:
        made = [
            (name, SimpleNamespace(name=name, module_path="a.py", start_pos=(line + moved, 0))) for name, line in named
        ]
        return [mutant.name for mutant in tool.drawn(made, 12, *seed)]

    assert draw(0) == draw(7) == draw(0, tool.SEED)
    assert set(draw(0)) != set(draw(0, "another"))
    lines = [dict(named)[name] for name in draw(0)]
    assert len(set(lines)) == len(lines) == 12


def test_what_a_diff_changed_is_without_indentation() -> None:
    diff = "--- mutation diff ---\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2"
    assert tool.changed(diff) == ("return 1", "return 2")
