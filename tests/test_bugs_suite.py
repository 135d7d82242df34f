"""The suite of faulty and correct programs: each has a valid header, and does what the header states."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from distcheck.rules import catalogue

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "benchmarks" / "bugs"
sys.path.insert(0, str(SUITE))
import run  # noqa: E402

CODES = {rule.code for rule in catalogue.ALL}
PROGRAMS = run.programs()
FIELDS = {"class", "faulty", "summary", "via", "kind", "world", "lines", "codes"}
OPTIONAL = {"check", "launcher", "twin"}


def wrong(program: run.Program) -> list[str]:
    """What is not valid in a header."""
    header, found = program.header, []
    source = program.path.read_text()
    ast.parse(source)
    if not FIELDS <= set(header) <= FIELDS | OPTIONAL:
        found.append(f"fields: {sorted(FIELDS ^ set(header))}")
    if header["class"] != program.path.parent.name or header["class"] not in run.CLASSES:
        found.append(f"class {header['class']}")
    if header["via"] not in run.VIAS or header["kind"] not in run.KINDS:
        found.append(f"via {header['via']}, kind {header['kind']}")
    if header.get("check", {}).get("check", "output") not in run.CHECKS:
        found.append(f"check {header['check']}")
    if program.faulty == (header["kind"] == "none") or program.faulty != bool(header["lines"]):
        found.append("a faulty program has a kind and lines, a correct one has none")
    if header["kind"] == "silent" and "check" not in header:
        found.append("a silent fault needs a check")
    if header["codes"] and not program.faulty:
        found.append("a correct program has no codes")
    lines = source.splitlines()
    found += [f"line {line}" for line in header["lines"] if not (0 < line <= len(lines) and lines[line - 1].strip())]
    found += [f"code {code}" for code in header["codes"] if code not in CODES]
    if not 1 <= header["world"] <= 8 or not header["summary"] or header["summary"].endswith("."):
        found.append("world or summary")
    twin = next((each for each in PROGRAMS if each.name == header.get("twin")), None)
    if "twin" in header and (twin is None or twin.header.get("twin") != program.name or twin.faulty == program.faulty):
        found.append(f"twin {header['twin']}")
    return found


def test_headers_are_valid() -> None:
    assert {program.name: found for program in PROGRAMS if (found := wrong(program))} == {}


def test_each_program_has_a_header_and_a_name_of_its_own() -> None:
    files = sorted((SUITE / "programs").glob("*/*"))
    assert {path.with_suffix("") for path in files} == {program.path.with_suffix("") for program in PROGRAMS}
    assert Counter(path.suffix for path in files) == {".py": len(PROGRAMS), ".json": len(PROGRAMS)}
    assert [name for name, count in Counter(program.name for program in PROGRAMS).items() if count > 1] == []


def test_a_faulty_header_is_noticed() -> None:
    program = next(each for each in PROGRAMS if each.faulty)
    header = program.header | {"lines": [10_000], "codes": ["DC999"], "kind": "none"}
    assert [each.split()[0] for each in wrong(program._replace(header=header))] == ["a", "line", "code"]


def test_the_score_of_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    faulty = [each for each in PROGRAMS if each.faulty and each.header["codes"]][:4]
    code = faulty[0].header["codes"][0]
    correct = next(each for each in PROGRAMS if not each.faulty)
    scores = [
        run.judged(faulty[0], [(code, "error")], 0.1),
        run.judged(faulty[1], [(faulty[1].header["codes"][0], "info")], 0.1),
        run.judged(faulty[2], [("DC901", "warning")], 0.1),
        run.judged(faulty[3], [("no report", "missed")], 0.1),
        run.judged(correct, [("DC743", "info")], 0.1),
        run.judged(correct._replace(path=Path("other.py")), [(code, "warning")], 0.1),
    ]
    assert [score.result for score in scores] == ["expected", "info", "other", "missed", "quiet", "false"]
    run.print_scores("lint", [*faulty, correct, correct._replace(path=Path("other.py"))], scores, "table")
    assert "| all | 4 | 1 | 1 | 1 | 1 | 2 | 1 |" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_part() -> None:
    part = run.sample(PROGRAMS, 0.2, seed=1)
    assert part == run.sample(PROGRAMS, 0.2, seed=1) != run.sample(PROGRAMS, 0.2, seed=2)
    assert len(part) == round(0.2 * len(PROGRAMS))


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_each_program_does_what_its_header_states() -> None:
    command = [sys.executable, str(SUITE / "run.py"), "verify", "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    rows = json.loads(result.stdout)["programs"]
    assert [row for row in rows if row["wrong"]] == []
    assert len(rows) == len(PROGRAMS)
