"""Scripts that an earlier run followed without a fault, and what it read of the project for that.

A rank that is followed reads three things: the syntax tree of a file, the file that a dotted name leads to, and the
names that communicate. If all answers are the same again, so is the outcome. Faults are not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from .link import Index


class KeptAnswers(Protocol):
    """Plain values that runs of the same code keep for each other."""

    def recall(self, *name: str) -> Any:
        """Return what is kept under a name, None if there is nothing."""

    def keep(self, plain: Any, *name: str) -> None:
        """Keep a plain value under a name."""


class Answers:
    """What one script is followed with: the answers of a project, as they are recorded.

    :param names: the names that communicate
    """

    def __init__(self, index: Index, names: Iterable[str]) -> None:
        self._index = index
        self._names = hashlib.blake2b(
            "\n".join(sorted(names)).encode("utf-8", "surrogatepass"), digest_size=20
        ).digest()
        self.trees: set[int] = set()
        self.located: dict[tuple[int, str], tuple[int, tuple[str, ...]] | None] = {}

    def locate(self, file: int, dotted: str) -> tuple[int, tuple[str, ...]] | None:
        """Return what a dotted name of a file leads to, and record it."""
        found = self.located[file, dotted] = self._index.locate(file, dotted)
        return found

    def forget(self) -> None:
        """Begin with another script."""
        self.trees, self.located = set(), {}

    def are(self, record: Any, numbers: Mapping[str, int]) -> bool:
        """Return whether the project gives the answers of a record (:meth:`plain`).

        :param numbers: the files of the project, by path
        """
        index = self._index
        try:
            names, trees, located = record
            return (
                names == self._names
                and all(path in numbers and index.files[numbers[path]].digest == digest for path, digest in trees)
                and all(
                    path in numbers and _placed(index, index.locate(numbers[path], dotted)) == (target, rest)
                    for path, dotted, target, rest in located
                )
            )
        except (TypeError, ValueError):  # damaged
            return False

    def plain(self) -> tuple[Any, ...] | None:
        """Return the record as plain values by path; None if a file is not known by the digest of its bytes."""
        files = self._index.files
        if not all(files[file].digest for file in self.trees):
            return None
        return (
            self._names,
            sorted((files[file].path, files[file].digest) for file in self.trees),
            sorted(
                (files[file].path, dotted, *_placed(self._index, found))
                for (file, dotted), found in self.located.items()
            ),
        )


def _placed(index: Index, found: tuple[int, tuple[str, ...]] | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if found is None else (index.files[found[0]].path, found[1])
