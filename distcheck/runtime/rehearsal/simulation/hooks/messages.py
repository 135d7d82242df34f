"""Log what this rank sends to each other rank, and what it expects from it: elements and dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distcheck.runtime.coordination.call_signatures import OBJECTS
from distcheck.runtime.coordination.model import CollectiveCall, RecordedCall
from distcheck.runtime.coordination.pair_counts import direction_of, messages_of
from distcheck.runtime.coordination.patching import harmless
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``messages.pair`` and ``.split``."""

    def before(note: RecordedCall, given: Mapping[str, Any], _: bool) -> None:
        with harmless(event_log, "messages"):
            call = note.call
            if not call.group:
                return
            for one in note.parts or (call,):
                if one.nth and one.peer is not None and not event_log.calls.pairs.incomplete:
                    _note_pair(event_log, one)
            ranks = event_log.calls.groups.get(call.group, ())
            if call.operation in ("all_to_all", "all_to_all_single"):
                _note(
                    event_log, "split", call, ranks=ranks, sent=_parts(given, "input", len(ranks)),
                    expected=_parts(given, "output", len(ranks)),
                )  # fmt: skip

    event_log.calls.observe_arguments(before)


def _note_pair(event_log: EventLog, call: CollectiveCall) -> None:
    count = messages_of(call.operation)
    if count > 1:
        size, dtype = [], OBJECTS
    elif len(call.sizes) == 1:
        size, dtype = list(call.sizes[0]), call.dtypes[0]
    else:
        return
    for nth in range(call.nth, call.nth + count):
        _note(
            event_log, "pair", call, direction=direction_of(call), peer=call.peer, tag=call.tag, nth=nth, size=size,
            dtype=dtype,
        )  # fmt: skip


def _note(event_log: EventLog, what: str, call: CollectiveCall, **data: Any) -> None:
    event_log.note(
        f"messages.{what}", place=(call.place, call.function), operation=call.operation, group=call.group,
        number=call.number, life=event_log.calls.left, **data,
    )  # fmt: skip


def _parts(given: Mapping[str, Any], name: str, ranks: int) -> list[int]:
    """Return the elements of each part, in the order of the ranks of the group."""
    tensors = given.get(f"{name}_tensor_list")
    if tensors is not None:
        return [tensor.numel() for tensor in tensors]
    tensor, splits = given[name], given.get(f"{name}_split_sizes")
    if not splits:
        return [tensor.numel() // ranks] * ranks
    row = tensor.numel() // tensor.shape[0] if tensor.shape[0] else 0
    return [int(length) * row for length in splits]
