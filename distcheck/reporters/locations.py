"""Where findings stand for programs that know nothing but files of a repository: paths, stand-ins, words, fingerprints.

What they share: a path is seen from the root of the repository; a finding without a file stands in a file that is
called after the command, since such programs drop what has none; and what it is about is said in words.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Fix, Report, Severity, Where

from . import escape, undecided

#: Standard input, where a path is expected: of logs and pickles, and of source.
_STANDARD_INPUT = ("-", "<stdin>")
#: What stands for the code of a rule where a log shows a failure that no rule names.
UNDECIDED = "undecided"


class FileLocation(NamedTuple):
    """A file as such programs name it: with ``/``, and from the root of the repository where it is in there."""

    path: str
    inside: bool


class Repository(NamedTuple):
    """The folder that holds the checkout, and the one in which the command was given."""

    root: str
    folder: str

    def place(self, path: str) -> FileLocation:
        """A path of a finding, which is relative to the working folder."""
        return _place(self.root, self.folder, path)


@lru_cache(maxsize=1024)
def _place(root: str, folder: str, path: str) -> FileLocation:
    whole = os.path.normpath(os.path.join(folder, path))
    real = os.path.realpath(root)
    # a root that is a link, and a path that was given without it, or the reverse
    for base, place in ((root, whole), (real, whole), (real, _resolved(whole))):
        if place == base or place.startswith(os.path.join(base, "")):
            return FileLocation(os.path.relpath(place, base).replace(os.sep, "/"), True)
    return FileLocation(whole.replace(os.sep, "/"), False)


def _resolved(path: str) -> str:
    """The path without links; as it is where no file can have such a name."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def repository() -> Repository:
    """The checkout around the working folder; the working folder itself where there is none."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed meanwhile, and what is found here has no place in it
        return Repository("/", "/")
    return Repository(checkout_of(here) or here, here)


def checkout_of(folder: str) -> str | None:
    """The nearest folder upwards that holds a repository; None where there is none."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def is_file(path: str | None) -> bool:
    """Whether a path names a file, and not standard input."""
    return bool(path) and path not in _STANDARD_INPUT


def has_file(where: Where) -> bool:
    """Whether a finding is about a file."""
    return is_file(where.path)


def stand_in(report: Report) -> str:
    """The name of the file in which findings without one stand: ``distcheck-env``. There is no such file."""
    return f"distcheck-{report.command}"


def things(where: Where, *, function: str = "in") -> Iterator[tuple[str, str]]:
    """What else than a file a finding is about, as kind and name, the largest first.

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
    # a line of what has no file stands nowhere else
    if where.line is not None and (where.cell is not None or (where.path and not has_file(where))):
        yield "line", str(where.line)
    if where.variable is not None:
        yield "variable", where.variable
    if where.object is not None:
        yield function, where.object
    if where.offset is not None:
        yield "byte", str(where.offset)


def words(where: Where, *, lines: bool = True) -> str:
    """What else than a file a finding is about: ``node1, rank 3, GPU 2, NCCL_DEBUG``. All is printable.

    :param lines: False leaves out what changes when something in front of it does
    """
    bare = ("host", "variable", "in")
    parts = (
        escape(name if kind in bare else f"{kind} {name}")
        for kind, name in things(where)
        if lines or kind not in ("line", "byte")
    )
    return ", ".join(parts)


def context(where: Where) -> str:
    """`` (MASTER_PORT)``: what a message has to say of the place where a path and a line do not say it all."""
    if has_file(where) and where.line is not None and where.cell is None:
        # of which host or rank the file is; what is in the line is seen there
        where = Where(host=where.host, rank=where.rank, ranks=where.ranks, local_rank=where.local_rank)
    text = words(where)
    return f" ({text})" if text else ""


def shown(report: Report) -> tuple[Finding, ...]:
    """All findings, and before them the failure in a log whose cause is not known, which is no rule's."""
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
    """The finding that the story of a log is about; None where there is no story, or its rule is not selected."""
    if not report.story:
        return None
    code = report.story.get("code") or UNDECIDED
    return next((finding for finding in shown(report) if finding.code == code), None)


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """For each finding a text that stays when lines move, and that no other one has: 64 hexadecimal digits.

    Made of the finding's key. Of several with one key, each is told by which of them it is.
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
