"""Which files of a tree belong together: only these are linked, evaluated and judged as one program.

Files belong together if one imports the other, or if they are of one project: a method may be called by its name alone
anywhere in a project. A launch file belongs to its project, and to the scripts that it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .link import Components, FileFacts, Index


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
