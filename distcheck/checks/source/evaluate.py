"""What terms mean: the kind of each value, the ranks for which a test is true, the ranks that reach a line, call sites.

An abstract interpretation over the linked files. A parameter holds what callers pass, a result what functions return,
and an attribute what was ever assigned to it. A name counts as evidence only if nothing else is known. The parts are in
the layers below, see :mod:`.source_tables`.
"""

from __future__ import annotations

from collections.abc import Callable

from . import algebra
from .call_results import CallResults
from .link import Index
from .source_tables import DEEPEST, CallContext
from .summary import FileSummary
from .values import NOTHING_KNOWN, Kind, Value, const, value_of


class Evaluator(CallResults):
    """Answers what terms mean. Answers are kept; the files do not change."""

    def __init__(self, index: Index, visit: Callable[[int, FileSummary], None] = lambda file, summary: None) -> None:
        super().__init__(index, visit)
        self._link()
        self.linking = False
        for known in (self._results, self._bases, self._exported):
            known.clear()
        self.memo = [{} for _ in self.files]
        self.tests = [{} for _ in self.files]

    def value(self, file: int, term: int, context: CallContext | None = None) -> Value:
        """Return what a term may hold."""
        if term < 0:
            return const(None)
        memo = self.memo[file]
        if context is not None and context.file == file:
            memo = context.memo
        found = memo.get(term)
        if found is not None:
            return found
        if self.depth > DEEPEST:
            return NOTHING_KNOWN
        memo[term] = NOTHING_KNOWN
        self.depth += 1
        try:
            found = self._value(file, term, context)
        finally:
            self.depth -= 1
        memo[term] = found
        return found

    def _value(self, file: int, number: int, context: CallContext | None) -> Value:
        term = self.terms[file][number]
        operation = term[0]
        if operation == "k":
            return const(term[2])
        if operation == "p":
            if context is not None and (context.file, context.scope) == (file, term[1]):
                return context.parameters.get(term[2], NOTHING_KNOWN)
            return self.parameter(file, term[1], term[2])
        if operation == "v":
            return self.variable(file, term[1], term[2], context)
        if operation == "i":
            return self.imported(file, term[1])
        if operation == "a":
            return self.attribute(file, number, term, context)
        if operation == "c":
            return self.call(file, term, context)
        if operation == "s":
            return self.subscript(file, number, term, context)
        if operation == "o":
            return algebra.arithmetic(term[1], self.value(file, term[2], context), self.value(file, term[3], context))
        if operation == "u":
            return self.unary(file, number, term, context)
        if operation == "=":
            return self.compare(file, term, context)
        if operation in ("and", "or"):
            return self.logical(file, number, term, context)
        if operation == "?":
            return self.choice(file, term, context)
        if operation == "|":
            return self.either_of((self.value(file, term[1], context), self.value(file, term[2], context)))
        if operation in ("t", "l"):
            items = tuple(self.value(file, item, context) for item in term[1][:50])
            return value_of(Kind.TUPLE if operation == "t" else Kind.LIST, len(term[1]), items=items)
        if operation == "d":
            items = tuple(self.value(file, item, context) for item in term[2][:50])
            keys = tuple(self.constant_of(file, key) for key in term[1][:50])
            return value_of(Kind.DICT, keys, items=items)
        if operation == "*":
            return value_of(Kind.LIST, None, of=self.value(file, term[1], context).atoms)
        if operation == "e":
            return self.element(self.value(file, term[1], context), file, term[1])
        if operation == "x":
            return algebra.item_of(self.value(file, term[1], context), term[2])
        if operation == "w":
            return self.value(file, term[1], context)
        if operation == "f":
            return algebra.text_of([self.value(file, part, context) for part in term[1]])
        if operation == "fn":
            return value_of(Kind.FUNCTION, (file, term[1]))
        if operation == "cls":
            return value_of(Kind.CLASS, (file, term[1]))
        return NOTHING_KNOWN

    def functions(self, callee: Value) -> list[tuple[int, int]]:
        """Return the functions of the project that a call of a value enters for sure: (file, scope)."""
        found = []
        for atom in callee:
            if atom.kind == Kind.FUNCTION:
                found.append(atom.const)
            elif atom.kind == Kind.CLASS:
                init = self.method(atom.const, "__init__")
                if init is not None:
                    found.append(init)
            elif atom.kind == Kind.OBJECT:
                called = self.method(atom.const, "__call__") or self.method(atom.const, "forward")
                if called is not None:
                    found.append(called)
        return list(dict.fromkeys(found)) if len(found) > 1 else found
