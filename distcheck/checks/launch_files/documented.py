"""What the launch lines of a project's README show about a script: whether its launcher passes the local rank.

A README is a launch file only with ``--include-markdown``. Here it only answers this one question.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable

from distcheck.core.model import Finding, Severity
from distcheck.launch.model import NODE_LAUNCHERS

from .engine import look_up_below, read_one, remembering
from .model import LaunchFile
from .scripts import names_of

_README = re.compile(r"readme[^/]*\.(?:md|markdown)", re.IGNORECASE)
_MAX_BYTES = 200_000
#: Documents of a folder, and folders above a script, that are read.
_MAX_FILES = 4
_MAX_DEPTH = 12


class Documents:
    """The launch lines of READMEs, each document read once.

    :param roots: the folders above which no README is read
    """

    def __init__(self, roots: Iterable[str] = (".",)) -> None:
        self._roots = tuple(os.path.abspath(root) for root in roots)
        self._known: dict[str, list[LaunchFile]] = {}

    def without_the_option(self, script: str) -> str | None:
        """Return the nearest README that starts a script with launchers, if none of them passes the local rank."""
        path = os.path.abspath(script)
        folder = os.path.dirname(path)
        for _ in range(_MAX_DEPTH):
            for file in self._in_folder(folder):
                passed = [
                    site.command.local_rank_argument is not None
                    for site in file.sites
                    if site.command.launcher in NODE_LAUNCHERS
                    and any(os.path.normpath(posixpath.join(folder, name)) == path for name in names_of(site))
                ]
                if passed:
                    return None if any(passed) else os.path.basename(file.path)
            parent = os.path.dirname(folder)
            if folder in self._roots or parent == folder or os.path.exists(f"{folder}/.git"):
                return None
            folder = parent
        return None

    def _in_folder(self, folder: str) -> list[LaunchFile]:
        if folder not in self._known:
            self._known[folder] = list(_read_folder(folder))
        return self._known[folder]


def _read_folder(folder: str) -> Iterable[LaunchFile]:
    try:
        names = sorted(name for name in os.listdir(folder) if _README.fullmatch(name))
    except OSError:
        return
    for name in names[:_MAX_FILES]:
        path = f"{folder}/{name}"
        try:
            if not os.path.isfile(path) or os.path.islink(path):
                continue
            with open(path, "rb") as file:
                data = file.read(_MAX_BYTES)
        except OSError:
            continue
        read = read_one(path, _as_shell(data), remembering(look_up_below(folder)))
        if read is not None:
            yield read


_FENCE = re.compile(rb"[ \t>]*(```+|~~~+)[ \t]*(\S*)")


def _as_shell(data: bytes) -> bytes:
    """Return a document whose blocks without a language are shell: what no shell starts is no launch line there."""
    lines = data.split(b"\n")
    fence = b""
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if not fence:
            fence = match[1]
            if not match[2]:
                lines[number] = line[: match.end(1)] + b"bash"
        elif match[1].startswith(fence) and not match[2]:
            fence = b""
    return b"\n".join(lines)


def respect_documents(findings: Iterable[Finding], documents: Documents) -> list[Finding]:
    """Return the findings; DC207 is a note at an option that no documented launcher passes to a script.

    That holds only for a script that reads LOCAL_RANK, and that no launch file starts in another way.
    """
    every = list(findings)
    started = {finding.evidence.get("script") for finding in every if finding.code == "DC207"}
    found = []
    for finding in every:
        path = finding.where.path
        if (
            finding.code == "DC207"
            and finding.severity > Severity.INFO
            and finding.evidence.get("variable") == "LOCAL_RANK"
            and path
            and path not in started
        ):
            document = documents.without_the_option(path)
            if document is not None:
                message = f"{finding.message}; the launch lines of its {document} pass no such option"
                finding = finding._replace(severity=Severity.INFO, message=message)
        found.append(finding)
    return found
