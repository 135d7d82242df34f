"""What a dead job printed: read in one bounded pass to a timeline, judged by probes, told as a story."""

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
    "job_end",
    "pickling",
    "training",
)


def load_probes() -> None:
    """Register the probes; whoever only reads a log does not need them."""
    from importlib import import_module

    for name in PROBES:
        import_module(f"{__name__}.{name}")
