"""Dumps of flight recorders in both forms, and what is no dump; nothing in them is executed."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.logs.flight_recorder import read_dump


def entry(sequence: int, operation: str = "all_reduce", **more: Any) -> dict[str, Any]:
    return {
        "collective_seq_id": sequence,
        "profiling_name": f"nccl:{operation}",
        "process_group": ("0", "default_pg"),
        "input_sizes": [[20, 3]],
        "input_dtypes": ["Float"],
        "state": "started",
        "retired": False,
        "is_p2p": False,
        "frames": [
            {"filename": "/opt/conda/lib/python3.11/site-packages/torch/distributed/x.py", "line": 1, "name": "a"},
            {"filename": "/workspace/train.py", "line": 88, "name": "main"},
        ],
        **more,
    }


DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
    "entries": [entry(1, state="completed"), entry(2, "broadcast"), entry(0, "send", is_p2p=True)],
}


@pytest.mark.parametrize("data", [pickle.dumps(DUMP, 2), pickle.dumps(DUMP, 4), json.dumps(DUMP).encode()])
def test_both_forms_say_the_same(data: bytes) -> None:
    dump = read_dump(data)
    assert not dump.problem
    assert dump.groups == {"0": (0, 1, 2, 3)} and dump.world_size == 4
    first, second, third = dump.entries
    assert (first.sequence, first.operation, first.state, first.backend) == (1, "all_reduce", "completed", "nccl")
    assert (second.operation, second.sizes, second.dtypes) == ("broadcast", "[20,3]", "Float")
    assert second.place == "train.py:88 in main"
    assert second.group == "0 default_pg"
    assert third.sequence is None


class Trap:
    def __reduce__(self) -> Any:
        return print, ("executed",)


def test_nothing_is_executed(capsys: pytest.CaptureFixture[str]) -> None:
    dump = read_dump(pickle.dumps({"entries": [Trap(), entry(1)], "pg_config": Trap()}, 2))
    assert [item.sequence for item in dump.entries] == [1]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\x80\x02}.", b'{"entries": 3}', b"hello", b'{"entries": [1]}'])
def test_what_is_no_dump_has_a_problem(data: bytes) -> None:
    assert read_dump(data).problem


@given(st.binary(max_size=200))
def test_any_bytes_give_a_dump(data: bytes) -> None:
    read_dump(data)
    read_dump(pickle.dumps(DUMP, 2)[: len(data) * 3] + data)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda of: st.lists(of, max_size=3))
)
def test_any_value_in_an_entry_is_read(value: Any) -> None:
    for name in entry(1):
        read_dump(json.dumps({"entries": [entry(1, **{name: value})], "pg_config": value}).encode())
