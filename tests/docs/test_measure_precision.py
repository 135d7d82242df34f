"""The tool that measures lint on public code: what it draws, what it records, and the figures. Nothing is fetched here."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from distcheck import rules
from distcheck.core.rule_page import parse_page

from .documents import ROOT


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_precision", ROOT / "tools" / "measure_precision.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load_tool()


def finding(line: int, code: str = "DC701", **more: Any) -> dict[str, Any]:
    return {
        "repository": "owner/name", "commit": "c0ffee", "path": "train.py", "line": line, "code": code,
        "severity": "error", "message": "a call", "fix": None, "flow": [], "draw": "a", **more,
    }  # fmt: skip


def test_a_rule_is_drawn_three_times_from_one_repository() -> None:
    rows = [finding(line) for line in range(20)] + [finding(line, repository="owner/other") for line in range(2)]
    chosen = tool.choose(rows, 100, "a")
    assert Counter(row["repository"] for row in chosen) == {"owner/name": 3, "owner/other": 2}


def test_a_seed_repeats_a_choice_in_whatever_order_findings_come() -> None:
    rows = [finding(line, repository=f"owner/{line}") for line in range(50)]
    chosen = tool.choose(rows, 10, "a")
    assert len(chosen) == 10
    assert tool.choose(rows[::-1], 10, "a") == chosen
    assert tool.choose(rows, 10, "b") != chosen


def test_a_judgement_names_the_line_and_holds_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "JUDGED", tmp_path / "precision" / "judged.jsonl")
    sample = tmp_path / "sample.jsonl"
    sample.write_text("".join(json.dumps(finding(line)) + "\n" for line in (3, 4)), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["tool", "record", str(sample), "2", "wrong", "all ranks reach it"])
    assert tool.main() == 0
    (row,) = [json.loads(line) for line in tool.JUDGED.read_text(encoding="utf-8").splitlines()]
    assert (row["line"], row["verdict"], row["reason"]) == (4, "wrong", "all ranks reach it")
    assert not {"message", "fix", "flow"} & row.keys()


def test_bad_a_number_that_the_sample_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = tmp_path / "sample.jsonl"
    sample.write_text(json.dumps(finding(3)) + "\n", encoding="utf-8")
    arguments = type("Arguments", (), {"sample": sample, "number": 2, "verdict": "right", "reason": ""})
    assert tool._record(arguments) == 2
    assert capsys.readouterr().err == "finding 2 is not in the sample: it has 1 to 1\n"


def test_arguable_findings_are_not_decided() -> None:
    verdicts = ["right"] * 6 + ["wrong"] * 2 + ["arguable"] * 4
    lines = list(tool.table([finding(line, verdict=verdict) for line, verdict in enumerate(verdicts)]))
    assert lines[0] == "12 findings of 1 repositories"
    assert [" ".join(line.split()) for line in lines if line.startswith(("a ", "DC701"))] == [
        "a all 6 2 4 75 %", "a error 6 2 4 75 %", "DC701 6 2 4 75 %",
    ]  # fmt: skip


def test_judgements_are_whole_and_hold_no_code() -> None:
    rows = [json.loads(line) for line in tool.JUDGED.read_text(encoding="utf-8").splitlines()]
    identities = [tuple(row[key] for key in tool.IDENTITY) for row in rows]
    assert len(set(identities)) == len(identities)
    for row in rows:
        assert row.keys() == {*tool.IDENTITY, "severity", "draw", "verdict", "reason"}
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row["repository"])
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"])
        assert rules.find(row["code"]).code == row["code"]
        assert row["verdict"] in tool.VERDICTS
        assert 0 < len(row["reason"].split()) <= 40


def test_the_pages_show_the_figures_of_the_last_draw() -> None:
    rows = [json.loads(line) for line in tool.JUDGED.read_text(encoding="utf-8").splitlines()]
    figures = tool.measured(rows)
    assert figures
    for path in tool.PAGES.glob("*.md"):
        page = parse_page(path.read_text(encoding="utf-8"))
        assert page.measured == figures.get(path.stem, ""), "run tools/measure_precision.py pages"
        default = tool.default_of(page.rule, rows)
        assert page.rule.in_folders == {"": "own", "unjudged": "many"}.get(default, default)


def draws(severity: str = "error", **verdicts: str) -> list[dict[str, Any]]:
    """Return a finding for each letter: right, wrong, arguable."""
    letters = {"r": "right", "w": "wrong", "a": "arguable"}
    return [
        finding(line, severity=severity, draw=draw, verdict=letters[letter])
        for draw, all_letters in verdicts.items()
        for line, letter in enumerate(all_letters)
    ]


def test_a_rule_earns_its_level_by_nine_right_findings_of_ten() -> None:
    assert tool.earned([]) == set()
    assert tool.earned(draws(a="rrrr")) == set()
    assert tool.earned(draws(a="rrrraaaa")) == set()
    assert tool.earned(draws(a="rrrrr")) == {"DC701"}
    assert tool.earned(draws(a="rrrrrrrrw")) == set()
    assert tool.earned(draws(a="rrrrrrrr", b="rw")) == {"DC701"}
    # what was wrong before the last four draws does not count against a rule that was fixed
    assert tool.earned(draws(a="wwwwwww", b="r", c="r", d="rr", e="r")) == {"DC701"}
    assert tool.earned(draws(a="r", b="wwwwwww", c="rr", d="rr", e="r")) == set()
    # what served to find causes is no measurement
    assert tool.earned(draws(**{"2026-11-g": "rrrrrrrr"})) == set()


def test_a_rule_is_a_note_if_less_than_a_quarter_of_its_findings_is_right() -> None:
    both = {"DC701": {"error", "warning"}}
    assert tool.mostly_wrong(draws(a="rwwwwwww")) == both
    assert tool.mostly_wrong(draws(a="rrwwwwww")) == {}
    assert tool.mostly_wrong(draws(a="wwwwwwwaaaa")) == {}
    warnings = draws("warning", a="wwww")
    assert tool.mostly_wrong(draws(a="wwww") + warnings) == {}
    assert tool.mostly_wrong(draws(a="wwwwwwww") + warnings) == both
    better = draws("warning", a="rrrrwwww")
    assert tool.mostly_wrong(draws(a="wwwwwwww") + better) == {"DC701": {"error"}}
    rule = rules.find("DC701")
    assert tool.default_of(rule, draws(a="rwwwwwww")) == "note"
    assert tool.default_of(rule, draws(a="rwwwwwww") + better) == "warning"
    # until later samples show that it is better
    assert tool.default_of(rule, draws(a="rwwwwwww", b="r", c="r", d="r", e="rr")) == ""
    assert tool.default_of(rule._replace(in_folders="info"), draws(a="rrwwwwww")) == "info"
    assert tool.default_of(rule._replace(on_by_default=False), draws(a="rwwwwwww")) == ""


def test_a_figure_is_replaced_and_removed() -> None:
    page = "---\ncode: DC701\nsummary: A call\n---\n\n## What it detects\n\n---\n"
    once = tool.with_figure(page, "3 right")
    assert "summary: A call\nmeasured: 3 right\n---\n\n## What" in once
    assert tool.with_figure(tool.with_figure(once, "4 right"), None) == page
    many = tool.with_figure(once, "4 right", default="many")
    assert "summary: A call\ndefault: many\nmeasured: 4 right\n---\n\n## What" in many
    assert tool.with_figure(many, "4 right", default="many") == many
    assert tool.with_figure(many, None) == page
    unjudged = tool.with_figure(many, None, default="unjudged")
    assert "summary: A call\ndefault: unjudged\n---\n" in unjudged
    assert tool.with_figure(unjudged, None) == page
    note = tool.with_figure(many, "4 right", default="note")
    assert "summary: A call\ndefault: note\nmeasured: 4 right\n---\n" in note
    assert tool.with_figure(note, None) == page
    off = page.replace("summary: A call\n", "summary: A call\ndefault: off\n")
    assert tool.with_figure(tool.with_figure(off, "4 right"), None) == off


@pytest.mark.parametrize(
    ("default", "why"),
    [("many", "too few of all its findings in public code were judged, or right"), ("unjudged", "no finding")],
)
def test_a_page_gives_the_reason_for_its_level(default: str, why: str) -> None:
    text = f"---\ncode: DC999\nname: a-b\nseverities: error\nchecks: lint\nsummary: A call\ndefault: {default}\n---\n"
    page = parse_page(text)
    assert page.rule.in_folders == "many"
    assert f"in more than 10 files, as {why}" in page.notes
    rows = [finding(1, verdict="wrong"), finding(2, verdict="right", draw="b"), finding(3, verdict="wrong", draw="b")]
    assert tool.measured(rows) == {"DC701": "1 right, 1 wrong"}


def test_a_page_shows_that_a_rule_is_a_note() -> None:
    head = "---\ncode: DC999\nname: a-b\nseverities: error\nchecks: lint\nsummary: A call\n"
    note = parse_page(f"{head}default: note\n---\n")
    assert note.rule.in_folders == "note"
    assert "mostly wrong" in note.notes
    assert "--preview" not in note.notes
