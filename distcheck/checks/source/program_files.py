"""The files of a program: what each is, what it imports, and what all files of its repository name."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from distcheck.core.model import grouped_pairs
from distcheck.core.patterns import lazy

from . import vocabulary as names
from .evaluate import Evaluator
from .link import FileFacts, Index, chain
from .memo import cached
from .project_texts import Answer, Mention, ProjectTexts, Question
from .source_spans import SourceSpans
from .summary import Block, Scope

_TESTS = lazy(r"(^|[/_.])(tests?|testing|unittests?|conftest)([/_.]|$)")
_EXAMPLES = lazy(r"(^|/)(examples?|tutorials?|samples?|demos?|docs?|benchmarks?)(/|$)")
#: Names of files that are used without an import.
USED_BY_NAME = ("__init__.py", "__main__.py", "setup.py", "conftest.py", "hubconf.py", "noxfile.py")


class ProgramFiles(SourceSpans):
    """All analysed files, linked, and the texts of their repositories."""

    evaluator: Evaluator

    def __init__(self, files: Iterable[FileFacts], *, put_aside: int, texts: ProjectTexts | None) -> None:
        # of several callers or paths the first is shown: which one that is must not depend on the order of the input
        self.index = Index(sorted(files, key=lambda file: file.path), loaded=True)
        super().__init__(self.index.files)
        #: by file, see :mod:`.summary`
        self.terms, self.events, self.blocks = self.index.terms, self.index.events, self.index.blocks
        #: by path
        self.files: Mapping[str, FileFacts] = {file.path: file for file in self.index.files}
        #: files without distributed code
        self.put_aside = put_aside
        #: the texts of all files of the repositories; None where only a part of them was read
        self.texts = texts
        #: what was searched in these texts, and the answers
        self.searched: dict[Question, Answer] = {}
        self._blocks_around: dict[tuple[int, int], list[tuple[int, Block]]] = {}
        #: what probes have worked out and share, by a key of theirs
        self.notes: dict[Any, Any] = {}

    def blocks_around(self, file: int, block: int) -> list[tuple[int, Block]]:
        """Return a block and those around it in its function, outermost first."""
        found = self._blocks_around.get((file, block))
        if found is None:
            found = self._blocks_around[file, block] = chain(self.blocks[file], block)
        return found

    def scope(self, function: tuple[int, int]) -> Scope:
        """A function of the project."""
        return self.index.scopes[function[0]][function[1]]

    def scopes(self) -> Iterator[tuple[int, int]]:
        """Yield all functions, class bodies and modules: (file, scope)."""
        for file in range(len(self.index.files)):
            for number in range(len(self.index.scopes[file])):
                yield file, number

    def imports(self, file: int) -> list[str]:
        """Dotted names of a file's imports, as written."""
        return self.index.files[file].imports

    def imports_from(self, file: int, *modules: str) -> bool:
        """Return whether a file imports one of these modules or something of it."""
        return not self._imported_modules(file).isdisjoint(modules)

    @cached
    def _imported_modules(self, file: int) -> frozenset[str]:
        """Return the dotted names of a file's imports, and those of the modules around them."""
        return frozenset(
            name if end < 0 else name[:end]
            for name in self.imports(file)
            for end in (-1, *(position for position, char in enumerate(name) if char == "."))
        )

    def framework(self, file: int) -> str | None:
        """Return the framework that owns process group, loop or guards in a file: by its import."""
        for name in self.imports(file):
            for framework in names.FRAMEWORKS:
                if name == framework or name.startswith(framework + "."):
                    return framework
        return None

    @cached
    def is_test(self, file: int) -> bool:
        """Return whether a file is a test: by its path, or because it imports pytest or unittest."""
        path = self.index.files[file].path.replace("\\", "/").lower()
        return bool(_TESTS.search(path)) or self.imports_from(file, "pytest", "unittest")

    @cached
    def is_example(self, file: int) -> bool:
        """Return whether a file is an example or tutorial, by its path."""
        return bool(_EXAMPLES.search(self.index.files[file].path.replace("\\", "/").lower()))

    def is_script(self, file: int) -> bool:
        """Whether a file is meant to be started: ``if __name__ == "__main__"``, or nothing imports it and it calls at
        module level.
        """
        return self.index.files[file].has_main_guard

    @cached
    def has_scripts(self) -> bool:
        """Return whether a file is meant to be started."""
        return any(one.has_main_guard for one in self.index.files)

    def uses_name(self, file: int, name: str) -> bool:
        """Return whether a file of the repository of a file uses a name."""
        return self.texts is None or bool(self._searched(("uses", self.index.files[file].repository, name)))

    def mentions(self, name: str) -> tuple[Mention, ...] | None:
        """Return where files of the repository name something; None if these are too many, or not all were read."""
        if self.texts is None or len(self.repositories) != 1:
            return None
        found = self._searched(("mentions", self.repositories[0], name))
        return tuple(Mention(*one) for one in found) if isinstance(found, tuple) else None

    def magics(self, file: int) -> tuple[str, ...] | None:
        """Return the lines of a notebook that are no Python; None if that is not known."""
        facts = self.index.files[file]
        found = self._searched(("magics", facts.repository, facts.path))
        return tuple(line for (line,) in found) if isinstance(found, tuple) else None

    def _searched(self, question: Question) -> Answer:
        if question not in self.searched:
            self.searched[question] = None if self.texts is None else self.texts.answer(question)
        return self.searched[question]

    @functools.cached_property
    def repositories(self) -> tuple[str, ...]:
        """The repositories of its files."""
        return tuple(dict.fromkeys(facts.repository for facts in self.index.files))

    @cached
    def is_leftover(self, file: int) -> bool:
        """Return whether a file is a module that no other file of its project imports, and no script.

        A file that is read alone shows nothing about that.
        """
        facts = self.index.files[file]
        if self.index.importers(file) or len(self.index.files) < 2 or facts.has_main_guard or facts.cells:
            return False
        name = facts.path.replace("\\", "/").rsplit("/", 1)[-1]
        if name in USED_BY_NAME or self.is_test(file) or name.removesuffix(".py") in self._imported_names():
            return False
        # a statement that is only a call: the file does something by itself
        return not any(event[0] == "call" and event[8] == "drop" for event in self.evaluator.events_of((file, 0)))

    @cached
    def _imported_names(self) -> frozenset[str]:
        """Return all parts of imported names, of files that were not found, too: two modules may have one name."""
        files = range(len(self.index.files))
        return frozenset(part for file in files for dotted in self.imports(file) for part in dotted.split("."))

    def component(self, file: int) -> list[int]:
        """Return the files that hang together with a file by imports, itself included."""
        return self._components()[self.index.roots()[file]]

    @cached
    def _components(self) -> dict[Hashable, list[int]]:
        return grouped_pairs((root, number) for number, root in enumerate(self.index.roots()))
