"""A baseline: findings that a project knows and lives with for now, so that only new ones are reported.

A finding is known by its key, which holds no line, so that moved code stays known; several with one key are counted.
Paths are relative to the folder of the baseline's file, wherever the check is run from. It reads and writes no file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from .model import Finding
from .redaction import mask_forms

#: Version of the file; it grows when a key changes its meaning.
_VERSION = 1
#: The most findings of one key.
_MOST = 1_000_000_000


class BaselineError(ValueError):
    """A text is not a baseline; the message has the reason."""


class Compared(NamedTuple):
    """Findings against a baseline."""

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    #: the number of findings of the baseline that are fixed, among those in checked files
    gone: int


def dump_baseline(findings: Iterable[Finding], folder: str) -> str:
    """The text of a baseline that knows these findings, in an order that makes small differences.

    :param folder: where the file will stand
    """
    import json

    counts = Counter(_key(finding, folder) for finding in findings)
    return json.dumps({"distcheck_baseline": _VERSION, "findings": dict(sorted(counts.items()))}, indent=2) + "\n"


def load_baseline(text: str) -> dict[str, int]:
    """How many findings a baseline knows of each key; raises BaselineError."""
    import json

    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"it is no JSON: {error}") from None
    if not isinstance(plain, dict) or "distcheck_baseline" not in plain:
        raise BaselineError("it is no baseline; --write-baseline writes one")
    if plain["distcheck_baseline"] != _VERSION:
        raise BaselineError(f"it is of version {plain['distcheck_baseline']}, expected {_VERSION}; write it again")
    findings = plain.get("findings")
    if not isinstance(findings, dict) or not all(
        type(count) is int and 0 < count <= _MOST for count in findings.values()
    ):
        raise BaselineError("its findings are no table from keys to numbers; write it again")
    return findings


def compare(
    findings: Iterable[Finding], baseline: Mapping[str, int], *, folder: str, checked_paths: Collection[str]
) -> Compared:
    """Which findings are new. Of several with one key, as many as the baseline counts are known: the first ones.

    :param looked_at: paths of the files that were checked, whatever was found in them
    """
    left = dict(baseline)
    new: list[Finding] = []
    known: list[Finding] = []
    for finding in findings:
        key = _key(finding, folder)
        if left.get(key, 0) > 0:
            left[key] -= 1
            known.append(finding)
        else:
            new.append(finding)
    paths = {_relative(path, folder) for path in checked_paths}
    gone = sum(count for key, count in left.items() if count and _path_of(key) in paths)
    return Compared(tuple(new), tuple(known), gone)


def _key(finding: Finding, folder: str) -> str:
    path = finding.where.path
    if path is not None:
        finding = finding._replace(where=finding.where._replace(path=_relative(path, folder)))
    return mask_forms(finding.key)


def _relative(path: str, folder: str) -> str:
    try:
        return os.path.relpath(path, folder or ".").replace(os.sep, "/")
    except ValueError:  # another drive
        return path


def _path_of(key: str) -> str:
    return key.partition(":")[2].partition(":")[0]
