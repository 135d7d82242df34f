"""safetensors files: nothing runs; what the header promises must be there."""

from __future__ import annotations

import json

import pytest

from distcheck.checks.pickles.files import read_file


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_nothing_runs() -> None:
    file = read_file(safetensors({"__metadata__": {"format": "pt"}, "a": ENTRY}, bytes(8)))
    assert (file.format, file.executes_nothing, file.anomalies, file.complete) == ("safetensors", True, (), True)


@pytest.mark.parametrize(
    "content",
    [
        safetensors({"a": ENTRY}, bytes(7)),
        safetensors({"a": ENTRY}, bytes(8))[:20],
        safetensors(b'{"a": '),
        safetensors(b'{"a": 5}'),
        safetensors({"a": {"data_offsets": [8, 0]}}, bytes(8)),
        safetensors({"a": {"data_offsets": [0, "8"]}}, bytes(8)),
        safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        safetensors(b'{"a\xff": 5}'),
    ],
    ids=["cut", "cut in the header", "no JSON", "no entry", "backwards", "no number", "deep", "no UTF-8"],
)
def test_what_is_damaged_is_said(content: bytes) -> None:
    file = read_file(content)
    assert file.format == "safetensors"
    assert {anomaly.kind for anomaly in file.anomalies} == {"malformed"}


def test_bytes_behind_the_last_tensor_are_a_note() -> None:
    (anomaly,) = read_file(safetensors({"a": ENTRY}, bytes(11))).anomalies
    assert anomaly.kind == "note"
    assert "3 bytes" in anomaly.what
