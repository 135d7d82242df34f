"""reviewdog's format: columns in bytes, and suggestions that do to a file what --fix does."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck import rules
from distcheck.core.fixes import apply_fixes
from distcheck.core.model import Edit, Finding, Fix, Report, Where
from distcheck.reporters import render

from .any_report import reports
from .invented import CLEAN, LINT, PLACES, SAMPLES, TRAIN, UNDECIDED

_POSITION = {
    "type": "object",
    "required": ["line"],
    "additionalProperties": False,
    "properties": {"line": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}},
}
_RANGE = {
    "type": "object",
    "required": ["start"],
    "additionalProperties": False,
    "properties": {"start": _POSITION, "end": _POSITION},
}
_NAMED = {"type": "object", "additionalProperties": {"type": "string"}}
#: The messages of proto/rdf/reviewdog.proto, as far as they are used, with nothing beside them.
SHAPE = {
    "type": "object",
    "required": ["source", "diagnostics"],
    "additionalProperties": False,
    "properties": {
        "source": _NAMED,
        "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
        "diagnostics": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message", "location", "severity", "code"],
                "additionalProperties": False,
                "properties": {
                    "message": {"type": "string", "minLength": 1},
                    "location": {
                        "type": "object",
                        "required": ["path"],
                        "additionalProperties": False,
                        "properties": {"path": {"type": "string", "minLength": 1}, "range": _RANGE},
                    },
                    "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
                    "code": _NAMED,
                    "suggestions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["range", "text"],
                            "additionalProperties": False,
                            "properties": {"range": _RANGE, "text": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
}


def diagnostics_of(report: Report) -> list[dict[str, Any]]:
    whole = json.loads(render(report, "rdjson"), parse_constant=pytest.fail)
    jsonschema.validate(whole, SHAPE)
    listed: list[dict[str, Any]] = whole["diagnostics"]
    for item in (end for diagnostic in listed for end in [diagnostic["location"].get("range", {})]):
        # with a column at one end only, reviewdog would take neither lines nor columns
        assert len({"column" in end for end in item.values()}) <= 1
    return listed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_has_the_shape(name: str) -> None:
    assert len(diagnostics_of(SAMPLES[name])) == len(SAMPLES[name].findings) + (name == "undecided")


def test_an_empty_report() -> None:
    assert json.loads(render(CLEAN, "rdjson"))["diagnostics"] == []


def test_columns_count_bytes() -> None:
    first = diagnostics_of(LINT)[0]
    line = TRAIN.splitlines()[6].encode()
    start, end = (first["location"]["range"][name]["column"] - 1 for name in ("start", "end"))
    assert line[start:end] == b'os.environ["RANK"] == 0'


def test_without_the_line_there_are_no_columns(folder: Path) -> None:
    finding = LINT.findings[0]._replace(evidence={})
    (folder / "train.py").unlink()
    (diagnostic,) = diagnostics_of(Report("lint", findings=(finding,)))
    assert diagnostic["location"]["range"] == {"start": {"line": 7}, "end": {"line": 7}}
    assert "suggestions" not in diagnostic


def applied(path: Path, suggestion: dict[str, Any]) -> bytes:
    """What reviewdog's readers do: a range of bytes is replaced."""
    lines = path.read_bytes().split(b"\n")
    start, end = suggestion["range"]["start"], suggestion["range"]["end"]
    head = b"\n".join([*lines[: start["line"] - 1], lines[start["line"] - 1][: start["column"] - 1]])
    tail = b"\n".join([lines[end["line"] - 1][end["column"] - 1 :], *lines[end["line"] :]])
    return head + suggestion["text"].encode() + tail


def found(*edits: Edit) -> Finding:
    return rules.DC209.found("m", where=Where("train.py", edits[0].line), fix=Fix("f", edits=edits, where="code"))


@pytest.mark.parametrize(
    "edits",
    [
        [Edit("train.py", 7, 25, 7, 43, 'int(os.environ["RANK"])')],
        [Edit("train.py", 7, 17, 7, 17, "zero = "), Edit("train.py", 7, 8, 7, 13, "klein")],
        [Edit("train.py", 7, 25, 7, 25, "int("), Edit("train.py", 7, 43, 7, 43, ")")],
        [Edit("train.py", 8, 1, 8, 1, "# ä\n"), Edit("train.py", 9, 5, 10, 5, "")],
        [Edit("train.py", 8, 14, 9, 1, "\n    # new\n")],
    ],
)
def test_a_suggestion_does_what_fix_does(folder: Path, edits: list[Edit]) -> None:
    finding = found(*edits)
    (diagnostic,) = diagnostics_of(Report("lint", findings=(finding,)))
    (suggestion,) = diagnostic["suggestions"]
    path = folder / "train.py"
    done = apply_fixes([finding.fix], {"train.py": path.read_bytes()}).files
    assert applied(path, suggestion) == done["train.py"] != path.read_bytes()


