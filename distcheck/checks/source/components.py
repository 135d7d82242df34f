"""Which files of a tree belong together: only these are linked, evaluated and judged as one program.

Files belong together if one imports the other, or if they are of one project: a method may be called by its name alone
anywhere in a project. A launch file belongs to its project, and to the scripts that it starts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from .link import FileFacts, Index


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
