"""What ``torch.distributed.checkpoint`` writes: ``.metadata`` and files of torch's zips in a row.

Each tensor is a file of ``torch.save`` of its own, one behind the other (torch/distributed/checkpoint/filesystem.py,
2.0 to 2.13); they are found from the back, as each says how long it is.
"""

from __future__ import annotations

import os

from .source_bytes import PartSource
from .stream_collector import Collector, counted


def read_row(row: list[PartSource], label: str | None, depth: int, notes: Collector, role: str | None) -> str:
    """Read archives that stand in a row, each as a file of its own. The format in users' words."""
    from .archives import read_zip

    at = 0
    forms: set[str] = set()
    for part in row:
        if not notes.take_member():
            break
        own = f"@{at}" if label is None else f"{label}/@{at}"
        forms.add(read_zip(part, own, depth, notes, role))
        at += part.size
    if forms <= {"torch zip"}:
        return "distributed checkpoint"
    notes.odd(
        "disagree",
        f"it is {counted(len(row), 'zip archive')} in a row: some readers see the first, others the last",
        member=label,
    )
    return "torch zip" if "torch zip" in forms else "zip archive"


def files_of(folder: str) -> list[str]:
    """Names of the files of a distributed checkpoint in a folder, ``.metadata`` first. Raises OSError."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    return [name for name in names if name == ".metadata"] + [name for name in names if name.endswith(".distcp")]
