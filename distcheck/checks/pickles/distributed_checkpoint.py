"""What ``torch.distributed.checkpoint`` writes: ``.metadata`` and files of torch's zips in a row.

Each tensor is a file of ``torch.save`` of its own, one behind the other (torch/distributed/checkpoint/filesystem.py,
2.0 to 2.13); they are found from the back, as each says how long it is.
"""

from __future__ import annotations

import os


def files_of(folder: str) -> list[str]:
    """Names of the files of a distributed checkpoint in a folder, ``.metadata`` first. Raises OSError."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    return [name for name in names if name == ".metadata"] + [name for name in names if name.endswith(".distcp")]
