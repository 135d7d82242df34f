"""Training scripts: the rank-flow engine (extract, link) and the probes that read its tables.

Importing this package registers the probes; the engine itself is in :mod:`.engine`.
"""

from __future__ import annotations

import importlib
import pkgutil

#: The machinery; every other module of the package is a room of probes.
_ENGINE = frozenset(
    [
        "algebra",
        "cache",
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
        "collective_sequences",
        "suppressions",
        "source_text",
        "summary",
        "term_queries",
        "values",
        "call_paths",
    ]
)

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in _ENGINE:
        importlib.import_module(f"{__name__}.{_module.name}")
