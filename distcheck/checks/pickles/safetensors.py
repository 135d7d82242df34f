"""Read safetensors files. Only the header is checked: nothing in such a file can run."""

from __future__ import annotations

from typing import Any

from .stream_collector import ScanItem, counted, shown

#: Longer headers are not parsed: JSON takes about ten times its length in memory. About 30,000 tensors fit.
_PARSED = 4 << 20


def read_safetensors(item: ScanItem) -> str:
    """Check what the header promises against the bytes that are there. The format in users' words."""
    import json

    source = item.source
    length = int.from_bytes(source.read(0, 8), "little")
    room = source.size - 8 - length

    def malformed(what: str, offset: int = 8) -> None:
        item.report("malformed", what, offset=offset, fix="download or save the file again")

    if room < 0:
        malformed(f"its header should have {counted(length, 'byte')}, the file ends after {source.size - 8:,} of them")
        return "safetensors"
    if length > _PARSED:
        item.notes.report(
            "note", f"its header of {counted(length, 'byte')} was not compared with the bytes that are there"
        )
        return "safetensors"
    try:
        header: Any = json.loads(source.read(8, length))
    except (ValueError, RecursionError):
        malformed("its header is no JSON")
        return "safetensors"
    if not isinstance(header, dict):
        malformed("its header is no JSON object")
        return "safetensors"
    needed = 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
        if not (
            isinstance(offsets, list)
            and len(offsets) == 2
            and all(type(offset) is int for offset in offsets)
            and 0 <= offsets[0] <= offsets[1]
        ):
            malformed(f"the entry {shown(name)!r} of its header has no valid data_offsets")
            return "safetensors"
        needed = max(needed, offsets[1])
    if not item.depth:
        item.notes.content_end = 8 + length + needed
    if needed > room:
        malformed(
            f"it is cut off: its tensors need {counted(needed, 'byte')} after the header, {room:,} are there",
            offset=source.size,
        )
    elif needed < room:
        item.report("note", f"{counted(room - needed, 'byte')} after the last tensor belong to none")
    return "safetensors"
