"""Which files of a tree belong together: only these are linked, evaluated and judged as one program.

Files belong together if one imports the other, or if they are of one project: a method may be called by its name alone
anywhere in a project. A launch file belongs to its project, and to the scripts that it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .link import FileFacts, Index

#: What marks the folder of a repository.
_REPOSITORY = (".git", ".hg")
#: What marks the folder of a project, which may be a part of a repository.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")


class Roots(NamedTuple):
    """The folders that a file belongs to, as its path shows them; empty where there is none."""

    #: its repository; without one the outermost project
    repository: str
    #: the innermost project or repository
    project: str


class RootFinder:
    """Find the folders that files belong to. Each folder is inspected once.

    :param exists: whether a path exists
    """

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self._exists = exists
        self._known: dict[str, tuple[Roots, bool]] = {"": (Roots("", ""), False)}

    def of_file(self, path: str) -> Roots:
        """Return the folders that a file belongs to, from those in its path."""
        return self._of_folder(path.replace("\\", "/").rpartition("/")[0])[0]

    def _of_folder(self, folder: str) -> tuple[Roots, bool]:
        """Return the roots of a folder, and whether its repository is one by its own mark."""
        known = self._known.get(folder)
        if known is None:
            above, sure = self._of_folder(folder.rpartition("/")[0])
            if any(self._exists(f"{folder}/{name}") for name in _REPOSITORY):
                known = Roots(folder, folder), True
            elif any(self._exists(f"{folder}/{name}") for name in _PROJECT):
                known = Roots(above.repository if sure or above.repository else folder, folder), sure
            else:
                known = above, sure
            self._known[folder] = known
        return known


class Components:
    """Sets of things that belong together (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """Return what stands for all that belong together with a thing."""
        parents = self._parents
        parents.setdefault(thing, thing)
        while parents[thing] != thing:
            parents[thing] = parents[parents[thing]]
            thing = parents[thing]
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        """Record that two things belong together."""
        self._parents[self.root(other)] = self.root(one)


def join_files(components: Components, files: Sequence[FileFacts], projects: Iterable[str]) -> None:
    """Join the files, which stand there by their paths, with those that they import and with their projects."""
    index = Index(files)
    for number, (file, project) in enumerate(zip(files, projects, strict=True)):
        components.join(("project", project), file.path)
        for imported in {*index.imported(number), *_outermost(index, number)}:
            components.join(file.path, files[imported].path)


def _outermost(index: Index, file: int) -> Iterator[int]:
    """Yield the packages that ``import package.module`` binds."""
    for dotted in index.files[file].imports:
        if "." in dotted.lstrip(".") and not dotted.startswith("."):
            located = index.locate(file, dotted.partition(".")[0])
            if located is not None:
                yield located[0]
