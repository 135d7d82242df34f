"""Launch files: shell and Slurm scripts, Kubernetes manifests, configurations of launchers. They are read, never run.

Importing this package imports none of its modules, because most trees hold few launch files. The checker loads the
probes with :func:`load_probes`.
"""

from __future__ import annotations

#: The modules that hold probes; the others are readers and values.
PROBES = (
    "batch_header", "blank_assignments", "configurations", "container_runs", "cut_lines", "exit_status", "launcher",
    "lightning_nodes", "malformed", "node_clocks", "node_ranks", "parallel_sizes", "passed_local_rank", "pods", "ports",
    "removed_options", "rendezvous", "resources", "started_scripts", "typographic", "unknown_options",
    "unset_variables", "variable_forwarding", "variables",
)  # fmt: skip


def load_probes() -> None:
    """Register the probes; :class:`distcheck.core.checker.Checker` calls this."""
    from importlib import import_module

    for name in PROBES:
        import_module(f"{__name__}.{name}")
