"""Training scripts: the rank-flow engine (extract, link) and the probes that read its tables.

Importing this package imports none of its modules: a run whose result is known needs only the search for files. The
checker loads the probes with :func:`load_probes`; the engine itself is in :mod:`.engine`.
"""

from __future__ import annotations

#: The machinery; every other module of the package is a room of probes.
_ENGINE = frozenset(
    [
        "algebra",
        "call_results",
        "call_sites",
        "operators",
        "rank_reach",
        "source_tables",
        "variables",
        "buffers",
        "cache",
        "components",
        "device_uses",
        "discovery",
        "engine",
        "evaluate",
        "extract",
        "link",
        "models",
        "vocabulary",
        "notebooks",
        "unparsed",
        "prefilter",
        "program",
        "sentinels",
        "collective_sequences",
        "several_hosts",
        "several_ranks",
        "conditions",
        "dead_code",
        "suppressions",
        "source_text",
        "summary",
        "term_queries",
        "values",
        "call_paths",
    ]
)


def load_probes() -> None:
    """Register the probes; :class:`distcheck.core.checker.Checker` calls this."""
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        if module.name not in _ENGINE:
            importlib.import_module(f"{__name__}.{module.name}")
