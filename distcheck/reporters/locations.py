"""Locations of findings for programs that know only the files of a repository: paths, descriptions, fingerprints.

A path is relative to the root of the repository. A finding without a file is in a file named after the command, because
such programs drop findings without one. Its real location is described in words.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Fix, Report, Severity, Where

from . import escape, line_of, undecided

#: Names of standard input as a path: of logs and pickles, and of source.
_STANDARD_INPUT = ("-", "<stdin>")
#: The code of a failure in a log that no rule names.
UNDECIDED = "undecided"


class FileLocation(NamedTuple):
    """A path with ``/``, relative to the root of the repository if the file is inside."""

    path: str
    inside: bool


class Repository(NamedTuple):
    """The root of the checkout, and the working folder."""

    root: str
    folder: str

    def place(self, path: str) -> FileLocation:
        """Return the location of a path that is relative to the working folder."""
        return _place(self.root, self.folder, path)


@lru_cache(maxsize=1024)
def _place(root: str, folder: str, path: str) -> FileLocation:
    whole = os.path.normpath(os.path.join(folder, path))
    real = os.path.realpath(root)
    # the root may be a link and the path resolved, or the reverse
    for base, place in ((root, whole), (real, whole), (real, _resolved(whole))):
        if place == base or place.startswith(os.path.join(base, "")):
            return FileLocation(os.path.relpath(place, base).replace(os.sep, "/"), True)
    return FileLocation(whole.replace(os.sep, "/"), False)


def _resolved(path: str) -> str:
    """Return the path without links; unchanged if no file can have such a name."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def repository() -> Repository:
    """Return the checkout around the working folder, or the working folder itself."""
    try:
        here = os.getcwd()
    except OSError:  # the working folder was removed
        return Repository("/", "/")
    return Repository(checkout_of(here) or here, here)


def checkout_of(folder: str) -> str | None:
    """Return the nearest parent folder with a repository, or None."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def is_file(path: str | None) -> bool:
    """Return whether a path names a file, and not standard input."""
    return bool(path) and path not in _STANDARD_INPUT


def has_file(where: Where) -> bool:
    """Return whether a finding is about a file."""
    return is_file(where.path)


def stand_in(report: Report) -> str:
    """Return the file name of findings without a file: ``distcheck-env``. There is no such file."""
    return f"distcheck-{report.command}"


def things(where: Where, *, function: str = "in") -> Iterator[tuple[str, str]]:
    """Yield what a finding is about apart from its file, as kind and name, the largest first.

    :param function: the kind of ``where.object``
    """
    if where.host is not None:
        yield "host", where.host
    if where.ranks is not None:
        yield "ranks", where.ranks
    elif where.rank is not None:
        yield "rank", str(where.rank)
    elif where.local_rank is not None:
        yield "local rank", str(where.local_rank)
    if where.gpu is not None:
        yield "GPU", where.gpu
    if where.peer is not None:
        yield "peer", where.peer
    if where.phase is not None:
        yield "phase", where.phase
    if where.cell is not None:
        yield "cell", str(where.cell)
    # a line without a file is shown only here
    if where.line is not None and (where.cell is not None or (where.path and not has_file(where))):
        yield "line", str(where.line)
    if where.variable is not None:
        yield "variable", where.variable
    if where.object is not None:
        yield function, where.object
    if where.offset is not None:
        yield "byte", str(where.offset)


def words(where: Where, *, lines: bool = True) -> str:
    """Return what a finding is about apart from its file: ``node1, rank 3, GPU 2, NCCL_DEBUG``, printable.

    :param lines: False drops lines and bytes, which change when the file changes
    """
    bare = ("host", "variable", "in")
    parts = (
        escape(name if kind in bare else f"{kind} {name}")
        for kind, name in things(where)
        if lines or kind not in ("line", "byte")
    )
    return ", ".join(parts)


def context(where: Where) -> str:
    """Return `` (MASTER_PORT)``: the part of the location that path and line do not show."""
    if has_file(where) and line_of(where) is not None:
        # only host and rank of the file: the rest is visible in the line
        where = Where(host=where.host, rank=where.rank, ranks=where.ranks, local_rank=where.local_rank)
    text = words(where)
    return f" ({text})" if text else ""


def shown(report: Report) -> tuple[Finding, ...]:
    """Return all findings, and before them a failure in a log with an unknown cause."""
    if not undecided(report):
        return report.findings
    story = report.story
    first = story["first"]
    # line 0: known from the end of a stream, not from a line
    where = Where(
        path=first["path"], line=first["line"] or None, host=first.get("host"), rank=first.get("rank"),
        local_rank=first.get("local_rank"),
    )  # fmt: skip
    message = f"{first['text']} ({story['why']})"
    unknown = Finding(
        UNDECIDED, "cause-not-known", Severity.ERROR, message, story_fix(story), where, {"outcome": story["outcome"]}
    )
    return (unknown, *report.findings)


def story_fix(story: Mapping[str, Any]) -> Fix:
    """Return the fix of a log's root-cause summary."""
    return Fix(**{name: story["fix"][name] for name in ("text", "command", "by", "where", "risk")})


def lead(report: Report) -> Finding | None:
    """Return the finding of a log's root cause; None if there is none, or its rule is not selected."""
    if not report.story:
        return None
    code = report.story.get("code") or UNDECIDED
    return next((finding for finding in shown(report) if finding.code == code), None)


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """Return a unique text for each finding that does not change when lines move: 64 hexadecimal digits.

    It is made of the finding's key. Findings with equal keys are numbered.
    """
    from hashlib import sha256

    seen: dict[str, int] = {}
    made = []
    for finding in findings:
        key = finding.key
        seen[key] = number = seen.get(key, 0) + 1
        text = key if number == 1 else f"{key}\n{number}"
        made.append(sha256(text.encode("utf-8", "backslashreplace")).hexdigest())
    return made
