"""Files that ``torch.distributed.checkpoint`` writes: ``.metadata``, and ``.distcp`` files of zip archives in a row.

Each tensor is one file of ``torch.save``, one after the other (torch/distributed/checkpoint/filesystem.py, 2.0 to
2.13). The archives are found from the end, since each one records its size there.
"""

from __future__ import annotations

import os


def files_of(folder: str) -> list[str]:
    """Names of the files of a distributed checkpoint in a folder, ``.metadata`` first. Raises OSError."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    return [name for name in names if name == ".metadata"] + [name for name in names if name.endswith(".distcp")]
