"""The flight recorder, from dumps as torch 2.13 writes them."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from distcheck.runtime.coordination.flight_recorder import last_entries, last_record, oldest_open, open_call, pending
from distcheck.runtime.coordination.model import CollectiveCall


def entry(number: int, **more: Any) -> dict[str, Any]:
    return {
        "collective_seq_id": number, "input_dtypes": ["Float"], "input_sizes": [[72]], "is_p2p": False,
        "pg_id": 0, "process_group": ["0", "default_pg"], "profiling_name": "gloo:all_reduce", "retired": True,
        "state": "scheduled", **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("group", "counts", "expected"),
    [
        ("0", {"last_enqueued_collective": "3", "last_completed_collective": "3"}, None),
        (
            "0",
            {"last_enqueued_collective": "5", "last_completed_collective": "3"},
            CollectiveCall(4, "a collective", "0"),
        ),
        # nothing has ended yet
        (
            "0",
            {"last_enqueued_collective": "1", "last_completed_collective": "-1"},
            CollectiveCall(1, "a collective", "0"),
        ),
        ("0", {"last_enqueued_collective": "-1", "last_completed_collective": "-1"}, None),
        # the number of a backend is no name of a group: which one it is, only the entries tell
        (
            "3",
            {"last_enqueued_collective": "5", "last_completed_collective": "3"},
            CollectiveCall(0, "a collective", "3"),
        ),
    ],
)
def test_counters_tell_whether_one_is_open(group: str, counts: dict[str, str], expected: CollectiveCall | None) -> None:
    assert open_call(group, counts) == expected


def test_the_oldest_that_is_open_is_the_one() -> None:
    dump = {
        "entries": [
            entry(1),
            entry(2, retired=False, state="completed"),
            entry(3, retired=False, is_p2p=True),
            entry(4, retired=False, profiling_name="nccl:all_reduce", process_group=["a1b2", "mesh_dp"]),
            entry(5, retired=False),
        ]
    }
    assert oldest_open(dump) == CollectiveCall(4, "all_reduce", "a1b2", ((72,),), ("float32",))
    assert oldest_open({"entries": [entry(1)]}) is None
    # TORCH_FR_BUFFER_SIZE=0
    assert oldest_open({"pg_status": {}, "version": "2.10"}) is None


def test_without_torch_or_a_group_nothing_is_open() -> None:
    assert pending(False) is None
    assert pending(True) is None


def test_the_last_entries_are_those_of_every_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of NCCL is in its own recorder; the numbers of the two are unrelated."""
    library = SimpleNamespace(
        _dump_fr_trace_json=lambda *_: json.dumps({"entries": [entry(1, record_id=0), entry(2, record_id=1)]}),
        _dump_nccl_trace_json=lambda *_: json.dumps(
            {"entries": [entry(7, record_id=0, profiling_name="nccl:all_reduce", state="started")]}
        ),
    )
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", library)
    assert last_record() == 1
    assert last_entries(0) == ["#2 gloo:all_reduce [[72]] scheduled", "#7 nccl:all_reduce [[72]] started"]
    assert last_entries(1) == ["#7 nccl:all_reduce [[72]] started"]
