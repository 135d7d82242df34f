"""What tests of distributed code need: a body run on n ranks under a watchdog, and a port that no other process takes.

``pytest`` finds the same as fixtures (:mod:`distcheck.pytest_plugin`); here are the plain functions, for unittest and
for everything else. Nothing here imports torch or pytest when it is imported.
"""

from __future__ import annotations

from typing import Any

_HOMES = {
    "Distributed": "plugin",
    "RankFailure": "rank_report",
    "RanksFailed": "rank_report",
    "ReservedPort": "ports",
    "TorchMissing": "ranks",
    "reserve_port": "ports",
    "run_ranks": "ranks",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
