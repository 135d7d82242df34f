"""Launch files: shell and Slurm scripts, manifests of Kubernetes, configurations of launchers; read, never run.

Importing this package imports nothing of it: most trees hold files that may be launch files, and are none. A checker
that is given this room asks for its probes.
"""

from __future__ import annotations

#: The modules that hold probes; the others are readers and values.
PROBES = (
    "configurations", "container_runs", "launcher", "malformed", "node_ranks", "pods", "ports", "rendezvous",
    "resources", "started_scripts", "variable_forwarding", "variables",
)  # fmt: skip


def load_probes() -> None:
    """Register the probes; :class:`distcheck.core.checker.Checker` calls this."""
    from importlib import import_module

    for name in PROBES:
        import_module(f"{__name__}.{name}")
