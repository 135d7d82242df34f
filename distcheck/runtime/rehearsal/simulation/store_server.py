"""Serves the store of a rehearsal, as torchrun's agent does: there before the ranks, and after the last of them."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """``python -m distcheck.runtime.rehearsal.simulation.store_server PORT``; ended by the parent."""
    from distcheck.runtime.coordination.processes import die_with_parent

    from .overlay import join
    from .plan import VARIABLE, read_plan

    plan, _ = read_plan(os.environ[VARIABLE])
    # where the ranks are
    join(plan)
    die_with_parent()
    from distcheck.runtime.coordination.store_client import open_store

    # ranks poll until it is there
    store = open_store("127.0.0.1", int(sys.argv[1]), serve=True, timeout_s=60.0)
    signal.pause()
    del store


if __name__ == "__main__":
    main()
