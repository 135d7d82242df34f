"""JSON with places: values, their stretches, what DeepSpeed's reader forgives, and what nobody does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.launch_files.fragments import Fragment
from distcheck.checks.launch_files.json_text import MAX_DEPTH, JsonText, read_json


def read(text: str) -> JsonText:
    return read_json(Fragment(text, "ds.json"))


def test_a_value_knows_its_place() -> None:
    got = read('{\n\t"train_batch_size": 32,\r\n  "fp16": {"enabled": true}\n}\n')
    batch, enabled = got.values["train_batch_size"], got.values["fp16.enabled"]
    assert (batch.value, batch.span.line, batch.span.column, batch.span.end_column) == (32, 2, 22, 24)
    assert (enabled.value, enabled.span.line, enabled.span.column) == (True, 3, 23)
    assert got.values["fp16"].value == {"enabled": True}
    assert got.problems == ()


def test_what_stands_in_a_list_is_no_value_of_the_table() -> None:
    got = read('{"stages": [{"train_batch_size": 3}], "b": 1}')
    assert sorted(got.values) == ["b", "stages"]
    assert got.values["stages"].value == [{"train_batch_size": 3}]


def test_comments_and_a_comma_too_many_are_no_faults_as_hjson_takes_them() -> None:
    got = read('{ // why\n  # and this\n "a": [1, 2,], /* and\n that */ "b": 1e3,\n}')
    assert got.values["a"].value == [1, 2]
    assert got.values["b"].value == 1000.0
    assert got.problems == ()
    assert got.comments[:2] == ((1, "// why"), (2, "# and this"))


@pytest.mark.parametrize(
    "written", ["{{ batch }}", "$BATCH", "${BATCH}", "<your batch size>", "BATCH_SIZE", "BATCH", "OPT_PARAMS_LR2"]
)
def test_a_template_is_unknown(written: str) -> None:
    got = read(f'{{"train_batch_size": {written}, "b": 2}}')
    assert not got.values["train_batch_size"].known
    assert got.values["b"].value == 2
    assert got.problems == ()


def test_a_template_in_quotes_is_unknown() -> None:
    assert not read('{"a": "${BATCH}"}').values["a"].known


def test_a_key_that_stands_twice_is_told() -> None:
    got = read('{"a": {"b": 1, "b": 2}, "c": 3}')
    assert [(name, span.column) for name, span in got.repeated] == [("a.b", 16)]
    assert got.values["a.b"].value == 2


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("", 1, 1, "a table in braces"),
        ("[1]", 1, 1, "a table in braces"),
        ('{"a": 1\n "b": 2}', 1, 8, "a comma"),
        ('{"a": 1', 1, 8, "a comma"),
        ('{"a" 1}', 1, 6, "a colon"),
        ('{a: 1}', 1, 2, "a name in double quotes"),
        ('{"a": "x\n}', 1, 7, "never closed"),
        ('{"a": tru}', 1, 7, "a value is expected"),
        ('{"a": TRUE}', 1, 7, "a value is expected"),
        ('{"a": None}', 1, 7, "a value is expected"),
        ('{"a": NONE, "b": 1}', 1, 7, "a value is expected"),
        ('{"a": Adam}', 1, 7, "a value is expected"),
        ('{"a": BATCH SIZE}', 1, 12, "a comma"),
        ('{"a": 1} x', 1, 10, "more follows"),
        ('{"a": [1, 2', 1, 12, "a comma"),
    ],
)  # fmt: skip
def test_a_fault_has_a_clear_line(text: str, line: int, column: int, what: str) -> None:
    ((said, at_line, at_column),) = read(text).problems
    assert (at_line, at_column) == (line, column)
    assert what in said


def test_what_stands_before_a_fault_counts() -> None:
    got = read('{"train_batch_size": 8,\n"fp16": {"enabled": true\n"x": 1}')
    assert got.values["train_batch_size"].value == 8
    assert got.problems


def test_nesting_is_bounded() -> None:
    ((said, _, _),) = read('{"a":' * (MAX_DEPTH + 5)).problems
    assert "deeper" in said


def test_a_number_of_ten_thousand_digits_is_no_harm() -> None:
    assert read('{"a": ' + "9" * 10_000 + "}").problems == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz_", min_size=1, max_size=5), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text("abcxyz_", min_size=1, max_size=5), _JSON, max_size=4), st.sampled_from([None, 2, "\t"]))
def test_it_reads_what_json_writes(plain: dict[str, Any], indent: int | str | None) -> None:
    """Templates apart, which no other reader knows."""
    text = json.dumps(plain, indent=indent)
    if "{{" in text or "${" in text:
        return
    got = read(text)
    assert got.problems == ()
    assert {name: got.values[name].value for name in plain} == plain
    lines = text.split("\n")
    for scalar in got.values.values():
        assert scalar.span.line <= len(lines)
        if scalar.span.line == scalar.span.end_line:
            assert lines[scalar.span.line - 1][scalar.span.column - 1 : scalar.span.end_column - 1] == scalar.written
