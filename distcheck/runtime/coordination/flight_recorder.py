"""Collectives under way, from torch's flight recorder in this process, made by Python or C++.

NCCL and gloo fill it by default (``TORCH_FR_BUFFER_SIZE``, before torch 2.10 ``TORCH_NCCL_TRACE_BUFFER_SIZE``). Its
counters cost 4 µs. With its 2,000 entries it holds the GIL for 80 ms (torch 2.13), so entries are read only in a hang.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .model import UNSEEN, CollectiveCall

#: Names of ScalarType that are not the dtype's name in lower case (c10, torch 2.13).
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8",
    "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
}  # fmt: skip


#: NCCL's recorder, which a build without CUDA lacks, and that of all other backends (torch 2.5 and 2.8).
_OF_NCCL, _OF_OTHERS = "_dump_nccl_trace_json", "_dump_fr_trace_json"
#: Entries that a report shows.
_SHOWN = 5


def _dumps(joined: bool, entries: bool, names: Sequence[str] = (_OF_NCCL, _OF_OTHERS)) -> Iterator[Mapping[str, Any]]:
    """Yield the content of the recorders; a disabled one holds nothing."""
    library = sys.modules.get("torch._C._distributed_c10d")
    for name in names:
        dump = getattr(library, name, None) if joined else None
        if dump is not None:
            yield json.loads(dump(entries, False))


def records(joined: bool) -> bool:
    """Return whether a recorder is enabled."""
    return any(dump.get("pg_status") for dump in _dumps(joined, False))


def pending(joined: bool) -> CollectiveCall | None:
    """Return a collective that has begun and not ended: its group, and its number if known."""
    for dump in _dumps(joined, False):
        for group, counts in dump.get("pg_status", {}).items():
            call = open_call(str(group), counts)
            if call is not None:
                return call
    return None


def open_call(group: str, counts: Mapping[str, Any]) -> CollectiveCall | None:
    """Return the oldest collective of a group that has not ended, by the group's counters."""
    done = max(0, int(counts["last_completed_collective"]))
    if int(counts["last_enqueued_collective"]) <= done:
        return None
    # the counters use the number of a backend, which is the name of the default group only
    return CollectiveCall(done + 1 if group == "0" else 0, UNSEEN, group)


def recorded(joined: bool) -> CollectiveCall | None:
    """Return the oldest collective that has not ended, with its tensors."""
    for dump in _dumps(joined, True):
        call = oldest_open(dump)
        if call is not None:
            return call
    return None


def latest(joined: bool, number: int) -> CollectiveCall:
    """Return the last collective of the default group, known by its counter."""
    call = CollectiveCall(number, UNSEEN)
    for dump in _dumps(joined, True):
        for entry in dump.get("entries", ()):
            found = _call(entry)
            if found.group == "0" and found.number == number and not entry.get("is_p2p"):
                call = found
    return call


def last_record() -> int:
    """Return the number of the last entry, of backends other than NCCL; -1: there is none."""
    return max((entry.get("record_id", -1) for entry in _entries(_OF_OTHERS)), default=-1)


def last_entries(after: int = -1) -> list[str]:
    """Return the last entries as short texts, those of NCCL last.

    :param after: of backends other than NCCL, only entries after this one; a forked process inherits earlier ones
    """
    entries = [entry for entry in _entries(_OF_OTHERS) if entry.get("record_id", 0) > after]
    return [
        f"#{entry.get('collective_seq_id', '?')} {entry.get('profiling_name', '?')} "
        f"{entry.get('input_sizes', '')} {entry.get('state', '')}".strip()
        for entry in (*entries, *_entries(_OF_NCCL))
    ][-_SHOWN:]


def _entries(recorder: str) -> list[Mapping[str, Any]]:
    try:
        return [entry for dump in _dumps(True, True, (recorder,)) for entry in dump.get("entries", ())]
    except (ValueError, RuntimeError):
        return []


def oldest_open(dump: Mapping[str, Any]) -> CollectiveCall | None:
    """Return the oldest collective of a dump that has not ended."""
    for entry in dump.get("entries", ()):
        if entry.get("retired") or entry.get("state") == "completed" or entry.get("is_p2p"):
            continue
        return _call(entry)
    return None


def _call(entry: Mapping[str, Any]) -> CollectiveCall:
    return CollectiveCall(
        int(entry.get("collective_seq_id", 0)),
        str(entry.get("profiling_name", "")).rpartition(":")[2] or UNSEEN,
        str((entry.get("process_group") or ["0"])[0]),
        tuple(tuple(size) for size in entry.get("input_sizes", ())),
        tuple(_DTYPES.get(name, name.lower()) for name in entry.get("input_dtypes", ())),
    )
