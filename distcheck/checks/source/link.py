"""Joins the summaries of all files: which file a name is imported from, and which scope is called from where.

It resolves names only; what values mean is for :mod:`.evaluate`, which works on the tables made here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from distcheck.core.model import grouped_pairs
from distcheck.core.patterns import lazy

from .source_text import last_names
from .summary import Block, Class, FileSummary, Scope, unpack, unpack_header
from .vocabulary import OUTSIDE

#: The ends of lines that Python's parser knows; a form feed or U+2028, where ``str.splitlines`` splits too, is none.
_LINE_END = lazy(r"\r\n?|\n")


def split_lines(text: str) -> list[str]:
    """Return the lines of a source, without their ends, numbered as the parser numbers them."""
    return _LINE_END.split(text)


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


class _Loaded:
    """A summary with its tables; made on first use, dropped when the cache is full."""

    __slots__ = (
        "_by_scope",
        "_last_names",
        "_reads",
        "blocks",
        "classes",
        "events",
        "scopes",
        "size",
        "summary",
        "terms",
    )

    def __init__(self, summary: FileSummary, size: int) -> None:
        self.summary = summary
        self.size = size
        self.terms, self.events, self.blocks = summary.terms, summary.events, summary.blocks
        self.scopes = [Scope(*scope) for scope in summary.scopes]
        self.classes = [Class(*one) for one in summary.classes]
        self._by_scope: dict[int, list[int]] | None = None
        self._reads: dict[int, int] | None = None
        self._last_names: list[str] | None = None

    @property
    def last_names(self) -> list[str]:
        """The last name of each term."""
        if self._last_names is None:
            self._last_names = last_names(self.terms)
        return self._last_names

    @property
    def by_scope(self) -> dict[int, list[int]]:
        """The numbers of all events of each scope, in order."""
        if self._by_scope is None:
            self._by_scope = grouped_pairs((event[1], number) for number, event in enumerate(self.summary.events))
        return self._by_scope

    @property
    def reads(self) -> dict[int, int]:
        """The lines of terms that read a variable."""
        if self._reads is None:
            # of several reads of one text the first is the one that a name was given to
            self._reads = {event[7]: event[3] for event in reversed(self.summary.events) if event[0] == "read"}
        return self._reads


#: Stored bytes of the summaries that are kept loaded; loaded they take some fifteen times as much.
_MOST_LOADED = 32_000_000


class SummaryCache:
    """Keeps summaries loaded: those of a large tree do not fit into memory together.

    What has to go is drawn by lot. Probes go over all files again and again: what was requested longest ago would be
    what is needed next.
    """

    def __init__(self, most: int = _MOST_LOADED) -> None:
        self.most = most
        self.size = 0
        self.loaded: dict[int, _Loaded] = {}
        self._keys: list[int] = []
        self._lot = 1

    def get(self, facts: FileFacts) -> _Loaded:
        """A file's summary."""
        found = self.loaded.get(id(facts))
        if found is None:
            found = _Loaded(unpack(facts.stored), len(facts.stored))
            while self._keys and self.size + found.size > self.most:
                self._drop()
            self.loaded[id(facts)] = found
            self._keys.append(id(facts))
            self.size += found.size
        return found

    def clear(self) -> None:
        """Drop all of them."""
        self.loaded.clear()
        self._keys.clear()
        self.size = 0

    def _drop(self) -> None:
        # a generator of our own: the same run always goes the same way (constants: Numerical Recipes, ranqd1)
        self._lot = (self._lot * 1664525 + 1013904223) % 2**32
        position = self._lot % len(self._keys)
        key, self._keys[position] = self._keys[position], self._keys[-1]
        self._keys.pop()
        self.size -= self.loaded.pop(key).size


