"""The texts by which the log of a dead job betrays what happened: data, one module a topic, joined here.

A plug-in adds its own with :func:`distcheck.core.registry.register_signature`.
"""

from __future__ import annotations

from importlib import import_module

from distcheck.core.signature import Kind, Signature

__all__ = ["MODULES", "Kind", "Signature", "every"]

#: The modules that hold rows, each a tuple ROWS.
MODULES = (
    "launch",
    "devices",
    "gpus",
    "host",
    "network",
    "fabric",
    "ranks",
    "launchers",
    "records",
    "pickles",
    "training",
)


def every() -> tuple[Signature, ...]:
    """All rows that we ship, in the order of MODULES."""
    rows: list[Signature] = []
    for name in MODULES:
        rows.extend(import_module(f"{__name__}.{name}").ROWS)
    return tuple(rows)
