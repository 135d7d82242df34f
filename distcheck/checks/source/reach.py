"""Whether something that runs reaches the line of a finding, by what the texts of its project name.

The search starts at the function of a finding and goes to the functions, classes and modules that name it, up to the
scripts. It follows names and no values, so that it may find more users than there are, and never fewer: where a name is
composed, registered, part of a configuration or found too often, nothing is known. Calls that are resolved are followed
elsewhere (:mod:`.call_sites`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import UNREACHED
from distcheck.core.unreached import not_reached

from .notebook_uses import unused_in_notebook
from .program import Program, cached
from .program_files import USED_BY_NAME
from .project_texts import Mention
from .source_text import last_name
from .summary import Scope
from .unused_code import REPLACED
from .values import Kind
from .vocabulary import PLAIN_DECORATORS, word_set

#: Rules about a name that is out of date, wherever it stands.
_WHEREVER_IT_STANDS = frozenset(["DC801"])
#: More definitions and modules are not followed.
_MOST_STEPS = 60
#: Bases that call only these methods of a class by their names.
_PLAIN_BASES = ("object", "abc.ABC", "typing.Generic", "typing.Protocol", "torch.nn.Module")
_OF_MODULES = word_set("forward extra_repr reset_parameters")
_TESTS = lazy(r"(^|[/_.])(tests?|unittests?|conftest)([/_.]|$)", re.IGNORECASE)

#: A definition in a file: its path, the names around it and its own. The module itself has no name.
Definition = tuple[str, tuple[str, ...]]


def with_reach(program: Program, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; one that nothing that runs reaches is ``info``.

    In a package for users it is ``info`` only if the project shows how it is launched: other users may call it.
    """
    numbers = {facts.path: number for number, facts in enumerate(program.index.files)}
    found = []
    for finding in findings:
        file = numbers.get(finding.where.path or "")
        if (
            file is not None
            and finding.where.line is not None
            and finding.severity > Severity.INFO
            and finding.code not in _WHEREVER_IT_STANDS
            and (
                unreached := _unreached(
                    program, file, _scope_at(program, file, program.source_line(file, finding.where))
                )
            )
        ):
            name, is_public = unreached
            finding = finding._replace(evidence={**finding.evidence, UNREACHED: name})
            if not is_public:
                finding = not_reached(finding)
        found.append(finding)
    return found


def _scope_at(program: Program, file: int, line: int) -> int:
    """Return the innermost function or class around a line."""
    scopes = program.index.scopes[file]
    inside = [number for number, one in enumerate(scopes) if number and one.line <= line <= one.end_line]
    return max(inside, key=lambda one: scopes[one].line, default=0)


@cached
def _unreached(program: Program, file: int, scope: int) -> tuple[str, bool] | None:
    """Return the function or module around a scope if nothing that runs reaches it, and whether users may call it.

    That is not known where only a part of a repository was read, and in one without scripts. A notebook is a script.
    """
    facts = program.index.files[file]
    if facts.cells:
        return unused_in_notebook(program, file, scope)
    if _is_built(program, file):
        return facts.path, False
    if program.texts is None or program.is_test(file) or not program.has_scripts():
        return None
    around: list[str] = []
    while scope > 0:
        one = program.index.scopes[file][scope]
        if one.kind in ("function", "class"):
            around.append(one.name)
        scope = one.parent
    around.reverse()
    if _Users(program).may_run((facts.path, tuple(around))):
        return None
    is_public = facts.packaged and REPLACED.search(facts.path.removesuffix(".py").lower()) is None
    is_private = any(name.startswith("_") and not name.endswith("__") for name in around[:2])
    return f"{'.'.join(around)}()" if around else facts.path, is_public and not is_private


def _is_built(program: Program, file: int) -> bool:
    """Return whether a file is the copy that a build has made of a module: ``build/lib/kit/train.py``."""
    path = program.index.files[file].path.replace("\\", "/")
    _, folder, module = f"/{path}".rpartition("/build/lib/")
    return bool(folder) and any(
        f"/{other.path}".endswith(f"/{module}") and other is not program.index.files[file]
        for other in program.index.files
    )


