"""Training scripts: the rank-flow engine (extract, link) and the probes that read its tables.

Importing this package imports none of its modules: a run whose result is known needs only the search for files. The
checker loads the probes with :func:`load_probes`; the engine itself is in :mod:`.engine`.
"""

from __future__ import annotations

import functools


@functools.cache
def load_probes() -> None:
    """Register the probes; :class:`distcheck.core.checker.Checker` calls this."""
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
