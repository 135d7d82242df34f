"""Code that nothing runs: functions that no code names, modules that no file imports, arms that no call takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck.core.patterns import lazy

from .memo import cached
from .program_files import ProgramFiles
from .source_tables import CallContext
from .summary import Scope
from .values import Kind

#: What may call any function of a file by its name.
USES_ANY_NAME = lazy(
    r"(?<![\w.])(?:globals|locals|vars|eval|exec|getattr)\(|\bimport_module\(|\b[Ff]ire\b|__main__['\"]\]",
    literals=("globals(", "locals(", "vars(", "eval(", "exec(", "getattr(", "import_module(", "ire", "__main__"),
)
#: What may use a name that it composes: of this module, or of the one that is named. ``locals()`` has names of its own.
_USES_NAMES_OF = lazy(
    r"(?<![\w.])(?:globals|eval|exec)\(|(?<![\w.])vars\(\s*\)|\b[Ff]ire\b|__main__['\"]\]"
    r"|(?<![\w.])(?:getattr|vars)\(\s*(\w+)|(?<![\w.])(\w+)\.__dict__\[",
    literals=("globals(", "eval(", "exec(", "vars(", "ire", "__main__", "getattr(", ".__dict__["),
)
#: What may use names of modules that it composes.
_LOADS_MODULES = ("import_module", "__import__")
#: Words in the path of code that was replaced.
REPLACED = lazy(r"(?:^|[/_.-])(?:old|legacy|deprecated|depreciated|obsolete|backup|unused|archived?)(?:[/_.-]|$)")
#: Bases outside of a project that call no method of a class by its name.
_PLAIN_BASES = ("object", "abc.ABC", "typing.Generic", "typing.Protocol")
#: Longer chains of functions that nothing runs are not followed.
_MOST_UNUSED = 4


class UnusedCode(ProgramFiles):
    """Which functions, modules and arms of conditions of a program never run."""

    @cached
    def is_unused(self, file: int, scope: int) -> bool:
        """Return whether nothing reaches a scope: no code names its function, or another one replaces it."""
        around = []
        while scope > 0:
            around.append(self.index.scopes[file][scope])
            scope = self.index.scopes[file][scope].parent
        around.reverse()
        return (
            self._is_unused_in_script(file, around)
            or any(self._is_replaced(file, one) for one in around)
            or self._is_unused_in_project(file, around)
        )

    @cached
    def is_never_taken(self, file: int, scope: int, block: int, depth: int = 4) -> bool:
        """Return whether no call of the project takes the arms around a block, by the constants that each call passes.

        Not known is what users of a package pass, and what a function gets that is handed around.
        """
        function = self.index.scopes[file][scope]
        if self.index.files[file].packaged and not function.name.startswith("_"):
            return False
        evaluator = self.evaluator
        arms = [node for _, node in self.blocks_around(file, block) if node[1] == "if" or node[1].startswith("exit:")]

        def excluded(context: CallContext) -> bool:
            return any(evaluator.settled(file, node[2], context) is (not node[3]) for node in arms)

        contexts = evaluator.contexts((file, scope))
        for site, context in zip(evaluator.callers.get((file, scope), ()), contexts, strict=False):
            _, caller, around, *_ = self.events[site.file][site.event]
            outer = evaluator.contexts((site.file, caller))
            if not (
                excluded(context)
                or (outer and all(excluded(evaluator.context_of(site, (file, scope), one)) for one in outer))
                or (depth and self.is_never_taken(site.file, caller, around, depth - 1))
            ):
                return False
        return bool(contexts)

    def _is_unused_in_script(self, file: int, around: list[Scope]) -> bool:
        """Return whether scopes belong to a function of a script that no code of it names, so that it never runs.

        Other code can't import a script by accident, but may use all that a module offers. What a decorator or a base
        class gets to see, and a public method of a class that is used, may be called from there.
        """
        facts = self.index.files[file]
        if not facts.has_main_guard or facts.cells or self.index.importers(file):
            return False
        if not around or around[0].kind not in ("function", "class") or any(one.decorators for one in around):
            return False
        text = facts.text
        if USES_ANY_NAME.search(text):
            return False
        outermost = around[0]
        if outermost.kind == "function":
            return self._only_unused_name(file, outermost, ())
        if any(one.bases for one in self.index.classes[file] if self.scope((file, one.scope)) is outermost):
            return False
        method = around[1].name if len(around) > 1 else ""
        private = method.startswith("_") and not method.startswith("__")
        return _is_named_once(outermost.name, text) or (private and _is_named_once(method, text))

    def _only_unused_name(self, file: int, function: Scope, seen: tuple[Scope, ...]) -> bool:
        """Return whether only functions of a script that nothing names themselves name a function of it."""
        named = re.compile(rf"\b{re.escape(function.name)}\b")
        scopes = self.index.scopes[file]
        for number, line in enumerate(self.lines(file), 1):
            if number == function.line or not named.search(line):
                continue
            users = [one for one in scopes[1:] if one.parent == 0 and one.line <= number <= one.end_line]
            if len(users) != 1 or users[0].kind != "function" or users[0].decorators or number == users[0].line:
                return False
            user = users[0]
            if user not in (function, *seen) and not (
                len(seen) < _MOST_UNUSED and self._only_unused_name(file, user, (*seen, function))
            ):
                return False
        return True

    def _is_replaced(self, file: int, scope: Scope) -> bool:
        """Return whether a later definition of the same name replaces a function before anything can use it."""
        if scope.kind != "function" or scope.decorators:
            return False
        after = [
            one
            for one in self.index.scopes[file]
            if (one.name, one.parent, one.block, one.kind) == (scope.name, scope.parent, scope.block, "function")
            and one.line > scope.end_line
        ]
        if not after or any(one.decorators for one in after):
            return False
        between = "\n".join(self.lines(file)[scope.end_line : min(one.line for one in after) - 1])
        return re.search(rf"\b{re.escape(scope.name)}\b", between) is None

    def _is_unused_in_project(self, file: int, around: list[Scope]) -> bool:
        """Return whether scopes belong to a module that no file imports, or to a function that no file names.

        That is known only if all files of the repository were read. Users may import what a package offers.
        """
        facts = self.index.files[file]
        path = facts.path.replace("\\", "/")
        if self.texts is None or len(self.index.files) < 2 or facts.cells or self.is_test(file):
            return False
        is_public = facts.packaged and REPLACED.search(path.removesuffix(".py").lower()) is None
        if around and self.is_leftover(file) and self.has_scripts():
            stem = path.rpartition("/")[2].removesuffix(".py")
            starts = any(
                event[0] == "call"
                and self.evaluator.functions(self.evaluator.value(file, self.terms[file][event[7]][1]))
                for event in self.evaluator.events_of((file, 0))
            )
            return not (is_public or starts or any(self.uses_name(file, name) for name in (stem, *_LOADS_MODULES)))
        if not around or around[0].kind not in ("function", "class") or any(one.decorators for one in around):
            return False
        if not any(self.index.files[one].has_main_guard for one in self.evaluator.importers(file) - {file}):
            return False
        outermost, text = around[0], facts.text
        if outermost.kind == "function":
            return not (
                (is_public and not outermost.name.startswith("_"))
                or self.uses_name(file, outermost.name)
                or self.composes_name_of(file, outermost.name)
            )
        if len(around) < 2 or around[1].kind != "function" or re.search(r"getattr\(\s*(?:self|cls)\b", text):
            return False
        owner = next(number for number, one in enumerate(self.index.classes[file]) if one.scope == around[1].parent)
        name = around[1].name
        return not (
            name.startswith("__")
            or (is_public and not name.startswith("_"))
            or any(base not in _PLAIN_BASES for base in self.evaluator.outer_bases((file, owner)))
            or any(base.kind == Kind.UNKNOWN for base in self.evaluator.bases((file, owner)))
            or self.uses_name(file, name)
        )

    @cached
    def composes_name_of(self, file: int, name: str) -> bool:
        """Return whether a text that code composes may be a name of a file: in a module that has it, or uses one."""
        having = {file}
        importing = sorted(self.evaluator.importers(file) - having)
        for _ in range(4):
            having.update(
                one
                for one in importing
                for star in self.index.scopes[one][0].stars
                if (located := self.index.locate(one, star)) is not None and located[0] in having
            )
        imported = {mention.path for mention in self.mentions(name) or () if mention.imports}
        having.update(one for one in importing if self.index.files[one].path in imported)
        return any(
            (is_own and one in having) or not having.isdisjoint(modules)
            for one in (file, *importing)
            for is_own, modules in (self._composed_names(one),)
        )

    @cached
    def _composed_names(self, file: int) -> tuple[bool, frozenset[int | None]]:
        """Return whether a file composes names of its own module, and the other modules whose names it composes."""
        text = self.index.files[file].text
        modules = {match[1] or match[2] for match in _USES_NAMES_OF.finditer(text)}
        imported = {part for dotted in self.imports(file) for part in dotted.split(".")}
        named = frozenset(
            self._module_called(file, module, text)
            for module in modules
            if module is not None and (module in imported or f" as {module}" in text)
        )
        return None in modules, named

    def _module_called(self, file: int, name: str, text: str) -> int | None:
        """Return the module of the project that a name in a file is imported as."""
        for dotted in self._names_imported_as(name, text):
            located = self.index.locate(file, dotted)
            if located is not None:
                return located[0]
        return None

    def _names_imported_as(self, name: str, text: str) -> Iterator[str]:
        """Yield the dotted names of what imports in a text bind to a name."""
        for found in re.finditer(
            rf"^[ \t]*(?:from\s+([\w.]+)\s+)?import\b(.*(?<![\w.]){name}\b(?!\s+as\b|\.).*)", text, re.MULTILINE
        ):
            renamed = re.search(rf"([\w.]+)\s+as\s+{name}\b", found[2])
            last = renamed[1] if renamed else name
            within = "" if (found[1] or ".").endswith(".") else "."
            yield f"{found[1]}{within}{last}" if found[1] else last


def _is_named_once(name: str, text: str) -> bool:
    """Return whether a name stands in a text once only: where it is defined."""
    return len(re.findall(rf"\b{re.escape(name)}\b", text)) == 1
