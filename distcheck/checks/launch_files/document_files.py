"""What is read from the disk to find the launch lines of documents, and whether it is the same in a later run.

It imports nothing that reads launch files: a later run that finds the same answers does not need that.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import posixpath
import re
from collections.abc import Iterable
from typing import Any

from distcheck.core.patterns import lazy

_DOCUMENT = lazy(r"[^/]+\.(?:md|markdown)", re.IGNORECASE)
_README = lazy(r"readme[^/]*\.(?:md|markdown)", re.IGNORECASE)
#: Files that may start a script, or show how it is started.
_CALLER = lazy(r"(?i)[^/]+\.(?:md|markdown|rst|txt|py|sh|bash|mk|ya?ml|toml|cfg)|(?:gnu)?makefile|justfile|\.env")
#: Callers of a folder that are read.
_MAX_CALLERS = 60
_MAX_BYTES = 200_000
#: Documents of a folder that are read.
_MAX_FILES = 12

#: What was read: the kind of the answer, the folder, the name in it, and the digest of the answer.
Answer = tuple[str, str, str, bytes]


def is_readme(name: str) -> bool:
    """Return whether a file is called README."""
    return _README.fullmatch(name) is not None


class DocumentFiles:
    """Reads the disk, each time once, and records the answers."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Any] = {}

    def documents(self, folder: str) -> list[str]:
        """Return the names of the documents of a folder, README first."""
        found: list[str] = self._ask("documents", folder, "")
        return found

    def callers(self, folder: str) -> list[str]:
        """Return the names of the files of a folder that may start a script."""
        found: list[str] = self._ask("callers", folder, "")
        return found

    def content(self, folder: str, name: str) -> bytes | None:
        """Return the beginning of a document, or None if it can't be read."""
        found: bytes | None = self._ask("content", folder, name)
        return found

    def sourced(self, folder: str, name: str) -> bytes | None:
        """Return the bytes of a file that a document names, or None."""
        found: bytes | None = self._ask("sourced", folder, name)
        return found

    def exists(self, folder: str, name: str) -> bool:
        """Return whether there is such a file or folder."""
        return bool(self._ask("exists", folder, name))

    def answers(self) -> list[Answer]:
        """Return all answers."""
        return [(*question, _digest(answer)) for question, answer in self._known.items()]

    def _ask(self, kind: str, folder: str, name: str) -> Any:
        question = (kind, folder, name)
        if question not in self._known:
            self._known[question] = _READERS[kind](folder, name)
        return self._known[question]


def is_unchanged(answers: Iterable[Answer]) -> bool:
    """Return whether the disk still gives these answers."""
    return all(_digest(_READERS[kind](folder, name)) == digest for kind, folder, name, digest in answers)


def _digest(answer: Any) -> bytes:
    return hashlib.blake2b(marshal.dumps(answer, 2), digest_size=20).digest()


def _documents(folder: str, _: str) -> list[str]:
    try:
        names = [name for name in os.listdir(folder) if _DOCUMENT.fullmatch(name)]
    except OSError:
        return []
    return sorted(names, key=lambda name: (not is_readme(name), name))[:_MAX_FILES]


def _callers(folder: str, _: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _CALLER.fullmatch(name))[:_MAX_CALLERS]
    except OSError:
        return []


def _content(folder: str, name: str) -> bytes | None:
    path = os.path.join(folder, name)
    try:
        if not os.path.isfile(path) or os.path.islink(path):
            return None
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return None


def _sourced(folder: str, name: str) -> bytes | None:
    from .engine import look_up_below

    return look_up_below(folder)(name)


def _exists(folder: str, name: str) -> bool:
    return os.path.exists(posixpath.join(folder, name))


_READERS = {"documents": _documents, "callers": _callers, "content": _content, "sourced": _sourced, "exists": _exists}
