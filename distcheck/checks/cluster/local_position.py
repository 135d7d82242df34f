"""Where a process stands among those of its host. How they talk is ``host_records.py``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from distcheck.launch.model import Launch


class LocalPosition(NamedTuple):
    """This process among those of its host."""

    local_rank: int
    local_size: int
    #: the same for all processes of this host and this run, and for no others
    key: str


def place_of(
    launch: Launch, environ: Mapping[str, str], local_rank: int | None, local_size: int | None
) -> LocalPosition | None:
    """Return the position of this process; None if it is alone or unknown."""
    rank = launch.local_rank if launch.local_rank is not None else local_rank
    size = launch.local_world_size if launch.local_world_size is not None else local_size
    if rank is None or size is None or size < 2 or not 0 <= rank < size:
        return None
    names = (
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK",
        "SLURM_JOB_ID", "SLURM_STEP_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE",
    )  # fmt: skip
    known = [environ.get(name, "") for name in names]
    # a wrapper around each rank gives it a parent of its own: the parent counts only where no run is named
    named = any(environ.get(name) not in (None, "", "none") for name in ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID"))
    parts = ["" if named else str(os.getppid()), str(size), *known]
    return LocalPosition(rank, size, "\0".join(parts))