class _Users:
    """The search for what may run a definition, from one user to the next."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.numbers = {facts.path: number for number, facts in enumerate(program.index.files)}

    def may_run(self, start: Definition) -> bool:
        """Return whether a script may run a definition, or whether that is not known."""
        waiting, seen = [start], {start}
        while waiting:
            path, names = waiting.pop()
            users = self._of_definition(path, names) if names else self._of_module(path)
            if users is None or len(seen) > _MOST_STEPS:
                return True
            for user in users:
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return False

    def _of_module(self, path: str) -> list[Definition] | None:
        """Return the modules that import a module; None if it is a script, or may be loaded in another way."""
        program = self.program
        number = self.numbers.get(path)
        name = path.rpartition("/")[2]
        if number is None or name in USED_BY_NAME:
            return None
        facts = program.index.files[number]
        if (
            facts.has_main_guard
            or facts.packaged
            or (not program.index.importers(number) and not program.is_leftover(number))
        ):
            return None
        found: dict[str, None] = dict.fromkeys(program.index.files[one].path for one in program.index.importers(number))
        for mention in program.mentions(name.removesuffix(".py")) or (None,):
            if mention is None or mention.quoted or not mention.path.endswith(".py"):
                return None
            if mention.imports and mention.path not in self.numbers:
                found[mention.path] = None
        return [(one, ()) for one in found if not _TESTS.search(one)]

    def _of_definition(self, path: str, names: tuple[str, ...]) -> list[Definition] | None:
        """Return what names a definition, other than to import it; None if it may be found in another way."""
        number = self.numbers.get(path)
        if number is None:
            return self._naming(path, names[:1], None)
        outermost = self._scope(number, 0, names[0])
        if outermost is None or self._is_registered(number, outermost[1]):
            return None
        if len(names) > 1 and outermost[1].kind == "class":
            if self._naming(path, names[:1], number) == []:
                return []  # no code makes an object of the class
            method = self._scope(number, outermost[0], names[1])
            if method is not None and self._has_known_callers(number, outermost[0], names[1]):
                return None if self._is_registered(number, method[1]) else self._naming(path, names[:2], number)
        return self._naming(path, names[:1], number)

    def _scope(self, file: int, parent: int, name: str) -> tuple[int, Scope] | None:
        scopes = self.program.index.scopes[file]
        found = [
            (number, one)
            for number, one in enumerate(scopes)
            if (one.name, one.parent) == (name, parent) and one.kind in ("function", "class")
        ]
        return found[-1] if found else None

    def _has_known_callers(self, file: int, body: int, name: str) -> bool:
        """Return whether only code that names a method calls it: no protocol, and no base outside of the project."""
        evaluator = self.program.evaluator
        owner = next(number for number, one in enumerate(self.program.index.classes[file]) if one.scope == body)
        return not (
            name in _OF_MODULES
            or (name.startswith("__") and name.endswith("__"))
            or any(base not in _PLAIN_BASES for base in evaluator.outer_bases((file, owner)))
            or any(base.kind == Kind.UNKNOWN for base in evaluator.bases((file, owner)))
        )

    def _is_registered(self, file: int, scope: Scope) -> bool:
        """Return whether a decorator may register a definition, so that it is found by another name."""
        terms = self.program.terms[file]
        called = (terms[one][1] if terms[one][0] == "c" else one for one in scope.decorators)
        return any(last_name(terms, one) not in PLAIN_DECORATORS for one in called)

    def _naming(self, path: str, names: tuple[str, ...], number: int | None) -> list[Definition] | None:
        program = self.program
        mentions = program.mentions(names[-1])
        if mentions is None or (number is not None and program.composes_name_of(number, names[0])):
            return None
        found: dict[Definition, None] = {}
        for mention in mentions:
            if mention.alias not in ("", names[-1]):
                more = self._naming(path, (*names[:-1], mention.alias), number)
                if more is None:
                    return None
                found.update(dict.fromkeys(more))
            if not mention.path.endswith(".py") or (mention.quoted and not mention.imports):
                return None  # a configuration, or a registry
            own = mention.path == path and mention.around[: len(names)] == names
            if not (own or mention.imports or _TESTS.search(mention.path)) and self._may_mean(mention, path, names):
                found[mention.path, mention.around] = None
        return list(found)

    def _may_mean(self, mention: Mention, path: str, names: tuple[str, ...]) -> bool:
        """Return whether a file that names a function or class may have it from another; any file has its methods.

        A method is named after a dot, or in the body of its class.
        """
        if len(names) > 1 and not mention.attribute:
            return mention.path == path and mention.around == names[:1]
        number, other = self.numbers.get(path), self.numbers.get(mention.path)
        if number is None or other is None or number == other or len(names) > 1:
            return True
        if not self.program.index.scopes[other]:
            return True  # no Python that this one can read
        own = self.program.index.scopes[other][0].bindings.get(names[0], ())
        is_its_own = bool(own) and all(self.program.terms[other][term][0] != "i" for term in own)
        return not is_its_own and other in self.program.evaluator.importers(number)
