"""Dumps of torch's flight recorder: which collectives a rank called, in order, and from where. Read, never executed.

Written as a pickle by a watchdog that gives up (``TORCH_NCCL_TRACE_BUFFER_SIZE``, ``TORCH_FR_BUFFER_SIZE``; one file
``nccl_trace_rank_N`` a rank) or as JSON by ``torch._C._distributed_c10d._dump_fr_trace_json()``. Fields: torch 2.13,
``torch/csrc/distributed/c10d/FlightRecorder.cpp``, and those of 2.2, which had ``seq_id`` and no ``pg_config``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .model import MOST_RANKS, Collective, Dump, is_of_a_library

#: Entries that are kept, the last ones: torch's own buffer holds 2,000.
_MOST_ENTRIES = 20_000
#: An entry has some thirty values and a stack of up to a hundred frames.
_MOST_OPCODES = 30_000_000
_LONGEST_SIZES = 80
_JSON = re.compile(rb"\s*\{")


def read_dump(data: bytes) -> Dump:
    """Return a dump in either of its two forms. ``problem`` is the reason why it can't be read."""
    try:
        content = _of_json(data) if _JSON.match(data) else _of_pickle(data)
    except ValueError as error:
        return Dump(None, 0, problem=str(error))
    entries = content.get("entries") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        return Dump(None, 0, problem="it holds no entries of a flight recorder")
    read = tuple(_entry(entry) for entry in entries[-_MOST_ENTRIES:] if isinstance(entry, dict))
    groups = dict(_groups(content.get("pg_config")))
    rank = content.get("rank")
    world = max((len(ranks) for ranks in groups.values()), default=0)
    return Dump(
        rank=rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS else None,
        source=0,
        entries=read,
        groups=groups,
        world_size=world or None,
        problem="" if read or not entries else "its entries can't be read",
    )


def _of_json(data: bytes) -> Any:
    import json

    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise ValueError("it is cut off, or no JSON") from None


def _of_pickle(data: bytes) -> Any:
    from distcheck.checks.pickles.literals import UnreadableError, read_value
    from distcheck.checks.pickles.source_bytes import BytesSource

    try:
        value, _ = read_value(BytesSource(data), opcodes=_MOST_OPCODES, items=_MOST_ENTRIES)
    except UnreadableError as error:
        raise ValueError(f"it is no dump of a flight recorder: {error}") from None
    return value


def _entry(entry: Mapping[str, Any]) -> Collective:
    name = _text(entry.get("profiling_name"))
    backend, colon, operation = name.partition(":")
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)):
        group = " ".join(_text(part) for part in group if part)
    point_to_point = entry.get("is_p2p") is True
    sequence = entry.get("collective_seq_id", entry.get("seq_id"))
    return Collective(
        group=_text(group) or _text(entry.get("pg_id")),
        sequence=sequence if isinstance(sequence, int) and not point_to_point and sequence > 0 else None,
        operation=operation if colon else name,
        sizes=_sizes(entry.get("input_sizes")),
        dtypes=_words(entry.get("input_dtypes")),
        state="completed" if _is_done(entry, backend) else _text(entry.get("state")),
        place=_place(entry.get("frames")),
        backend=backend if colon else "",
    )


def _is_done(entry: Mapping[str, Any], backend: str) -> bool:
    """Whether a collective has ended. gloo never records that, and drops entries that ended or failed."""
    return entry.get("state") == "completed" or (bool(entry.get("retired")) and backend == "nccl")


def _place(frames: Any) -> str:
    """The innermost line of the user's own code."""
    if not isinstance(frames, list):
        return ""
    for frame in frames:
        if isinstance(frame, dict) and isinstance(frame.get("filename"), str) and isinstance(frame.get("line"), int):
            path = frame["filename"]
            if not is_of_a_library(path) and "/torch/" not in path:
                return f"{path.rsplit('/', 1)[-1]}:{frame['line']} in {_text(frame.get('name'))}"
    return ""


def _sizes(value: Any) -> str:
    if not isinstance(value, list):
        return ""
    text = ", ".join(str(size).replace(" ", "") for size in value[:4] if isinstance(size, (list, tuple)))
    return text if len(text) <= _LONGEST_SIZES else text[: _LONGEST_SIZES - 1] + "…"


def _words(value: Any) -> str:
    return ", ".join(dict.fromkeys(_text(word) for word in value)) if isinstance(value, list) else ""


def _text(value: Any) -> str:
    """A value as text of a line; what is neither a string nor a number has none."""
    return str(value)[:200] if isinstance(value, (str, int)) else ""


def _groups(value: Any) -> Iterable[tuple[str, tuple[int, ...]]]:
    """The ranks of each group, as ``pg_config`` lists them (a list as text)."""
    if not isinstance(value, dict):
        return
    for name, config in value.items():
        ranks = config.get("ranks") if isinstance(config, dict) else None
        if isinstance(ranks, str):
            numbers = tuple(int(number) for number in re.findall(r"\d{1,7}", ranks))
            if numbers:
                yield _text(name), numbers
