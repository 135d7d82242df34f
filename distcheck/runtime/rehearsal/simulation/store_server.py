"""Serves the store of a rehearsal, as torchrun's agent does: there before the ranks, and after the last of them."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """``python -m distcheck.runtime.rehearsal.simulation.store_server PORT``; ended by the parent."""
    from distcheck.runtime.coordination.processes import die_with_parent

    die_with_parent()
    from datetime import timedelta

    from torch.distributed import TCPStore

    # ranks poll until it is there
    store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False, timeout=timedelta(hours=1))
    signal.pause()
    del store


if __name__ == "__main__":
    main()