class FileFacts:
    """One analysed file."""

    __slots__ = (
        "_read",
        "cells",
        "comments",
        "digest",
        "has_main_guard",
        "header",
        "imports",
        "packaged",
        "path",
        "problem",
        "repository",
        "shelf",
        "stored",
    )

    def __init__(
        self,
        path: str,
        stored: bytes,
        read: Callable[[], str],
        cells: tuple[tuple[int, int], ...] = (),
        shelf: SummaryCache | None = None,
        repository: str = "",
        digest: bytes = b"",
        *,
        packaged: bool = False,
    ) -> None:
        self.path = path
        #: it is a module of a package that users install
        self.packaged = packaged
        #: of the bytes of the file
        self.digest = digest
        #: the folder of its repository, from the working directory
        self.repository = repository
        #: the summary as :mod:`marshal` stores it
        self.stored = stored
        self._read = read
        #: notebooks: for each line (cell, line in the cell); empty elsewhere
        self.cells = cells
        self.shelf = SummaryCache() if shelf is None else shelf
        #: raises ValueError where what is stored is damaged
        self.header = unpack_header(stored)
        #: comments that may suppress findings: line, text
        self.comments = self.header.comments
        #: why the file could not be analysed: text, line, column
        self.problem = self.header.problem
        #: dotted names of all imports, as written
        self.imports = self.header.imports
        self.has_main_guard = self.header.has_main_guard

    @property
    def loaded(self) -> _Loaded:
        """The summary and its tables."""
        return self.shelf.get(self)

    @property
    def summary(self) -> FileSummary:
        """What :mod:`.extract` made of it."""
        return self.shelf.get(self).summary

    @property
    def text(self) -> str:
        """The text, for carets and edits; decoded, line ends as in the file. Empty where it is deleted."""
        return self._read()

    @property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return split_lines(self.text)


Table = TypeVar("Table", covariant=True)
Node = TypeVar("Node")


class PerFile(Protocol[Table]):
    """Something of every file, by its number."""

    def __getitem__(self, file: int) -> Table: ...


class _FileTables:
    """``tables[file]`` for one table of the loaded summaries. The table that was read last stays at hand."""

    __slots__ = ("file", "files", "name", "table")

    def __init__(self, files: list[FileFacts], name: str) -> None:
        self.files = files
        self.name = name
        self.file = -1
        self.table: Any = None

    def __getitem__(self, file: int) -> Any:
        if file != self.file:
            self.table = getattr(self.files[file].loaded, self.name)
            self.file = file
        return self.table


