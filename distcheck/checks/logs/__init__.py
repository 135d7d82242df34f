"""Logs of a dead job: one bounded pass reads a timeline, probes judge it, and a summary names the root cause."""

from __future__ import annotations

#: The modules that hold probes.
PROBES = (
    "launcher",
    "options",
    "torch_build",
    "devices",
    "gpus",
    "limits",
    "network",
    "fabric",
    "hangs",
    "mismatches",
    "joining",
    "nccl_errors",
    "job_end",
    "pickling",
    "training",
)


def load_probes() -> None:
    """Register the probes. Code that only reads a log does not need them."""
    from importlib import import_module

    for name in PROBES:
        import_module(f"{__name__}.{name}")