@settings(max_examples=50)
@given(st.data())
def test_any_two_edits_are_done_or_not_suggested(data: st.DataObject) -> None:
    lines = TRAIN.split("\n")
    edits = []
    for _ in range(2):
        row = data.draw(st.integers(1, len(lines)))
        begin = data.draw(st.integers(1, len(lines[row - 1]) + 1))
        end = data.draw(st.integers(begin, len(lines[row - 1]) + 1))
        edits.append(Edit("train.py", row, begin, row, end, data.draw(st.sampled_from(["", "x", "é\n", "pass"]))))
    (diagnostic,) = diagnostics_of(Report("lint", findings=(found(*edits),)))
    for suggestion in diagnostic.get("suggestions", ()):
        done = apply_fixes([Fix("f", edits=tuple(edits))], {"train.py": TRAIN.encode()}, others={"train.py": _fine})
        # two insertions at one place have no order
        if done.files and (edits[0].line, edits[0].column) != (edits[1].line, edits[1].column):
            assert applied(Path("train.py"), suggestion) == done.files["train.py"]


def _fine(path: str, data: bytes) -> None:
    """Everything can be read."""


@pytest.mark.parametrize(
    "edits",
    [
        [Edit("train.py", 1, 1, 1, 1, "x"), Edit("other.py", 1, 1, 1, 1, "x")],  # one range, one file
        [Edit("train.py", 7, 1, 7, 9, "x"), Edit("train.py", 7, 5, 7, 12, "x")],  # they overlap
        [Edit("train.py", 99, 1, 99, 2, "x")],  # no such line
        [Edit("train.py", 1, 1, 1, 1, "\ud800")],  # half of a character
    ],
)
def test_what_can_not_be_said_exactly_is_not_suggested(edits: list[Edit]) -> None:
    (diagnostic,) = diagnostics_of(Report("lint", findings=(found(*edits),)))
    assert "suggestions" not in diagnostic


def test_edits_that_stand_far_apart_are_not_suggested(folder: Path) -> None:
    (folder / "train.py").write_text("x\n" * 100)
    far = found(Edit("train.py", 1, 1, 1, 2, "y"), Edit("train.py", 90, 1, 90, 2, "y"))
    near = found(Edit("train.py", 1, 1, 1, 2, "y"), Edit("train.py", 9, 1, 9, 2, "y"))
    there = ["suggestions" in item for item in diagnostics_of(Report("lint", findings=(far, near)))]
    assert there == [False, True]


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbf" + TRAIN.encode(), TRAIN.encode("latin-1"), TRAIN.replace("\n", "\r").encode(), b""]
)
def test_of_a_file_that_is_no_plain_utf_8_nothing_is_suggested(folder: Path, data: bytes) -> None:
    (folder / "train.py").write_bytes(data)
    assert "suggestions" not in diagnostics_of(LINT)[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_bad_a_pipe_under_the_name_of_a_source_is_not_awaited(folder: Path) -> None:
    (folder / "train.py").unlink()
    os.mkfifo(folder / "train.py")
    thread = threading.Thread(target=diagnostics_of, args=(LINT,), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_file_that_is_not_the_one_that_was_judged(folder: Path) -> None:
    (folder / "train.py").write_text("\n" * 6 + "something_else(" * 5 + ")" * 5 + "\n")
    assert "suggestions" not in diagnostics_of(LINT)[0]


@pytest.mark.parametrize("kind", sorted(set(PLACES) - {"file", "outside", "log"}))
def test_what_has_no_line_has_no_range(kind: str) -> None:
    command, finding = PLACES[kind]
    (diagnostic,) = diagnostics_of(Report(command, findings=(finding,)))
    assert "range" not in diagnostic["location"]
    if finding.where.path is None:
        assert diagnostic["location"]["path"] == f"distcheck-{command}"


def test_a_cause_that_no_rule_names_has_no_page() -> None:
    assert diagnostics_of(UNDECIDED)[0]["code"] == {"value": "undecided"}


@settings(max_examples=30)
@given(reports())
def test_no_text_breaks_it(report: Report) -> None:
    assert len(diagnostics_of(report)) == len(report.findings)