class Index:
    """Files, scopes, classes and modules by number and name.

    :param loaded: the tables are read often: keep all of them loaded if they are not too large
    """

    def __init__(self, files: Iterable[FileFacts], *, loaded: bool = False) -> None:
        self.files: list[FileFacts] = list(files)
        # a list is read much sooner than a table that may have to be loaded
        fits = loaded and sum(len(file.stored) for file in self.files) <= _MOST_LOADED

        def table(name: str) -> PerFile[Any]:
            return [getattr(file.loaded, name) for file in self.files] if fits else _FileTables(self.files, name)

        #: by file: its terms, events, blocks, scopes, classes, events by scope, lines of reads
        self.terms: PerFile[list[tuple[Any, ...]]] = table("terms")
        self.events: PerFile[list[tuple[Any, ...]]] = table("events")
        self.blocks: PerFile[list[Block]] = table("blocks")
        self.scopes: PerFile[list[Scope]] = table("scopes")
        self.classes: PerFile[list[Class]] = table("classes")
        self.by_scope: PerFile[dict[int, list[int]]] = table("by_scope")
        self.reads: PerFile[dict[int, int]] = _FileTables(self.files, "reads")
        self.parts: list[tuple[str, ...]] = [module_parts(file.path) for file in self.files]
        self._by_last = grouped_pairs((parts[-1], number) for number, parts in enumerate(self.parts) if parts)
        self._imported: dict[int, frozenset[int]] = {}
        self._importing: dict[int, list[int]] | None = None
        self._roots: list[Hashable] | None = None
        self._exactly = {parts: number for number, parts in reversed(list(enumerate(self.parts)))}
        self._found: dict[tuple[int, str], tuple[int, tuple[str, ...]] | None] = {}
        #: kept by :mod:`.redefinitions`, by file
        self.uses: dict[int, Any] = {}

    def locate(self, file: int, dotted: str) -> tuple[int, tuple[str, ...]] | None:
        """Return the project's file that holds what ``dotted`` names in an import of ``file``, and the names left over.

        None for what lies outside of the project.
        """
        key = (file, dotted)
        if key not in self._found:
            self._found[key] = self._locate(file, dotted)
        return self._found[key]

    def imported(self, file: int) -> frozenset[int]:
        """Return the files of the project that a file imports."""
        found = self._imported.get(file)
        if found is None:
            located = (self.locate(file, dotted) for dotted in self.files[file].imports)
            found = self._imported[file] = frozenset(item[0] for item in located if item is not None)
        return found

    def importers(self, file: int) -> list[int]:
        """Return the other files that import a file, in order."""
        if self._importing is None:
            pairs = ((one, other) for other in range(len(self.files)) for one in self.imported(other) if one != other)
            self._importing = grouped_pairs(pairs)
        return self._importing.get(file, [])

    def roots(self) -> list[Hashable]:
        """Return one value for each file; files that hang together by imports have the same one."""
        if self._roots is None:
            components = Components()
            for file in range(len(self.files)):
                for other in self.imported(file):
                    components.join(file, other)
            self._roots = [components.root(number) for number in range(len(self.files))]
        return self._roots

    def _locate(self, file: int, dotted: str) -> tuple[int, tuple[str, ...]] | None:
        names = tuple(part for part in dotted.lstrip(".").split(".") if part)
        level = len(dotted) - len(dotted.lstrip("."))
        if level:
            package = self.package(file)
            if level - 1 > len(package):
                return None
            base = package[: len(package) - (level - 1)]
            for length in range(len(names), -1, -1):
                found = self._exact((*base, *names[:length]))
                if found is not None:
                    return found, names[length:]
            return None
        if not names or names[0] in OUTSIDE:
            return None
        return self._nearest(names, file)

    def package(self, file: int) -> tuple[str, ...]:
        """Return the parts of the package that a file stands in."""
        parts = self.parts[file]
        return parts if self.files[file].path.endswith("__init__.py") else parts[:-1]

    def _exact(self, parts: tuple[str, ...]) -> int | None:
        return self._exactly.get(parts)

    def _nearest(self, names: tuple[str, ...], file: int) -> tuple[int, tuple[str, ...]] | None:
        """Return the file that an absolute import means, and the names left over; None where two are equally near.

        What is imported is found from a folder on the path: that of the importing file or one above it, and only then a
        folder next to one of these (``src``). The nearest folder wins, and in one folder the longest name.
        """
        own = self.parts[file]
        best: tuple[int, int, int] | None = None
        found: list[tuple[int, tuple[str, ...]]] = []
        for length in range(len(names), 0, -1):
            for number in self._by_last.get(names[length - 1], ()):
                parts = self.parts[number]
                if parts[-length:] != names[:length] or number == file:
                    continue
                if length == 1 and self._is_in_its_package(number, own):
                    continue
                above = parts[: len(parts) - length]
                shared = 0
                for one, other in zip(above, own, strict=False):
                    if one != other:
                        break
                    shared += 1
                aside = len(above) - shared
                if aside > 1:
                    continue
                # a file of another repository is imported only from a folder above both
                if aside and self.files[number].repository != self.files[file].repository:
                    continue
                near = (-aside, shared, length)
                if best is None or near > best:
                    best, found = near, []
                if near == best:
                    found.append((number, names[length:]))
        # a module and a package of one name in one folder: the package wins
        located = {self.parts[number] for number, _ in found}
        if len(located) != 1:
            return None
        return next((item for item in found if self.files[item[0]].path.endswith("__init__.py")), found[0])

    def _is_in_its_package(self, number: int, own: tuple[str, ...]) -> bool:
        """Return whether a module has the name of the package around it and around the importing file."""
        package = self.parts[number][:-1]
        if not package or self.parts[number][-1] != package[-1] or own[: len(package)] != package:
            return False
        around = self._exact(package)
        return around is not None and around != number


def module_parts(path: str) -> tuple[str, ...]:
    """The parts of the dotted name of a path, from the working directory; a package's own file has its folder's."""
    normal = path.replace("\\", "/")
    while normal.startswith(("./", "../", "/")):
        normal = normal.removeprefix("./").removeprefix("../").removeprefix("/")
    parts = normal.split("/")
    stem = parts[-1].rsplit(".", 1)[0]
    if stem == "__init__":
        return tuple(parts[:-1])
    return (*parts[:-1], stem)


class EntrySite(NamedTuple):
    """A call site from which a scope is entered: a call event, and how its arguments are laid out."""

    file: int
    event: int
    #: how many parameters the call fills alone: 1 for a bound method
    offset: int = 0
    #: ``call``; ``spawn`` for the target of torch.multiprocessing.spawn; ``process`` for Process(target=…, args=…)
    kind: str = "call"
    #: found by the name of the method alone
    weak: bool = False


def reachable(start: Iterable[Node], neighbours: Callable[[Node], Iterable[Node]], most: int = 1 << 30) -> set[Node]:
    """Return what is reached from ``start``, itself included; after ``most`` nodes the search ends."""
    seen = set(start)
    waiting = list(seen)
    while waiting and len(seen) < most:
        for other in neighbours(waiting.pop()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def chain(blocks: list[Block], block: int) -> list[tuple[int, Block]]:
    """Return the blocks around a block, outermost first: (number, block)."""
    found: list[tuple[int, Block]] = []
    while block > 0:
        node = blocks[block]
        found.append((block, node))
        block = node[0]
    found.reverse()
    return found
