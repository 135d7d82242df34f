"""A live process group: are all ranks there, are the results right, how fast is it, and what is the root cause if not.

Importing this package does not import torch: workers do, after their start.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """``distcheck.runtime.smoke_test.check`` is imported when it is first used."""
    if name != "check":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .in_job import check

    return check
