"""The lowest layer of the evaluator: tables of the linked files, the hierarchy of classes, and what a name suggests.

The evaluator is one object in layers, each a class in a module of its own that derives from the one below it:
:mod:`.source_tables`, :mod:`.call_sites`, :mod:`.rank_reach`, :mod:`.variables`, :mod:`.operators`,
:mod:`.call_results`, :mod:`.evaluate`. A layer calls its own methods and those below. What an expression holds depends
on all layers, so that two methods are only declared here: :meth:`SourceTables.value` and :meth:`SourceTables.returned`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import vocabulary
from .link import Index, reachable
from .redefinitions import standing
from .source_text import destinations, first_parameter, last_name, plain_bindings, render
from .summary import FileSummary
from .values import NOTHING_KNOWN, Atom, Certainty, Kind, Value, value_of

#: Deeper chains of values are given up as unknown.
DEEPEST = 60


class CallContext(NamedTuple):
    """What the parameters of one scope hold in one call."""

    file: int
    scope: int
    parameters: dict[str, Value]
    memo: dict[int, Value]


#: What is imported to start ranks, or to train on several of them.
_OF_RANKS = vocabulary.words(
    "torch.distributed torch.multiprocessing torch.nn.parallel horovod deepspeed accelerate torch_xla"
)


def _speaks_of_ranks(imports: list[str]) -> bool:
    """Return whether a file imports what makes a name like ``rank`` a rank of a job."""
    return any(dotted.startswith(_OF_RANKS) or "dist" in dotted.lower() for dotted in imports)


class SourceTables:
    """Tables of the linked files, the hierarchy of their classes, and what a name suggests."""

    def __init__(self, index: Index, visit: Callable[[int, FileSummary], None] = lambda file, summary: None) -> None:
        self.index = index
        self.files = index.files
        self.memo: list[dict[int, Value]] = [{} for _ in self.files]
        self.terms, self.events, self.blocks = index.terms, index.events, index.blocks
        self.by_scope = index.by_scope
        self.reads = index.reads
        self.depth = 0
        self._importers: dict[int, frozenset[int]] = {}
        self._by_name: dict[tuple[int, str], Value] = {}
        self.linking = True
        self.distributed_files = [_speaks_of_ranks(file.imports) for file in self.files]
        self._collect(visit)

    def value(self, file: int, term: int, context: CallContext | None = None) -> Value:
        """Return what a term may hold."""
        raise NotImplementedError

    def returned(
        self, function: tuple[int, int], context: CallContext | None = None, call: tuple[int, int] | None = None
    ) -> Value:
        """Return what a function may return, each alternative with the condition under which it does."""
        raise NotImplementedError

    def _collect(self, visit: Callable[[int, FileSummary], None]) -> None:
        self.stores: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
        self.outside: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self.options: dict[str, list[tuple[int, int]]] = {}
        self.methods: dict[str, list[tuple[int, int]]] = {}
        #: names of all functions and classes: what is called by another name enters none of them
        self.defined: set[str] = set()
        self._attributes: dict[tuple[int, int], list[str]] | None = None
        # what is decided by files again and again while others are checked: so that their summaries need not be loaded
        self._exports: list[dict[str, tuple[tuple[str, Any], ...]]] = []
        self._exported: dict[tuple[int, str], Value] = {}
        self._stars: list[list[str]] = []
        self._methods: dict[tuple[int, int], dict[str, int]] = {}
        self._bases: dict[tuple[int, int], tuple[Atom, ...]] = {}
        self._shared: dict[tuple[int, int, str], bool] = {}
        for file, facts in enumerate(self.files):
            summary = facts.summary
            visit(file, summary)
            terms = summary.terms
            scopes = self.index.scopes[file]
            module = scopes[0] if scopes else None
            self._stars.append(list(module.stars) if module is not None else [])
            self._exports.append(
                {name: plain_bindings(terms, standing(self.index, file, 0, name)) for name in module.bindings}
                if module is not None
                else {}
            )
            for number, one in enumerate(self.index.classes[file]):
                self._methods[file, number] = {
                    name: terms[values[-1]][1]
                    for name, values in scopes[one.scope].bindings.items()
                    if terms[values[-1]][0] == "fn"
                }
            for number, event in enumerate(summary.events):
                kind = event[0]
                if kind == "read":
                    self.distributed_files[file] = True
                if kind == "attribute":
                    base = terms[event[7]]
                    scope = scopes[event[1]]
                    owner = self.owner_of(file, event[1])
                    if (
                        base[0] == "p"
                        and owner >= 0
                        and scope.parameters
                        and base[2] == first_parameter(scopes[base[1]])
                    ) or (base[0] == "v" and owner >= 0 and base[2] in ("self", "cls")):
                        self.stores.setdefault((file, owner, event[8]), []).append((file, number))
                    else:
                        self.outside.setdefault((last_name(terms, event[7]), event[8]), []).append((file, number))
                elif kind == "call":
                    call = terms[event[7]]
                    callee = terms[call[1]]
                    if (callee[0] == "a" and callee[2] == "add_argument") or (
                        callee[0] == "a" and callee[2] == "option" and call[2]
                    ):
                        for dest in destinations(terms, call):
                            self.options.setdefault(dest, []).append((file, number))
            for number, scope in enumerate(scopes):
                if scope.kind in ("function", "class"):
                    self.defined.add(scope.name)
                if scope.owner >= 0 and scope.kind == "function":
                    self.methods.setdefault(scope.name, []).append((file, number))

    def owner_of(self, file: int, scope: int) -> int:
        """Return the class in whose method a scope stands, -1 for none."""
        scopes = self.index.scopes[file]
        while scope > 0:
            if scopes[scope].owner >= 0 and scopes[scope].kind != "class":
                return scopes[scope].owner
            scope = scopes[scope].parent
        return -1

    def methods_near(self, file: int, name: str) -> list[tuple[int, int]]:
        """Return the methods of a name in the files that hang together with a file by imports."""
        roots = self.index.roots()
        return [method for method in self.methods.get(name, ()) if roots[method[0]] == roots[file]]

    def bases(self, ref: tuple[int, int]) -> tuple[Atom, ...]:
        """Return what a class derives from."""
        known = self._bases.get(ref)
        if known is None:
            file, number = ref
            self._bases[ref] = ()
            bases = self.index.classes[file][number].bases
            known = self._bases[ref] = tuple(atom for base in bases for atom in self.value(file, base))
        return known

    def method(self, ref: tuple[int, int], name: str, depth: int = 0) -> tuple[int, int] | None:
        """Return the scope of a method, inherited ones included."""
        own = self._methods[ref].get(name)
        if own is not None:
            return ref[0], own
        if depth < 8:
            for base in self.bases(ref):
                if base.kind == Kind.CLASS and base.const != ref:
                    found = self.method(base.const, name, depth + 1)
                    if found is not None:
                        return found
        return None

    def derives(self, ref: tuple[int, int], *dotted: str) -> bool:
        """Return whether a class has one of these, outside of the project, among its bases."""
        return any(name in dotted for name in self.outer_bases(ref))

    def outer_bases(self, ref: tuple[int, int], depth: int = 0) -> Iterator[str]:
        """Yield the names of what a class derives from outside of the project, through its bases in it as well."""
        for base in self.bases(ref):
            if base.kind in (Kind.NAMED, Kind.RESULT):
                yield base.const
            elif base.kind == Kind.CLASS and base.const != ref and depth < 8:
                yield from self.outer_bases(base.const, depth + 1)

    def by_name(self, file: int, name: str) -> Value:
        """Return what a name lets us expect."""
        known = self._by_name.get((file, name))
        if known is None:
            known = self._by_name[file, name] = self._expected_of(file, name)
        return known

    def _expected_of(self, file: int, name: str) -> Value:
        plain = name.lower().strip("_")
        kind = vocabulary.NAMES.get(plain)
        if kind is not None:
            sure = (
                kind in (Kind.RANK, Kind.GLOBAL_RANK, Kind.LOCAL_RANK)
                and self.distributed_files[file]
                and plain not in ("gpu", "gpu_id")
            )
            library = vocabulary.RANKS_OF_LIBRARIES.get(plain)
            known = library is not None and any(dotted.startswith(library) for dotted in self.files[file].imports)
            return value_of(
                kind, "name", certainty=Certainty.MERGED if known or (sure and kind == Kind.RANK) else Certainty.GUESSED
            )
        who = vocabulary.TESTS.get(plain)
        if who is not None:
            # where the library is imported that has this name, it is no guess
            library = vocabulary.TESTS_OF_LIBRARIES.get(plain)
            known = library is not None and any(dotted.startswith(library) for dotted in self.files[file].imports)
            return value_of(Kind.TEST, who, certainty=Certainty.PROVEN if known else Certainty.MERGED)
        return NOTHING_KNOWN

    def constant_of(self, file: int, term: int) -> Any:
        """Return the constant that a term is, None for anything else."""
        if term < 0:
            return None
        parts = self.terms[file][term]
        return parts[2] if parts[0] == "k" else None

    def line_of(self, file: int, event: int) -> int:
        """Return the line of an event."""
        line: int = self.events[file][event][3]
        return line

    def text_of_call(self, file: int, term: tuple[Any, ...]) -> str:
        """``name()`` for a call."""
        return f"{render(self.terms[file], term[1])}()"

    def argument(self, term: tuple[Any, ...], position: int, name: str) -> int:
        """Return the term of an argument by position or keyword, -1 where it is not given."""
        for keyword, value in term[3]:
            if keyword == name:
                found: int = value
                return found
        return term[2][position] if 0 <= position < len(term[2]) else -1

    def events_of(self, function: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
        """Yield the events of a function, without those of nested functions."""
        file, scope = function
        events = self.events[file]
        return (events[number] for number in self.by_scope[file].get(scope, ()))

    def is_main_guard(self, file: int, number: int) -> bool:
        """Return whether a term is ``__name__ == "__main__"``."""
        parts = self.terms[file][number]
        return parts[0] == "=" and "__name__" in (self.terms[file][side][-1] for side in parts[2:4])

    def related(self, one: int, other: int) -> bool:
        """Return whether one of two files imports the other."""
        return other in self.index.imported(one) or one in self.index.imported(other)

    def in_one_program(self, one: int, other: int) -> bool:
        """Return whether some file imports both, itself or through others."""
        return not self.importers(one).isdisjoint(self.importers(other))

    def importers(self, file: int) -> frozenset[int]:
        """Return a file and all that import it, themselves or through others."""
        known = self._importers.get(file)
        if known is None:
            known = self._importers[file] = frozenset(reachable((file,), self.index.importers))
        return known
