"""The repository and the project that a file belongs to, by what their folders hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

#: What marks the folder of a repository.
_REPOSITORY = (".git", ".hg")
#: What marks the folder of a project, which may be a part of a repository.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
#: Names of packages that no user of a library imports: several projects would install the same.
_PLAIN_NAMES = frozenset(
    ["src", "lib", "libs", "utils", "util", "tools", "scripts", "common", "models", "datasets", "data", "core", "code"]
)


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
        self._packaged: dict[str, bool] = {}

    def of_file(self, path: str) -> Roots:
        """Return the folders that a file belongs to, from those in its path."""
        return self._of_folder(path.replace("\\", "/").rpartition("/")[0])[0]

    def is_packaged(self, path: str) -> bool:
        """Return whether a file is a module of a package that users can install: it has a name of its own."""
        folder = path.replace("\\", "/").rpartition("/")[0]
        if folder not in self._packaged:
            repository, above = self.of_file(path).repository, folder
            package = ""
            while above and self._exists(f"{above}/__init__.py"):
                above, _, package = above.rpartition("/")
            found = False
            while package not in ("", *_PLAIN_NAMES) and not found:
                found = any(self._exists(f"{above}/{name}" if above else name) for name in _PROJECT)
                if above in ("", repository):
                    break
                above = above.rpartition("/")[0]
            self._packaged[folder] = found
        return self._packaged[folder]

    def _of_folder(self, folder: str) -> tuple[Roots, bool]:
        """Return the roots of a folder, and whether its repository is one by its own mark."""
        unknown = []
        while (known := self._known.get(folder)) is None:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        for inner in reversed(unknown):
            above, sure = known
            if any(self._exists(f"{inner}/{name}") for name in _REPOSITORY):
                known = Roots(inner, inner), True
            elif any(self._exists(f"{inner}/{name}") for name in _PROJECT):
                known = Roots(above.repository if sure or above.repository else inner, inner), sure
            self._known[inner] = known
        return known
